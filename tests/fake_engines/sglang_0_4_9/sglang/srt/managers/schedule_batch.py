from types import SimpleNamespace

import torch

from sglang.srt.model_executor.forward_batch_info import ForwardMode


class Req:
    def __init__(self, rid, max_new_tokens):
        self.rid = rid
        self.output_ids = []
        self.finished_reason = None
        self.is_retracted = False
        self.max_new_tokens = max_new_tokens
        self.spec_verify_ct = 0

    def finished(self):
        return self.finished_reason is not None

    def check_finished(self):
        if len(self.output_ids) >= self.max_new_tokens:
            self.finished_reason = "length"


class ScheduleBatch:
    def __init__(self, reqs, forward_mode, extend_num_tokens=None):
        self.reqs = reqs
        self.forward_mode = forward_mode
        self.extend_num_tokens = extend_num_tokens
        self.is_extend_in_batch = False
        self.spec_info = None
        self.decoding_reqs = None

    @property
    def seq_lens(self):
        return torch.tensor([1] * len(self.reqs))

    def batch_size(self):
        return len(self.reqs)

    def get_model_worker_batch(self):
        return SimpleNamespace(
            bid=0,
            forward_mode=self.forward_mode,
            seq_lens=self.seq_lens,
            extend_num_tokens=self.extend_num_tokens,
            is_extend_in_batch=self.is_extend_in_batch,
        )


__all__ = ["ForwardMode", "Req", "ScheduleBatch"]

from array import array

import torch


class Req:
    def __init__(self, rid, max_new_tokens):
        self.rid = rid
        self.output_ids = array("q")
        self.finished_reason = None
        self.finished_len = None
        self.is_retracted = False
        self.max_new_tokens = max_new_tokens
        self.spec_verify_ct = 0
        self.spec_num_correct_drafts = 0

    def finished(self):
        return self.finished_reason is not None

    def update_finish_state(self, new_accepted_len=1):
        if not self.finished() and len(self.output_ids) >= self.max_new_tokens:
            self.finished_reason = "length"
            self.finished_len = self.max_new_tokens


class ScheduleBatch:
    def __init__(self, reqs, forward_mode, extend_num_tokens=None):
        self.reqs = reqs
        self.forward_mode = forward_mode
        self.extend_num_tokens = extend_num_tokens
        self.is_extend_in_batch = False
        self.spec_info = None
        self.decoding_reqs = None
        # Not in the real one: what this simulation needs to know on its GPU.
        self.simulated = [(req.rid, len(req.output_ids)) for req in reqs]

    @property
    def seq_lens(self):
        return torch.tensor([1] * len(self.reqs))

    def copy(self):
        return ScheduleBatch(list(self.reqs), self.forward_mode)

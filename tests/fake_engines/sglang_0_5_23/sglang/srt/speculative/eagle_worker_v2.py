from types import SimpleNamespace

import torch

from sglang.srt.model_executor.forward_batch_info import ForwardMode
from sglang.srt.model_executor.model_runner import ModelRunner
from sglang.srt.speculative.base_spec_worker import BaseSpecWorker
from sglang.srt.speculative.eagle_utils import EagleVerifyInput
from sglang.srt.speculative.eagle_worker_common import run_eagle_verify


class EagleDraftWorker:
    def __init__(self, server_args, gpu_id, nccl_port, target_worker):
        self.draft_runner = ModelRunner(server_args, is_draft_worker=True)

    def draft(self, batch, *, with_topology=False):
        self.draft_forward(SimpleNamespace(forward_mode=ForwardMode.DECODE, seq_lens=None))
        return EagleVerifyInput(self.speculative_num_steps, self.speculative_num_draft_tokens)

    def draft_forward(self, forward_batch):
        for _ in range(self.speculative_num_steps - 1):
            self.draft_runner.forward(forward_batch)

    def _draft_extend_for_prefill(
        self,
        batch,
        target_hidden_states,
        next_token_ids,
        mm_input_embeds=None,
        *,
        kv_loc_plan=None,
    ):
        self.draft_runner.forward(batch)
        return "next draft input"

    def _draft_extend_for_decode(self, batch, batch_result, *, kv_loc_plan=None):
        self.draft_runner.forward(batch)


class EAGLEWorkerV2(BaseSpecWorker):
    def __init__(self, server_args, gpu_id, nccl_port, target_worker):
        self.server_args = server_args
        self._target_worker = target_worker
        self._draft_worker = EagleDraftWorker(server_args, gpu_id, nccl_port, target_worker)
        self.cycles = 0
        self._set(server_args.speculative_num_steps)

    def _set(self, steps):
        for worker in (self, self._draft_worker):
            worker.speculative_num_steps = steps
            worker.speculative_num_draft_tokens = steps + 1

    def activate_step_by_batch(self, batch_size):
        # The third cycle of every four drafts nothing, as adaptive speculation may decide.
        self._set(0 if self.cycles % 4 == 3 else self.server_args.speculative_num_steps)
        self.cycles += 1

    def forward_batch_generation(
        self, batch, on_publish=None, grammar_barrier=None, pp_proxy_tensors=None
    ):
        if batch.forward_mode.is_extend() or batch.is_extend_in_batch:
            output = self._target_worker.forward_batch_generation(
                batch, pp_proxy_tensors=pp_proxy_tensors
            )
            output.accept_lens = torch.tensor([])
            output.next_draft_input = self._draft_worker._draft_extend_for_prefill(
                batch, "hidden", output.next_token_ids, None, kv_loc_plan=None
            )
            return output
        self.activate_step_by_batch(batch.seq_lens.shape[0])
        if self.speculative_num_steps == 0:
            batch.spec_info = EagleVerifyInput(0, 1)
        else:
            batch.spec_info = self._draft_worker.draft(batch)
        output = self.verify(batch, pp_proxy_tensors=pp_proxy_tensors)
        if on_publish is not None:
            on_publish(output.accept_lens)
        self._draft_worker._draft_extend_for_decode(batch, output, kv_loc_plan=None)
        return output

    def verify(self, batch, pp_proxy_tensors=None, grammar_barrier=None):
        return run_eagle_verify(
            batch,
            target_worker=self._target_worker,
            num_draft_tokens=self.speculative_num_draft_tokens,
            grammar_barrier=grammar_barrier,
        )

from types import SimpleNamespace

import torch

from sglang.srt.managers.schedule_batch import ForwardMode
from sglang.srt.managers.utils import GenerationBatchResult
from sglang.srt.model_executor.model_runner import ModelRunner
from sglang.srt.speculative.eagle_info import EagleVerifyInput
from sglang.srt.speculative.eagle_info_v2 import EagleDraftInput


class EagleDraftWorker:
    def __init__(self, server_args):
        self.speculative_num_steps = server_args.speculative_num_steps
        self.speculative_num_draft_tokens = server_args.speculative_num_draft_tokens
        self.draft_runner = ModelRunner(server_args, is_draft_worker=True)

    def draft(self, model_worker_batch):
        self.draft_forward(SimpleNamespace(forward_mode=ForwardMode.DECODE, seq_lens=None))
        return EagleVerifyInput(self.speculative_num_steps, self.speculative_num_draft_tokens)

    def draft_forward(self, forward_batch):
        for _ in range(self.speculative_num_steps - 1):
            self.draft_runner.forward(forward_batch)

    def _draft_extend_for_prefill(
        self, batch, target_hidden_states, next_token_ids, mm_input_embeds=None
    ):
        self.draft_runner.forward(batch)
        return "next draft input"

    def _draft_extend_for_decode(self, batch, batch_result):
        EagleDraftInput().prepare_for_extend_to_fill_draft_kvcache(batch, None, 4, None)
        self.draft_runner.forward(batch)


class EAGLEWorkerV2:
    def __init__(self, server_args, gpu_id, tp_rank, target_worker):
        self.target_worker = target_worker
        self.speculative_num_steps = server_args.speculative_num_steps
        self.speculative_num_draft_tokens = server_args.speculative_num_draft_tokens
        self.draft_worker = EagleDraftWorker(server_args)

    def forward_batch_generation(self, model_worker_batch):
        if model_worker_batch.forward_mode.is_extend() or model_worker_batch.is_extend_in_batch:
            output = self.target_worker.forward_batch_generation(model_worker_batch)
            output.next_draft_input = self.draft_worker._draft_extend_for_prefill(
                model_worker_batch, "hidden", output.next_token_ids, None
            )
            output.accept_lens = torch.tensor([])
            return output
        model_worker_batch.spec_info = self.draft_worker.draft(model_worker_batch)
        output = self.verify(model_worker_batch)
        self.draft_worker._draft_extend_for_decode(model_worker_batch, output)
        return output

    def verify(self, batch):
        mode = batch.forward_mode
        batch.forward_mode = ForwardMode.IDLE if mode.is_idle() else ForwardMode.TARGET_VERIFY
        forward = self.target_worker.forward_batch_generation(
            model_worker_batch=None, forward_batch=batch, is_verify=True
        )
        predict, accept_lens, _ = batch.spec_info.sample(batch, forward.logits_output)
        batch.forward_mode = mode
        return GenerationBatchResult(
            forward.logits_output,
            predict,
            accept_lens=accept_lens,
            speculative_num_draft_tokens=self.speculative_num_draft_tokens,
        )

    def on_verify_complete_cpu(self, num_correct_drafts_per_req):
        pass

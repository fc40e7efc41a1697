from types import SimpleNamespace

from sglang.srt.managers.schedule_batch import ForwardMode
from sglang.srt.managers.tp_worker import TpModelWorker
from sglang.srt.managers.utils import GenerationBatchResult
from sglang.srt.speculative.eagle_info import EagleVerifyInput


class EAGLEWorker(TpModelWorker):
    def __init__(
        self,
        server_args,
        gpu_id,
        tp_rank,
        dp_rank,
        moe_ep_rank,
        attn_cp_rank,
        moe_dp_rank,
        nccl_port,
        target_worker,
    ):
        super().__init__(server_args, gpu_id, tp_rank, is_draft_worker=True)
        self.server_args = server_args
        self.target_worker = target_worker
        self.speculative_num_steps = server_args.speculative_num_steps
        self.speculative_num_draft_tokens = server_args.speculative_num_draft_tokens

    def forward_batch_generation(self, batch):
        if batch.forward_mode.is_extend() or batch.is_extend_in_batch:
            logits_output, next_token_ids, seq_lens_cpu, _ = self.forward_target_extend(batch)
            self.forward_draft_extend(batch, "hidden", next_token_ids, seq_lens_cpu)
            return GenerationBatchResult(logits_output, next_token_ids)
        batch.spec_info = self.draft(batch)
        logits_output, verify_output, can_run_cuda_graph = self.verify(batch)
        if any(not req.finished() for req in batch.reqs):
            self.forward_draft_extend_after_decode(batch)
        counts = verify_output.num_correct_drafts_per_req_cpu
        return GenerationBatchResult(
            logits_output, verify_output.accept_tokens, sum(counts), counts, can_run_cuda_graph
        )

    def forward_target_extend(self, batch):
        result = self.target_worker.forward_batch_generation(batch.get_model_worker_batch())
        return result.logits_output, result.next_token_ids, None, False

    def draft(self, batch):
        self.draft_forward(SimpleNamespace(forward_mode=ForwardMode.DECODE, seq_lens=None))
        return EagleVerifyInput(self.speculative_num_steps, self.speculative_num_draft_tokens)

    def draft_forward(self, forward_batch):
        for _ in range(self.speculative_num_steps - 1):
            self.model_runner.forward(forward_batch)
        return None, None, None

    def verify(self, batch):
        idle = batch.forward_mode.is_idle()
        batch.forward_mode = ForwardMode.IDLE if idle else ForwardMode.TARGET_VERIFY
        result = self.target_worker.forward_batch_generation(
            batch.get_model_worker_batch(), is_verify=True
        )
        res = batch.spec_info.verify(batch, result.logits_output, None, 1, None)
        batch.forward_mode = ForwardMode.IDLE if idle else ForwardMode.DECODE
        return result.logits_output, res, result.can_run_cuda_graph

    def forward_draft_extend(
        self, batch, hidden_states, next_token_ids, seq_lens_cpu, mm_input_embeds=None
    ):
        self.model_runner.forward(batch)

    def forward_draft_extend_after_decode(self, batch):
        self.model_runner.forward(batch)

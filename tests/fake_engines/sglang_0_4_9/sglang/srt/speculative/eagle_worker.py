from types import SimpleNamespace

from sglang.srt.managers.schedule_batch import ForwardMode
from sglang.srt.managers.tp_worker import TpModelWorker
from sglang.srt.speculative.eagle_draft_cuda_graph_runner import EAGLEDraftCudaGraphRunner
from sglang.srt.speculative.eagle_utils import EagleVerifyInput


class EAGLEWorker(TpModelWorker):
    def __init__(self, server_args, gpu_id, tp_rank, dp_rank, nccl_port, target_worker):
        super().__init__(server_args, gpu_id, tp_rank, is_draft_worker=True)
        self.server_args = server_args
        self.target_worker = target_worker
        self.topk = 1
        self.speculative_num_steps = server_args.speculative_num_steps
        self.speculative_num_draft_tokens = server_args.speculative_num_draft_tokens
        self.cuda_graph_runner = EAGLEDraftCudaGraphRunner(self)

    def forward_batch_speculative_generation(self, batch):
        if batch.forward_mode.is_extend() or batch.is_extend_in_batch:
            logits_output, next_token_ids, bid, seq_lens_cpu = self.forward_target_extend(batch)
            self.forward_draft_extend(batch, "hidden", next_token_ids, seq_lens_cpu)
            return logits_output, next_token_ids, bid, 0, False
        spec_info = self.draft(batch)
        if self.server_args.fail_in_verify and not batch.forward_mode.is_idle():
            self.server_args.fail_in_verify = False
            self.fail = True
        logits_output, verify_output, model_worker_batch, can_run = self.verify(batch, spec_info)
        if any(not req.finished() for req in batch.reqs):
            self.forward_draft_extend_after_decode(batch)
        return (
            logits_output,
            verify_output.verified_id,
            model_worker_batch.bid,
            sum(verify_output.accept_length_per_req_cpu),
            can_run,
        )

    fail = False

    def forward_target_extend(self, batch):
        model_worker_batch = batch.get_model_worker_batch()
        logits, next_ids, _ = self.target_worker.forward_batch_generation(model_worker_batch)
        return logits, next_ids, model_worker_batch.bid, None

    def draft(self, batch):
        self.draft_forward(SimpleNamespace(forward_mode=ForwardMode.DECODE, seq_lens=None))
        return EagleVerifyInput(self.speculative_num_steps, self.speculative_num_draft_tokens)

    def draft_forward(self, forward_batch):
        if forward_batch != "buffers":
            for _ in range(self.speculative_num_steps - 1):
                self.model_runner.forward(forward_batch)
        return [], [], []

    def verify(self, batch, spec_info):
        idle = batch.forward_mode.is_idle()
        batch.forward_mode = ForwardMode.IDLE if idle else ForwardMode.TARGET_VERIFY
        model_worker_batch = batch.get_model_worker_batch()
        logits_output, _, can_run_cuda_graph = self.target_worker.forward_batch_generation(
            model_worker_batch, skip_sample=True
        )
        if self.fail:
            self.fail = False
            batch.forward_mode = ForwardMode.DECODE
            raise RuntimeError("simulated failure in verify")
        res = spec_info.verify(batch, logits_output, None, 1, None)
        batch.forward_mode = ForwardMode.IDLE if idle else ForwardMode.DECODE
        return logits_output, res, model_worker_batch, can_run_cuda_graph

    def forward_draft_extend(self, batch, hidden_states, next_token_ids, seq_lens_cpu):
        self.model_runner.forward(batch)

    def forward_draft_extend_after_decode(self, batch):
        self.model_runner.forward(batch)

import torch

from sglang.srt.model_executor.model_runner import ModelRunner


class TpModelWorker:
    def __init__(self, server_args, gpu_id, tp_rank, is_draft_worker=False):
        self.tp_rank = tp_rank
        self.model_runner = ModelRunner(server_args, is_draft_worker=is_draft_worker)

    def forward_batch_generation(self, model_worker_batch, launch_done=None, skip_sample=False):
        logits_output, can_run_cuda_graph = self.model_runner.forward(model_worker_batch)
        next_ids = None
        if not skip_sample:
            self.model_runner.sample(logits_output, model_worker_batch)
            next_ids = torch.tensor([7] * model_worker_batch.seq_lens.shape[0])
        return logits_output, next_ids, can_run_cuda_graph

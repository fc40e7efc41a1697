import torch

from sglang.srt.managers.utils import GenerationBatchResult
from sglang.srt.model_executor.model_runner import ModelRunner


class TpModelWorker:
    def __init__(self, server_args, gpu_id, tp_rank, is_draft_worker=False):
        self.tp_rank = tp_rank
        self.model_runner = ModelRunner(server_args, is_draft_worker=is_draft_worker)

    def forward_batch_generation(
        self,
        model_worker_batch,
        forward_batch=None,
        pp_proxy_tensors=None,
        is_verify=False,
        skip_attn_backend_init=False,
    ):
        batch = forward_batch if model_worker_batch is None else model_worker_batch
        logits_output, can_run_cuda_graph = self.model_runner.forward(batch)
        result = GenerationBatchResult(logits_output, can_run_cuda_graph=can_run_cuda_graph)
        if not is_verify:
            self.model_runner.sample(logits_output, batch)
            result.next_token_ids = torch.tensor([7] * batch.seq_lens.shape[0])
        return result

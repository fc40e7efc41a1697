import torch

from sglang.srt.managers.utils import GenerationBatchResult
from sglang.srt.model_executor.model_runner import ModelRunner


class TpModelWorker:
    def __init__(self, server_args, gpu_id, nccl_port, is_draft_worker=False):
        self.model_runner = ModelRunner(server_args, is_draft_worker=is_draft_worker)

    def forward_batch_generation(
        self,
        batch,
        forward_batch=None,
        pp_proxy_tensors=None,
        is_verify=False,
        skip_attn_backend_init=None,
        *,
        capture_hidden_mode=None,
        return_kv_loc_plan=False,
    ):
        forward_batch = batch if batch is not None else forward_batch
        result = GenerationBatchResult(self.model_runner.forward(forward_batch))
        if not is_verify:
            self.model_runner.sample(result.logits_output, forward_batch)
            result.next_token_ids = torch.tensor([7] * forward_batch.seq_lens.shape[0])
        return result

from sglang.srt.model_executor.cuda_graph_runner import CudaGraphRunner


class ModelRunner:
    def __init__(self, server_args, is_draft_worker=False):
        self.server_args = server_args
        self.is_draft_worker = is_draft_worker
        self.cuda_graph_runner = CudaGraphRunner(self)

    def forward(self, forward_batch, skip_attn_backend_init=False, pp_proxy_tensors=None):
        graph_modes = ("DECODE", "TARGET_VERIFY")
        if not self.is_draft_worker and forward_batch.forward_mode.name in graph_modes:
            return self.cuda_graph_runner.replay(forward_batch), True
        return "logits", False

    def sample(self, logits_output, forward_batch):
        return "next"

from sglang.srt.model_executor.runner.decode_cuda_graph_runner import DecodeCudaGraphRunner


class ModelRunner:
    def __init__(self, server_args, is_draft_worker=False):
        self.server_args = server_args
        self.is_draft_worker = is_draft_worker
        self.decode_cuda_graph_runner = DecodeCudaGraphRunner(self)

    def forward(self, forward_batch, pp_proxy_tensors=None):
        graph_modes = ("DECODE", "TARGET_VERIFY")
        if not self.is_draft_worker and forward_batch.forward_mode.name in graph_modes:
            return self.decode_cuda_graph_runner.execute(forward_batch)
        return "logits"

    def sample(self, logits_output, forward_batch):
        return "next"

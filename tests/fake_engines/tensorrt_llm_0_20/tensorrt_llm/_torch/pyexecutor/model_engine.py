from contextlib import contextmanager

from tensorrt_llm._torch.pyexecutor.cuda_graph_runner import DecodingCUDAGraphRunner
from tensorrt_llm._utils import nvtx_range


class PyTorchModelEngine:
    def __init__(self, model_path, spec_config=None):
        self.spec_config = spec_config
        self._graphs = {}

    def warmup(self, resource_manager):
        pass

    @contextmanager
    def no_cuda_graph(self):
        yield

    def forward(
        self,
        scheduled_requests,
        resource_manager,
        new_tensors_device=None,
        gather_context_logits=False,
        cache_indirection_buffer=None,
    ):
        size = len(scheduled_requests.generation_requests)
        if scheduled_requests.context_requests:
            return self._forward_step({}, None)
        padded = next(graph for graph in (1, 2, 4, 8) if graph >= size)
        graph = self._graphs.setdefault(padded, DecodingCUDAGraphRunner(padded, "cuda", None))
        if graph.needs_capture():
            graph.capture(lambda inputs: self._forward_step(inputs, None))
        return graph.run({})

    @nvtx_range("_forward_step")
    def _forward_step(self, inputs, gather_ids, gather_context_logits=False):
        return {"logits": "logits"}

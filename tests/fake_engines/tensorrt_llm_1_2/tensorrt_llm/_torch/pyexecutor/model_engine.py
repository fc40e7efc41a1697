from tensorrt_llm._torch.pyexecutor.cuda_graph_runner import CUDAGraphRunner
from tensorrt_llm._torch.pyexecutor.scheduler import ScheduledRequests
from tensorrt_llm._utils import nvtx_range


class PyTorchModelEngine:
    def __init__(self, *, model_path, spec_config=None, is_draft_model=False):
        self.spec_config = spec_config
        self.is_draft_model = is_draft_model
        self.model_is_wrapped = False
        self.cuda_graph_runner = CUDAGraphRunner(None)

    def warmup(self, resource_manager):
        for size in (1, 2, 4):
            self.cuda_graph_runner.capture((size, 3, False), self._forward_step, {})
        self.forward(ScheduledRequests(), resource_manager)

    def forward(
        self,
        scheduled_requests,
        resource_manager,
        new_tensors_device=None,
        gather_context_logits=False,
        cache_indirection_buffer=None,
        num_accepted_tokens_device=None,
        req_id_to_old_request=None,
    ):
        size = len(scheduled_requests.generation_requests)
        if scheduled_requests.context_requests or not size:
            return self._forward_step({})
        padded = next(graph for graph in (1, 2, 4, 8) if graph >= size)
        key = (padded, 3, False)
        if key not in self.cuda_graph_runner.graphs:
            self.cuda_graph_runner.capture(key, self._forward_step, {})
        return self.cuda_graph_runner.replay(key, {})

    @nvtx_range("_forward_step")
    def _forward_step(self, inputs, gather_ids=None, gather_context_logits=False):
        return {"logits": "logits"}

import torch

from tensorrt_llm._torch.pyexecutor.llm_request import LlmRequest, LlmRequestState
from tensorrt_llm._torch.pyexecutor.scheduler import ScheduledRequests
from tensorrt_llm._utils import nvtx_range


class ModelDrafter:
    def __init__(self, spec_config, draft_model_engine, max_draft_len, sampler, static=False):
        self.spec_config = spec_config
        self.draft_model_engine = draft_model_engine
        self.max_draft_len = max_draft_len
        self.sampler = sampler
        self.use_static_draft_loop = static
        self.drafted = set()

    @nvtx_range("_prepare_draft_batch")
    def _prepare_draft_batch(self, scheduled_requests):
        draft_batch = ScheduledRequests()
        for request in scheduled_requests.generation_requests:
            if request.state == LlmRequestState.GENERATION_COMPLETE:
                continue
            request.py_draft_tokens = [0] * self.max_draft_len
            drafting = LlmRequest(request.py_request_id, 9, 9, is_draft=True)
            if request.py_request_id in self.drafted:
                draft_batch.generation_requests.append(drafting)
            else:
                draft_batch.context_requests.append(drafting)
                self.drafted.add(request.py_request_id)
        return draft_batch

    @nvtx_range("forward_draft_model")
    def forward_draft_model(
        self,
        draft_batch,
        resource_manager,
        is_first_draft_token,
        previous_tensors=None,
        num_accepted_tokens_device=None,
    ):
        return self.draft_model_engine.forward(
            draft_batch, resource_manager, new_tensors_device=previous_tensors
        )

    @nvtx_range("sample_async")
    def sample_async(self, draft_batch, outputs, resource_manager=None):
        return self.sampler.sample_async(draft_batch, outputs, [0])

    @nvtx_range("_update_draft_tokens_for_target_inputs")
    def _update_draft_tokens_for_target_inputs(
        self, target_inputs, draft_tensors, draft_position, draft_length, draft_batch
    ):
        pass

    @nvtx_range("_execute_draft_iteration")
    def _execute_draft_iteration(
        self,
        draft_batch,
        resource_manager,
        previous_draft_state,
        cur_draft_layer_idx,
        num_accepted_tokens_device=None,
    ):
        outputs = self.forward_draft_model(
            draft_batch, resource_manager, is_first_draft_token=False
        )
        self.sampler.update_requests(previous_draft_state, resource_manager)
        return outputs, self.sample_async(draft_batch, outputs, resource_manager)

    def _draft(self, scheduled_requests, resource_manager, target_inputs):
        draft_batch = self._prepare_draft_batch(scheduled_requests)
        if not draft_batch.batch_size:
            return
        outputs = self.forward_draft_model(draft_batch, resource_manager, is_first_draft_token=True)
        if self.use_static_draft_loop:
            return
        state = self.sample_async(draft_batch, outputs, resource_manager)
        draft_batch.generation_requests += draft_batch.context_requests
        draft_batch.context_requests = []
        for position in range(self.max_draft_len - 1):
            _, state = self._execute_draft_iteration(
                draft_batch, resource_manager, state, position + 1
            )
            if target_inputs is not None:
                self._update_draft_tokens_for_target_inputs(
                    target_inputs, torch.tensor([7]), position + 1, 1, draft_batch
                )

    @nvtx_range("generate_draft_tokens_with_overlap")
    def generate_draft_tokens_with_overlap(
        self,
        scheduled_batch,
        resource_manager,
        previous_tensors,
        target_inputs,
        num_accepted_tokens_device=None,
    ):
        self._draft(scheduled_batch, resource_manager, target_inputs)

    @nvtx_range("prepare_draft_tokens")
    def prepare_draft_tokens(self, scheduled_requests, resource_manager=None):
        self._draft(scheduled_requests, resource_manager, None)

from simulated import note

from tensorrt_llm._torch.pyexecutor.llm_request import LlmRequest, LlmRequestState
from tensorrt_llm._torch.pyexecutor.scheduler import ScheduledRequests
from tensorrt_llm._utils import nvtx_range


class PyExecutor:
    def __init__(
        self,
        resource_manager,
        scheduler,
        model_engine,
        sampler,
        dist,
        max_num_sequences,
        disable_overlap_scheduler=False,
        max_draft_tokens=0,
        draft_model_engine=None,
    ):
        self.resource_manager = resource_manager
        self.model_engine = model_engine
        self.draft_model_engine = draft_model_engine
        self.sampler = sampler
        self.dist = dist
        self.drafted = set()
        self.max_draft_tokens = max_draft_tokens
        self.enable_attention_dp = dist.mapping.enable_attention_dp
        self.active_requests = []
        self.previous_batch = None
        self.iter_counter = 0
        self.event_loop = (
            self._executor_loop if disable_overlap_scheduler else self._executor_loop_overlap
        )
        note("executor", rank=dist.mapping.tp_rank)
        self.model_engine.warmup(self.resource_manager)

    @nvtx_range("_schedule")
    def _schedule(self):
        batch = ScheduledRequests()
        for request in self.active_requests:
            context = request.state == LlmRequestState.CONTEXT_INIT
            (batch.context_requests if context else batch.generation_requests).append(request)
        return batch, [], batch.batch_size

    def _prepare_draft_requests(self):
        for request in self.active_requests:
            if request.state != LlmRequestState.GENERATION_IN_PROGRESS:
                continue
            request.py_draft_tokens = [0] * self.max_draft_tokens
            request.py_draft_pages_allocated = self.max_draft_tokens

    def _prepare_and_schedule_batch(self):
        if self.draft_model_engine is not None:
            self._prepare_draft_requests()
        batch, _, _ = self._schedule()
        drafts = [len(request.py_draft_tokens) for request in batch.generation_requests]
        note(
            "step",
            contexts=len(batch.context_requests),
            generating=len(batch.generation_requests),
            drafted=sum(drafts),
            prompt=sum(request.context_chunk_size for request in batch.context_requests),
        )
        return batch, None

    def _executor_loop(self):
        while self.active_requests:
            batch, _ = self._prepare_and_schedule_batch()
            if self.draft_model_engine is not None:
                self._prepare_draft_tokens(batch)
            outputs = self._forward_step(batch)
            sample_state = self._sample_async(batch, outputs)
            self._update_request_states(batch)
            self._update_requests(sample_state, self.resource_manager)
            self._handle_responses()
            self.iter_counter += 1

    def _executor_loop_overlap(self):
        while self.active_requests:
            batch, _ = self._prepare_and_schedule_batch()
            outputs = self._forward_step(batch, self.previous_batch)
            if self.previous_batch is not None:
                self._update_requests(self.previous_batch)
            sample_state = self._sample_async(batch, outputs)
            self._update_request_states(batch)
            if self.previous_batch is not None:
                self._handle_responses()
            self.previous_batch = sample_state
            self.iter_counter += 1

    def _executor_loop_pp(self):
        raise NotImplementedError

    def _prepare_draft_batch(self, scheduled_requests):
        draft_batch = ScheduledRequests()
        for request in scheduled_requests.generation_requests:
            drafting = LlmRequest(request.py_request_id, 9, 9, is_draft=True)
            if request.py_request_id in self.drafted:
                draft_batch.generation_requests.append(drafting)
            else:
                draft_batch.context_requests.append(drafting)
                self.drafted.add(request.py_request_id)
        return draft_batch

    @nvtx_range("_prepare_draft_tokens")
    def _prepare_draft_tokens(self, scheduled_requests):
        draft_batch = self._prepare_draft_batch(scheduled_requests)
        if not draft_batch.batch_size:
            return
        with self.draft_model_engine.no_cuda_graph():
            outputs = self.draft_model_engine.forward(draft_batch, self.resource_manager)
        previous = self._sample_async(draft_batch, outputs)
        draft_batch.generation_requests += draft_batch.context_requests
        draft_batch.context_requests = []
        for _ in range(self.max_draft_tokens - 1):
            outputs = self.draft_model_engine.forward(
                draft_batch, self.resource_manager, new_tensors_device=previous.device
            )
            state = self._sample_async(draft_batch, outputs)
            self._update_requests(previous)
            previous = state
        self._update_requests(previous)

    def _forward_step(self, scheduled_requests, new_tensors_device=None):
        contexts = len(scheduled_requests.context_requests)
        generating = len(scheduled_requests.generation_requests)

        @nvtx_range(f"[Executor] _forward_step: {contexts} ctx reqs, {generating} gen reqs")
        def forward(scheduled_requests, resource_manager, new_tensors_device):
            return self.model_engine.forward(
                scheduled_requests, resource_manager, new_tensors_device
            )

        return forward(scheduled_requests, self.resource_manager, new_tensors_device)

    def _update_request_states(self, scheduled_requests):
        for request in scheduled_requests.context_requests:
            request.move_to_next_context_chunk()
            request.state = LlmRequestState.GENERATION_IN_PROGRESS

    @nvtx_range("_sample_async")
    def _sample_async(self, scheduled_batch, batch_outputs):
        return self.sampler.sample_async(scheduled_batch, batch_outputs, [0])

    @nvtx_range("_update_requests")
    def _update_requests(self, sample_state, resource_manager=None):
        self.sampler.update_requests(sample_state, resource_manager)

    @nvtx_range("_handle_responses")
    def _handle_responses(self):
        self.active_requests = [
            request
            for request in self.active_requests
            if request.state != LlmRequestState.GENERATION_COMPLETE
        ]

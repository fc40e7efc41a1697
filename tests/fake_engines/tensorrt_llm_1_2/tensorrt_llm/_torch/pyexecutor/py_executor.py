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
        drafter=None,
        disable_overlap_scheduler=False,
        max_draft_len=0,
        draft_model_engine=None,
    ):
        self.resource_manager = resource_manager
        self.model_engine = model_engine
        self.draft_model_engine = draft_model_engine
        self.sampler = sampler
        self.dist = dist
        self.drafter = drafter
        self.max_draft_len = max_draft_len
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
            request.py_draft_tokens = [0] * self.max_draft_len
            request.py_draft_pages_allocated = self.max_draft_len

    def _pad_attention_dp_dummy_request(self):
        if self.enable_attention_dp and not self.active_requests:
            dummy = LlmRequest(0, 1, 1000)
            dummy.is_attention_dp_dummy = True
            dummy.state = LlmRequestState.GENERATION_IN_PROGRESS
            self.active_requests.append(dummy)

    def _prepare_and_schedule_batch(self):
        if self.drafter is not None:
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
            if self.drafter is not None:
                self.drafter.prepare_draft_tokens(batch, self.resource_manager)
            outputs = self._forward_step(batch)
            sample_state = self._sample_async(batch, outputs)
            self._update_request_states(batch)
            self._update_requests(sample_state, self.resource_manager)
            self._handle_responses()
            self.iter_counter += 1

    def _executor_loop_overlap(self):
        while self.active_requests:
            batch, _ = self._prepare_and_schedule_batch()
            if self.drafter is not None:
                self.drafter.generate_draft_tokens_with_overlap(
                    batch, self.resource_manager, self.previous_batch, "target inputs"
                )
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

    def _forward_step(
        self, scheduled_requests, new_tensors_device=None, num_accepted_tokens_device=None
    ):
        contexts = len(scheduled_requests.context_requests)
        generating = len(scheduled_requests.generation_requests)

        @nvtx_range(
            f"[Executor] _forward_step {self.iter_counter}: "
            f"{contexts} ctx reqs, {generating} gen reqs"
        )
        def forward(scheduled_requests, resource_manager, new_tensors_device):
            return self.model_engine.forward(
                scheduled_requests, resource_manager, new_tensors_device
            )

        return forward(scheduled_requests, self.resource_manager, new_tensors_device)

    def _update_request_states(self, scheduled_requests):
        for request in scheduled_requests.context_requests:
            request.move_to_next_context_chunk()
            request.state = LlmRequestState.GENERATION_IN_PROGRESS
        if self.active_requests and self.active_requests[-1].is_attention_dp_dummy:
            self.active_requests.pop()

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

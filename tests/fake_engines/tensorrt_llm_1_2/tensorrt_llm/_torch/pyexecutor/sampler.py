from dataclasses import dataclass
from typing import Any

import torch
from simulated import accepted_drafts, note

from tensorrt_llm._torch.pyexecutor.llm_request import LlmRequestState


@dataclass(kw_only=True)
class SampleStateTensors:
    new_tokens: Any


@dataclass(kw_only=True)
class SampleStateTensorsMTP(SampleStateTensors):
    new_tokens_lens: Any
    next_draft_tokens: Any


@dataclass(kw_only=True)
class SampleState:
    scheduled_requests: Any
    device: Any = None
    host: Any = None
    sampler_event: Any = None


def _finish(request):
    if request.finished:
        request.state = LlmRequestState.GENERATION_COMPLETE
    return request.finished


def _account(request, k, accepted, *, lost=0, stale=False):
    """The sampler's own account of one request that was verified."""
    note(
        "row",
        rid=str(request.py_request_id),
        k=k,
        accepted=accepted,
        overshoot=lost,
        stale=stale,
    )


class TorchSampler:
    """Takes over tokens one by one and stops at the request's end."""

    def sample_async(self, scheduled_requests, model_outputs, num_context_logits_prefix_sum):
        tensors = SampleStateTensors(new_tokens=torch.tensor([7]))
        batch = _copy(scheduled_requests)
        return SampleState(scheduled_requests=batch, device=tensors, host=tensors)

    def update_requests(self, state, resource_manager=None):
        for req in state.scheduled_requests.context_requests:
            req.add_new_token(7, 0)
            _finish(req)
            req.py_decoding_iter += 1
        for req in state.scheduled_requests.generation_requests:
            if req.is_draft:
                continue
            k = len(req.py_draft_tokens)
            if req.state == LlmRequestState.GENERATION_COMPLETE:
                _account(req, k, 0, stale=True)
                continue
            req.add_new_token(7, 0)
            taken = 0
            if not _finish(req) and k:
                for _ in range(accepted_drafts(str(req.py_request_id), req.py_decoding_iter, k)):
                    req.add_new_token(7, 0)
                    taken += 1
                    if _finish(req):
                        break
                req.py_num_accepted_draft_tokens = taken
                req.py_rewind_len = req.py_draft_pages_allocated - taken
            if k:
                _account(req, k, taken)
            req.py_decoding_iter += 1


class MTPSampler(TorchSampler):
    """One-model: the worker has accepted already, past the request's end too."""

    def __init__(self, args, *, nextn):
        self.draft_len = nextn

    def sample_async(self, scheduled_requests, outputs, num_context_logits_prefix_sum):
        state = super().sample_async(scheduled_requests, outputs, num_context_logits_prefix_sum)
        lens = torch.tensor([1])
        state.host = SampleStateTensorsMTP(
            new_tokens=lens, new_tokens_lens=lens, next_draft_tokens=lens
        )
        for request in scheduled_requests.context_requests:
            request.py_draft_tokens = [1] * self.draft_len
        return state

    def update_requests(self, state, resource_manager=None):
        for req in state.scheduled_requests.context_requests:
            req.add_new_token(7, 0)
            _finish(req)
            req.py_draft_tokens = [7] * self.draft_len
            req.py_decoding_iter += 1
        for req in state.scheduled_requests.generation_requests:
            if req.state == LlmRequestState.GENERATION_COMPLETE:
                _account(req, self.draft_len, 0, stale=True)
                continue
            rid = str(req.py_request_id)
            accepted = accepted_drafts(rid, req.py_decoding_iter, self.draft_len)
            taken = 0
            while taken < 1 + accepted:
                req.add_new_token(7, 0)
                taken += 1
                if _finish(req):
                    break
            self._count(req, accepted)
            _account(req, self.draft_len, accepted, lost=accepted + 1 - taken)
            req.py_draft_tokens = [7] * self.draft_len
            req.py_decoding_iter += 1

    def _count(self, req, accepted):
        req.py_num_accepted_draft_tokens = accepted
        req.py_rewind_len = self.draft_len - accepted


def _copy(scheduled_requests):
    """The batch as it is now; a drafter goes on to change its own."""
    copy = type(scheduled_requests)()
    copy.context_requests = list(scheduled_requests.context_requests)
    copy.generation_requests = list(scheduled_requests.generation_requests)
    return copy

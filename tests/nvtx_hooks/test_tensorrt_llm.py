"""TensorRT-LLM's values where they are not what a run of its stand-in shows."""

from __future__ import annotations

import sys
from enum import Enum
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from nvtx_hooks.extractors import tensorrt_llm
from nvtx_hooks.observations import Acceptance, Step
from nvtx_hooks.readings import Unreadable
from nvtx_hooks.targets import Call
from nvtx_hooks.vocabulary import Flags
from tests.nvtx_hooks.fakes import FAKES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvtx_hooks.observations import Observation


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    assert "torch" not in sys.modules
    monkeypatch.syspath_prepend(str(FAKES / "fake_torch"))
    import torch

    return torch


def call(**arguments: Any) -> Call:
    return Call({name: at for at, name in enumerate(arguments)}, tuple(arguments.values()), {})


class Request:
    """A request that has `tokens` tokens."""

    def __init__(self, drafts: Any, tokens: int = 20, **fields: Any) -> None:
        self.py_request_id = 5
        self.py_draft_tokens = drafts
        self.py_num_accepted_draft_tokens = 0
        self.tokens = tokens
        self.__dict__.update(fields)

    def get_num_tokens(self, beam: int) -> int:
        assert beam == 0
        return self.tokens


def batch(*generating: Request, contexts: Sequence[Request] = ()) -> SimpleNamespace:
    return SimpleNamespace(generation_requests=list(generating), context_requests=list(contexts))


def executor(**fields: Any) -> SimpleNamespace:
    return SimpleNamespace(model_engine=SimpleNamespace(spec_config=None), **fields)


def step(scheduled: SimpleNamespace, **fields: Any) -> Step:
    return tensorrt_llm.step_before(call(self=executor(**fields), scheduled_requests=scheduled))


def test_drafts_that_are_one_tensor_are_not_touched(torch: Any) -> None:
    with pytest.raises(Unreadable, match="Tensor"):
        step(batch(Request(torch.tensor([1, 2]))))
    assert torch.violations == []


def test_drafts_that_are_tensors_in_a_list_are_only_counted(torch: Any) -> None:
    """Two-model drafting fills the list with elements of a tensor."""
    seen = step(batch(Request([torch.tensor([1]), torch.tensor([2])])))
    assert (seen.drafted, seen.verified, seen.k) == (2, 3, 2)
    assert torch.violations == []


@pytest.mark.parametrize(
    ("drafts", "fields", "drafted", "k"),
    [
        (None, {}, 0, 0),
        ([], {}, 0, 0),
        ([1, 2, 3], {}, 3, 3),
        ([1] * 7, {"max_draft_len": 4}, 7, 4),
        ([1] * 7, {"max_draft_tokens": 5}, 7, 5),
        ([1] * 7, {"max_draft_len": 0}, 7, 7),
    ],
)
def test_a_tree_is_no_longer_than_it_is_deep(
    drafts: list[int] | None, fields: dict[str, int], drafted: int, k: int
) -> None:
    seen = step(batch(Request(drafts)), **fields)
    assert (seen.requests, seen.drafted, seen.verified, seen.k) == (1, drafted, drafted + 1, k)


def test_padding_of_a_drafter_is_no_draft() -> None:
    seen = step(batch(Request([1, 2, 0, 0], py_draft_tokens_effective_len=2), Request([3, 4])))
    assert (seen.drafted, seen.k) == (4, 2)


def test_dummies_count_only_where_there_is_nothing_else() -> None:
    dummy = Request([0, 0], is_attention_dp_dummy=True)
    graph = Request([0, 0], is_cuda_graph_dummy=True)
    seen = step(batch(Request([1]), dummy, graph))
    assert (seen.requests, seen.drafted, seen.flags) == (1, 1, 0)
    seen = step(batch(dummy))
    assert (seen.requests, seen.drafted, seen.flags) == (1, 0, Flags.IDLE)


def test_prompt_tokens_are_those_of_the_chunk() -> None:
    seen = step(batch(Request([1]), contexts=[Request([], context_chunk_size=7)]))
    assert (seen.requests, seen.prompt_requests, seen.prompt_tokens, seen.verified) == (2, 1, 7, 2)


def taken_over(request: Request, grows: int, host: Any = None) -> Sequence[Observation]:
    """What `_update_requests` shows when a request with drafts grows."""
    state = SimpleNamespace(_eagle_cycle=(9, 0, 0), host=host)
    sampled = call(self=executor(), scheduled_batch=batch(request))
    sampled.result = state
    assert tensorrt_llm.judged_requests(sampled) == ()
    update = call(self=executor(), sample_state=state)
    update.before = tensorrt_llm.lengths_before(update)
    request.tokens += grows
    return tensorrt_llm.accepted_drafts(update)


@pytest.mark.parametrize(
    ("grows", "own_count", "one_model", "expected"),
    [
        (3, 2, False, (2, Flags.NONE, 0)),
        (1, 2, False, (0, Flags.NONE, 0)),
        (0, 2, False, (0, Flags.STALE, 0)),
        (3, 2, True, (2, Flags.NONE, 0)),
        (2, 3, True, (3, Flags.OVERSHOOT, 2)),
        (3, 0, True, (2, Flags.NONE, 0)),
        (0, 3, True, (0, Flags.STALE, 0)),
    ],
)
def test_growth_says_what_was_accepted(
    grows: int, own_count: int, one_model: bool, expected: tuple[int, int, int]
) -> None:
    """A count left over from the cycle before does not pass for this one's."""
    host = SimpleNamespace(new_tokens_lens=object()) if one_model else SimpleNamespace()
    request = Request([1, 2, 3], py_num_accepted_draft_tokens=own_count)
    (acceptance,) = taken_over(request, grows, host)
    assert isinstance(acceptance, Acceptance)
    assert acceptance.cycle == 9
    (row,) = acceptance.rows
    assert (row.k, row.accepted, row.flags, row.overshoot) == (3, *expected)


def test_a_state_is_taken_over_once() -> None:
    state = SimpleNamespace(_eagle_judged=[(Request([1]), 1)], _eagle_cycle=(9, 0, 0))
    first = tensorrt_llm.lengths_before(call(self=executor(), sample_state=state))
    assert first is not None
    assert tensorrt_llm.lengths_before(call(self=executor(), sample_state=state)) is None


def test_a_state_of_the_draft_model_is_none_of_ours() -> None:
    update = call(self=executor(), sample_state=SimpleNamespace())
    update.before = tensorrt_llm.lengths_before(update)
    assert tensorrt_llm.accepted_drafts(update) == ()


class Mode(Enum):
    TWO = False
    ONE = True

    def use_one_engine(self) -> bool:
        return bool(self.value)


@pytest.mark.parametrize("one_model", [False, True])
@pytest.mark.parametrize(
    ("drafts", "contexts", "plain", "fused"),
    [
        ([1], 0, "verify", "fused(draft, verify, sample, draft_extend)"),
        ([], 0, "decode", "decode"),
        ([1], 1, "mixed", "mixed"),
        (None, 1, "prefill", "fused(draft, prefill, draft_prefill)"),
    ],
)
def test_phase_of_a_forward(
    drafts: list[int] | None, contexts: int, plain: str, fused: str, one_model: bool
) -> None:
    generating = [] if drafts is None else [Request(drafts)]
    scheduled = batch(*generating, contexts=[Request([])] * contexts)
    runs = executor()
    runs.model_engine.spec_config = SimpleNamespace(spec_dec_mode=Mode(one_model))
    notes: dict[str, int] = {}
    begun = Call({"scheduled_requests": 1}, (runs, scheduled), {}, notes=notes)
    assert tensorrt_llm.step_ranges(begun) == (() if generating else ("prefill",))
    forward = Call({"batch": 1}, (None, scheduled), {}, in_step=True, notes=notes)
    assert tensorrt_llm.forward_ranges(forward) == (fused if one_model else plain,)


def test_forwards_outside_steps_and_drafting_are_left_alone() -> None:
    assert tensorrt_llm.forward_ranges(call(self=None, scheduled_requests=batch())) is None
    empty = call(self=executor(), scheduled_requests=batch())
    assert tensorrt_llm.step_ranges(empty) is None


def test_a_drafter_that_failed_does_not_pass_the_target_off_as_a_draft() -> None:
    notes: dict[str, int] = {}
    tensorrt_llm.begin_drafting(Call({}, (SimpleNamespace(),), {}, notes=notes))
    scheduled = batch(Request([1]))
    tensorrt_llm.step_ranges(
        Call({"scheduled_requests": 1}, (executor(), scheduled), {}, notes=notes)
    )
    forward = Call({"scheduled_requests": 1}, (None, scheduled), {}, in_step=True, notes=notes)
    assert tensorrt_llm.forward_ranges(forward) == ("verify",)

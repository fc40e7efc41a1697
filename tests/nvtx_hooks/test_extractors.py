from __future__ import annotations

import sys
from array import array
from collections import deque
from enum import IntEnum
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from nvtx_hooks import readings
from nvtx_hooks.extractors import sglang, vllm
from nvtx_hooks.readings import Unreadable
from nvtx_hooks.targets import Call

if TYPE_CHECKING:
    from collections.abc import Callable

FAKE_TORCH = Path(__file__).resolve().parents[1] / "fake_engines" / "fake_torch"


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    assert "torch" not in sys.modules
    monkeypatch.syspath_prepend(str(FAKE_TORCH))
    import torch

    return torch


class Number(IntEnum):
    ONE = 1


@pytest.mark.parametrize(
    "read",
    [
        readings.integer,
        readings.boolean,
        readings.text,
        readings.integers,
        readings.length,
        lambda value: readings.integers([value]),
    ],
)
def test_a_tensor_is_refused_without_a_touch(read: Callable[[Any], Any], torch: Any) -> None:
    with pytest.raises(Unreadable):
        read(torch.tensor([1]))
    assert readings.optional_integer(torch.tensor([1]), 5) == 5
    assert readings.dimension(torch.tensor([1, 2, 3]), 0) == 3
    assert torch.violations == []


@pytest.mark.parametrize("value", [True, 1.0, "1", None, Number.ONE, [1]])
def test_only_plain_ints_are_ints(value: object) -> None:
    with pytest.raises(Unreadable):
        readings.integer(value)


@pytest.mark.parametrize("value", [[1], (1,), {1: 2}, {1}, deque([1]), array("q", [1])])
def test_lengths_of_plain_containers(value: object) -> None:
    assert readings.length(value) == 1


class Proxy:
    """Something with a length that costs: it must not be asked for it."""

    def __len__(self) -> int:
        raise AssertionError("asked for its length")


def test_lengths_of_other_objects_are_not_asked_for() -> None:
    with pytest.raises(Unreadable):
        readings.length(Proxy())


def call(returned: Any = None, before: Any = None, /, **arguments: Any) -> Call:
    made = Call({name: at for at, name in enumerate(arguments)}, tuple(arguments.values()), {})
    made.result, made.before = returned, before
    return made


def worker(**fields: Any) -> SimpleNamespace:
    return SimpleNamespace(
        **{"speculative_num_steps": 3, "speculative_num_draft_tokens": 4, **fields}
    )


def request(rid: str, **fields: Any) -> SimpleNamespace:
    return SimpleNamespace(
        **{"rid": rid, "finished_reason": None, "is_retracted": False, "output_ids": [], **fields}
    )


def test_sglang_counts_that_do_not_fit_the_batch_emit_nothing() -> None:
    verified = [("a", request("a"), None), ("b", request("b"), None)]
    result = (None, SimpleNamespace(accept_length_per_req_cpu=[1]))
    with pytest.raises(ValueError, match="shorter"):
        sglang.worker_acceptance(call(result, verified, self=worker()))


def test_sglang_counts_on_the_gpu_emit_nothing(torch: Any) -> None:
    result = (None, SimpleNamespace(accept_length_per_req_cpu=torch.tensor([1])))
    with pytest.raises(Unreadable, match="Tensor"):
        sglang.worker_acceptance(call(result, [("a", request("a"), None)], self=worker()))
    assert torch.violations == []


def test_sglang_request_that_retracts_is_stale() -> None:
    requests = [request("a", is_retracted=True), request("b", finished_reason="stop"), request("c")]
    result = SimpleNamespace(_eagle_cycle=(5, 3, 0), num_correct_drafts_per_req_cpu=[1, 2, 3])
    handled = call(None, None, self=None, batch=SimpleNamespace(reqs=requests), result=result)
    handled.before = sglang.finished_before(handled)
    (acceptance,) = sglang.late_acceptance(handled)
    assert acceptance.cycle == 5  # type: ignore[union-attr]
    assert [row.flags for row in acceptance.rows] == [16, 16, 0]  # type: ignore[union-attr]


def test_sglang_result_without_a_tag_is_none_of_ours() -> None:
    handled = call(None, None, self=None, batch=None, result=SimpleNamespace())
    assert sglang.finished_before(handled) is None
    assert sglang.late_acceptance(handled) == ()


@pytest.mark.parametrize("returned", [(None, [1, 3], None), [[7], [7, 7, 7]]])
def test_sglang_old_result_processors(returned: Any) -> None:
    """0.5.3 returns lengths with the bonus token, 0.5.6 the tokens themselves."""
    result = SimpleNamespace(_eagle_cycle=(5, 3, 0))
    assert sglang.keep_accepted_lengths(call(returned, self=None, result=result, batch=None)) == ()
    requests = [request("a"), request("b")]
    handled = call(None, None, self=None, batch=SimpleNamespace(reqs=requests), result=result)
    handled.before = [False, False]
    (acceptance,) = sglang.late_acceptance(handled)
    assert [row.accepted for row in acceptance.rows] == [0, 2]  # type: ignore[union-attr]


def test_sglang_ngram_counts_come_from_the_requests() -> None:
    requests = [request("a", spec_accepted_tokens=4), request("b", spec_accepted_tokens=9)]
    batch = SimpleNamespace(
        reqs=requests, forward_mode=SimpleNamespace(name="DECODE"), is_extend_in_batch=False
    )
    ngram = SimpleNamespace(draft_token_num=8)
    handled = call(self=ngram, batch=batch)
    handled.before = sglang.ngram_batch(handled)
    requests[0].spec_accepted_tokens, requests[1].spec_accepted_tokens = 6, 9
    handled.result = SimpleNamespace(num_accepted_tokens=2)
    step, acceptance = sglang.ngram_step(handled)
    assert (step.drafted, step.verified, step.k) == (14, 16, 7)  # type: ignore[union-attr]
    assert [row.accepted for row in acceptance.rows] == [2, 0]  # type: ignore[union-attr]


def test_sglang_ngram_of_a_version_that_does_not_count() -> None:
    handled = call(self=SimpleNamespace(draft_token_num=8), batch=None)
    handled.before = ((True, 1, "DECODE", None), [("a", request("a", spec_accepted_tokens=0), 0)])
    handled.result = SimpleNamespace(num_accepted_tokens=3)
    with pytest.raises(Unreadable, match="do not count"):
        sglang.ngram_step(handled)


@pytest.mark.parametrize(
    ("mode", "inside", "in_step", "expected"),
    [
        ("DECODE", "", False, ("cycle", "decode")),
        ("EXTEND", "", False, ("prefill",)),
        ("MIXED", "", False, ("cycle", "mixed")),
        ("EXTEND", "", True, ("prefill",)),
        ("TARGET_VERIFY", "cycle", True, ("verify",)),
        ("TARGET_VERIFY", "verify", True, None),
        ("DECODE", "draft_extend", True, None),
        ("PREBUILT", "", False, None),
    ],
)
def test_sglang_target_forward(
    mode: str, inside: str, in_step: bool, expected: tuple[str, ...] | None
) -> None:
    batch = SimpleNamespace(forward_mode=SimpleNamespace(name=mode))
    forward = call(self=None, batch=batch)
    forward.inside, forward.in_step = inside, in_step
    assert sglang.target_ranges(forward) == expected


def test_sglang_mixed_batch_counts_decoding_tokens_apart() -> None:
    batch = SimpleNamespace(
        reqs=[1, 2, 3],
        forward_mode=SimpleNamespace(name="MIXED"),
        extend_num_tokens=12,
        decoding_reqs=[2, 3],
    )
    forward = call(self=None, batch=batch)
    forward.before = sglang.target_batch(forward)
    (step,) = sglang.target_step(forward)
    assert (step.requests, step.verified, step.prompt_requests, step.prompt_tokens) == (3, 2, 1, 10)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("counts", "drafts", "new", "phase", "prompt"),
    [
        ({"a": 4, "b": 4}, {"a": [1] * 3, "b": [1] * 3}, [], "verify", (0, 0)),
        ({"a": 1, "b": 1}, {}, [], "decode", (0, 0)),
        ({"a": 9, "b": 7}, {}, ["a", "b"], "prefill", (2, 16)),
        ({"a": 4, "b": 7}, {"a": [1] * 3}, ["b"], "mixed", (1, 7)),
        ({"a": 1, "b": 1}, {}, ["b"], "mixed", (1, 1)),
        ({"a": 4, "b": 7}, {"a": [1] * 3}, [], "mixed", (1, 7)),
    ],
)
def test_vllm_composition(
    counts: dict[str, int],
    drafts: dict[str, list[int]],
    new: list[str],
    phase: str,
    prompt: tuple[int, int],
) -> None:
    scheduled = SimpleNamespace(
        num_scheduled_tokens=counts,
        total_num_scheduled_tokens=sum(counts.values()),
        scheduled_spec_decode_tokens=drafts,
        scheduled_new_reqs=[SimpleNamespace(req_id=name) for name in new],
    )
    seen = vllm.composition(scheduled)
    assert seen.phase == phase
    assert (seen.prompt_requests, seen.prompt_tokens) == prompt
    assert seen.drafted == sum(map(len, drafts.values()))


@pytest.mark.parametrize(
    ("rank", "tp_size", "pp_size", "expected"),
    [(0, 1, 1, (0, 0)), (3, 4, 1, (3, 0)), (5, 4, 2, (1, 1)), (9, 4, 2, (1, 0))],
)
def test_vllm_ranks(rank: int, tp_size: int, pp_size: int, expected: tuple[int, int]) -> None:
    config = SimpleNamespace(
        rank=rank, tensor_parallel_size=tp_size, pipeline_parallel_size=pp_size
    )
    (ranks,) = vllm.worker_ranks(
        call(self=None, vllm_config=SimpleNamespace(parallel_config=config))
    )
    assert (ranks.tp_rank, ranks.pp_rank) == expected  # type: ignore[union-attr]

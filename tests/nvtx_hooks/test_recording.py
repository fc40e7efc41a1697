from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from nvtx_hooks import patching, vocabulary
from nvtx_hooks.advice import TAG, advice_for
from nvtx_hooks.observations import Acceptance, Padding, Ranks, Row, Signature, Step
from nvtx_hooks.recording import Recorder
from nvtx_hooks.targets import Call, Target
from tests.nvtx_hooks.recorded import RecordingBackend, names, read

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def backend() -> RecordingBackend:
    return RecordingBackend()


@pytest.fixture
def recorder(backend: RecordingBackend) -> Recorder:
    return Recorder(backend)


def hooked(recorder: Recorder, function: Callable[..., Any], **fields: Any) -> Callable[..., Any]:
    """`function` with the hook of a target made of `fields`."""
    target = Target("module", function.__name__, **fields)
    return patching.wrap(function, advice_for(target, recorder, {"value": 0}))


def returns(value: Any = None) -> Any:
    return value


def test_ranges_nest_and_carry_the_cycle(recorder: Recorder, backend: RecordingBackend) -> None:
    verify = hooked(recorder, returns, opens=("verify",))
    cycle = hooked(recorder, lambda: verify(), opens=("cycle",), step=True)
    cycle()
    cycle()
    verify()
    recording = read(backend.events)
    assert [(r.name, r.payload, r.inside) for r in recording.ranges] == [
        ("verify", 1, ("cycle",)),
        ("cycle", 1, ()),
        ("verify", 2, ("cycle",)),
        ("cycle", 2, ()),
        ("verify", vocabulary.NO_CYCLE, ()),
    ]


def test_range_inside_its_own_name_is_one(recorder: Recorder, backend: RecordingBackend) -> None:
    base = hooked(recorder, returns, opens=("draft",))
    override = hooked(recorder, lambda: base(5), opens=("draft",))
    assert override() == 5
    assert names(backend.events) == "(draft )"


def test_step_inside_a_step_is_no_new_one(recorder: Recorder, backend: RecordingBackend) -> None:
    observed = []

    def observe(call: Call) -> tuple[Step, ...]:
        observed.append(call.result)
        return (Step(1),)

    inner = hooked(recorder, returns, opens=("decode",), step=True, observe=observe)
    hooked(recorder, lambda: inner(3), opens=("cycle",), step=True, observe=observe)()
    recording = read(backend.events)
    assert [(r.name, r.payload) for r in recording.ranges] == [("decode", 1), ("cycle", 1)]
    assert observed == [3]
    assert len(recording.marked("batch")) == 1


def test_exception_closes_every_range(recorder: Recorder, backend: RecordingBackend) -> None:
    def fails() -> None:
        raise KeyboardInterrupt

    inner = hooked(recorder, fails, opens=("cycle", "decode"), step=True)
    with pytest.raises(KeyboardInterrupt):
        hooked(recorder, lambda: inner(), opens=("schedule",))()
    assert names(backend.events) == "(schedule (cycle (decode ) ) )"


@pytest.mark.parametrize("where", ["opens", "before", "observe", "number", "push", "pop", "mark"])
def test_error_in_a_hook_never_reaches_the_host(
    where: str, recorder: Recorder, backend: RecordingBackend
) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("in the hook")

    fields: dict[str, Any] = {"opens": lambda call: ("cycle",), "step": True}
    fields["observe"] = lambda call: (Step(1),)
    if where in ("push", "pop", "mark"):
        setattr(backend, where, broken)
    else:
        fields[where] = broken
    function = hooked(recorder, returns, **fields)
    assert function("kept") == "kept"
    assert sum(recorder.failures.values()) >= 1
    assert recorder.first_failure["module:returns"] == "RuntimeError: in the hook"
    if where not in ("push", "pop"):
        read(backend.events)
    thread = recorder.thread()
    assert (thread.open, thread.steps, thread.cycle) == ([], 0, vocabulary.NO_CYCLE)


@pytest.mark.parametrize("where", ["before", "observe", "number"])
def test_failing_reader_leaves_the_range(
    where: str, recorder: Recorder, backend: RecordingBackend
) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("in the hook")

    fields: dict[str, Any] = {"observe": lambda call: (Step(1),), where: broken}
    hooked(recorder, returns, opens=("cycle",), step=True, **fields)()
    marks = " .batch" if where == "number" else ""
    assert names(backend.events) == f"(cycle{marks} )"
    assert recorder.failures["module:returns"] == 1


def test_stopped_recorder_passes_straight_through(
    recorder: Recorder, backend: RecordingBackend
) -> None:
    function = hooked(recorder, returns, opens=("draft",))
    recorder.stop()
    assert function(4) == 4
    assert backend.events == []


def test_ranges_that_were_open_when_it_stopped_are_closed(
    recorder: Recorder, backend: RecordingBackend
) -> None:
    hooked(recorder, lambda: recorder.stop(), opens=("draft",))()
    assert names(backend.events) == "(draft )"


def test_threads_do_not_mix(recorder: Recorder, backend: RecordingBackend) -> None:
    barrier = threading.Barrier(4)
    inner = hooked(recorder, lambda: barrier.wait(60), opens=("verify",))
    cycle = hooked(recorder, lambda: inner(), opens=("cycle",), step=True)
    threads = [threading.Thread(target=cycle) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recording = read(backend.events)
    assert sorted(r.payload for r in recording.of("cycle")) == [1, 2, 3, 4]
    by_thread = {r.thread: r.payload for r in recording.of("cycle")}
    assert {r.thread: r.payload for r in recording.of("verify")} == by_thread


def test_forked_child_has_nothing_open(
    recorder: Recorder, backend: RecordingBackend, tmp_path: Path
) -> None:
    os.register_at_fork(after_in_child=recorder.forked)
    child_record = tmp_path / "child.json"
    verify = hooked(recorder, returns, opens=("verify",))

    def forks() -> int:
        backend.events.clear()
        pid = os.fork()
        verify()
        return pid

    pid = hooked(recorder, forks, opens=("cycle", "draft"), step=True)()
    if pid == 0:
        child_record.write_text(json.dumps(backend.events))
        os._exit(0)
    os.waitpid(pid, 0)
    assert names(backend.events) == "(verify ) ) )"
    child = read(type(backend.events[0])(*event) for event in json.loads(child_record.read_text()))
    assert [(r.name, r.payload) for r in child.ranges] == [("verify", 1)]


def test_span_lasts_until_another_call_ends_it(
    recorder: Recorder, backend: RecordingBackend
) -> None:
    execute = hooked(
        recorder,
        returns,
        opens=("verify",),
        step=True,
        spans="cycle",
        ends="cycle",
        ends_when=lambda call: call.result is not None,
    )
    sample = hooked(recorder, returns, opens=("sample",), ends="cycle")
    execute()
    sample()
    execute("all at once")
    execute()
    execute()
    sample()
    assert names(backend.events) == (
        "[cycle (verify ) (sample ) cycle] "
        "[cycle (verify ) cycle] "
        "[cycle (verify ) cycle] [cycle (verify ) (sample ) cycle]"
    )
    recording = read(backend.events)
    assert [r.payload for r in recording.of("sample")] == [1, 4]
    assert recorder.thread().cycle == vocabulary.NO_CYCLE


def test_step_between_the_halves_of_another_keeps_its_number(
    recorder: Recorder, backend: RecordingBackend
) -> None:
    execute = hooked(recorder, returns, opens=("verify",), step=True, spans="cycle")
    schedule = hooked(recorder, returns, opens=("schedule",), step=True)
    sample = hooked(recorder, returns, opens=("sample",), ends="cycle")
    execute()
    schedule()
    sample()
    ranges = read(backend.events).ranges
    assert [(r.name, r.payload) for r in ranges] == [
        ("verify", 1),
        ("schedule", 2),
        ("sample", 1),
        ("cycle", 1),
    ]


def test_prefill_span_has_a_number_but_no_range(
    recorder: Recorder, backend: RecordingBackend
) -> None:
    execute = hooked(recorder, returns, opens=("prefill",), step=True, spans="cycle")
    sample = hooked(recorder, returns, opens=("sample",), ends="cycle")
    execute()
    sample()
    assert names(backend.events) == "(prefill ) (sample )"
    assert [r.payload for r in read(backend.events).ranges] == [1, 1]


def test_second_forward_of_a_proposal_is_a_draft_step(
    recorder: Recorder, backend: RecordingBackend
) -> None:
    forward = hooked(recorder, returns, forward=True)

    def propose(count: int) -> None:
        for _ in range(count):
            forward()

    proposal = hooked(recorder, propose, opens=("draft_extend",), proposal=True)
    proposal(3)
    proposal(1)
    forward()
    assert names(backend.events) == (
        "(draft_extend ) (draft (draft.step ) (draft.step ) ) (draft_extend )"
    )


def test_result_is_tagged_with_its_cycle(recorder: Recorder) -> None:
    class Result:
        pass

    step = hooked(
        recorder, returns, step=True, tags=True, observe=lambda call: (Step(2, k=3, flags=8),)
    )
    result = Result()
    assert step(result) is result
    assert getattr(result, TAG) == (1, 3, 8)
    assert step(None) is None


def test_result_that_takes_no_tag_is_counted_and_returned(recorder: Recorder) -> None:
    step = hooked(recorder, returns, step=True, tags=True)
    assert step((1, 2)) == (1, 2)
    assert recorder.failures["module:returns"] == 1


def test_marks_of_a_step(recorder: Recorder, backend: RecordingBackend) -> None:
    padding = hooked(recorder, returns, observe=lambda call: (Padding(8),))
    cycle = hooked(
        recorder,
        lambda: padding(),
        opens=("cycle",),
        step=True,
        observe=lambda call: (
            Step(5, drafted=15, verified=20, prompt_requests=1, prompt_tokens=7, flags=8),
        ),
    )
    cycle()
    recording = read(backend.events)
    assert [(mark.name, mark.fields, mark.inside) for mark in recording.marks] == [
        ("batch", {"cycle": 1, "requests": 5, "padded_requests": 8, "flags": 8}, ("cycle",)),
        ("tokens", {"cycle": 1, "drafted": 15, "verified": 20}, ("cycle",)),
        ("prompt", {"cycle": 1, "requests": 1, "tokens": 7}, ("cycle",)),
    ]


def test_padding_belongs_to_one_step(recorder: Recorder, backend: RecordingBackend) -> None:
    padding = hooked(recorder, returns, observe=lambda call: (Padding(8),))
    observe = {"observe": lambda call: (Step(5),)}
    hooked(recorder, lambda: padding(), step=True, **observe)()
    hooked(recorder, returns, step=True, **observe)()
    assert [m["padded_requests"] for m in read(backend.events).marked("batch")] == [8, 0]


@pytest.mark.parametrize("count", [1, vocabulary.ACCEPT_MARKS_LIMIT])
def test_one_accept_mark_a_request(
    count: int, recorder: Recorder, backend: RecordingBackend
) -> None:
    rows = tuple(Row(i + 1, 3, i % 4) for i in range(count))
    recorder.observe(recorder.thread(), (Acceptance(rows, 9),))
    assert read(backend.events).marked("accept") == [
        {"cycle": 9, "request": i + 1, "k": 3, "accepted": i % 4, "flags": 0} for i in range(count)
    ]


def test_large_batches_are_counted_by_outcome(
    recorder: Recorder, backend: RecordingBackend
) -> None:
    rows = tuple(Row(i + 1, 3, i % 2, 16 if i < 5 else 0) for i in range(65))
    recorder.observe(recorder.thread(), (Acceptance(rows, 9),))
    recording = read(backend.events)
    assert not recording.marked("accept")
    counts = {
        (m["k"], m["accepted"], m["flags"]): m["count"] for m in recording.marked("accept_count")
    }
    assert counts == {(3, 0, 16): 3, (3, 1, 16): 2, (3, 0, 0): 30, (3, 1, 0): 30}


def test_overshoot_is_marked_beside_its_row(recorder: Recorder, backend: RecordingBackend) -> None:
    recorder.observe(recorder.thread(), (Acceptance((Row(7, 3, 3, 32, 2), Row(8, 3, 1)), 4),))
    assert read(backend.events).marked("overshoot") == [{"cycle": 4, "request": 7, "tokens": 2}]


def test_ranks_come_again_and_silence_other_ranks(
    recorder: Recorder, backend: RecordingBackend
) -> None:
    recorder.observe(recorder.thread(), (Ranks(tp_rank=1, tp_size=2),))
    step = hooked(recorder, returns, step=True, observe=lambda call: (Step(1), Signature(1, 1, 0)))
    for _ in range(130):
        step()
    recording = read(backend.events)
    assert {mark.name for mark in recording.marks} == {"ranks"}
    assert len(recording.marks) == 1 + 3


def test_scheduler_beside_its_worker_does_not_hide_its_ranks(
    recorder: Recorder, backend: RecordingBackend
) -> None:
    recorder.observe(recorder.thread(), (Ranks(tp_rank=1, tp_size=2, pp_size=1), Ranks(dp_rank=3)))
    last = read(backend.events).marked("ranks")[-1]
    assert (last["tp_rank"], last["tp_size"], last["dp_rank"]) == (1, 2, 3)


def test_numbers_go_on_across_threads_and_wrap(recorder: Recorder) -> None:
    recorder._number = 2**24 - 2
    assert [recorder.next_number() for _ in range(3)] == [2**24 - 1, 1, 2]

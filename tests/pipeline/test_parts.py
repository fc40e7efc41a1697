"""A capture measured in parts says what it says measured at once, to the last bit."""

from __future__ import annotations

import multiprocessing
import os
from dataclasses import fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tests.harness import SAMPLE_TRACES
from tests.measured import FIXED
from tests.strategies import build, examples, traces
from traceanalyzer.errors import InputError
from traceanalyzer.importers import FilePart, divided_file, load
from traceanalyzer.phases.rules import Rules
from traceanalyzer.pipeline import analyze
from traceanalyzer.pipeline.agreeing import Heard, agreed_lanes, differing
from traceanalyzer.pipeline.exchange import from_bytes, to_bytes
from traceanalyzer.pipeline.files import Run, analyze_files
from traceanalyzer.pipeline.measured import join
from traceanalyzer.pipeline.measuring import Choices, measure
from traceanalyzer.pipeline.planning import MB, grouped, plan
from traceanalyzer.pipeline.whole import answered
from traceanalyzer.pipeline.workers import WorkerDied, WorkerProcesses
from traceanalyzer.progress import silent
from traceanalyzer.trace import Trace, concatenate, divisions, taken
from traceanalyzer.verdict.known import Known

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from traceanalyzer.pipeline import AnalysisOptions
    from traceanalyzer.pipeline.agreeing import Agreed
    from traceanalyzer.pipeline.measured import Measured

SEVERAL_RANKS = ("eagle3_tp2_graphs", "eagle3_tp2_nodes", "seed_case")


def in_parts(
    parts: Sequence[Trace], files: Sequence[int], options: AnalysisOptions, *, in_turn: bool = False
) -> bytes:
    """Each by itself, or in turn with what was heard of the ones before."""
    choices = options.choices()

    def again(agreed: Mapping[int, Agreed]) -> dict[int, Measured]:
        return {place: measure(parts[place], choices, own) for place, own in agreed.items()}

    heard, known, measured = Heard(), {}, []
    for place, part in enumerate(parts):
        if in_turn and (agreed := heard.of(part)) is not None:
            known[place] = agreed
        measured.append(measure(part, choices, known.get(place)))
        heard.listen(measured[-1])
    return answered(measured, files, options.answer(choices), again, known).to_json()


def divided(trace: Trace) -> list[Trace]:
    """A trace in the parts that can be measured by themselves."""
    return [taken(trace, *part) for part in divisions(trace)]


def _on_one_clock(drawn: Sequence[Trace]) -> bool:
    """Whether no file begins in 1970 while another does today: such are too far apart to order."""
    collected = (pl.col("start_ns") != 0) | (pl.col("end_ns") != 0)
    starts = pl.concat(
        [
            table["start_ns"]
            for trace in drawn
            for table in (trace.ops.filter(collected), trace.launches, trace.ranges)
        ]
    )
    return not starts.len() or int(starts.max()) - int(starts.min()) < 1 << 40  # type: ignore[arg-type]


several = st.lists(traces(), min_size=2, max_size=3).filter(_on_one_clock)


def one_file(drawn: Sequence[Trace]) -> Trace:
    """The traces as processes of one file."""
    trace = concatenate(drawn)
    processes = trace.processes.with_columns(file=pl.lit(0, pl.Int32))
    return replace(trace, files=trace.files.head(1), processes=processes)


@examples(0.2)
@given(several)
def test_files_one_by_one_are_the_run(drawn: list[Trace]) -> None:
    whole = analyze(concatenate(drawn), FIXED).to_json()
    assert in_parts(drawn, range(len(drawn)), FIXED) == whole
    assert in_parts(drawn, range(len(drawn)), FIXED, in_turn=True) == whole


@examples(0.2)
@given(several)
def test_processes_one_by_one_are_the_file(drawn: list[Trace]) -> None:
    trace = one_file(drawn)
    parts = divided(trace)
    assert in_parts(parts, [0] * len(parts), FIXED) == analyze(trace, FIXED).to_json()


@examples(0.1)
@given(traces(), st.data())
def test_taken_processes_hold_every_row_once(trace: Trace, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, trace.processes.height))
    parts = [taken(trace, 0, cut), taken(trace, cut, trace.processes.height)]
    joined = concatenate(parts, [0, 0])
    assert joined.processes.equals(trace.processes)
    for name in ("ops", "launches", "syncs"):
        rows, expected = getattr(joined, name), getattr(trace, name)
        of_second = pl.col("process") >= cut  # a part keeps its processes' rows in the file's order
        assert rows.equals(expected.sort(of_second, maintain_order=True))
    assert joined.ranges.height == trace.ranges.height


@pytest.mark.parametrize("name", SEVERAL_RANKS)
def test_ranks_one_by_one_are_the_sample(name: str) -> None:
    path = SAMPLE_TRACES / f"{name}.sqlite"
    whole = analyze(load(path)).to_json()
    files = divided_file(path, None)
    assert len(files) == len(divided(load(path))) > 1
    assert analyze_files(files, Run(), Known()).to_json() == whole


def test_a_trace_at_hand_is_divided_like_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = load(SAMPLE_TRACES / "seed_case.sqlite")
    whole = analyze(trace).to_json()
    monkeypatch.setattr("traceanalyzer.pipeline._DIVIDES_FROM", 1)
    assert analyze(trace).to_json() == whole


@pytest.mark.parametrize("name", SEVERAL_RANKS)
def test_ranks_one_by_one_are_measured_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first one's marks tell of the others is known before these are measured."""
    files = divided_file(SAMPLE_TRACES / f"{name}.sqlite", None)
    times: list[Trace] = []

    def counted(trace: Trace, choices: Choices, agreed: Agreed | None = None) -> Measured:
        times.append(trace)
        return measure(trace, choices, agreed)

    monkeypatch.setattr("traceanalyzer.pipeline.files.measure", counted)
    analyze_files(files, Run(), Known())
    assert len(times) == len(files)


def test_one_rank_tells_which_cycles_of_the_others_were_warm_up() -> None:
    """Else the parts that are measured again would never be."""
    parts = divided(load(SAMPLE_TRACES / "eagle3_tp2_nodes.sqlite"))
    measured = [measure(part, Choices(Rules.shipped())) for part in parts]
    agreed, lanes = agreed_lanes(measured)
    assert agreed is None
    assert list(differing(measured, [0, 0], lanes, {})) == [1]


def test_joining_is_associative_and_survives_the_wire() -> None:
    parts = divided(load(SAMPLE_TRACES / "seed_case.sqlite"))[:3]
    first, second, third = (measure(part, Choices(Rules.shipped())) for part in parts)
    at_once = join([first, second, third], [0, 0, 0])
    sent = from_bytes(to_bytes(join([first, second], [0, 0])))
    by_steps = join([sent, third], [0, 0])
    assert by_steps.labels == at_once.labels
    for each in fields(at_once.tables):
        assert_frame_equal(getattr(by_steps.tables, each.name), getattr(at_once.tables, each.name))
    assert by_steps.trace.names.equals(at_once.trace.names)


def test_another_format_is_not_read() -> None:
    with pytest.raises(ValueError, match="format 0"):
        from_bytes(b'{"format": 0}\n')


def test_a_file_that_cannot_be_read_is_a_missing_rank(tmp_path: Path) -> None:
    good, bad = SAMPLE_TRACES / "eagle3_torch.json.gz", tmp_path / "rank1.sqlite"
    bad.write_bytes((SAMPLE_TRACES / "seed_case.sqlite").read_bytes()[:9000])
    report = analyze_files([FilePart(good), FilePart(bad)], Run(), Known())
    assert [file.path for file in report.capture.files] == [str(good)]
    (check,) = (check for check in report.trust if check.check == "missing rank")
    assert check.status == "failed"
    assert check.text.startswith("rank1.sqlite: ")
    with pytest.raises(InputError, match="its end is missing"):
        analyze_files([FilePart(bad)], Run(), Known())


def _die() -> None:
    os._exit(9)


def test_the_death_of_a_worker_loses_its_task_alone() -> None:
    with WorkerProcesses(1) as workers:
        dead, alive = workers.submit(_die), workers.submit(len, "four")
        with pytest.raises(WorkerDied):
            dead.result()
        assert alive.result() == len("four")


def _interrupted() -> None:
    with WorkerProcesses(1) as workers:
        assert workers.submit(len, "four").result() == len("four")
        raise KeyboardInterrupt


def test_no_worker_outlives_an_interruption() -> None:
    with pytest.raises(KeyboardInterrupt):
        _interrupted()
    assert not multiprocessing.active_children()


@given(st.lists(st.integers(1, 20), min_size=1, max_size=9), st.integers(0, 40))
def test_groups_stay_within_what_fits(kernels: list[int], most: int) -> None:
    path = SAMPLE_TRACES / "seed_case.sqlite"
    parts = [FilePart(path, kernels=size) for size in kernels]
    groups = grouped(parts, most)
    assert sum(group.kernels for group in groups) == sum(kernels)
    assert all(group.kernels <= max(most, max(kernels)) for group in groups)
    neighbours = [a.kernels + b.kernels for a, b in pairwise(groups)]
    assert all(together > most for together in neighbours)


def test_what_all_ranks_need_is_told_where_it_is_more_than_given() -> None:
    ranks = SAMPLE_TRACES / "eagle3_tp2_nodes.sqlite"
    told = plan([ranks], jobs=None, memory=150 * MB, nsys=None, progress=silent).notes
    assert "all ranks together" in told[-1].text
    assert not plan([ranks], jobs=None, memory=500 * MB, nsys=None, progress=silent).notes


def test_a_range_across_processes_keeps_them_together() -> None:
    work = {"start_ns": 1, "end_ns": 2}
    crossing = {**work, "name": "verify", "thread": 0, "end_thread": 1}
    ops = [{**work, "process": 0}, {**work, "process": 1}]
    assert len(divided(build(ops=ops, threads=(0, 1)))) == 2
    assert len(divided(build(ops=ops, ranges=[crossing], threads=(0, 1)))) == 1

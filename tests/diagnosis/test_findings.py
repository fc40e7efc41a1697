"""Findings on traces made by hand: borders, other evidence, and what is no trouble."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.measured import RuledOptions
from tests.strategies import RULES, build, examples, frame, traces
from traceanalyzer.diagnosis import gpu_work, host_ranges, recording, timing
from traceanalyzer.diagnosis.captures import stream_captures, working_launches
from traceanalyzer.diagnosis.case import Case
from traceanalyzer.diagnosis.facts import facts_of
from traceanalyzer.diagnosis.registry import diagnose, gravest_first, trust_checks
from traceanalyzer.phases.phased import settle_phases
from traceanalyzer.phases.spans import classify_ranges
from traceanalyzer.pipeline import analyze
from traceanalyzer.report import Finding, Instrumentation, SyncCalls
from traceanalyzer.trace import Trace, concatenate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

GRAPH = "cudaGraphLaunch_v10000"
BEGIN, END = "cudaStreamBeginCapture_v10000", "cudaStreamEndCapture_v10000"


def case_of(trace: Trace) -> Case:
    report = analyze(trace, RuledOptions(RULES))
    phased = settle_phases(trace, RULES) if trace.ops.height else None
    return Case.of(trace, report, facts_of(trace, classify_ranges(trace, RULES), phased))


def server(
    cycles: int = 6,
    *,
    threads: Sequence[int] = (0,),
    silent: Sequence[int] = (),
    uncalled: Sequence[int] = (),
    lag_ns: int = 20,
    lost: int = 0,
) -> dict[str, Any]:
    """Rows of cycles of draft and verify on each thread, 1000 ns each, one op a range.

    Args:
        cycles: How many.
        threads: The process of each thread.
        silent: Threads whose ops are missing.
        uncalled: Threads whose calls are missing.
        lag_ns: From a call to its op.
        lost: So many launches at the end have no op.
    """
    rows: dict[str, list[Mapping[str, Any]]] = {"ops": [], "launches": [], "ranges": []}
    for thread, process in enumerate(threads):
        for cycle in range(cycles):
            for place, name in enumerate(("draft", "verify")):
                start = 10_000 + 1_000 * cycle + 400 * place
                id_ = 1 + 2 * cycle + place
                rows["ranges"].append(
                    {"start_ns": start, "end_ns": start + 300, "name": name, "thread": thread}
                )
                if thread not in uncalled:
                    rows["launches"].append(
                        {"start_ns": start + 10, "end_ns": start + 20, "thread": thread,
                         "name": GRAPH, "correlation_id": id_}
                    )  # fmt: skip
                if thread not in silent and id_ <= 2 * cycles - lost:
                    rows["ops"].append(
                        {"start_ns": start + lag_ns, "end_ns": start + lag_ns + 200,
                         "process": process, "correlation_id": id_}
                    )  # fmt: skip
    return {**rows, "threads": threads}


def told(trace: Trace, text: str, source: str = "recorder", severity: str = "warning") -> Trace:
    row = {"file": 0, "source": source, "severity": severity, "text": text, "count": 1}
    return replace(trace, diagnostics=frame("diagnostics", [row]))


SOUND = analyze(build(**server()), RuledOptions(RULES))


def test_a_sound_server_has_no_finding_but_its_missing_marks() -> None:
    found = diagnose(case_of(build(**server())))
    assert [finding.finding for finding in found] == ["accept_marks_missing"]


@examples(0.1)
@given(traces())
def test_any_trace_is_examined(trace: Trace) -> None:
    for finding in diagnose(case_of(trace)):
        assert finding.text
        assert finding.next_step
        assert finding.evidence
        assert finding.consequence


def test_findings_are_ordered_by_severity_and_otherwise_kept() -> None:
    given_ = [Finding(name, "", severity=name[0]) for name in ("i1", "e1", "w1", "i2", "e2")]
    words = {"i": "info", "e": "error", "w": "warning"}
    given_ = [replace(each, severity=words[each.severity]) for each in given_]
    assert [each.finding for each in gravest_first(given_)] == ["e1", "e2", "w1", "i1", "i2"]


def test_notes_are_no_rows_of_the_trust_table() -> None:
    grave = Finding("clocks_not_aligned", "a", severity="warning", consequence="b")
    (row,) = trust_checks([grave, replace(grave, severity="info")])
    assert (row.check, row.status, row.text) == ("clocks not aligned", "warning", "a: b")


# The GPU's side.


@pytest.mark.parametrize(("calls", "hint"), [(True, "other tool"), (False, "-t cuda,nvtx")])
def test_no_kernels_says_what_to_look_for(calls: bool, hint: str) -> None:
    rows = server(silent=(0,), uncalled=() if calls else (0,))
    found = gpu_work.no_kernels(case_of(build(**rows)))
    assert found is not None
    assert hint in (found.next_step or "")


def test_silent_and_forked_workers_are_told_apart() -> None:
    case = case_of(build(**server(threads=(0, 1, 2), silent=(1, 2), uncalled=(2,))))
    silent, forked = gpu_work.kernels_on_some_ranks(case), gpu_work.forked_workers(case)
    assert silent is not None
    assert forked is not None
    assert "pid 1001" in silent.evidence
    assert "pid 1002" not in silent.evidence
    assert "pid 1002" in forked.evidence
    assert "pid 1001" not in forked.evidence


def test_without_kernels_anywhere_no_rank_is_singled_out() -> None:
    case = case_of(build(**server(threads=(0, 1), silent=(0, 1), uncalled=(1,))))
    assert gpu_work.kernels_on_some_ranks(case) is None
    assert gpu_work.forked_workers(case) is None


@pytest.mark.parametrize(
    ("lost", "severity"), [(0, None), (1, "info"), (4, "info"), (8, "warning")]
)
def test_a_tail_of_launches_is_a_note_until_it_is_long(lost: int, severity: str | None) -> None:
    found = gpu_work.launches_without_kernels(case_of(build(**server(12, lost=lost))))
    assert (found and found.severity) == severity
    assert found is None or f"{lost} of 24 launches" in found.evidence


@pytest.mark.parametrize(
    ("lost", "stragglers", "told"),
    [
        (8, (24,), 7),  # the very last launch ran, on a stream that was not behind
        (8, (20,), 7),
        (8, (18, 22), 5),
        (8, (18, 20, 22), 2),
        (4, (22, 23, 24), None),  # the recording went on
        (20, (22, 23, 24), 17),
        (24, (), None),  # a process without kernels is told of elsewhere
    ],
)
def test_stragglers_do_not_hide_a_tail(
    lost: int, stragglers: Sequence[int], told: int | None
) -> None:
    rows = server(12, lost=lost)
    rows["ops"] += [
        {"start_ns": 30_000 + id_, "end_ns": 30_000 + id_ + 1, "correlation_id": id_}
        for id_ in stragglers
    ]
    found = gpu_work.launches_without_kernels(case_of(build(**rows)))
    assert (found is None) == (told is None)
    assert found is None or f"{told} of 24 launches" in found.evidence


@examples()
@given(st.lists(st.tuples(st.integers(0, 1), st.booleans()), max_size=24), st.randoms())
def test_tails_by_brute_force(calls: list[tuple[int, bool]], order: Random) -> None:
    launches = [
        {"start_ns": 10 * place, "end_ns": 10 * place + 5, "thread": process,
         "name": "cudaLaunchKernel", "correlation_id": place + 1}
        for place, (process, _) in enumerate(calls)
    ]  # fmt: skip
    ops = [
        {"start_ns": 1000, "end_ns": 1001, "process": process, "correlation_id": place + 1}
        for place, (process, lost) in enumerate(calls)
        if not lost
    ]
    order.shuffle(launches)
    counts = case_of(build(ops=ops, launches=launches, threads=(0, 1))).facts.processes
    for process in (0, 1):
        own = [lost for at, lost in calls if at == process]
        ends = [own[-length:] for length in range(1, len(own) + 1)] if not all(own) else []
        weights = [sum(1 if lost else -3 for lost in end) for end in ends]
        heaviest = max([0, *weights])
        tail = max(
            (e for e, w in zip(ends, weights, strict=True) if w == heaviest > 0),
            default=[],
            key=len,
        )
        assert counts["tail_launches"][process] == sum(tail)


def test_launches_while_a_graph_is_captured_are_not_expected_to_run() -> None:
    rows = server()
    rows["launches"] += [
        {"start_ns": 30_000, "end_ns": 30_010, "name": BEGIN},
        {"start_ns": 30_020, "end_ns": 30_030, "name": "cudaLaunchKernel"},
        {"start_ns": 30_040, "end_ns": 30_050, "name": END},
    ]
    assert gpu_work.launches_without_kernels(case_of(build(**rows))) is None
    rows["launches"].append({"start_ns": 30_060, "end_ns": 30_070, "name": "cudaLaunchKernel"})
    assert gpu_work.launches_without_kernels(case_of(build(**rows))) is not None


@examples()
@given(
    st.lists(
        st.tuples(
            st.integers(0, 1), st.sampled_from((BEGIN, END, "cudaLaunchKernel", "cudaMalloc"))
        ),
        max_size=16,
    )
)
def test_working_launches_by_brute_force(calls: list[tuple[int, str]]) -> None:
    capturing: set[int] = set()
    expected = []
    for place, (thread, name) in enumerate(calls):
        if name == BEGIN:
            capturing.add(thread)
        elif name == END:
            capturing.discard(thread)
        elif "Launch" in name and thread not in capturing:
            expected.append(place)
    launches = [
        {"start_ns": 10 * place, "end_ns": 10 * place + 5, "thread": thread, "name": name}
        for place, (thread, name) in enumerate(calls)
    ]
    trace = build(launches=launches, threads=(0, 0))
    assert working_launches(trace, stream_captures(trace)).tolist() == expected


def test_few_ops_without_launch_are_a_note() -> None:
    rows = server()
    orphan = {"start_ns": 9_000, "end_ns": 9_010, "correlation_id": 999}
    few = gpu_work.kernels_without_launches(
        case_of(build(**{**rows, "ops": [*rows["ops"], orphan]}))
    )
    assert few is not None
    assert few.severity == "info"
    many = gpu_work.kernels_without_launches(case_of(build(**{**rows, "launches": []})))
    assert many is not None
    assert many.severity == "warning"


# Ranges and marks.


def test_ranges_without_a_meaning_are_listed() -> None:
    rows = server()
    rows["ranges"] = [{**row, "name": "known"} for row in rows["ranges"]]
    found = host_ranges.no_phase_ranges(case_of(build(**rows)))
    assert found is not None
    assert found.evidence.endswith("known")


@pytest.mark.parametrize(
    ("version", "found"),
    [("2022.4.2.1", True), ("2023.4.4.54", True), ("2024.1.1", False), (None, False), ("x", False)],
)
def test_only_an_old_nsys_loses_new_domains(version: str | None, found: bool) -> None:
    rows = {**server(), "ranges": []}
    trace = told(build(**rows), f"{host_ranges.EMPTY_DOMAINS}eagle", "importer", "info")
    files = trace.files.with_columns(product_version=pl.lit(version, pl.String))
    case = case_of(replace(trace, files=files))
    assert (host_ranges.nvtx_too_new(case) is not None) is found
    assert (host_ranges.no_phase_ranges(case) is None) is found


def captured_server(*, replayed_in_range: bool) -> Trace:
    """Verify is captured; its replays run in a verify range, or outside of all."""
    rows = server()
    kept = ("draft", "verify") if replayed_in_range else ("draft",)
    rows["ranges"] = [row for row in rows["ranges"] if row["name"] in kept]
    rows["ranges"].append({"start_ns": 100, "end_ns": 200, "name": "verify"})
    rows["launches"] += [
        {"start_ns": 110, "end_ns": 120, "name": BEGIN},
        {"start_ns": 130, "end_ns": 140, "name": "cudaLaunchKernel"},
        {"start_ns": 180, "end_ns": 190, "name": END},
    ]
    return build(**rows)


def test_ranges_inside_a_capture_are_no_phase_of_the_replays() -> None:
    assert (
        host_ranges.captured_not_replayed(case_of(captured_server(replayed_in_range=True))) is None
    )
    found = host_ranges.captured_not_replayed(case_of(captured_server(replayed_in_range=False)))
    assert found is not None
    assert found.severity == "warning"
    assert "ranges of verify" in found.text


def test_a_range_of_its_own_name_inside_is_no_range_left_open() -> None:
    rows = server()
    nested = [
        {**row, "start_ns": row["start_ns"] + 5, "end_ns": row["end_ns"] - 5}
        for row in rows["ranges"]
    ]
    rows["ranges"] += nested
    assert host_ranges.ranges_left_open(case_of(build(**rows))) is None


@pytest.mark.parametrize("closed", [True, False])
def test_a_range_that_swallows_later_ones_was_left_open(closed: bool) -> None:
    rows = server()
    rows["ranges"][0] = {**rows["ranges"][0], "end_ns": 99_000, "closed": closed}
    found = host_ranges.ranges_left_open(case_of(build(**rows)))
    assert found is not None
    assert found.evidence.startswith("draft")


def test_the_last_ranges_of_a_cut_recording_were_not_left_open() -> None:
    rows = server()
    rows["ranges"] = [
        {**row, "end_ns": 99_000, "closed": False} if place == len(rows["ranges"]) - 1 else row
        for place, row in enumerate(rows["ranges"])
    ]
    assert host_ranges.ranges_left_open(case_of(build(**rows))) is None


# The recorder.


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("Not all CUDA events might have been collected.", "error"),
        ("Couldn't allocate CUPTI bufer 3 times.", "error"),
        ("Reached the size limit on recording trace events.", "error"),
        ("Not all NVTX events might have been collected.", "warning"),
        ("CUDA profiling might have not been started correctly.", None),
        ("Profiling has stopped.", None),
    ],
)
def test_words_of_the_recorder(text: str, severity: str | None) -> None:
    found = recording.buffers_lost(case_of(told(build(**server()), text)))
    assert (found and found.severity) == severity
    assert recording.buffers_lost(case_of(told(build(**server()), text, "importer"))) is None


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("the export is cut to times 1000/2000", True),
        ("the export was limited to KERNEL, without NVTX_EVENTS", True),
        ("the text breaks off or is damaged: events up to there were read", True),
        ("events without a duration were taken as 0 ns long", False),
    ],
)
def test_words_of_the_importer(text: str, cut: bool) -> None:
    found = recording.truncated(case_of(told(build(**server()), text, "importer")))
    assert (found is not None) is cut


def with_overheads(spans: Sequence[tuple[int, int]], name: str, process: int = 0) -> Trace:
    trace = build(**server(10, threads=(0, 1)))
    names = trace.names.extend(frame("names", [{"name": trace.names.height, "text": name}]))
    rows = [
        {"start_ns": start, "end_ns": end, "process": process, "name": names.height - 1}
        for start, end in spans
    ]
    return replace(trace, names=names, overheads=frame("overheads", rows))


# Phase ranges of ten cycles lie between 10,000 and 19,700 ns.
@pytest.mark.parametrize(
    ("spans", "name", "found"),
    [
        ([(10_000, 10_485)], "Buffer Flush", False),
        ([(10_000, 10_486)], "Buffer Flush", True),
        ([(10_000, 10_400), (10_000, 10_400)], "Buffer Flush", False),
        ([(10_000, 10_400), (12_000, 12_400)], "Buffer Flush", True),
        ([(0, 10_400)], "CUDA profiling initialization", False),
        ([(0, 10_500)], "CUDA profiling initialization", True),
        ([(19_000, 90_000)], "CUPTI Buffer flush", True),
        ([(10_000, 19_000)], "Command Buffer Full", False),
        ([(10_000, 19_000)], "Lazy Function Loading", False),
        ([(10_000, 19_000)], "dlopen(libcuda.so.1)", False),
    ],
)
def test_overhead_counts_once_and_while_phases_run(
    spans: Sequence[tuple[int, int]], name: str, found: bool
) -> None:
    finding = recording.profiler_overhead(case_of(with_overheads(spans, name, process=1)))
    assert (finding is not None) is found
    assert finding is None or "process 1001" in finding.evidence


@pytest.mark.parametrize(("lag_ns", "found"), [(20, False), (-900, False), (-2_000, True)])
def test_kernels_before_their_launch(lag_ns: int, found: bool) -> None:
    finding = recording.clocks_not_aligned(case_of(build(**server(lag_ns=lag_ns))))
    assert (finding is not None) is found


def files(starts: Sequence[int | None]) -> Trace:
    parts = []
    for start in starts:
        trace = build(**server())
        utc = trace.files.with_columns(start_utc_ns=pl.lit(start, pl.Int64))
        parts.append(replace(trace, files=utc))
    return concatenate(parts)


@pytest.mark.parametrize(
    ("starts", "evidence"),
    [
        ((0,), None),
        ((None,), None),
        ((0, 0), None),
        ((0, 5_000), None),
        ((0, None), "1 of 2 files"),
        ((0, 60 * 10**9), "60.000 s before"),
    ],
)
def test_files_of_one_run_share_time(starts: Sequence[int | None], evidence: str | None) -> None:
    finding = recording.clocks_not_aligned(case_of(files(starts)))
    assert (finding is None) is (evidence is None)
    assert finding is None or (finding.severity, evidence in finding.evidence) == ("info", True)


def test_names_of_secrets_are_listed_and_other_names_are_not() -> None:
    found = recording.secrets_stored(["HF_TOKEN", "HOME", "MY_PASSWORD", "PATH"])
    assert found is not None
    assert found.evidence == "HF_TOKEN, MY_PASSWORD"
    assert recording.secrets_stored(["HOME", "PATH"]) is None


# Time.


@pytest.mark.parametrize(
    ("device_syncs", "gap_share", "severity"),
    [(0.0, 0.0, None), (0.5, 0.05, None), (0.51, 0.0, "error"), (0.0, 0.051, "warning")],
)
def test_waits_inside_of_cycles(
    device_syncs: float, gap_share: float, severity: str | None
) -> None:
    calls = [SyncCalls("sample", "stream", 3, 500), SyncCalls("draft", "device", 9, 100)]
    case = case_of(build(**server()))
    found = Instrumentation(12, calls, device_syncs, gap_share, gap_share)
    finding = timing.synchronisation_in_phases(
        replace(case, report=replace(case.report, instrumentation=found))
    )
    assert (finding and finding.severity) == severity
    if severity == "error":
        assert finding is not None
        assert finding.text.endswith("in draft")
    if severity == "warning":
        assert finding is not None
        assert "in sample" in (finding.next_step or "")


@pytest.mark.parametrize(("lag_ns", "found"), [(900, False), (1_100, True)])
def test_lag_is_measured_in_cycles(lag_ns: int, found: bool) -> None:
    finding = timing.lag_over_a_cycle(case_of(build(**server(lag_ns=lag_ns))))
    assert (finding is not None) is found

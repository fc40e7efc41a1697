"""Whether the ranges and marks of a capture say what they should about phases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.diagnosis.case import ERROR, WARNING, listed, many
from traceanalyzer.importers.nsys_tables import EMPTY_DOMAINS
from traceanalyzer.intervals import Containers, Intervals
from traceanalyzer.phases.rules import parse_phase
from traceanalyzer.report import Finding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.diagnosis.case import Case

_TAKES_NEW_NVTX_FROM: Final = 2024
_HOOKS: Final = "NVTX_HOOKS=1 (traceanalyzer capture -- COMMAND sets it)"
_INFERRED: Final = "phases are inferred from what GPU work repeats, not measured"
_NESTED_IN_ITSELF: Final = 2
_TOO_LONG: Final = 3


def nvtx_too_new(case: Case) -> Finding | None:
    """Domains without one event: what an nvtx package too new for its nsys leaves.

    nvtx from 0.2.12 on asks through NVTX's payload extension whether a domain is on; nsys 2022.4
    and 2023.4 refuse that extension, and every domain becomes a dummy.
    """
    notes = case.trace.diagnostics.filter(pl.col("text").str.starts_with(EMPTY_DOMAINS))
    old = {
        row["file"]: row["product_version"]
        for row in case.trace.files.iter_rows(named=True)
        if _year(row["product_version"]) < _TAKES_NEW_NVTX_FROM
    }
    rows = [row for row in notes.iter_rows(named=True) if row["file"] in old]
    if not rows:
        return None
    domains = rows[0]["text"].removeprefix(EMPTY_DOMAINS)
    return Finding(
        "nvtx_too_new",
        "the Python package nvtx is too new for this nsys: all ranges were lost",
        "pip install nvtx==0.2.11, or record with nsys 2024 or newer.",
        ERROR,
        f"nsys {old[rows[0]['file']]}; domains without a range or mark: {domains}",
        "nothing has a phase, or an inferred one at best",
    )


def _year(version: str | None) -> int:
    """Nsight Systems numbers its releases by year; unknown ones count as new."""
    head = (version or "").partition(".")[0]
    return int(head) if head.isdecimal() else _TAKES_NEW_NVTX_FROM


def no_phase_ranges(case: Case) -> Finding | None:
    """GPU work, but nothing that tells its phase."""
    if not case.kernels or case.phase_ranges().size or nvtx_too_new(case):
        return None
    ranges = case.trace.ranges
    if ranges.height:
        names = ranges.select(case.trace.text("name")).to_series().value_counts(sort=True)
        return Finding(
            "no_phase_ranges",
            f"none of the {ranges.height:,} ranges means a phase",
            "Give their names phases in a TOML file: traceanalyzer ranges TRACE lists them, "
            f"--phases FILE reads it; or record with the hooks: {_HOOKS}.",
            WARNING if _inferred(case) else ERROR,
            "most frequent: " + listed(names[names.columns[0]].to_list(), 4),
            _INFERRED if _inferred(case) else "nothing has a phase, or an inferred one at best",
        )
    return Finding(
        "no_phase_ranges",
        "the capture holds no ranges",
        f"Record with ranges: {_HOOKS} under nsys profile -t cuda,nvtx; under torch.profiler use "
        "record_function, for NVTX ranges do not appear there.",
        WARNING if _inferred(case) else ERROR,
        f"{many(case.trace.ops.height, 'op')}, no range",
        _INFERRED if _inferred(case) else "nothing has a phase, or an inferred one at best",
    )


def _inferred(case: Case) -> bool:
    return case.report.inference is not None and case.report.inference.inferred


def captured_not_replayed(case: Case) -> Finding | None:
    """Phases whose ranges were open only while graphs were captured."""
    if case.phased is None:
        return None
    spans = case.spans
    ops = np.bincount(
        case.phased.label[case.phased.label < len(spans.phases)], minlength=len(spans.phases)
    )
    captured = np.unique(spans.phase[_in_capture(case)])
    lost = [code for code in captured.tolist() if ops[code] == 0]
    if not lost:
        return None
    names = listed([spans.phases[code] for code in lost])
    count = int(np.count_nonzero(np.isin(spans.phase, lost)))
    return Finding(
        "captured_not_replayed",
        f"ranges of {names} were open while CUDA graphs were captured, and hold no kernels",
        "Open the range around the replay (graph.replay(), cudaGraphLaunch), not inside of what "
        f"is captured; the hooks do: {_HOOKS}. What runs inside a replay shows with "
        "nsys profile --cuda-graph-trace=node, and --cuda-graph-trace=node:nvtx-precapture where "
        "capture came before collection.",
        ERROR if not ops.any() else WARNING,
        f"{many(count, 'range')}, "
        f"{many(case.capture_calls('Begin').height, 'stream capture')}, no op launched in them",
        f"{names} has no time of its own: the replays count where they were launched",
    )


def _in_capture(case: Case) -> NDArray[np.int64]:
    """Rows of phase ranges that contain the begin of a stream capture or lie inside one."""
    spans = case.spans
    rows = spans.rows(spans.phase >= 0)
    begins, ends = case.capture_calls("Begin"), case.capture_calls("End")
    if not rows.size or not begins.height:
        return np.zeros(0, np.int64)
    ranges = spans.intervals.take(rows)
    points = _times(begins, begins["time_ns"])
    _, around = Containers(ranges).all_of(points)
    paired = begins.join_asof(
        ends.with_columns(end_ns="time_ns"),
        on="time_ns",
        by="thread",
        strategy="forward",
        check_sortedness=False,
    ).drop_nulls("end_ns")
    inside = np.zeros(0, np.int64)
    if paired.height:
        captures = Containers(_times(paired, paired["end_ns"]))
        inside = np.flatnonzero(captures.innermost(ranges) >= 0)
    return rows[np.union1d(around, inside).astype(np.int64)]


def _times(calls: pl.DataFrame, end_ns: pl.Series) -> Intervals:
    return Intervals(
        calls["thread"].to_numpy().astype(np.int64),
        calls["time_ns"].to_numpy(),
        end_ns.to_numpy(),
    )


def ranges_left_open(case: Case) -> Finding | None:
    """Ranges that lasted to their thread's end although the same ones began again in them.

    nsys closes what was never popped when the process or the collection ends.
    """
    rows = _left_open(case)
    if not rows.size:
        return None
    names = case.trace.ranges[rows].select(case.trace.text("name")).to_series().unique().sort()
    return Finding(
        "ranges_left_open",
        f"{many(rows.size, 'range was', 'ranges were')} never closed",
        "Close ranges however a step ends: `with nvtx.annotate(...)` or `with "
        "nvtx_hooks.phase(...)` instead of push and pop.",
        ERROR,
        f"{listed(names.to_list())}: until its thread's end, with later ones of that name inside",
        "all that its thread did later lies inside of it: cycles are lost, and work outside of "
        "other phases counts as its phase",
    )


def _left_open(case: Case) -> NDArray[np.int64]:
    spans = case.spans
    rows = spans.rows((spans.phase >= 0) | spans.is_cycle)
    if not rows.size:
        return rows
    ranges = case.trace.ranges
    last = ranges.select(pl.col("end_ns").max().over("thread")).to_series()
    chosen = pl.DataFrame(
        {
            "row": rows,
            "thread": ranges["thread"].gather(rows),
            "domain": ranges["domain"].gather(rows),
            "name": ranges["name"].gather(rows),
            "start_ns": spans.intervals.start_ns[rows],
            "ns": spans.intervals.duration_ns[rows],
            "at_end": spans.intervals.end_ns[rows] >= last.gather(rows).to_numpy(),
            "closed": ranges["closed"].gather(rows),
        }
    ).sort("start_ns", maintain_order=True)
    same = ("thread", "domain", "name")
    found = chosen.with_columns(
        later=pl.len().over(same) - 1 - pl.int_range(pl.len()).over(same),
        typical_ns=pl.col("ns").median().over(same),
    ).filter(
        (pl.col("at_end") | ~pl.col("closed"))
        & (pl.col("later") >= _NESTED_IN_ITSELF)
        & (pl.col("ns") > _TOO_LONG * pl.col("typical_ns"))
    )
    return np.sort(found["row"].to_numpy())


def accept_marks_missing(case: Case) -> Finding | None:
    """Speculation without a word on what was accepted."""
    phases = {part for phase in case.spans.phases for part in parse_phase(phase)}
    if case.report.acceptance is not None or not {"draft", "verify"} <= phases:
        return None
    marks = case.trace.marks.height
    return Finding(
        "accept_marks_missing",
        "no accept marks: the capture does not tell how many drafts were accepted",
        f"Record with the hooks: {_HOOKS}; or give what the server counted: traceanalyzer report "
        "--acceptance server.log, or --accept-len NUMBER.",
        WARNING,
        f"draft and verify ranges, {many(marks, 'mark')}, none of them an accept mark",
        "no accept length, no tokens per second, no verdict from this capture alone",
    )

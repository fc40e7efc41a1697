"""Whether the ranges and marks of a capture say what they should about phases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceanalyzer.diagnosis.case import ERROR, WARNING, listed, many
from traceanalyzer.importers.nsys_tables import EMPTY_DOMAINS
from traceanalyzer.phases.phased import OTHER, UNATTRIBUTED
from traceanalyzer.phases.rules import parse_phase
from traceanalyzer.report import Finding

if TYPE_CHECKING:
    from traceanalyzer.diagnosis.case import Case

_TAKES_NEW_NVTX_FROM: Final = 2024
_HOOKS: Final = "NVTX_HOOKS=1 (traceanalyzer capture -- COMMAND sets it)"
_INFERRED: Final = "phases are inferred from what GPU work repeats, not measured"


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
    if not case.count("kernels") or case.count("phase_ranges") or nvtx_too_new(case):
        return None
    ranges = case.count("ranges")
    if ranges:
        return Finding(
            "no_phase_ranges",
            f"none of the {ranges:,} ranges means a phase",
            "Give their names phases in a TOML file: traceanalyzer ranges TRACE lists them, "
            f"--phases FILE reads it; or record with the hooks: {_HOOKS}.",
            WARNING if _inferred(case) else ERROR,
            "most frequent: " + listed(_frequent_names(case), 4),
            _INFERRED if _inferred(case) else "nothing has a phase, or an inferred one at best",
        )
    return Finding(
        "no_phase_ranges",
        "the capture holds no ranges",
        f"Record with ranges: {_HOOKS} under nsys profile -t cuda,nvtx; under torch.profiler use "
        "record_function, for NVTX ranges do not appear there.",
        WARNING if _inferred(case) else ERROR,
        f"{many(case.count('ops'), 'op')}, no range",
        _INFERRED if _inferred(case) else "nothing has a phase, or an inferred one at best",
    )


def _frequent_names(case: Case) -> list[str]:
    """Names of ranges, the most frequent first, equals by their text."""
    names = case.facts.names.with_columns(text=case.trace.text("name"))
    return names.sort(-pl.col("ranges"), "text")["text"].to_list()


def _inferred(case: Case) -> bool:
    return case.report.inference is not None and case.report.inference.inferred


def captured_not_replayed(case: Case) -> Finding | None:
    """Phases whose ranges were open only while graphs were captured."""
    if not case.count("ops"):
        return None
    phases = case.phases()
    holding = {phase.phase for rank in case.report.ranks for phase in rank.phases if phase.ops}
    captured = case.facts.phases["captured"].to_list()
    lost = [place for place, phase in enumerate(phases) if captured[place] and phase not in holding]
    if not lost:
        return None
    names = listed([phases[place] for place in lost])
    count = int(case.facts.phases["ranges"].gather(lost).sum())
    return Finding(
        "captured_not_replayed",
        f"ranges of {names} were open while CUDA graphs were captured, and hold no kernels",
        "Open the range around the replay (graph.replay(), cudaGraphLaunch), not inside of what "
        f"is captured; the hooks do: {_HOOKS}. What runs inside a replay shows with "
        "nsys profile --cuda-graph-trace=node, and --cuda-graph-trace=node:nvtx-precapture where "
        "capture came before collection.",
        WARNING if holding - {OTHER, UNATTRIBUTED} else ERROR,
        f"{many(count, 'range')}, "
        f"{many(case.count('captures'), 'stream capture')}, no op launched in them",
        f"{names} has no time of its own: the replays count where they were launched",
    )


def ranges_left_open(case: Case) -> Finding | None:
    """Ranges that lasted to their thread's end although the same ones began again in them.

    nsys closes what was never popped when the process or the collection ends.
    """
    left_open = case.facts.names.filter(pl.col("left_open") > 0)
    if not left_open.height:
        return None
    count = int(left_open["left_open"].sum())
    names = left_open.select(case.trace.text("name")).to_series().unique().sort()
    return Finding(
        "ranges_left_open",
        f"{many(count, 'range was', 'ranges were')} never closed",
        "Close ranges however a step ends: `with nvtx.annotate(...)` or `with "
        "nvtx_hooks.phase(...)` instead of push and pop.",
        ERROR,
        f"{listed(names.to_list())}: until its thread's end, with later ones of that name inside",
        "all that its thread did later lies inside of it: cycles are lost, and work outside of "
        "other phases counts as its phase",
    )


def accept_marks_missing(case: Case) -> Finding | None:
    """Speculation without a word on what was accepted."""
    phases = {part for phase in case.phases() for part in parse_phase(phase)}
    if case.report.acceptance is not None or not {"draft", "verify"} <= phases:
        return None
    marks = case.count("marks")
    return Finding(
        "accept_marks_missing",
        "no accept marks: the capture does not tell how many drafts were accepted",
        f"Record with the hooks: {_HOOKS}; or give what the server counted: traceanalyzer report "
        "--acceptance server.log, or --accept-len NUMBER.",
        WARNING,
        f"draft and verify ranges, {many(marks, 'mark')}, none of them an accept mark",
        "no accept length, no tokens per second, no verdict from this capture alone",
    )

"""What a finding is found from: the capture, its report, and the meaning of its ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.capture.completeness import rank_evidence
from traceanalyzer.phases.attribution import has_ops
from traceanalyzer.phases.cycles import LAUNCHES_WORK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.capture.completeness import RankEvidence
    from traceanalyzer.phases.phased import PhasedTrace
    from traceanalyzer.phases.spans import Spans
    from traceanalyzer.report import Report
    from traceanalyzer.trace import Trace

ERROR: Final = "error"
WARNING: Final = "warning"
INFO: Final = "info"
SEVERITIES: Final = (ERROR, WARNING, INFO)


@dataclass(frozen=True, slots=True)
class Case:
    """One capture under examination.

    Attributes:
        trace: The tables.
        report: What the analyses found, without findings of its own yet.
        spans: Meaning of the host ranges.
        phased: Every op's phase and cycle; None without GPU work.
        kernels: Kernels and whole-graph rows.
        workers: What each process that does a rank's work left; none looked for without kernels.
    """

    trace: Trace
    report: Report
    spans: Spans
    phased: PhasedTrace | None
    kernels: int
    workers: tuple[RankEvidence, ...]

    @classmethod
    def of(
        cls, trace: Trace, report: Report, spans: Spans, phased: PhasedTrace | None = None
    ) -> Case:
        """Look at what several findings need, once."""
        kernels = trace.ops.filter(pl.col("kind").is_in(["kernel", "graph"])).height
        workers: list[RankEvidence] = []
        if kernels:
            threads = trace.ranges["thread"].gather(np.flatnonzero(spans.phase >= 0))
            processes = trace.threads["process"].gather(threads).unique().to_list()
            workers = rank_evidence(trace, processes, cuda=True)
        return cls(trace, report, spans, phased, kernels, tuple(workers))

    def phase_ranges(self) -> NDArray[np.int64]:
        """Rows of the ranges that mean a phase."""
        return np.flatnonzero(self.spans.phase >= 0)

    def working_launches(self) -> NDArray[np.int64]:
        """Rows of the API calls that launch kernels or graphs, those inside a capture left out."""
        trace = self.trace
        if not trace.launches.height:
            return np.zeros(0, np.int64)
        text = pl.col("text").str
        works = trace.names.select(text.contains(LAUNCHES_WORK)).to_series().to_numpy()
        rows = np.flatnonzero(works[trace.launches["name"].to_numpy()])
        return rows[~self._while_capturing(rows)]

    def without_ops(self, launches: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of the launches that left no op."""
        return launches[~has_ops(self.trace, launches)]

    def capture_calls(self, name: str) -> pl.DataFrame:
        """Calls that begin or end a stream capture, by thread and time."""
        called = self.trace.text("name").str.contains(rf"^(?:cuda|cu|hip)Stream{name}Capture")
        return (
            self.trace.launches.filter(called)
            .select("thread", time_ns="start_ns")
            .sort("thread", "time_ns")
        )

    def _while_capturing(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which launches a thread makes between the begin and the end of a stream capture."""
        begins = self.capture_calls("Begin")
        if not begins.height:
            return np.zeros(rows.size, bool)
        borders = pl.concat(
            [
                begins.with_columns(capturing=pl.lit(True)),
                self.capture_calls("End").with_columns(capturing=pl.lit(False)),
            ]
        ).sort("time_ns")
        calls = self.trace.launches[rows].select("thread", time_ns="start_ns", row=pl.lit(0))
        calls = calls.with_columns(row=pl.int_range(pl.len())).sort("time_ns")
        found = calls.join_asof(borders, on="time_ns", by="thread", check_sortedness=False)
        return found.sort("row")["capturing"].fill_null(False).to_numpy()


def listed(names: list[str], most: int = 8) -> str:
    """Names in a row; of many, the first ones."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def many(number: int, thing: str, things: str | None = None) -> str:
    """A number with its thing."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"

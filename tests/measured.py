"""The fast path's tables of one trace, without the Report around them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tests.strategies import RULES
from traceanalyzer.analyses.collective_wait import collective_waits, collectives_of
from traceanalyzer.analyses.gaps import CAUSES, explain_gaps
from traceanalyzer.analyses.kernel_classes import busy_pieces
from traceanalyzer.analyses.phase_time import active_time_of_ops, cycle_time
from traceanalyzer.kernels.classification import class_of_ops
from traceanalyzer.phases.cycles import STATES
from traceanalyzer.phases.device_order import device_order
from traceanalyzer.phases.idle_time import idle_time
from traceanalyzer.phases.op_groups import op_groups
from traceanalyzer.phases.phased import settle_phases
from traceanalyzer.pipeline import AnalysisOptions

if TYPE_CHECKING:
    import polars as pl

    from traceanalyzer.analyses.collective_wait import CollectiveWaits
    from traceanalyzer.analyses.kernel_classes import BusyPieces
    from traceanalyzer.analyses.phase_time import ActiveTime, CycleTime
    from traceanalyzer.phases.device_order import DeviceOrder
    from traceanalyzer.phases.idle_time import IdleTime
    from traceanalyzer.phases.parallel_groups import ParallelGroup
    from traceanalyzer.phases.phased import PhasedTrace
    from traceanalyzer.phases.rules import Rules
    from traceanalyzer.trace import Trace


@dataclass
class Measured:
    """Steps of the pipeline, each run when it is asked for."""

    trace: Trace
    rules: Rules = RULES

    @cached_property
    def phased(self) -> PhasedTrace:
        return settle_phases(self.trace, self.rules)

    @cached_property
    def order(self) -> DeviceOrder:
        return device_order(self.phased)

    @cached_property
    def pieces(self) -> BusyPieces:
        return busy_pieces(self.phased, self.order, op_groups(self.phased))

    @cached_property
    def idle(self) -> IdleTime:
        return idle_time(self.order, self.phased.cycles)

    @cached_property
    def active(self) -> ActiveTime:
        return active_time_of_ops(self.phased, self.order)

    @cached_property
    def gaps(self) -> pl.DataFrame:
        return explain_gaps(self.phased, self.order, self.idle)

    @cached_property
    def time(self) -> CycleTime:
        shape = len(self.phased.labels), len(CAUSES)
        return cycle_time(self.phased.cycles.spans.size, self.active, self.gaps, shape)

    def labels(self) -> list[str]:
        """Phase of each op."""
        return [self.phased.labels[code] for code in self.phased.label]

    def cycles(self) -> list[tuple[int, int, int, int, str]]:
        """Lane, start, end, row of the forward and state of each cycle."""
        cycles = self.phased.cycles
        spans = cycles.spans
        columns = (spans.lane, spans.start_ns, spans.end_ns, cycles.forward)
        return [
            (*numbers, STATES[state])
            for *numbers, state in zip(
                *(column.tolist() for column in columns), cycles.state.tolist(), strict=True
            )
        ]

    def windows(self, cycle: int) -> dict[str, int]:
        """Windows of one cycle, without empty ones."""
        values = zip(self.phased.labels, self.time.window[cycle].tolist(), strict=True)
        return {label: ns for label, ns in values if ns}

    def gaps_in(self, cycle: int) -> dict[tuple[str, str], int]:
        """Gaps of one cycle by phase and cause, without empty ones."""
        return self._by_cause(self.time.gap[cycle])

    def gaps_of(self, lane: int) -> dict[tuple[str, str], int]:
        """Gaps of one lane over the whole trace by phase and cause, without empty ones."""
        found: dict[tuple[str, str], int] = {}
        for row in self.gaps.rows(named=True):
            if row["lane"] == lane and row["ns"]:
                key = self.phased.labels[row["label"]], CAUSES[row["cause"]]
                found[key] = found.get(key, 0) + row["ns"]
        return found

    def by_lane_and_phase(self, table: pl.DataFrame) -> dict[tuple[int, str], dict[str, int]]:
        """A table with the columns lane and label as a dict of its other columns."""
        return {
            (row.pop("lane"), self.phased.labels[row.pop("label")]): row
            for row in table.rows(named=True)
        }

    def _by_cause(self, table: Any) -> dict[tuple[str, str], int]:
        return {
            (label, cause): int(table[row, column])
            for row, label in enumerate(self.phased.labels)
            for column, cause in enumerate(CAUSES)
            if table[row, column]
        }


class RuledOptions(AnalysisOptions):
    """Options with rules of their own instead of a file."""

    def __init__(self, rules: Rules) -> None:
        super().__init__()
        object.__setattr__(self, "own", rules)

    def rules(self) -> Rules:
        rules: Rules = vars(self)["own"]
        return rules


FIXED = RuledOptions(RULES)


def waits_of(phased: PhasedTrace, group: ParallelGroup) -> CollectiveWaits:
    """What the ranks of a group wait for in their collectives."""
    files = phased.trace.processes["file"].gather(list(phased.ranks.process)).to_list()
    found = collectives_of(phased, device_order(phased), class_of_ops(phased.trace))
    return collective_waits(found, group, files)


def none_if_negative(values: Any) -> list[int | None]:
    """Row numbers, -1 read as none."""
    return [None if value < 0 else int(value) for value in values]

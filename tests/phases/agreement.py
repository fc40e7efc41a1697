"""A trace without its ranges, and how far phases inferred from it agree with what these say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.phases.rules import parse_phase

if TYPE_CHECKING:
    from traceanalyzer.phases.phased import PhasedTrace
    from traceanalyzer.trace import Trace

OUTSIDE = ("other", "unattributed")


@dataclass(frozen=True)
class Agreement:
    """Shares of GPU time in ranges.

    Attributes:
        same: With the same phase.
        held: With a fused phase that holds the right one: it claims no more than is known.
        wrong: With another phase.
    """

    same: float
    held: float
    wrong: float


def stripped(trace: Trace) -> Trace:
    """The trace without ranges and marks."""
    return replace(trace, ranges=trace.ranges.clear(), marks=trace.marks.clear())


def names(phased: PhasedTrace) -> list[str]:
    """Phase of each op."""
    return np.array(phased.labels)[phased.label].tolist()


def agreement(measured: PhasedTrace, inferred: PhasedTrace) -> Agreement:
    """Compare the phases of one trace, with and without its ranges; no phase is no agreement."""
    ns = (measured.trace.ops["end_ns"] - measured.trace.ops["start_ns"]).to_list()
    rows = [
        (want, got, time)
        for want, got, time in zip(names(measured), names(inferred), ns, strict=True)
        if want not in OUTSIDE
    ]
    total = sum(time for *_, time in rows)
    same = sum(time for want, got, time in rows if want == got) / total
    told = sum(time for _, got, time in rows if got not in OUTSIDE) / total
    wrong = sum(time for want, got, time in rows if _contradicts(want, got)) / total
    return Agreement(same, told - same - wrong, wrong)


def _contradicts(want: str, got: str) -> bool:
    return got not in OUTSIDE and not set(parse_phase(want)) <= set(parse_phase(got))

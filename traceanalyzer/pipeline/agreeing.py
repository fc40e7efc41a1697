"""What a part of a capture cannot know by itself, and must know to be measured right.

Phases are inferred only where the ranks show the same, and a mark may flag cycles of other ranks.
Parts are measured as if each were all there is; those for which that was wrong are measured again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from nvtx_hooks import vocabulary
from traceanalyzer.intervals import Intervals
from traceanalyzer.phases.inference import LaneInference, agreement
from traceanalyzer.phases.marks import read_marks
from traceanalyzer.phases.recorder_stalls import Stalls, in_stalls
from traceanalyzer.phases.spans import told_flags
from traceanalyzer.pipeline.figures import records
from traceanalyzer.pipeline.measured import GPU, join
from traceanalyzer.trace import concatenate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from traceanalyzer.phases.inference import Agreement
    from traceanalyzer.pipeline.measured import Measured
    from traceanalyzer.trace import Trace

    Lanes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Agreed:
    """What holds for a part.

    Attributes:
        lanes: Lanes of it whose phases are inferred; None for what it shows by itself.
        told: Flags of its cycles, see `told_flags`.
        stretched: Which of its cycles the recorder stretched, on whatever rank it did; None where
            the part tells.
    """

    lanes: tuple[int, ...] | None
    told: pl.DataFrame
    stretched: NDArray[np.bool_] | None = None


def known_before(whole: Trace, parts: Sequence[tuple[int, int]]) -> dict[int, Agreed]:
    """What is known of the parts of a trace at hand before they are measured, by their places.

    Args:
        whole: The trace.
        parts: See `divisions`.
    """
    told = told_flags(whole)
    return {place: Agreed(None, _own(told, *part)) for place, part in enumerate(parts)}


class Heard:
    """What marks told so far, while parts are measured one after another.

    Mostly the first rank's marks speak for all: then no part has to be measured again.
    """

    def __init__(self) -> None:
        self._spoke: list[Trace] = []

    def listen(self, part: Measured) -> None:
        """Take in what a part told that was measured."""
        if read_marks(part.trace, vocabulary.BATCH).height:
            self._spoke.append(part.trace)

    def of(self, part: Trace) -> Agreed | None:
        """What is known of the next part before it is measured; None where nobody spoke."""
        if not self._spoke:
            return None
        own = replace(
            part,
            ranges=part.ranges.filter(pl.col("style") == "annotation"),
            **{name: getattr(part, name).clear() for name in _TELL_NOTHING},
        )
        first = sum(trace.processes.height for trace in self._spoke)
        told = told_flags(concatenate([*self._spoke, own]))
        return Agreed(None, _own(told, first, first + part.processes.height))


_TELL_NOTHING: Final = ("ops", "launches", "syncs", "overheads", "graph_nodes", "diagnostics")
"""Tables that hold no marks."""


def _own(told: pl.DataFrame, first: int, end: int) -> pl.DataFrame:
    own = told.filter(pl.col("process").is_between(first, end, closed="left"))
    return own.with_columns(pl.col("process") - first)


def differing(
    parts: Sequence[Measured],
    files: Sequence[int],
    lanes: Sequence[Lanes],
    known: Mapping[int, Agreed],
) -> dict[int, Agreed]:
    """What holds for the parts that were measured as if something else did, by their places.

    Args:
        parts: The measurements, each as if its part were all there is.
        files: A number for each; those of equal ones are parts of one file.
        lanes: The lanes of each whose phases are to be inferred.
        known: What was known of parts before they were measured, by their places.
    """
    whole = told_flags(concatenate([part.trace for part in parts], files))
    first, found = 0, {}
    for place, part in enumerate(parts):
        end = first + part.trace.processes.height
        told = _that_count(part, _own(whole, first, end))
        own = known[place].told if place in known else told_flags(part.trace)
        before = _that_count(part, own)
        if set(lanes[place]) != set(inferred_lanes(part)) or not told.equals(before):
            found[place] = Agreed(lanes[place], told)
        first = end
    return found


def stretched_otherwise(
    parts: Sequence[Measured], files: Sequence[int], agreed: Mapping[int, Agreed]
) -> dict[int, Agreed]:
    """What holds for the parts in which other ranks tell that the recorder stretched cycles.

    Args:
        parts: The measurements.
        files: A number for each; those of equal ones are parts of one file.
        agreed: With what parts were measured, by their places; the others by themselves.
    """
    if not any(part.tables.stalls.height for part in parts):
        return {}
    whole = join([part.with_tables(_TELL_STRETCHES) for part in parts], files)
    cycles, states = whole.tables.cycles, whole.tables.stalled_cycles
    lane, start, end = (cycles[name].to_numpy() for name in ("lane", "start_ns", "end_ns"))
    process = whole.tables.lanes["process"].to_numpy()[lane]
    found = in_stalls(
        Stalls.of(whole.trace, whole.tables.stalls),
        Intervals(lane, start, end),
        whole.trace.processes["file"].to_numpy().astype(np.int64)[process],
        states["usable"].to_numpy(),
    )
    first, other = 0, {}
    for place, part in enumerate(parts):
        size = part.tables.stalled_cycles.height
        own = found[first : first + size]
        if (own != part.tables.stalled_cycles["stretched"].to_numpy()).any() if size else False:
            before = agreed.get(place) or Agreed(None, told_flags(part.trace))
            other[place] = replace(before, stretched=own)
        first += size
    return other


_TELL_STRETCHES: Final = frozenset({"lanes", "cycles", "stalls", "stalled_cycles"})


def _that_count(part: Measured, told: pl.DataFrame) -> pl.DataFrame:
    """The flags of cycles that have ranges in a part."""
    columns = ("process", "cycle", "bits")
    known = part.tables.numbers.select(pl.col("process").cast(pl.Int32), cycle="number")
    return told.join(known, on=("process", "cycle")).select(columns).sort(columns)


def inferred_lanes(part: Measured) -> Lanes:
    """The lanes of a part whose phases it infers by itself."""
    if part.tells_phases or part.time_base != GPU:
        return ()
    return agreement(records(LaneInference, part.tables.inferred)).lanes


def agreed_lanes(parts: Sequence[Measured]) -> tuple[Agreement | None, list[Lanes]]:
    """What all lanes show together, and the lanes of each part whose phases are inferred.

    Where a range of any part means a phase, or none has GPU work, nothing is inferred.
    """
    nothing: list[Lanes] = [() for _ in parts]
    if any(part.tells_phases for part in parts) or all(part.time_base != GPU for part in parts):
        return None, nothing
    first, thread = 0, 0
    shown: list[LaneInference] = []
    begins: list[int] = []
    for part in parts:
        begins.append(first)
        shown += [
            replace(lane, lane=first + lane.lane, thread=thread + lane.thread)
            for lane in records(LaneInference, part.tables.inferred)
        ]
        first += part.tables.lanes.height if part.time_base == GPU else 0
        thread += part.trace.threads.height
    agreed = agreement(shown)
    lanes = [
        tuple(sorted(lane - begin for lane in agreed.lanes if begin <= lane < end))
        for begin, end in zip(begins, [*begins[1:], first], strict=True)
    ]
    return agreed, lanes

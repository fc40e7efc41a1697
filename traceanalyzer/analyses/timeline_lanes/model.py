"""What a timeline is made of, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]

CYCLES, PHASES, STREAM, COLLECTIVES, GRAPH_LAUNCHES, RANGES, CALLS = (
    "cycles",
    "phases",
    "stream",
    "collectives",
    "graph launches",
    "ranges",
    "calls",
)
KINDS: Final = (CYCLES, PHASES, STREAM, COLLECTIVES, GRAPH_LAUNCHES, RANGES, CALLS)
"""Kinds of lanes in the order in which a rank's are drawn."""
OVERVIEW: Final = frozenset({CYCLES, PHASES})
"""Kinds that are always drawn whole; of the others a large trace shows chosen cycles only."""

NONE: Final = -1
"""Stands for no phase, no cycle, no correlation id, no class."""


@dataclass(frozen=True, slots=True)
class Spans:
    """Spans as int64 arrays of one length; `NONE` where something is not known.

    Attributes:
        start_ns: Start.
        end_ns: End; equal to the start for a span of 0 ns.
        name: Place in `TimelineLanes.names`.
        phase: Place in `TimelineLanes.phases`.
        cycle: Row of `TimelineLanes.cycles`.
        correlation: Id that an op shares with its launch, within a process.
    """

    start_ns: Int64s
    end_ns: Int64s
    name: Int64s
    phase: Int64s
    cycle: Int64s
    correlation: Int64s

    @property
    def size(self) -> int:
        """How many there are."""
        return int(self.start_ns.size)

    def take(self, rows: NDArray[np.generic]) -> Spans:
        """Those at `rows` (indices or a boolean mask)."""
        return Spans(*(getattr(self, field.name)[rows] for field in fields(self)))


def joined_spans(parts: list[Spans]) -> Spans:
    """The spans of all parts, one after another."""
    nothing = [np.zeros(0, np.int64)]
    return Spans(
        *(
            np.concatenate(nothing + [getattr(part, field.name) for part in parts])
            for field in fields(Spans)
        )
    )


@dataclass(frozen=True, slots=True)
class Tracks:
    """Spans of one kind before they are stacked: those of one group and track share lanes."""

    kind: str
    group: Int64s
    track: Int64s
    spans: Spans

    def take(self, rows: NDArray[np.generic]) -> Tracks:
        """The spans at `rows` (indices or a boolean mask)."""
        return Tracks(self.kind, self.group[rows], self.track[rows], self.spans.take(rows))


@dataclass(frozen=True, slots=True)
class Lane:
    """One line of the picture: spans in order of time, none overlapping the next.

    Attributes:
        kind: One of `KINDS`.
        group: Place in `TimelineLanes.groups`.
        track: Number of the stream or thread; lanes of one track hold what overlaps in it.
        title: What a person reads beside it.
        first: First row in `TimelineLanes.spans`.
        end: Row after its last.
    """

    kind: str
    group: int
    track: int
    title: str
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class CycleFacts:
    """What lists and the cycle strip say of every cycle, by group and start.

    Attributes:
        group: Place in `TimelineLanes.groups`.
        ordinal: Number within its group, from 1.
        number: The engine's own number, `NONE` when it told none.
        state: Place in `phases.cycles.STATES`.
        start_ns: First instant.
        end_ns: First instant of the next.
        host_start_ns: When the first of its ops' launches was called, or `start_ns`.
        drafted: Drafts that its verify judged, over live requests; `NONE` without marks.
        accepted: Those of them that were accepted.
        usual_ns: Median period of the kept cycles of its bucket and group; `NONE` if not kept.
    """

    group: Int64s
    ordinal: Int64s
    number: Int64s
    state: Int64s
    start_ns: Int64s
    end_ns: Int64s
    host_start_ns: Int64s
    drafted: Int64s
    accepted: Int64s
    usual_ns: Int64s


@dataclass(frozen=True, slots=True)
class TimelineLanes:
    """A whole timeline; times are on one axis that begins at `origin_ns`.

    Attributes:
        groups: Titles of the ranks (or processes).
        processes: Row in `trace.processes` of each group.
        lanes: In drawing order.
        spans: Of all lanes, lane by lane.
        names: Texts, each with one class.
        name_class: Place in `kernels.classification.CLASSES` of each name, `NONE` for no op's.
        phases: Phase names; the last stands for two phases or more at once.
        cycles: Every cycle.
        origin_ns: First instant.
        end_ns: Last instant.
        shown_ns: Disjoint windows outside of which only the overview is drawn; None: all is.
        notes: What a reader must know before reading.
    """

    groups: tuple[str, ...]
    processes: tuple[int, ...]
    lanes: tuple[Lane, ...]
    spans: Spans
    names: tuple[str, ...]
    name_class: tuple[int, ...]
    phases: tuple[str, ...]
    cycles: CycleFacts
    origin_ns: int
    end_ns: int
    shown_ns: tuple[tuple[int, int], ...] | None
    notes: tuple[str, ...]

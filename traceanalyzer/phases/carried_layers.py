"""Draft steps and layers of replays whose capture was not recorded, by the order of their kernels.

They are carried over from a forward in which ranges tell them: of the same capture and rank, such
as an eager one or one captured while recording, else of another capture of the same server.
Phases of ops stay what they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from traceanalyzer.phases.kernel_forwards import forwards_of
from traceanalyzer.phases.kernel_order import LEAST_SCORE, match_in_order
from traceanalyzer.phases.op_places import Scores

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.kernel_forwards import Forwards
    from traceanalyzer.phases.kernel_order import Match
    from traceanalyzer.phases.op_places import OpPlaces
    from traceanalyzer.phases.phased import PhasedTrace

    Int64s = NDArray[np.int64]

_MOST_SOURCES: Final = 16
"""Forwards of different kernels, such as those of several batch sizes, that are tried."""


@dataclass(frozen=True, slots=True)
class CarriedPhase:
    """What was carried over to the replays of one phase.

    Attributes:
        phase: The phase.
        source: File of the other capture, None for forwards of the same one.
        forwards: Replayed forwards that have draft steps or layers by it.
        refused: Replayed forwards that match too little of every forward whose places are known.
        lowest_score: Of the first; None when there are none.
        refused_score: The best of the second; None when there are none, or when the source tells
            nothing of the phase on their ranks.
        other_number: Whether that is good enough, so that only the number of layers or steps
            differs.
    """

    phase: str
    source: str | None
    forwards: int
    refused: int
    lowest_score: float | None
    refused_score: float | None
    other_number: bool


def with_carried_places(
    replays: PhasedTrace, known: PhasedTrace | None = None, least_score: float = LEAST_SCORE
) -> PhasedTrace:
    """Carry draft steps and layers over to the replays that have none of their own.

    Args:
        replays: Gets them, from its own forwards where these do.
        known: Another capture of the same server; its rank of the same number tells, or its only
            one. (Ranks of a pipeline hold different layers in the same kernels.)
        least_score: Share of a forward's kernels that must match in order.

    Returns:
        The trace with the places, and the phases that have any. A refusal is told of another
        capture only.
    """
    if tells_places(replays):
        known_here = _Known(replays, None)
        replays = _carried(replays, known_here.forwards, known_here, least_score)
    if known is None or not tells_places(known):
        return replays
    told = _Known(known, source_of(known))
    return _carried(replays, forwards_of(replays), told, least_score)


def source_of(known: PhasedTrace) -> str:
    """How the report names the capture that tells places."""
    return str(known.trace.files["path"].first())


def tells_places(phased: PhasedTrace) -> bool:
    """Whether ranges tell the draft step or layer of any kernel."""
    return bool((phased.places.step >= 0).any() or (phased.places.layer >= 0).any())


def _most_first(counted: tuple[int, int]) -> int:
    return -counted[0]


class _Source(NamedTuple):
    """Kernel names of a forward whose places are known, with its steps and layers as two rows."""

    names: list[int]
    places: Int64s


class _Told(NamedTuple):
    """The source that matches a forward best."""

    match: Match
    source: _Source


class _Known:
    """A capture in which ranges tell places; numbers of kernel names are shared with replays."""

    def __init__(self, phased: PhasedTrace, source: str | None) -> None:
        self.source = source
        self.numbers: dict[str, int] = {}
        self._phased = phased
        self.forwards = forwards_of(phased)
        self._names = _shared_names(phased, self.numbers)

    def tells(self, phase: str) -> NDArray[np.bool_]:
        """Whether any forward of a phase tells its draft step, and its layer."""
        own = self._of(phase)
        known: NDArray[np.bool_] = np.any(self.forwards.places[:, own] >= 0, axis=1)
        return known

    def sources(self, phase: str) -> dict[int, list[_Source]]:
        """By lane the forwards of different kernels in which most places are known."""
        best: dict[int, dict[bytes, tuple[int, int]]] = {}
        own = self._of(phase)
        lanes, told = self.forwards.lane[own].tolist(), self._told_in(own).tolist()
        for forward, lane, count in zip(own.tolist(), lanes, told, strict=True):
            of_lane = best.setdefault(lane, {})
            key = self._names[self.forwards.of(forward)].tobytes()
            if count > of_lane.get(key, (0, 0))[0]:
                of_lane[key] = count, forward
        return {
            lane: [self._source(forward) for _, forward in sorted(each.values(), key=_most_first)]
            for lane, each in best.items()
        }

    def _told_in(self, forwards: Int64s) -> Int64s:
        """How many steps and layers are known of the kernels of each forward."""
        places, rows = self._phased.places, self.forwards.rows
        known = (places.step[rows] >= 0).astype(np.int64) + (places.layer[rows] >= 0)
        first, total = self.forwards.first, np.append(0, np.cumsum(known))
        return np.asarray(total[first[forwards + 1]] - total[first[forwards]])

    def _source(self, forward: int) -> _Source:
        rows, places = self.forwards.of(forward), self._phased.places
        parts = np.stack((places.step[rows], places.layer[rows])).astype(np.int64)
        return _Source(self._names[rows].tolist(), parts)

    def lane_of(self, replays: PhasedTrace, lane: int) -> int:
        """The lane that runs what a lane of the replays does, -1 for none."""
        if self.source is None:
            return lane
        numbers = self._phased.ranks.number
        if len(numbers) == 1:
            return 0
        number = replays.ranks.number[lane]
        return numbers.index(number) if number in numbers else -1

    def _of(self, phase: str) -> Int64s:
        if phase not in self._phased.labels:
            return np.zeros(0, np.int64)
        label = self._phased.labels.index(phase)
        told = (self.forwards.places >= 0).any(axis=0)
        return np.flatnonzero((self.forwards.label == label) & told)


def _carried(
    replays: PhasedTrace, forwards: Forwards, known: _Known, least_score: float
) -> PhasedTrace:
    """The replays with what one capture tells of their forwards."""
    lacking = _lacking(replays, forwards, known)
    if not lacking:
        return replays
    filling = _Filling(replays)
    names = _shared_names(replays, known.numbers)
    found = []
    for phase, lacks in lacking.items():
        matching = _Matching(known.sources(phase), least_score)
        result = _Result()
        lanes = [known.lane_of(replays, lane) for lane in range(replays.ranks.size)]
        for alike in _alike(forwards, np.flatnonzero(lacks.any(axis=0)), names, lacks):
            first = alike[0]
            told = matching.best(lanes[forwards.lane[first]], names[forwards.of(first)])
            if told is None or not matching.holds(told.match):
                result.refused += [None if told is None else told.match.score] * len(alike)
            else:
                result.scores += [told.match.score] * len(alike)
                filling.fill(_rows_of(forwards, alike), lacks[:, first], told)
        if result.scores or known.source is not None:
            found.append(result.summary(phase, known.source, least_score))
    if not found:
        return replays
    return replace(replays, places=filling.filled(), carried=(*replays.carried, *found))


def _alike(
    forwards: Forwards, chosen: Int64s, names: Int64s, lacks: NDArray[np.bool_]
) -> list[list[int]]:
    """Some forwards, those together that run the same kernels on a lane and lack the same."""
    found: dict[tuple[int, bytes, bytes], list[int]] = {}
    lanes = forwards.lane[chosen].tolist()
    for forward, lane in zip(chosen.tolist(), lanes, strict=True):
        key = lane, names[forwards.of(forward)].tobytes(), lacks[:, forward].tobytes()
        found.setdefault(key, []).append(forward)
    return list(found.values())


def _rows_of(forwards: Forwards, alike: list[int]) -> Int64s:
    """Rows of the kernels of forwards of one length, a row of them a forward."""
    first = forwards.first[alike]
    length = forwards.first[alike[0] + 1] - first[0]
    return forwards.rows[first[:, None] + np.arange(length)]


class _Filling:
    """The places of a capture's ops, while some are filled in."""

    def __init__(self, replays: PhasedTrace) -> None:
        self._before = replays.places
        self._places = np.stack((self._before.step, self._before.layer))
        before = self._before.scores
        values = [np.nan] if before is None else before.values.tolist()
        self._numbers = {value: number for number, value in enumerate(values)}
        self._number: NDArray[np.signedinteger] = (
            np.zeros(self._places.shape, np.int16) if before is None else before.number.copy()
        )

    def fill(self, rows: Int64s, parts: NDArray[np.bool_], told: _Told) -> None:
        """Give the kernels of forwards the steps, the layers, or both of their source.

        Args:
            rows: Rows of the kernels, of shape (forwards, kernels).
            parts: Whether the steps, and whether the layers.
            told: The source.
        """
        for part in np.flatnonzero(parts):
            values = told.match.carried(told.source.places[part])
            self._places[part, rows] = values
            number = self._number_of(told.match.score)
            self._number[part, rows] = np.where(values >= 0, number, 0)

    def _number_of(self, score: float) -> int:
        number = self._numbers.setdefault(score, len(self._numbers))
        if number > np.iinfo(self._number.dtype).max:
            self._number = self._number.astype(np.int64)
        return number

    def filled(self) -> OpPlaces:
        """The places with all that was filled in."""
        step, layer = self._places
        scores = Scores(self._number, np.array([*self._numbers]))
        return replace(self._before, step=step, layer=layer, scores=scores)


def _lacking(
    replays: PhasedTrace, forwards: Forwards, known: _Known
) -> dict[str, NDArray[np.bool_]]:
    """By phase which replayed forwards lack a step and a layer, as two rows, that can be told."""
    found = {}
    for label, phase in enumerate(replays.spans.phases):
        lacks = (forwards.places < 0) & known.tells(phase)[:, None]
        lacks &= forwards.replayed & (forwards.label == label)
        if lacks.any():
            found[phase] = lacks
    return found


class _Matching:
    """Finds the source that matches best, each sequence of kernels once."""

    def __init__(self, sources: dict[int, list[_Source]], least_score: float) -> None:
        self._sources = sources
        self._least_score = least_score
        self._found: dict[tuple[int, bytes], _Told | None] = {}

    def holds(self, match: Match) -> bool:
        """Whether a match is good enough."""
        return match.score >= self._least_score and match.same_number_of_blocks

    def best(self, lane: int, names: Int64s) -> _Told | None:
        """The best match of a forward's kernel names, one that holds before others."""
        key = lane, names.tobytes()
        if key not in self._found:
            tried = self._sources.get(lane, [])[:_MOST_SOURCES]
            told = [_Told(match_in_order(each.names, names.tolist()), each) for each in tried]
            self._found[key] = max(
                told, key=lambda each: (self.holds(each.match), each.match.score), default=None
            )
        return self._found[key]


@dataclass(slots=True)
class _Result:
    """Scores of the forwards of a phase that were carried over, and of the refused ones."""

    scores: list[float] = field(default_factory=list)
    refused: list[float | None] = field(default_factory=list)

    def summary(self, phase: str, source: str | None, least_score: float) -> CarriedPhase:
        """What became of all of them."""
        refused = [score for score in self.refused if score is not None]
        return CarriedPhase(
            phase,
            source,
            len(self.scores),
            len(self.refused),
            min(self.scores, default=None),
            max(refused, default=None),
            max(refused, default=0.0) >= least_score,
        )


def _shared_names(phased: PhasedTrace, numbers: dict[str, int]) -> Int64s:
    """Kernel name of each op as a number that several traces share."""
    texts = phased.trace.names["text"].to_list()
    shared = np.array([numbers.setdefault(text, len(numbers)) for text in texts], np.int64)
    return shared[phased.trace.ops["name"].to_numpy()]

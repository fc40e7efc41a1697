"""From a phased trace to the lanes that a timeline draws."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analyses.timeline_lanes.facts import cycle_facts
from traceanalyzer.analyses.timeline_lanes.gpu_tracks import cycle_tracks, op_tracks, phase_tracks
from traceanalyzer.analyses.timeline_lanes.groups import Groups, find_groups
from traceanalyzer.analyses.timeline_lanes.host_tracks import call_tracks, range_tracks
from traceanalyzer.analyses.timeline_lanes.model import (
    KINDS,
    Lane,
    Spans,
    TimelineLanes,
    Tracks,
    joined_spans,
)
from traceanalyzer.analyses.timeline_lanes.rows import stacked_rows
from traceanalyzer.analyses.timeline_lanes.texts import Texts
from traceanalyzer.intervals import Intervals, Packing

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from traceanalyzer.analyses.timeline_lanes.model import CycleFacts
    from traceanalyzer.intervals import Segments
    from traceanalyzer.phases.phased import PhasedTrace

    Int64s = NDArray[np.int64]

_SEVERAL = "two phases or more"


def timeline_lanes(
    phased: PhasedTrace, segments: Segments, bucket: Int64s, accepted: pl.DataFrame
) -> TimelineLanes:
    """Everything a timeline can draw.

    Args:
        phased: A trace with settled phases.
        segments: Its timeline by the set of phases that run, cut at cycle borders.
        bucket: Bucket of each cycle.
        accepted: Accept marks: process, cycle, k, accepted, flags, count.
    """
    phases = (*phased.labels, _SEVERAL)
    texts, groups = Texts(phased.trace, phases), find_groups(phased)
    tracks = [
        cycle_tracks(phased, texts),
        phase_tracks(phased, segments, texts),
        *op_tracks(phased, texts),
        *call_tracks(phased, groups.of_thread, texts),
        range_tracks(phased, groups.of_thread, texts),
    ]
    moved = [_on_one_clock(each, groups) for each in tracks if each.spans.size]
    lanes, spans = _in_lanes(moved, groups)
    name, names, classes = texts.table(spans.name)
    spans = replace(spans, name=name)
    return TimelineLanes(
        groups=groups.titles,
        processes=groups.processes,
        lanes=lanes,
        spans=spans,
        names=names,
        name_class=classes,
        phases=phases,
        cycles=_moved_facts(cycle_facts(phased, bucket, accepted), groups),
        origin_ns=int(spans.start_ns.min()) if spans.size else 0,
        end_ns=int(spans.end_ns.max()) if spans.size else 0,
        shown_ns=None,
        notes=_notes(phased, groups),
    )


def _on_one_clock(tracks: Tracks, groups: Groups) -> Tracks:
    if not groups.shift_ns.any():
        return tracks
    shift = groups.shift_ns[tracks.group]
    spans = tracks.spans
    moved = replace(spans, start_ns=spans.start_ns + shift, end_ns=spans.end_ns + shift)
    return replace(tracks, spans=moved)


def _moved_facts(facts: CycleFacts, groups: Groups) -> CycleFacts:
    shift = groups.shift_ns[facts.group]
    return replace(
        facts,
        start_ns=facts.start_ns + shift,
        end_ns=facts.end_ns + shift,
        host_start_ns=facts.host_start_ns + shift,
    )


def _in_lanes(tracks: list[Tracks], groups: Groups) -> tuple[tuple[Lane, ...], Spans]:
    """Stack every track, and put the lanes in drawing order: by group, kind, track and row."""
    pieces: list[tuple[tuple[int, int, int, int], Lane, Spans]] = []
    for part in tracks:
        pieces += _stacked(part, groups)
    pieces.sort(key=lambda piece: piece[0])
    lanes, first = [], 0
    for _, lane, spans in pieces:
        lanes.append(replace(lane, first=first, end=first + spans.size))
        first += spans.size
    return tuple(lanes), joined_spans([spans for _, _, spans in pieces])


def _stacked(part: Tracks, groups: Groups) -> list[tuple[tuple[int, int, int, int], Lane, Spans]]:
    spans, order = part.spans, KINDS.index(part.kind)
    keys, of_key = _compact(part.group, part.track)
    row = stacked_rows(Intervals(of_key, spans.start_ns, spans.end_ns))
    rows = int(row.max()) + 1
    line = of_key * rows + row
    packing = Packing.covering(len(keys) * rows, (spans.start_ns,))
    by_line = np.argsort(packing.key(line, spans.start_ns), kind="stable")
    counts = np.bincount(line)
    found, first = [], 0
    for each in np.flatnonzero(counts).tolist():
        (group, track), own_row = keys[each // rows], each % rows
        own = spans.take(by_line[first : first + counts[each]])
        first += int(counts[each])
        title = groups.lane_title(part.kind, track, own_row)
        found.append(
            ((group, order, track, own_row), Lane(part.kind, group, track, title, 0, 0), own)
        )
    return found


def _compact(group: Int64s, track: Int64s) -> tuple[list[tuple[int, int]], Int64s]:
    """The distinct pairs of group and track, and the place of each span's pair among them."""
    tracks, of_track = np.unique(track, return_inverse=True)
    pair = group * tracks.size + of_track
    used = np.flatnonzero(np.bincount(pair))
    place = np.zeros(int(used[-1]) + 1, np.int64)
    place[used] = np.arange(used.size)
    keys = [(each // tracks.size, int(tracks[each % tracks.size])) for each in used.tolist()]
    return keys, place[pair]


def _notes(phased: PhasedTrace, groups: Groups) -> tuple[str, ...]:
    notes = list(groups.notes)
    if missing := int((~phased.collected).sum()):
        notes.append(f"Not drawn, because the trace has no times for them: {missing:,} ops.")
    return tuple(notes)

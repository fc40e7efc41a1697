"""Perfetto files read with Perfetto's own schema, as its trace processor reads them."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from typing import Any

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent


@dataclass(frozen=True)
class Slice:
    """A slice and the names of the tracks above it, the outermost first."""

    tracks: tuple[str, ...]
    uuid: int
    start_ns: int
    end_ns: int
    name: str
    category: str | None
    arguments: dict[str, int] = field(hash=False)
    flows: tuple[int, ...]

    @property
    def rank(self) -> int:
        """The rank whose track it lies on."""
        return int(self.tracks[0].split()[1])

    @property
    def span(self) -> tuple[int, int, str]:
        """Start, end and name."""
        return self.start_ns, self.end_ns, self.name


@dataclass(frozen=True)
class Read:
    """A whole file: its slices, and the descriptors of its tracks."""

    slices: list[Slice]
    tracks: dict[int, Any]

    def on(self, *starts: str) -> list[Slice]:
        """Slices on tracks whose names start so."""
        return [each for each in self.slices if each.tracks[-1].startswith(starts)]


def read(data: bytes) -> Read:
    """Read a file, and hold it to what a reader relies on.

    Packets are taken in order of time, those of one instant in the order of the file.
    """
    trace = Trace()
    trace.ParseFromString(gzip.decompress(data))
    first = trace.packet[0]
    assert first.sequence_flags == 1, "the first packet clears what a sequence had interned"
    assert {packet.trusted_packet_sequence_id for packet in trace.packet} == {1}
    texts = [
        {entry.iid: entry.name for entry in table}
        for table in (
            first.interned_data.event_categories,
            first.interned_data.event_names,
            first.interned_data.debug_annotation_names,
        )
    ]
    tracks = {
        packet.track_descriptor.uuid: packet.track_descriptor
        for packet in trace.packet
        if packet.HasField("track_descriptor")
    }
    events = [packet for packet in trace.packet if packet.HasField("track_event")]
    assert len(trace.packet) == 1 + len(tracks) + len(events)
    return Read(_slices(sorted(events, key=lambda each: each.timestamp), tracks, texts), tracks)


def _slices(events: list[Any], tracks: dict[int, Any], texts: list[dict[int, str]]) -> list[Slice]:
    categories, names, argument_names = texts
    open_: dict[int, Any] = {}
    found = []
    for packet in events:
        event = packet.track_event
        assert packet.sequence_flags == 2, "it refers to what is interned"
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            assert event.track_uuid not in open_, "slices of a track never overlap"
            open_[event.track_uuid] = packet
            continue
        assert event.type == TrackEvent.TYPE_SLICE_END
        begun = open_.pop(event.track_uuid)
        told = begun.track_event
        found.append(
            Slice(
                _path(tracks, event.track_uuid),
                event.track_uuid,
                begun.timestamp,
                packet.timestamp,
                names[told.name_iid],
                categories[told.category_iids[0]] if told.category_iids else None,
                {argument_names[each.name_iid]: each.int_value for each in told.debug_annotations},
                tuple(told.flow_ids),
            )
        )
    assert not open_
    return found


def _path(tracks: dict[int, Any], uuid: int) -> tuple[str, ...]:
    track = tracks[uuid]
    return (*_path(tracks, track.parent_uuid), track.name) if track.parent_uuid else (track.name,)

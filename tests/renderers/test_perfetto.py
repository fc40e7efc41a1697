"""A Perfetto file holds every span of the timeline once, where and when it was."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from tests.harness import SAMPLE_TRACES
from tests.renderers.html.reports import HOSTILE
from tests.renderers.perfetto_reader import Read, read
from tests.strategies import RULES, build, examples, traces
from traceanalyzer import load
from traceanalyzer.assembly.timeline import whole_timeline
from traceanalyzer.phases.phased import settle_phases
from traceanalyzer.phases.rules import Rules
from traceanalyzer.renderers import perfetto
from traceanalyzer.renderers.perfetto import perfetto_file

if TYPE_CHECKING:
    from traceanalyzer.trace import Trace

NODES = SAMPLE_TRACES / "eagle3_tp2_nodes.sqlite"
CALLS = ("API calls", "graph launches")
Span = tuple[int, int, str]


def exported(trace: Trace, rules: Rules = RULES) -> Read:
    return read(perfetto_file(whole_timeline(trace, rules)))


@pytest.fixture(scope="module")
def nodes() -> Read:
    return exported(load(NODES), Rules.shipped())


@examples(0.06)
@given(traces())
def test_every_span_of_the_timeline_is_there_once(trace: Trace) -> None:
    lanes = whole_timeline(trace, RULES)
    spans, shift = lanes.spans, max(0, -lanes.origin_ns)
    wanted = Counter(
        (
            lanes.groups[lane.group],
            int(spans.start_ns[row]) + shift,
            int(spans.end_ns[row]) + shift,
            lanes.names[spans.name[row]],
            lanes.phases[spans.phase[row]] if spans.phase[row] >= 0 else None,
            int(lanes.cycles.ordinal[spans.cycle[row]]) if spans.cycle[row] >= 0 else None,
            int(spans.correlation[row]) if spans.correlation[row] >= 0 else None,
        )
        for lane in lanes.lanes
        if lane.kind != "collectives"
        for row in range(lane.first, lane.end)
    )
    found = Counter(
        (
            each.tracks[0],
            *each.span,
            each.category,
            each.arguments.get("cycle"),
            each.arguments.get("correlation"),
        )
        for each in read(perfetto_file(lanes)).slices
    )
    assert found == wanted


@examples(0.06)
@given(traces())
def test_a_flow_joins_a_launch_and_its_ops(trace: Trace) -> None:
    """Those that attribution joins, with what never got a time left out."""
    phased = settle_phases(trace, RULES)
    texts = trace.names["text"]
    shift = max(0, -whole_timeline(trace, RULES).origin_ns)

    def span(start: int, end: int, name: int) -> Span:
        return start + shift, end + shift, texts[name]

    calls = trace.launches.select("start_ns", "end_ns", "name").rows()
    ops_of: dict[int, list[Span]] = defaultdict(list)
    for row, launch in enumerate(phased.attribution.launch.tolist()):
        if launch >= 0:
            own = ops_of[launch]
            if phased.collected[row]:
                own.append(span(*trace.ops.select("start_ns", "end_ns", "name").row(row)))
    wanted = Counter((span(*calls[launch]), tuple(sorted(own))) for launch, own in ops_of.items())
    found = exported(trace)
    launched: dict[int, Span] = {}
    flows: dict[int, list[Span]] = defaultdict(list)
    for each in found.slices:
        assert len(each.flows) <= 1
        if each.flows and each.tracks[-1].startswith(CALLS):
            assert launched.setdefault(each.flows[0], each.span) == each.span
        elif each.flows:
            assert each.tracks[-1].startswith("stream")
            flows[each.flows[0]].append(each.span)
    assert set(flows) <= set(launched)
    assert wanted == Counter((call, tuple(sorted(flows[flow]))) for flow, call in launched.items())


def test_tracks_stand_below_their_rank_in_the_order_of_the_timeline(nodes: Read) -> None:
    ranks = [each for each in nodes.tracks.values() if not each.parent_uuid]
    assert [each.name for each in ranks] == ["rank 0 · NVIDIA H200", "rank 1 · NVIDIA H200"]
    for rank in ranks:
        own = [each for each in nodes.tracks.values() if each.parent_uuid == rank.uuid]
        assert rank.child_ordering == rank.EXPLICIT
        own.sort(key=lambda each: each.sibling_order_rank)
        names = [each.name for each in own]
        assert names[:3] == ["cycles", "phases", "stream 7"]
        assert [name for name in names if name.startswith("API calls")] == names[-2:]
        assert len({each.sibling_order_rank for each in own}) == len(own)
    assert len({each.tracks[-1] for each in nodes.slices if each.rank == 0}) < len(own)


def test_lanes_of_one_stream_bear_one_name() -> None:
    """Ops of a stream may overlap; each lane is a track, and one name makes them one."""
    ops = [{"start_ns": 10 * at, "end_ns": 10 * at + 15, "stream_id": 7} for at in range(4)]
    found = exported(build(ops=ops)).on("stream")
    assert {each.tracks[-1] for each in found} == {"stream 7"}
    assert len({each.uuid for each in found}) == 2
    assert len(found) == 4


def test_cycles_tell_their_number_and_what_was_accepted(nodes: Read) -> None:
    facts = whole_timeline(load(NODES), Rules.shipped()).cycles
    cycles = sorted(nodes.on("cycles"), key=lambda each: (each.rank, each.start_ns))
    for name, column in (
        ("cycle", facts.ordinal),
        ("number", facts.number),
        ("drafted", facts.drafted),
        ("accepted", facts.accepted),
    ):
        assert [each.arguments.get(name, -1) for each in cycles] == column.tolist()
    assert max(facts.accepted.tolist()) > 0


def test_times_below_zero_are_counted_from_the_beginning() -> None:
    ops = [{"start_ns": -50, "end_ns": -20}, {"start_ns": 10, "end_ns": 30}]
    assert [each.span[:2] for each in exported(build(ops=ops)).on("stream")] == [(0, 30), (60, 80)]
    ops = [{"start_ns": 20, "end_ns": 30}]
    assert [each.span[:2] for each in exported(build(ops=ops)).on("stream")] == [(20, 30)]


def test_names_are_kept_as_they_are() -> None:
    names = list(dict.fromkeys(name.encode(errors="replace").decode() for name in HOSTILE))
    ops = [
        {"start_ns": 10 * at, "end_ns": 10 * at + 5, "name": name} for at, name in enumerate(names)
    ]
    assert [each.name for each in exported(build(ops=ops)).on("stream")] == names


def test_a_trace_without_anything_is_a_file_all_the_same() -> None:
    assert exported(build()).slices == []


def test_the_same_trace_gives_the_same_file_in_pieces_of_any_size(
    monkeypatch: pytest.MonkeyPatch, nodes: Read
) -> None:
    lanes = whole_timeline(load(NODES), Rules.shipped())
    assert perfetto_file(lanes) == perfetto_file(lanes)
    monkeypatch.setattr(perfetto, "_AT_ONCE", 7)
    assert read(perfetto_file(lanes)) == nodes

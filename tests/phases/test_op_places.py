"""Draft step, layer and module of each op: against trying every range, and name by name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import build, examples, frame
from traceanalyzer.phases.attribution import attribute_ops
from traceanalyzer.phases.op_places import places_of_ops, split_of_fused
from traceanalyzer.phases.range_places import read_places
from traceanalyzer.phases.rules import Rules
from traceanalyzer.phases.spans import classify_ranges

if TYPE_CHECKING:
    from traceanalyzer.phases.op_places import OpPlaces
    from traceanalyzer.phases.spans import Spans
    from traceanalyzer.trace import Trace

RULES = Rules.shipped()
FUSED = "fused(verify, draft_extend)"
_NAMES = (
    *("draft", "draft", "draft.step", "draft.step", "verify", "draft_extend", FUSED),
    *("step[DECODE bs=1]", "layer 3", "model.layers.12.mlp", "stranger"),
)
_STEPS = {"draft.step", "step[DECODE bs=1]"}
_LAYERS = {"layer 3": (3, None), "model.layers.12.mlp": (12, "mlp")}
_PHASES = {"draft": "draft", "draft.step": "draft", "verify": "verify", FUSED: FUSED} | {
    "draft_extend": "draft_extend",
    "step[DECODE bs=1]": "decode",
}


@st.composite
def captures(draw: st.DrawFn) -> Trace:
    """Ranges, calls, nodes born among them, and replays of the nodes, on one or two threads."""
    moment = st.integers(0, 24)
    ranges = [
        {"name": draw(st.sampled_from(_NAMES)), "thread": draw(st.integers(0, 1))}
        | dict(zip(("start_ns", "end_ns"), sorted((draw(moment), draw(moment))), strict=True))
        for _ in range(draw(st.integers(0, 9)))
    ]
    for row in ranges:
        row["domain"] = "eagle" if row["name"].startswith("draft") else None
    calls = [
        {"name": "cudaStreamBeginCapture_v10000", "thread": 0, "start_ns": at, "end_ns": at}
        for at in draw(st.lists(moment, max_size=2))
    ]
    nodes = [
        {"process": 0, "node_id": place + 1, "time_ns": at, "thread": draw(st.integers(0, 1))}
        for place, at in enumerate(draw(st.lists(moment, max_size=6)))
    ]
    ops = []
    for place in range(draw(st.integers(1, 6))):
        at = draw(moment)
        row = {"correlation_id": place, "thread": draw(st.integers(0, 1)), "start_ns": at + 25}
        inside = draw(st.booleans())  # launched among the capture's ranges, or after them all
        row |= {"start_ns": at if inside else at + 30, "end_ns": (at if inside else at + 30) + 1}
        calls.append({"name": "cudaGraphLaunch", **row})
        node = draw(st.none() | st.integers(1, 7))
        ops.append({"correlation_id": place, "graph_node_id": node, "start_ns": 90, "end_ns": 91})
    trace = build(ops=ops, launches=calls, ranges=ranges, threads=(0, 0))
    return replace(trace, graph_nodes=frame("graph_nodes", nodes))


class Tried:
    """Places by trying every range."""

    def __init__(self, trace: Trace, spans: Spans) -> None:
        texts = trace.names["text"].to_list()
        self.ranges = trace.ranges.rows(named=True)
        self.calls = trace.launches.rows(named=True)
        self.nodes = trace.graph_nodes.rows(named=True)
        self.ops = trace.ops.rows(named=True)
        for row in (*self.ranges, *self.calls):
            row["text"] = texts[row["name"]]
        # Which phase a range has in the end is the business of spans.
        self.phase = [spans.phases[code] if code >= 0 else None for code in spans.phase]
        self.parents = {
            row: self.innermost(
                self._times(row),
                lambda other: (
                    "draft" in (self.phase[other] or "").replace("draft_extend", "")
                    and self.ranges[other]["text"] not in _STEPS
                ),
            )
            for row in self.of_all(lambda row: self._is_outer_step(row))
        }
        self.steps = {
            row: parent
            for row, parent in self.parents.items()
            if parent is not None or self.phase[row] == "draft"
        }

    def _times(self, row: int) -> tuple[int, int, int]:
        held = self.ranges[row]
        return held["thread"], held["start_ns"], held["end_ns"]

    def of_all(self, chosen: Any) -> list[int]:
        return [row for row in range(len(self.ranges)) if chosen(row)]

    def around(self, what: tuple[int, int, int], chosen: Any) -> list[int]:
        """Chosen ranges around something, the innermost first."""
        thread, start, end = what
        found = [
            row
            for row, held in enumerate(self.ranges)
            if held["thread"] == thread
            and held["start_ns"] <= start
            and end <= held["end_ns"]
            and chosen(row)
        ]
        return sorted(
            found,
            key=lambda row: (-self.ranges[row]["start_ns"], self.ranges[row]["end_ns"], row),
        )

    def innermost(self, what: tuple[int, int, int], chosen: Any) -> int | None:
        return next(iter(self.around(what, chosen)), None)

    def _is_outer_step(self, row: int) -> bool:
        named = self.ranges[row]["text"] in _STEPS
        around = self.around(self._times(row), lambda other: self.ranges[other]["text"] in _STEPS)
        return named and around[-1] == row

    def layer(self, what: tuple[int, int, int]) -> tuple[int, str | None]:
        row = self.innermost(what, lambda row: self.ranges[row]["text"] in _LAYERS)
        number = -1 if row is None else _LAYERS[self.ranges[row]["text"]][0]
        row = self.innermost(what, lambda row: self.ranges[row]["text"] == "model.layers.12.mlp")
        return number, None if row is None else "mlp"

    def step_of_call(self, what: tuple[int, int, int]) -> int:
        row = self.innermost(what, lambda row: row in self.steps)
        if row is None or self.steps[row] is None:
            return -1
        family = [other for other in self.steps if self.steps[other] == self.steps[row]]
        return self._rank(row, family)

    def step_of_birth(self, node: dict[str, Any]) -> int:
        row = self.innermost(self._birth(node), lambda row: row in self.steps)
        if row is None:
            return -1
        family_of = self.family(node)
        if family_of == (None, 0):
            return -1
        family = [
            step
            for other in self.nodes
            if (step := self.innermost(self._birth(other), lambda row: row in self.steps))
            is not None
            and self.family(other) == family_of
        ]
        return self._rank(row, family)

    def family(self, node: dict[str, Any]) -> tuple[int | None, int]:
        row = self.innermost(self._birth(node), lambda row: row in self.steps)
        begun = [
            place
            for place, call in enumerate(
                sorted(
                    (call for call in self.calls if "BeginCapture" in call["text"]),
                    key=lambda call: (call["thread"], call["start_ns"]),
                ),
                1,
            )
            if call["thread"] == node["thread"] and call["start_ns"] <= node["time_ns"]
        ]
        return (None if row is None else self.steps[row]), max(begun, default=0)

    def _birth(self, node: dict[str, Any]) -> tuple[int, int, int]:
        return node["thread"], node["time_ns"], node["time_ns"]

    def _rank(self, row: int, family: list[int]) -> int:
        key = self.ranges[row]["start_ns"], row
        return sum((self.ranges[other]["start_ns"], other) < key for other in set(family))

    def place(self, op: dict[str, Any]) -> tuple[int, int, str | None]:
        (call,) = (call for call in self.calls if call["correlation_id"] == op["correlation_id"])
        around = call["thread"], call["start_ns"], call["end_ns"]
        step, (layer, module) = self.step_of_call(around), self.layer(around)
        node = self.born(op, call["start_ns"])
        if node is not None:
            birth_layer, birth_module = self.layer(self._birth(node))
            step = step if step >= 0 else self.step_of_birth(node)
            layer = layer if layer >= 0 else birth_layer
            module = module or birth_module
        return step, layer, module

    def born(self, op: dict[str, Any], at_ns: int) -> dict[str, Any] | None:
        return next(
            (
                node
                for node in self.nodes
                if node["node_id"] == op["graph_node_id"] and node["time_ns"] <= at_ns
            ),
            None,
        )

    def birth_phase(self, op: dict[str, Any]) -> str | None:
        (call,) = (call for call in self.calls if call["correlation_id"] == op["correlation_id"])
        node = self.born(op, call["start_ns"])
        if node is None:
            return None
        row = self.innermost(self._birth(node), lambda row: self.phase[row] is not None)
        return None if row is None else self.phase[row]

    def launch_phase(self, op: dict[str, Any]) -> str | None:
        (call,) = (call for call in self.calls if call["correlation_id"] == op["correlation_id"])
        what = call["thread"], call["start_ns"], call["end_ns"]
        row = self.innermost(what, lambda row: self.phase[row] is not None)
        return None if row is None else self.phase[row]


@examples(0.35)
@given(captures())
def test_places_are_those_found_by_trying_every_range(trace: Trace) -> None:
    spans = classify_ranges(trace, RULES)
    attribution = attribute_ops(trace, spans)
    places = places_of_ops(trace, spans, attribution.launch)
    tried = Tried(trace, spans)
    modules = [*places.modules, None]
    found = [
        (int(step), int(layer), modules[module])
        for step, layer, module in zip(places.step, places.layer, places.module, strict=True)
    ]
    assert found == [tried.place(op) for op in tried.ops]
    names = [*spans.phases, None]
    assert [names[code] for code in places.birth_phase] == [
        tried.birth_phase(op) for op in tried.ops
    ]
    split = split_of_fused(spans, attribution.span, places)
    assert [names[code] for code in split] == [
        birth if tried.launch_phase(op) == FUSED and birth in ("verify", "draft_extend") else None
        for op in tried.ops
        for birth in [tried.birth_phase(op)]
    ]


def places_of_names(*names: str, around: str | None = None) -> tuple[list[bool], list[Any]]:
    """Whether each name is a draft step, and its layer and module."""
    ranges = [
        {"name": name, "start_ns": 10 * place + 1, "end_ns": 10 * place + 2}
        for place, name in enumerate(names)
    ]
    if around is not None:
        ranges.append({"name": around, "start_ns": 0, "end_ns": 1_000, "domain": "eagle"})
    trace = build(ranges=ranges)
    found = read_places(trace, classify_ranges(trace, RULES))
    modules = [*found.modules, None]
    layers = [
        (int(layer), modules[module])
        for layer, module in zip(found.layer, found.module, strict=True)
    ]
    count = len(names)
    return found.step_range.tolist()[:count], layers[:count]


def test_names_of_draft_steps() -> None:
    inside = ("step[DECODE bs=8]", "step[DRAFT bs=4]", "_execute_draft_iteration")
    own = ("Draft_Step_3", "draft step", "eagle:draft.step:17", "draft_iter 2", "draft_forward_1")
    other = ("draft", "draft_forward", "step[DRAFT_LOOP raw_bs=1 bs=2]", "step 3", "verify")
    assert places_of_names(*inside, *own, *other, around="draft")[0] == [
        *[True] * (len(inside) + len(own)),
        *[False] * len(other),
    ]
    assert places_of_names("step[DECODE bs=8]", "draft step")[0] == [False, True]


@pytest.mark.parametrize(
    ("name", "layer", "module"),
    [
        ("layer 3", 3, None),
        ("Layer_12", 12, None),
        ("model.layers.7.self_attn", 7, "self_attn"),
        ("model.layers.7.mlp.down_proj", 7, "mlp.down_proj"),
        ("nn.Module: LlamaDecoderLayer_31", 31, None),
        ("{'Module': 'model.layers.4.mlp', 'Inputs': [[1, 8]]}", 4, "mlp"),
        ("transformer.h.5.attn", 5, "attn"),
        ("blocks.2", 2, None),
        ("layernorm 3", -1, None),
        ("verify", -1, None),
        ("graph.1", -1, None),
        ("step[DECODE bs=8]", -1, None),
    ],
)
def test_names_of_layers(name: str, layer: int, module: str | None) -> None:
    assert places_of_names(name)[1] == [(layer, module)]


def test_each_capture_counts_its_steps_anew() -> None:
    """Two batch sizes captured in one draft range: three steps each, not six."""
    ranges = [{"name": "draft", "domain": "eagle", "start_ns": 0, "end_ns": 1_000}]
    calls, nodes = [], []
    for capture in (100, 500):
        calls.append(
            {"name": "cudaStreamBeginCapture_v10000", "start_ns": capture, "end_ns": capture + 1}
        )
        for step in range(3):
            at = capture + 10 + 20 * step
            ranges.append(
                {"name": "draft.step", "domain": "eagle", "start_ns": at, "end_ns": at + 9}
            )
            nodes.append({"process": 0, "node_id": at, "time_ns": at + 5, "thread": 0})
    launches = [
        *calls,
        {"name": "cudaGraphLaunch", "start_ns": 2_000, "end_ns": 2_001, "correlation_id": 1},
    ]
    ops = [
        {"start_ns": 2_010, "end_ns": 2_011, "correlation_id": 1, "graph_node_id": node["node_id"]}
        for node in nodes
    ]
    trace = replace(
        build(ops=ops, launches=launches, ranges=ranges), graph_nodes=frame("graph_nodes", nodes)
    )
    places: OpPlaces = places_of_ops(
        trace, classify_ranges(trace, RULES), np.full(len(ops), len(calls))
    )
    assert places.step.tolist() == [0, 1, 2, 0, 1, 2]

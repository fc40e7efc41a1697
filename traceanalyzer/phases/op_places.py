"""Each op's draft step, layer and module, from the ranges around its launch or its node's birth.

Ranges around the launch say it first. A replay's ops have one launch for all, so for them the
ranges count that were open on the capturing thread when their node was born; where the recording
holds no births nothing is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.intervals import Intervals, Packing
from traceanalyzer.phases.attribution import launch_intervals
from traceanalyzer.phases.lineage import origins_of_ops
from traceanalyzer.phases.range_places import innermost_of, ordinals, read_places
from traceanalyzer.phases.rules import parse_phase

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.range_places import RangePlaces
    from traceanalyzer.phases.spans import Spans
    from traceanalyzer.trace import Trace

    Int32s = NDArray[np.int32]
    Int64s = NDArray[np.int64]

_BEGINS_CAPTURE: Final = r"^(?:cuda|cu|hip)StreamBeginCapture"


@dataclass(frozen=True, slots=True)
class Scores:
    """A few values for many ops, as arrays of numbers of theirs: NaN where none was told.

    Attributes:
        number: Two rows, for step and layer, as long as `trace.ops`: places in `values`.
        values: NaN, and each score once.
    """

    number: NDArray[np.signedinteger]
    values: NDArray[np.float64]

    def __getitem__(self, which: tuple[int, Int64s]) -> NDArray[np.float64]:
        """The scores of the step or layer of some ops, by part and rows."""
        return self.values[self.number[which]]


@dataclass(frozen=True, slots=True)
class OpPlaces:
    """Where in a forward each op belongs, as arrays as long as `trace.ops`.

    Attributes:
        step: Draft step, from 0; -1 where nothing tells it.
        layer: Layer as its range numbers it, -1 where nothing tells it.
        module: Place in `modules`, -1 for none.
        modules: Names of modules inside of a layer.
        birth_phase: Place in `Spans.phases` of the phase range that was open when the op's graph
            node was captured, -1 for none.
        born: Whether the capture of the op's graph node is recorded.
        scores: Where step or layer was carried over from another forward, the share of the
            forward's kernels that matched. None where none was.
    """

    step: Int32s
    layer: Int32s
    module: Int32s
    modules: tuple[str, ...]
    birth_phase: Int32s
    born: NDArray[np.bool_]
    scores: Scores | None = None


def places_of_ops(trace: Trace, spans: Spans, launch: Int64s) -> OpPlaces:
    """Find the place of every op; `launch` is its row in `trace.launches`, -1 for none."""
    names = read_places(trace, spans)
    origin = origins_of_ops(trace, launch)
    at_birth = np.append(_by_birth(trace, spans, names), np.full((4, 1), -1), axis=1)
    step, layer, module, phase = (column[origin] for column in at_birth.astype(np.int32))
    if names.any:
        around = _by_launch(trace, spans, names)
        for column, told in zip((step, layer, module), around, strict=True):
            if not (told >= 0).any():
                continue
            of_op = np.append(told, -1).astype(np.int32)[launch]
            np.copyto(column, of_op, where=of_op >= 0)
    return OpPlaces(step, layer, module, names.modules, phase, origin >= 0)


def split_of_fused(spans: Spans, span: Int64s, places: OpPlaces) -> Int64s:
    """Place in `spans.phases` of the part of a fused phase that an op belongs to, -1 for no split.

    Args:
        spans: Meaning of the ranges.
        span: Phase range of each op's launch, -1 for none.
        places: What the ranges at the birth of the op's node tell. It splits a phase only when it
            names a part of it.
    """
    members = [frozenset(parse_phase(phase)) for phase in spans.phases]
    count = len(members)
    part = np.zeros((count + 1, count + 1), bool)
    for whole in range(count):
        for inner in range(count):
            part[whole, inner] = members[inner] < members[whole]
    if not part.any():
        return np.full(span.size, -1, np.int64)
    launched_in = np.append(spans.phase, -1)[span]
    return np.where(part[launched_in, places.birth_phase], places.birth_phase, np.int64(-1))


def _by_birth(trace: Trace, spans: Spans, names: RangePlaces) -> Int64s:
    """Step, layer, module and phase of each row of `trace.graph_nodes`, as four rows."""
    nodes = trace.graph_nodes
    told = np.full((4, nodes.height), -1, np.int64)
    captured = nodes["original_id"].is_null() & nodes["thread"].is_not_null()
    born = np.flatnonzero(captured.to_numpy())
    if not born.size or not trace.ranges.height:
        return told
    time_ns = nodes["time_ns"].to_numpy()[born]
    thread = nodes["thread"].fill_null(-1).to_numpy()[born].astype(np.int64)
    births = Intervals(thread, time_ns, time_ns)
    ranges = spans.intervals
    step = innermost_of(ranges, np.flatnonzero(names.step_range), births)
    draft = np.append(names.draft_range, -1)[step]
    told[0, born] = ordinals(step, _captures(trace, births, draft), ranges.start_ns)
    told[1:3, born] = _layers(spans, names, births)
    phase = innermost_of(ranges, spans.rows(spans.phase >= 0), births)
    told[3, born] = np.append(spans.phase, -1)[phase]
    return told


def _layers(spans: Spans, names: RangePlaces, at: Intervals) -> tuple[Int64s, Int64s]:
    """Layer and module by the innermost range that names one."""
    layer = innermost_of(spans.intervals, spans.rows(names.layer >= 0), at)
    module = innermost_of(spans.intervals, spans.rows(names.module >= 0), at)
    return np.append(names.layer, -1)[layer], np.append(names.module, -1)[module]


def _captures(trace: Trace, births: Intervals, draft: Int64s) -> Int64s:
    """Which capture each node was born in: by draft range, and by the stream capture begun last.

    Of several batch sizes captured in one range each counts its steps anew. -1 where neither a
    draft range nor the begin of a capture is recorded.
    """
    starts = trace.names.select(pl.col("text").str.contains(_BEGINS_CAPTURE)).to_series().to_numpy()
    begun: Int64s = np.zeros(births.size, np.int64)
    calls = np.flatnonzero(starts[trace.launches["name"].to_numpy()])
    if calls.size:
        known = launch_intervals(trace, calls)
        packing = Packing.covering(trace.threads.height, (known.start_ns, births.start_ns))
        keys = np.sort(packing.key(known.lane, known.start_ns))
        place = np.searchsorted(keys, packing.key(births.lane, births.start_ns), "right")
        same = packing.lane(keys[place - 1]) == births.lane
        begun = np.where((place > 0) & same, place, 0)
    family = (draft + 1) * (calls.size + 1) + begun
    return np.where(family > 0, family, -1)


def _by_launch(trace: Trace, spans: Spans, names: RangePlaces) -> tuple[Int64s, Int64s, Int64s]:
    """Step, layer and module of each row of `trace.launches`."""
    calls = launch_intervals(trace, np.arange(trace.launches.height))
    steps = np.flatnonzero(names.step_range)
    rank = np.full(spans.phase.size + 1, -1, np.int64)
    rank[steps] = ordinals(steps, names.draft_range[steps], spans.intervals.start_ns)
    step = innermost_of(spans.intervals, steps, calls)
    return rank[step], *_layers(spans, names, calls)

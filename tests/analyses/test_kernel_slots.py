"""Kernels by their place in a forward, against plain loops over the ops of each cycle."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from hypothesis import given

from tests.measured import Measured
from tests.strategies import examples, gpu_traces
from traceanalyzer.analyses.kernel_classes import ROWS, class_time
from traceanalyzer.analyses.kernel_slots import (
    NO_SLOT,
    kernel_runs,
    kernel_slots,
    slots_in_order,
)
from traceanalyzer.kernels.classification import CLASSES, WHOLE_GRAPH, class_of_ops
from traceanalyzer.phases.kernel_blocks import folded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.phased import PhasedTrace
    from traceanalyzer.trace import Trace

Place = tuple[int, int]
"""Cycle and label."""


def ops_in_order(phased: PhasedTrace) -> dict[Place, list[int]]:
    """Ops of each cycle and label that hold no whole-graph row, by start."""
    found: dict[Place, list[int]] = defaultdict(list)
    for op in sorted(range(phased.cycle.size), key=lambda op: (int(phased.ops.start_ns[op]), op)):
        if phased.cycle[op] >= 0:
            found[int(phased.cycle[op]), int(phased.label[op])].append(op)
    kinds = class_of_ops(phased.trace)
    return {
        place: own
        for place, own in found.items()
        if not any(kinds[op] == WHOLE_GRAPH for op in own)
    }


def times_of(measured: Measured, bucket: NDArray[np.int64]) -> pl.DataFrame:
    """Time by slot of all phases in all cycles, with the phase."""
    phased = measured.phased
    everything = np.ones(len(phased.labels), bool), np.ones(bucket.size, bool)
    runs = kernel_runs(phased, measured.pieces, *everything)
    found = [*kernel_slots(runs, bucket, phased.trace.names["text"])]
    assert len({(each.bucket, each.label) for each in found}) == len(found)
    for each in found:
        assert (bucket[each.times["cycle"].to_numpy()] == each.bucket).all()
    parts = [
        each.times.with_columns(
            each.kernels[each.times["kernel"].to_list()], label=pl.lit(each.label)
        )
        for each in found
    ]
    return pl.concat(parts) if parts else pl.DataFrame(schema=_TIMES)


_TIMES = dict.fromkeys(("cycle", "label", "kernel", "class", "slot", "ops", "busy_ns"), pl.Int64())


def slot_counts(phased: PhasedTrace, bucket: dict[int, int]) -> Counter[tuple[int, int, int, int]]:
    """Ops by cycle, label, name and slot."""
    name = phased.trace.ops["name"].to_list()
    names = {place: tuple(name[op] for op in own) for place, own in ops_in_order(phased).items()}
    alike: dict[tuple[int, int], Counter[tuple[int, ...]]] = defaultdict(Counter)
    for (cycle, label), own in sorted(names.items()):
        alike[bucket[cycle], label][own] += 1
    counts: Counter[tuple[int, int, int, int]] = Counter()
    for (cycle, label), own in names.items():
        order = alike[bucket[cycle], label].most_common(1)[0][0]  # of equal ones the first
        slots = slots_in_order(folded(list(order)))
        free = defaultdict(list)
        for each, slot in zip(order, slots, strict=True):
            free[each].append(slot)
        for each in own:
            slot = free[each].pop(0) if free[each] else NO_SLOT
            counts[cycle, label, each, slot] += 1
    return counts


@examples(0.2)
@given(gpu_traces())
def test_slots_agree_with_the_loops(trace: Trace) -> None:
    measured = Measured(trace)
    phased = measured.phased
    cycles = phased.cycles.spans.size
    bucket = np.arange(cycles) % 2
    found = times_of(measured, bucket)
    texts = phased.trace.names["text"].fill_null("unnamed").to_list()
    wanted: Counter[tuple[int, int, str, int]] = Counter()
    of_cycle = {cycle: int(number) for cycle, number in enumerate(bucket)}
    for (cycle, label, name, slot), ops in slot_counts(phased, of_cycle).items():
        wanted[cycle, label, texts[name], slot] += ops
    told: Counter[tuple[int, int, str, int]] = Counter()
    rows = found.select("cycle", "label", "kernel", "slot", "ops")
    for cycle, label, kernel, slot, ops in rows.iter_rows():
        told[cycle, label, kernel, slot] += ops
    assert +told == wanted


@examples(0.2)
@given(gpu_traces())
def test_slots_of_a_class_add_up_to_it(trace: Trace) -> None:
    measured = Measured(trace)
    phased = measured.phased
    bucket = np.zeros(phased.cycles.spans.size, np.int64)
    slots = times_of(measured, bucket)
    place = {name: number for number, name in enumerate(CLASSES)}
    told: Counter[tuple[int, int, int]] = Counter()
    for cycle, label, name, ns in slots.select("cycle", "label", "class", "busy_ns").iter_rows():
        told[cycle, label, place[name]] += ns
    seen = ops_in_order(phased)
    classes = class_time(phased, measured.pieces).filter(pl.col("class") != ROWS.index(ROWS[-1]))
    for cycle, label, row, ns in classes.select("cycle", "label", "class", "busy_ns").iter_rows():
        if (cycle, label) in seen:
            assert told[cycle, label, row] == ns

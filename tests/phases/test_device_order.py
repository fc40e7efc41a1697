"""The order of ops on their devices, and their groups, against plain loops."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given

from tests.measured import Measured
from tests.reference import Reference, union_ns
from tests.strategies import MEANINGS, examples, gpu_traces
from traceanalyzer.kernels.classification import class_of_ops
from traceanalyzer.phases.device_work import worked_until_start
from traceanalyzer.phases.op_groups import op_groups

if TYPE_CHECKING:
    from traceanalyzer.trace import Trace


@examples(0.3)
@given(gpu_traces())
def test_ops_alone_and_added_time_agree_with_the_reference(trace: Trace) -> None:
    measured, reference = Measured(trace), Reference(trace, MEANINGS)
    order, ops = measured.order, reference.ops
    timed = np.flatnonzero(measured.phased.collected).tolist()
    assert order.op.tolist() == sorted(
        timed, key=lambda op: (reference.lane[op], ops[op]["start_ns"], op)
    )
    before: dict[int, list[tuple[int, int]]] = {lane: [] for lane in reference.lane}
    worked = worked_until_start(measured.phased, order, order.op).tolist()
    told = zip(
        order.op.tolist(), order.alone().tolist(), order.added_ns().tolist(), worked, strict=True
    )
    for op, alone, added_ns, worked_ns in told:
        start, end = ops[op]["start_ns"], ops[op]["end_ns"]
        shares = any(
            max(start, ops[other]["start_ns"]) < min(end, ops[other]["end_ns"])
            for other in timed
            if other != op and reference.lane[other] == reference.lane[op]
        )
        assert not (alone and shares)
        assert alone or shares or start == end or _instant_inside(reference, timed, op)
        earlier = before[reference.lane[op]]
        whole = union_ns([*earlier, (start, end)] if start < end else earlier)
        assert added_ns == whole - union_ns(earlier)
        # What ran on other lanes counts too: of one lane only differences tell.
        lanes = [union_ns(own) for lane, own in before.items() if lane < reference.lane[op]]
        own = union_ns((since, min(until, start)) for since, until in earlier if since < start)
        assert worked_ns == sum(lanes) + own
        if start < end:
            earlier.append((start, end))


def _instant_inside(reference: Reference, timed: list[int], op: int) -> bool:
    """Whether an op without length lies inside one, which then does not count as alone."""
    own = reference.ops[op]
    return any(
        own["start_ns"] <= reference.ops[other]["start_ns"] < own["end_ns"]
        for other in timed
        if other != op and reference.lane[other] == reference.lane[op]
    )


@examples(0.3)
@given(gpu_traces())
def test_groups_agree_with_the_loops(trace: Trace) -> None:
    phased = Measured(trace).phased
    groups = op_groups(phased)
    name = trace.ops["name"].to_list()
    wanted = Counter(
        zip(
            phased.cycle.tolist(),
            np.where(phased.cycle < 0, phased.ops.lane, 0).tolist(),
            phased.label.tolist(),
            class_of_ops(trace).tolist(),
            name,
            strict=True,
        )
    )
    columns = (
        groups.cycle,
        np.where(groups.cycle < 0, groups.lane, 0),
        groups.label,
        groups.kernel_class,
        groups.name,
    )
    keys = [*zip(*(column.tolist() for column in columns), strict=True)]
    assert keys == sorted(keys)
    assert dict(zip(keys, groups.ops.tolist(), strict=True)) == wanted
    assert [keys[group][4] for group in groups.of_op.tolist()] == name
    inside = groups.cycle >= 0
    assert (groups.lane[inside] == phased.cycles.spans.lane[groups.cycle[inside]]).all()

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given

from tests.measured import Measured
from tests.reference import Reference, is_graph_call
from tests.strategies import MEANINGS, examples, gpu_traces
from traceanalyzer.analyses.replayed_ops import replayed_ops
from traceanalyzer.kernels.classification import class_of_ops
from traceanalyzer.phases.op_groups import op_groups

if TYPE_CHECKING:
    from traceanalyzer.trace import Trace


@examples(0.2)
@given(gpu_traces())
def test_nodes_of_each_cycle_agree_with_the_reference(trace: Trace) -> None:
    reference, phased = Reference(trace, MEANINGS), Measured(trace).phased
    class_of_op = class_of_ops(trace)
    wanted: Counter[tuple[int, str, int]] = Counter()
    for op, row in enumerate(reference.ops):
        cycle, launch = reference.cycle[op], reference.launch[op]
        if cycle is None or launch is None or row["kind"] == "graph":
            continue
        if is_graph_call(reference.launches[launch]["text"]):
            wanted[cycle, reference.label[op], int(class_of_op[op])] += 1
    found = {
        (cycle, phased.labels[label], place): nodes
        for cycle, label, place, nodes in replayed_ops(phased, op_groups(phased)).iter_rows()
    }
    assert found == wanted

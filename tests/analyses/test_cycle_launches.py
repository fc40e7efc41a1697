from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from hypothesis import given

from tests.measured import Measured
from tests.reference import Reference, is_graph_call
from tests.strategies import MEANINGS, examples, gpu_traces
from traceanalyzer.analyses.cycle_launches import cycle_launches

if TYPE_CHECKING:
    from traceanalyzer.trace import Trace


@examples(0.2)
@given(gpu_traces())
def test_launches_of_each_cycle_agree_with_the_reference(trace: Trace) -> None:
    reference = Reference(trace, MEANINGS)
    wanted: dict[tuple[int, str], tuple[set[int], set[int]]] = defaultdict(lambda: (set(), set()))
    for op, row in enumerate(reference.ops):
        cycle, launch = reference.cycle[op], reference.launch[op]
        if cycle is None or launch is None or row["kind"] not in ("kernel", "graph"):
            continue
        graphs, kernels = wanted[cycle, reference.label[op]]
        by_graph = is_graph_call(reference.launches[launch]["text"])
        (graphs if by_graph else kernels).add(launch)
    phased = Measured(trace).phased
    found = {
        (cycle, phased.labels[label]): (graphs, kernels)
        for cycle, label, graphs, kernels in cycle_launches(phased).iter_rows()
    }
    assert found == {key: (len(one), len(other)) for key, (one, other) in wanted.items()}

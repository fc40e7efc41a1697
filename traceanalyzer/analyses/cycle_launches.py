"""How each phase was launched in each cycle: by graph launches, and kernel by kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceanalyzer.phases.attribution import launched_by_graph_call
from traceanalyzer.phases.grouping import begins_anew, parted, without_repeats
from traceanalyzer.trace import of_kinds

if TYPE_CHECKING:
    from traceanalyzer.phases.phased import PhasedTrace


def cycle_launches(phased: PhasedTrace) -> pl.DataFrame:
    """Launches of the ops that start in each cycle.

    Returns:
        One row a cycle and label that has any: cycle, label, graph_launches, kernel_launches. A
        replay counts once however many ops it left.
    """
    launched = of_kinds(phased.trace.ops, "kernel", "graph")
    launched &= (phased.cycle >= 0) & (phased.attribution.launch >= 0)
    labels, launches = len(phased.labels), max(phased.trace.launches.height, 1)
    key = phased.cycle * labels
    key += phased.label
    key *= launches
    key += phased.attribution.launch
    # A replay's ops mostly follow one another: without the repeats few rows are left to compare.
    keys = np.sort(without_repeats(key[launched]), kind="stable")
    slot, launch = parted(without_repeats(keys), launches)
    first = np.flatnonzero(begins_anew(slot))
    slots, count = slot[first], np.diff(np.append(first, slot.size))
    by_graph = np.append(0, np.cumsum(launched_by_graph_call(phased.trace, launch)))
    by_graph = by_graph[first + count] - by_graph[first]
    cycle, label = parted(slots, labels)
    return pl.DataFrame(
        {
            "cycle": cycle,
            "label": label,
            "graph_launches": by_graph,
            "kernel_launches": count - by_graph,
        }
    )

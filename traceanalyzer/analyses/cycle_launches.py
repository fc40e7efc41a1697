"""How each phase was launched in each cycle: by graph launches, and kernel by kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceanalyzer.phases.attribution import launched_by_graph_call
from traceanalyzer.phases.grouping import distinct, parted

if TYPE_CHECKING:
    from traceanalyzer.phases.phased import PhasedTrace


def cycle_launches(phased: PhasedTrace) -> pl.DataFrame:
    """Launches of the ops that start in each cycle.

    Returns:
        One row a cycle and label that has any: cycle, label, graph_launches, kernel_launches. A
        replay counts once however many ops it left.
    """
    kinds = phased.trace.ops["kind"].is_in(["kernel", "graph"]).to_numpy()
    rows = np.flatnonzero((phased.cycle >= 0) & (phased.attribution.launch >= 0) & kinds)
    labels, launches = len(phased.labels), max(phased.trace.launches.height, 1)
    slot = phased.cycle[rows] * labels + phased.label[rows]
    key = slot * launches + phased.attribution.launch[rows]
    # A replay's ops mostly follow one another: without the repeats few rows are left to compare.
    keys, _ = distinct(key[np.append(True, key[1:] != key[:-1])[: key.size]])
    slot, launch = parted(keys, launches)
    slots, (place,) = distinct(slot)
    by_graph = np.bincount(
        place[launched_by_graph_call(phased.trace, launch)], minlength=slots.size
    )
    cycle, label = parted(slots, labels)
    return pl.DataFrame(
        {
            "cycle": cycle,
            "label": label,
            "graph_launches": by_graph,
            "kernel_launches": np.bincount(place, minlength=slots.size) - by_graph,
        }
    )

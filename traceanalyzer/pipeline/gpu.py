"""Processes with GPU work, measured: every analysis once, in the order in which they build."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from traceanalyzer.allocator import give_back_freed_memory
from traceanalyzer.analyses.buckets import cycle_shapes
from traceanalyzer.analyses.collective_wait import collectives_of
from traceanalyzer.analyses.coverage import coverage_ledger
from traceanalyzer.analyses.cycle_launches import cycle_launches
from traceanalyzer.analyses.gaps import CAUSES, explain_gaps, gap_sums
from traceanalyzer.analyses.graph_table import graphs_of
from traceanalyzer.analyses.idle_ranks import idle_cycles
from traceanalyzer.analyses.kernel_classes import busy_pieces, class_time, kernel_time
from traceanalyzer.analyses.kernel_slots import kernel_runs
from traceanalyzer.analyses.launch_lead import host_lead
from traceanalyzer.analyses.longest_kernels import kernels_by_cycle
from traceanalyzer.analyses.phase_time import (
    active_time_of_ops,
    cycle_time,
    phase_totals,
)
from traceanalyzer.analyses.replayed_ops import replayed_ops
from traceanalyzer.analyses.sub_phases import sub_phase_time
from traceanalyzer.analyses.synchronisations import synchronisations
from traceanalyzer.assembly.kernel_slots import SLOT_PHASES
from traceanalyzer.phases.carried_layers import CarriedPhase
from traceanalyzer.phases.cycles import KEPT
from traceanalyzer.phases.device_order import device_order
from traceanalyzer.phases.idle_time import idle_time
from traceanalyzer.phases.inference import LaneInference
from traceanalyzer.phases.op_groups import op_groups
from traceanalyzer.pipeline.figures import cycle_tables, record_table
from traceanalyzer.pipeline.measured import narrow

if TYPE_CHECKING:
    from traceanalyzer.analyses.kernel_classes import BusyPieces
    from traceanalyzer.phases.device_order import DeviceOrder
    from traceanalyzer.phases.phased import PhasedTrace


def measured_on_gpu(phased: PhasedTrace) -> dict[str, pl.DataFrame]:
    """The tables of processes whose ops have phases, by their names in `Tables`."""
    found: dict[str, pl.DataFrame] = {}
    order = device_order(phased)
    for measured in (_timing, _worked, _told):
        give_back_freed_memory()
        found |= {name: narrow(table) for name, table in measured(phased, order).items()}
    return found


def _timing(phased: PhasedTrace, order: DeviceOrder) -> dict[str, pl.DataFrame]:
    """What the timeline of the lanes tells."""
    idle = idle_time(order, phased.cycles)
    give_back_freed_memory()
    gaps = explain_gaps(phased, order, idle)
    give_back_freed_memory()
    graphs = graphs_of(phased, idle)
    del idle
    give_back_freed_memory()
    active = active_time_of_ops(phased, order)
    shape = (len(phased.labels), len(CAUSES))
    time = cycle_time(phased.cycles.spans.size, active, gaps, shape)
    summed_gaps = gap_sums(gaps, len(phased.labels))
    del gaps
    lost = np.bincount(phased.ops.lane[~phased.collected], minlength=phased.ranks.size)
    process = np.array(phased.ranks.process, np.int64)
    return {
        "lanes": pl.DataFrame(
            {"process": process, "not_collected": lost, "idle_cycles": idle_cycles(phased)}
        ),
        **cycle_tables(phased.cycles, cycle_shapes(phased), time),
        "gaps": summed_gaps,
        **_stalling(phased),
        "totals": phase_totals(phased, active),
        "graphs": graphs.graphs,
        "replays": graphs.replays,
    }


def _stalling(phased: PhasedTrace) -> dict[str, pl.DataFrame]:
    """What the recorder did to cycles."""
    found = phased.cycles.stalling
    assert found is not None, "cycles on the GPU tell"
    of_cycle = {"usable": found.usable, "stretched": found.stretched}
    return {"stalls": found.stalls, "stalled_cycles": pl.DataFrame(of_cycle)}


def _worked(phased: PhasedTrace, order: DeviceOrder) -> dict[str, pl.DataFrame]:
    """What is told of the ops in the order of their starts, and by cycle and kernel."""
    groups = op_groups(phased)
    found = collectives_of(phased, order, groups.class_of_op)
    told = {
        "collectives": found.ops,
        "beside": pl.DataFrame(asdict(found.beside)),
        "coverage": coverage_ledger(phased, order),
        "leads": host_lead(phased, order),
        "replayed": replayed_ops(phased, groups),
        "cycle_kernels": kernels_by_cycle(phased, groups),
    }
    give_back_freed_memory()
    return told | _busy(phased, busy_pieces(phased, order, groups))


def _busy(phased: PhasedTrace, pieces: BusyPieces) -> dict[str, pl.DataFrame]:
    """What fills the busy time."""
    runs = kernel_runs(
        phased, pieces, np.isin(phased.labels, SLOT_PHASES), phased.cycles.state == KEPT
    )
    return {
        "classes": class_time(phased, pieces),
        "kernels": kernel_time(phased, pieces),
        "runs": runs.runs,
        "run_cycles": runs.cycles,
        "run_times": runs.times,
        "late": runs.late,
    }


def _told(phased: PhasedTrace, _: DeviceOrder) -> dict[str, pl.DataFrame]:
    """What stands beside the timeline."""
    return {
        "launches": cycle_launches(phased),
        "parts": sub_phase_time(phased),
        "syncs": synchronisations(phased.trace, phased.spans),
        "inferred": record_table(LaneInference, phased.inference.lanes if phased.inference else ()),
        "carried": record_table(CarriedPhase, phased.carried),
    }

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
    active_time,
    cycle_time,
    phase_segments,
    phase_totals,
)
from traceanalyzer.analyses.replayed_ops import replayed_ops
from traceanalyzer.analyses.sub_phases import sub_phase_time
from traceanalyzer.analyses.synchronisations import synchronisations
from traceanalyzer.assembly.kernel_slots import SLOT_PHASES
from traceanalyzer.phases.carried_layers import CarriedPhase
from traceanalyzer.phases.cycles import KEPT
from traceanalyzer.phases.inference import LaneInference
from traceanalyzer.pipeline.figures import cycle_tables, record_table
from traceanalyzer.pipeline.measured import narrow

if TYPE_CHECKING:
    from traceanalyzer.phases.phased import PhasedTrace


def measured_on_gpu(phased: PhasedTrace) -> dict[str, pl.DataFrame]:
    """The tables of processes whose ops have phases, by their names in `Tables`."""
    found: dict[str, pl.DataFrame] = {}
    for measured in (_timing, _busy, _collectives, _launched, _told):
        give_back_freed_memory()
        found |= {name: narrow(table) for name, table in measured(phased).items()}
    return found


def _timing(phased: PhasedTrace) -> dict[str, pl.DataFrame]:
    """What the timeline of the lanes tells."""
    timed = phased.collected
    segments = phase_segments(phased.ops.take(timed), phased.label[timed], phased.cycles)
    give_back_freed_memory()
    gaps = explain_gaps(phased, segments)
    give_back_freed_memory()
    active = active_time(phased.cycles, segments)
    shape = (len(phased.labels), len(CAUSES))
    time = cycle_time(phased.cycles.spans.size, active, gaps, shape)
    summed_gaps = gap_sums(gaps, len(phased.labels))
    del gaps
    graphs, totals = graphs_of(phased, segments), phase_totals(phased, active)
    del segments
    give_back_freed_memory()
    lost = np.bincount(phased.ops.lane[~timed], minlength=phased.ranks.size)
    process = np.array(phased.ranks.process, np.int64)
    return {
        "lanes": pl.DataFrame(
            {"process": process, "not_collected": lost, "idle_cycles": idle_cycles(phased)}
        ),
        **cycle_tables(phased.cycles, cycle_shapes(phased), time),
        "gaps": summed_gaps,
        **_stalling(phased),
        "totals": totals,
        "graphs": graphs.graphs,
        "replays": graphs.replays,
    }


def _stalling(phased: PhasedTrace) -> dict[str, pl.DataFrame]:
    """What the recorder did to cycles."""
    found = phased.cycles.stalling
    assert found is not None, "cycles on the GPU tell"
    of_cycle = {"usable": found.usable, "stretched": found.stretched}
    return {"stalls": found.stalls, "stalled_cycles": pl.DataFrame(of_cycle)}


def _busy(phased: PhasedTrace) -> dict[str, pl.DataFrame]:
    """What fills the busy time."""
    pieces = busy_pieces(phased)
    kernels = kernel_time(phased, pieces)
    give_back_freed_memory()
    runs = kernel_runs(
        phased, pieces, np.isin(phased.labels, SLOT_PHASES), phased.cycles.state == KEPT
    )
    return {
        "classes": class_time(phased, pieces),
        "replayed": replayed_ops(phased, pieces.class_of_op),
        "cycle_kernels": kernels_by_cycle(phased, pieces.class_of_op),
        "kernels": kernels,
        "runs": runs.runs,
        "run_cycles": runs.cycles,
        "run_times": runs.times,
        "late": runs.late,
    }


def _collectives(phased: PhasedTrace) -> dict[str, pl.DataFrame]:
    found = collectives_of(phased)
    return {"collectives": found.ops, "beside": pl.DataFrame(asdict(found.beside))}


def _launched(phased: PhasedTrace) -> dict[str, pl.DataFrame]:
    """What the launches tell."""
    return {
        "leads": host_lead(phased),
        "coverage": coverage_ledger(phased),
        "launches": cycle_launches(phased),
    }


def _told(phased: PhasedTrace) -> dict[str, pl.DataFrame]:
    """What stands beside the timeline."""
    return {
        "parts": sub_phase_time(phased),
        "syncs": synchronisations(phased.trace, phased.spans),
        "inferred": record_table(LaneInference, phased.inference.lanes if phased.inference else ()),
        "carried": record_table(CarriedPhase, phased.carried),
    }

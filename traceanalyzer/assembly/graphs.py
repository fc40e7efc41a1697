"""The CUDA graphs of the report, and the draft steps and layers of its buckets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from traceanalyzer.analyses.sub_phases import PARTS
from traceanalyzer.assembly.timing import half_width, spread
from traceanalyzer.report import GraphReport, PartTime, PhaseParts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from traceanalyzer.assembly.timing import Timing


def graph_reports(graphs: pl.DataFrame, timing: Timing, ranks: Sequence[int]) -> list[GraphReport]:
    """One report a graph, in the order of `graphs`.

    Args:
        graphs: See `graph_table`.
        timing: Holds the labels and the buckets of cycles.
        ranks: Rank number of each lane.
    """
    shapes = timing.buckets.unique("bucket", keep="first").select("bucket", "batch")
    batch = dict(shapes.drop_nulls().iter_rows())
    return [
        GraphReport(
            phases=[
                label for place, label in enumerate(timing.labels) if row["labels"] >> place & 1
            ],
            batches=sorted({batch[number] for number in row["buckets"] if number in batch}),
            ranks=sorted(ranks[lane] for lane in row["lanes"]),
            launches=row["launches"],
            ops=None if row["whole_graph"] else row["ops"],
            period_ns=row["period_ns"],
            span_p50_ns=row["span_p50_ns"],
            span_p99_ns=row["span_p99_ns"],
            launch_ns=row["launch_p50_ns"],
            waited_share=row["waited_share"],
            blocks=row["blocks"],
            inside=_inside(row),
            busy_ns=row["busy_p50_ns"],
            summed_ns=row["summed_p50_ns"],
            waited_ns=row["waited_ns"],
        )
        for row in graphs.iter_rows(named=True)
    ]


def _inside(row: Mapping[str, Any]) -> str:
    if row["whole_graph"]:
        return "whole-graph row"
    if row["carried"]:
        return "order of kernels"
    return "capture-time range" if row["told"] else "phase at replay only"


def phase_parts(times: pl.DataFrame, timing: Timing, order: Sequence[int]) -> list[PhaseParts]:
    """Draft steps and layers by bucket, phase and part.

    Args:
        times: See `sub_phase_time`.
        timing: Holds the labels and the buckets of cycles.
        order: Number of each bucket of the report.
    """
    bucket = timing.buckets["bucket"].gather(times["cycle"])
    lane = timing.cycles.spans.lane[times["cycle"].to_numpy()]
    times = times.with_columns(lane=lane)
    place = {number: place for place, number in enumerate(order)}
    return [
        _parts((place[number], timing.labels[label], PARTS[part]), rows)
        for number in order
        for (label, part), rows in times.filter(bucket == number)
        .sort("label", "part", "number")
        .group_by("label", "part", maintain_order=True)
    ]


def _parts(key: tuple[int, str, str], rows: pl.DataFrame) -> PhaseParts:
    """Bucket, phase and part of the rows are the key."""
    whole_ns = int(rows["busy_ns"].sum())
    parts = [
        _part(int(number), own, whole_ns)
        for (number,), own in rows.group_by("number", maintain_order=True)
    ]
    longest = max(parts, key=lambda each: each.busy_ns_per_cycle.mean)
    score = rows["score"].min()
    return PhaseParts(
        *key,
        parts,
        whole_ns / rows.height,
        longest.number,
        carried_score=None if score is None else float(score),  # type: ignore[arg-type]
    )


def _part(number: int, rows: pl.DataFrame, whole_ns: int) -> PartTime:
    busy = rows["busy_ns"].to_numpy().astype(np.int64)
    found = spread(busy)
    assert found is not None, "a group has rows"
    return PartTime(
        number,
        cycles=int(busy.size),
        busy_ns_per_cycle=found,
        share=int(busy.sum()) / whole_ns if whole_ns else 0.0,
        nodes_per_cycle=int(rows["nodes"].sum()) / busy.size,
        half_width_ns=half_width(float(busy.var()), busy.size // rows["lane"].n_unique()),
    )

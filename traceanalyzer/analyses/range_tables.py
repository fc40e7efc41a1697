"""Every range by name, with its GPU and host time and the phase it is read as.

Both tables are inclusive: an op counts for each name around its launch, once a name even where a
range is nested in another of the same name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer import schema
from traceanalyzer.intervals import Containers, Intervals, Packing, total_by, union
from traceanalyzer.phases.attribution import launch_intervals, launches_of_ops
from traceanalyzer.phases.spans import classify_ranges
from traceanalyzer.trace import of_kinds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.rules import Rules
    from traceanalyzer.trace import Trace

RANGE_COLUMNS: Final = (
    "range",
    "style",
    "phase",
    "instances",
    "host_ns",
    "ops",
    "kernels",
    "gpu_ns",
    "cross_thread",
)
KERNEL_COLUMNS: Final = (
    "range",
    "style",
    "process_id",
    "thread_id",
    "kernel",
    "range_instances",
    "kernel_instances",
    "total_ns",
)


def range_table(trace: Trace, rules: Rules) -> pl.DataFrame:
    """One row a range name.

    Args:
        trace: The capture.
        rules: Phase rules.

    Returns:
        `RANGE_COLUMNS`, most GPU time first: range is "domain:name"; phase is null where no rule
        gives one, "cycle" for an engine's cycle; instances counts ranges; host_ns is their union
        a thread; ops, kernels and gpu_ns (summed op time) are of the launches inside;
        cross_thread counts ranges that another thread closed, which contain nothing.
    """
    labelled, labels = _labelled(trace)
    rows = labelled["label"].to_numpy()
    crossed = labelled["end_thread"].is_not_null().to_numpy()
    counted = labels.with_columns(
        instances=np.bincount(rows, minlength=labels.height),
        cross_thread=np.bincount(rows[crossed], minlength=labels.height),
        host_ns=_host_ns(labelled, labels.height),
    )
    return (
        counted.join(_phases(trace, rules, labelled["label"]), on="label", how="left")
        .join(_gpu_time(trace, labelled), on="label", how="left")
        .with_columns(pl.col("ops", "kernels", "gpu_ns").fill_null(0))
        .sort(["gpu_ns", "host_ns", "label"], descending=[True, True, False])
        .select(RANGE_COLUMNS)
    )


def _phases(trace: Trace, rules: Rules, labels: pl.Series) -> pl.DataFrame:
    """What the first range of each label that means anything is read as: label, phase."""
    spans = classify_ranges(trace, rules)
    meant = np.flatnonzero((spans.phase >= 0) | spans.is_cycle)
    phases = pl.Series([*spans.phases, "cycle"], dtype=pl.String)
    codes = np.where(spans.is_cycle, len(spans.phases), spans.phase)[meant]
    read = pl.DataFrame([labels.gather(meant), phases.gather(codes).alias("phase")])
    return read.unique("label", keep="first", maintain_order=True)


def kernel_table(trace: Trace) -> pl.DataFrame:
    """One row a range name, thread and kernel.

    Whole-graph rows count as the kernel "[CUDA graph]". Kernels launched outside every range have
    an empty range; those without a launch row have no thread either.

    Returns:
        `KERNEL_COLUMNS`, sorted; no rows when the capture holds no ranges.
    """
    if not trace.ranges.height:
        return pl.DataFrame(schema=_KERNEL_SCHEMA)
    kinds = of_kinds(trace.ops, "kernel", "graph")
    rows = np.flatnonzero(kinds)
    labelled, labels = _labelled(trace)
    pairs = _op_labels(trace, labelled, rows)
    key = ["label", "thread", "name"]
    instances = pairs.unique([*key, "range_row"]).group_by(key).agg(range_instances=pl.len())
    inside = (
        pairs.unique(["label", "op"])
        .group_by(key)
        .agg(kernel_instances=pl.len(), total_ns=pl.col("duration_ns").sum())
        .join(instances, on=key, how="left")
    )
    named = pl.concat(
        [
            inside.join(labels, on="label", how="left"),
            _outside(trace, rows, pairs["op"]),
        ],
        how="diagonal",
    )
    threads = trace.threads.join(
        trace.processes.select("process", "process_id"), on="process", how="left"
    ).select("thread", "process_id", "thread_id")
    return (
        named.join(threads, on="thread", how="left")
        .with_columns(kernel=trace.text("name"))
        .select(pl.col(column).cast(dtype) for column, dtype in _KERNEL_SCHEMA.items())
        .sort(KERNEL_COLUMNS, nulls_last=False)
    )


_KERNEL_SCHEMA: Final = {
    "range": pl.String(),
    "style": pl.String(),
    "process_id": pl.Int64(),
    "thread_id": pl.Int64(),
    "kernel": pl.String(),
    "range_instances": pl.Int64(),
    "kernel_instances": pl.Int64(),
    "total_ns": pl.Int64(),
}


def _labelled(trace: Trace) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Ranges with `range_row` and `label`; and what the labels stand for.

    Returns:
        The ranges; and label (place by range and style), range ("domain:name") and style as text.
    """
    codes = trace.ranges.select(_pair_code(trace.names.height)).to_series()
    domain, name = trace.text("domain"), trace.text("name")
    pairs = (
        trace.ranges.select("domain", "name", "style", code=codes)
        .unique("code")
        .sort("code")
        .select(
            range=pl.when(pl.col("domain").is_null())
            .then(name)
            .otherwise(pl.concat_str(domain, pl.lit(":"), name)),
            style=pl.col("style").cast(pl.String),
        )
        .with_columns(label=_dense(pl.struct("range", "style")))
    )
    labelled = trace.ranges.with_columns(
        pairs["label"].gather(codes), range_row=pl.int_range(pl.len(), dtype=pl.Int64)
    )
    return labelled, pairs.unique("label").sort("label").select("label", "range", "style")


def _pair_code(names: int) -> pl.Expr:
    """A number from 0 for each pair of domain and name in each style: no text is compared."""
    domain = pl.col("domain").fill_null(-1).cast(pl.Int64) + 1
    styles = len(schema.RANGE_STYLES)
    return _dense((domain * names + pl.col("name")) * styles + pl.col("style").to_physical())


def _dense(values: pl.Expr) -> pl.Expr:
    return values.rank("dense").cast(pl.Int64) - 1


def _intervals(frame: pl.DataFrame, lane: NDArray[np.int64]) -> Intervals:
    return Intervals(lane, frame["start_ns"].to_numpy(), frame["end_ns"].to_numpy())


def _host_ns(labelled: pl.DataFrame, labels: int) -> NDArray[np.int64]:
    """Union of each label's ranges on each thread, summed over threads."""
    threads = labelled["thread"].to_numpy().astype(np.int64)
    merged = union(_intervals(labelled, threads * labels + labelled["label"].to_numpy()))
    return total_by(merged.lane % labels, labels, merged.duration_ns)


def _gpu_time(trace: Trace, labelled: pl.DataFrame) -> pl.DataFrame:
    """Ops launched inside each label: label, ops, kernels, gpu_ns."""
    pairs = _op_labels(trace, labelled, np.arange(trace.ops.height))
    once = pairs.unique(["label", "op"])
    kinds = trace.ops["kind"].gather(once["op"])
    return (
        once.with_columns(is_kernel=kinds == "kernel")
        .group_by("label")
        .agg(ops=pl.len(), kernels=pl.col("is_kernel").sum(), gpu_ns=pl.col("duration_ns").sum())
    )


def _op_labels(trace: Trace, labelled: pl.DataFrame, rows: NDArray[np.int64]) -> pl.DataFrame:
    """Each op in `rows` with each range around its launch.

    Returns:
        op, name, duration_ns, thread (of the launch), range_row, label.
    """
    containing = labelled.filter(pl.col("end_thread").is_null())
    launch = launches_of_ops(trace)[rows]
    used = np.unique(launch[launch >= 0])
    calls = launch_intervals(trace, used)
    lanes = containing["thread"].to_numpy().astype(np.int64)
    holding = _hold_a_start(_intervals(containing, lanes), calls)
    containing, lanes = containing.filter(holding), lanes[holding]
    call, place = Containers(_intervals(containing, lanes)).all_of(calls)
    around = pl.DataFrame({"launch": used[call], "thread": calls.lane[call]}).with_columns(
        containing["range_row"].gather(place), containing["label"].gather(place)
    )
    ops = (
        trace.ops[rows]
        .select("name", duration_ns=pl.col("end_ns") - pl.col("start_ns"))
        .with_columns(op=pl.Series(rows), launch=pl.Series(launch))
    )
    return ops.join(around, on="launch", how="inner").with_columns(pl.col("thread").cast(pl.Int32))


def _hold_a_start(ranges: Intervals, calls: Intervals) -> NDArray[np.bool_]:
    """Which ranges any call of their lane begins in: of millions of ranges few do."""
    lanes = 1 + max(int(it.lane.max(initial=0)) for it in (ranges, calls))
    packing = Packing.covering(lanes, (ranges.start_ns, ranges.end_ns, calls.start_ns))
    starts = np.sort(packing.key(calls.lane, calls.start_ns))
    first = np.searchsorted(starts, packing.key(ranges.lane, ranges.start_ns), "left")
    return first < np.searchsorted(starts, packing.key(ranges.lane, ranges.end_ns), "right")


def _outside(trace: Trace, rows: NDArray[np.int64], inside: pl.Series) -> pl.DataFrame:
    """The ops in `rows` that no range contains, by thread and name."""
    launch = launches_of_ops(trace)[rows]
    threads = trace.launches["thread"].gather(pl.Series(launch).replace(-1, None))
    return (
        trace.ops[rows]
        .select("name", duration_ns=pl.col("end_ns") - pl.col("start_ns"))
        .with_columns(op=pl.Series(rows), thread=threads)
        .filter(~pl.col("op").is_in(inside.unique().implode()))
        .group_by("thread", "name")
        .agg(
            range=pl.lit("").first(),
            style=pl.lit("").first(),
            range_instances=pl.lit(0, pl.UInt32).first(),
            kernel_instances=pl.len(),
            total_ns=pl.col("duration_ns").sum(),
        )
    )

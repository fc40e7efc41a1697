"""Which CUDA graphs are replayed, how often, how long, and whether the GPU waits for their launch.

Ranges are not needed. A graph is known by its executable's id, else the graph's, else its nodes,
else by the kernels that its launches run. Ids differ between ranks, so graphs of equal form and
phases are matched in order of appearance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from traceanalyzer.intervals import Intervals, added_to_union, sorted_rows
from traceanalyzer.phases.grouping import begins_anew, distinct, parted
from traceanalyzer.phases.kernel_order import recurring_blocks
from traceanalyzer.trace import of_kinds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.idle_time import IdleTime
    from traceanalyzer.phases.phased import PhasedTrace

    Int64s = NDArray[np.int64]

_IDENTITIES: Final = ("graph_exec_id", "graph_id", "graph_node_id")  # the surest first
_BORDER_SHARE: Final = 0.05
"""A bucket with a smaller share of a graph's launches is a cycle's border, not its batch."""


@dataclass(frozen=True, slots=True)
class Graphs:
    """The graphs of any number of lanes and their replays.

    Attributes:
        graphs: One row a lane's graph, by lane and first replay: lane, whole_graph (recorded as
            one row a replay), ops (of its longest replay), labels (bit set over the labels),
            first_ns (start of the longest replay), blocks (that recur in its kernels, null for
            none), told, carried (see `graph_table`).
        replays: One row a replay, by lane and first op: graph (row in `graphs`), period_ns (since
            the one before on its lane, null for the first), span_ns, busy_ns and summed_ns (union
            and sum of its ops), launch_ns (length of the
            launch call), waited_ns (the part of it in which the GPU was idle until the replay's
            first op; both null without launch row), cycle (that it was launched for, else in which
            it ran; -1 for none).
    """

    graphs: pl.DataFrame
    replays: pl.DataFrame


def graphs_of(phased: PhasedTrace, idle: IdleTime) -> Graphs:
    """The graphs of a trace with settled phases; `idle` is its idle time."""
    replays = _replays(phased)
    launches = _launches(phased, idle, replays)
    replays = replays.with_columns(launches, cycle=_cycles(phased, replays))
    # Recorded whole and node by node a graph is two: tracing nodes changes its time.
    one = ["lane", "whole_graph", "identity"]
    graphs = (
        replays.group_by(one, maintain_order=True)
        .agg(
            pl.col("ops").max(),
            pl.col("labels").bitwise_or(),
            pl.col("told", "carried").any(),
            pl.col("launch", "first_ns").sort_by(-pl.col("ops"), "first_ns", "row").first(),
        )
        .with_row_index("graph")
    )
    replays = replays.with_columns(
        period_ns=(pl.col("first_ns") - pl.col("first_ns").shift(1)).over(one)
    ).join(graphs.select(*one, "graph"), on=one, how="left", maintain_order="left")
    return Graphs(
        graphs.with_columns(blocks=_blocks(phased, graphs)).select(_GRAPH_COLUMNS),
        replays.select(_REPLAY_COLUMNS),
    )


_GRAPH_COLUMNS: Final = (
    *("lane", "whole_graph", "ops", "labels", "first_ns", "blocks", "told", "carried"),
)
_REPLAY_COLUMNS: Final = (
    *("graph", "period_ns", "span_ns", "busy_ns", "summed_ns", "launch_ns", "waited_ns", "cycle"),
)


def graph_table(found: Graphs, bucket: Int64s) -> pl.DataFrame:
    """Every graph that is replayed, the one with most GPU time first.

    Args:
        found: The graphs of all lanes.
        bucket: Bucket of each cycle.

    Returns:
        One row a graph: whole_graph (recorded as one row a replay), ops (of its longest replay),
        labels (bit set over the labels), lanes and buckets (lists), launches, period_ns
        (from start to start on one rank, median; null for one launch), span_p50_ns, span_p99_ns,
        busy_p50_ns and summed_p50_ns (of a replay's ops: union and sum), launch_p50_ns,
        waited_share (of the time in launch calls: the GPU idle until the replay's first op) and
        waited_ns (the same of a replay, mean; all three null without launch rows), blocks (that
        recur in its kernels, null for none), told (ranges tell what its nodes were captured in),
        carried (the order of its kernels tells draft steps or layers). Quantiles are nearest ranks.
    """
    graphs = _numbered(found.graphs)
    number = graphs["number"].to_numpy()
    replays = found.replays.with_columns(
        graph=pl.Series(number[found.replays["graph"].to_numpy()]),
        bucket=pl.Series(np.append(bucket, -1)[found.replays["cycle"].to_numpy()]).replace(
            -1, None
        ),
    )
    told = graphs.group_by(graph="number").agg(
        pl.col("whole_graph", "ops").first(),
        pl.col("labels").first(),
        pl.col("lane").unique().sort().alias("lanes"),
        pl.col("told", "carried").any(),
        pl.col("blocks").sort_by("first_ns", "lane").first(),
    )
    table = (
        replays.group_by("graph")
        .agg(
            pl.len().cast(pl.Int64).alias("launches"),
            pl.col("span_ns").sum().alias("gpu_ns"),
            _nearest("period_ns", 0.5).alias("period_ns"),
            _nearest("span_ns", 0.5).alias("span_p50_ns"),
            _nearest("span_ns", 0.99).alias("span_p99_ns"),
            *(_nearest(f"{kind}_ns", 0.5).alias(f"{kind}_p50_ns") for kind in ("busy", "summed")),
            _nearest("launch_ns", 0.5).alias("launch_p50_ns"),
            pl.col("waited_ns").mean(),
            (pl.col("waited_ns").sum() / pl.col("launch_ns").sum()).alias("waited_share"),
        )
        .join(told, on="graph")
        .join(_usual_buckets(replays), on="graph", how="left")
        .sort(-pl.col("gpu_ns"), "graph")
    )
    return table.select(
        *("whole_graph", "ops", "labels", "lanes"),
        pl.col("buckets").fill_null([]),
        *("launches", "period_ns", "span_p50_ns", "span_p99_ns", "busy_p50_ns", "summed_p50_ns"),
        *("launch_p50_ns", pl.col("waited_share").fill_nan(None), "waited_ns"),
        *("told", "carried", "blocks"),
    )


def _nearest(column: str, share: float) -> pl.Expr:
    return pl.col(column).quantile(share, "equiprobable").cast(pl.Int64)


def _usual_buckets(replays: pl.DataFrame) -> pl.DataFrame:
    """The buckets of each graph's launches, those at borders left out."""
    counted = replays.drop_nulls("bucket").group_by("graph", "bucket").len("launches")
    share = pl.col("launches") / pl.col("launches").sum().over("graph")
    usual = counted.filter(share >= _BORDER_SHARE).sort("graph", "bucket")
    return usual.group_by("graph").agg(pl.col("bucket").alias("buckets"))


def _replays(phased: PhasedTrace) -> pl.DataFrame:
    """One row a replay of a graph that has ops with times, by lane and first op.

    Columns: lane, launch (row in launches, below -1 for rows without one), identity, first_ns,
    span_ns, busy_ns (union), summed_ns, ops, whole_graph, labels, told, carried, row, cycle, span
    (range).
    """
    rows, whole = _graph_ops(phased)
    lanes, none = phased.ranks.size, phased.trace.launches.height
    launch = phased.attribution.launch[rows]
    # Only a whole-graph row has no launch: it is a replay of its own.
    key = np.where(launch >= 0, launch, none + 1 + rows) * lanes + phased.ops.lane[rows]
    if (key[1:] < key[:-1]).any():
        order = sorted_rows(key)
        rows, key = rows[order], key[order]
    begins = begins_anew(key)
    replay, first = np.cumsum(begins) - 1, np.flatnonzero(begins)
    launched, lane = parted(key[first], lanes)
    ops = phased.ops.take(rows)
    first_ns = _each(np.minimum, ops.start_ns, first)
    told, carried = _told_places(phased, rows)
    table = pl.DataFrame(
        {
            "lane": lane,
            "launch": np.where(launched < none, launched, none - 1 - launched),
            "first_ns": first_ns,
            "span_ns": _each(np.maximum, ops.end_ns, first) - first_ns,
            "busy_ns": _each(np.add, _added_ns(ops, replay, first_ns), first),
            "summed_ns": _each(np.add, ops.duration_ns, first),
            "ops": np.diff(np.append(first, rows.size)),
            "whole_graph": _each(np.logical_or, whole[rows], first),
            "labels": _each(np.bitwise_or, np.int64(1) << phased.label[rows], first),
            "told": _each(np.logical_or, told, first),
            "carried": _each(np.logical_or, carried, first),
            "row": rows[first],
            "cycle": _each(np.maximum, phased.cycle[rows], first),
            "span": _each(np.maximum, phased.attribution.span[rows], first),
        }
    )
    identity = _identities(phased.trace.ops, rows, replay, first.size)
    return table.with_columns(identity=identity).sort("lane", "first_ns", "row")


def _each(joined: np.ufunc, values: NDArray[Any], first: Int64s) -> NDArray[Any]:
    """The values of each replay joined into one; replays follow one another, none is empty."""
    return joined.reduceat(values, first) if first.size else values


def _graph_ops(phased: PhasedTrace) -> tuple[Int64s, NDArray[np.bool_]]:
    """Rows of the ops of replays, and which of all ops are whole-graph rows."""
    ops, launch = phased.trace.ops, phased.attribution.launch
    whole = (ops["kind"] == "graph").to_numpy()
    of_graph = whole | ops["graph_node_id"].is_not_null().to_numpy()
    of_graph |= phased.attribution.by_graph_call
    # Without a launch only a whole-graph row is a replay of its own.
    return np.flatnonzero(of_graph & phased.collected & (whole | (launch >= 0))), whole


def _told_places(phased: PhasedTrace, rows: Int64s) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """For which ops ranges tell what they were captured in, and the order of kernels a place."""
    places = phased.places
    placed = (places.step[rows] >= 0) | (places.layer[rows] >= 0)
    told = (places.birth_phase[rows] >= 0) | (places.born[rows] & placed)
    scores = places.scores
    if scores is None:
        return told, np.zeros(rows.size, bool)
    return told, (scores[0, rows] >= 0) | (scores[1, rows] >= 0)


def _added_ns(ops: Intervals, replay: Int64s, first_ns: Int64s) -> Int64s:
    """The time that each op adds to the union of those of its replay."""
    begin = first_ns[replay]
    own = Intervals(replay, ops.start_ns - begin, ops.end_ns - begin)
    return added_to_union(own, ops.start_ns)


def _identities(ops: pl.DataFrame, rows: Int64s, replay: Int64s, count: int) -> pl.Series:
    """A number for the graph of each replay: by the surest ids that any of its ops has."""
    found = np.zeros(count, np.uint64)
    known = np.zeros(count, bool)
    for kind, column in enumerate((*_IDENTITIES, "name")):
        ids = ops[column]
        if known.all() or ids.null_count() == ids.len():
            continue
        pending = ~known
        held = np.flatnonzero(pending[replay] & ids.is_not_null().to_numpy()[rows])
        known[replay[held]] = True
        sets = _sets(ids.gather(rows[held]), replay[held], (kind, count))
        found = np.where(pending, sets, found)
    return pl.Series("identity", found)


def _sets(ids: pl.Series, replay: Int64s, what: tuple[int, int]) -> NDArray[np.uint64]:
    """A number for the set of ids of each replay: equal for equal ones alone.

    Args:
        ids: Without nulls.
        replay: The replay of each.
        what: The kind of ids, so that a graph and a node that share a number are told apart; and
            how many replays there are.
    """
    kind, count = what
    known, (code,) = distinct(ids.cast(pl.Int64).to_numpy())
    pairs, _ = distinct(replay * known.size + code)
    of_replay, code = parted(pairs, max(known.size, 1))
    sums = np.zeros(count, np.uint64)
    np.add.at(sums, of_replay, pl.Series(known).hash(kind).to_numpy()[code])
    return sums


def _numbered(graphs: pl.DataFrame) -> pl.DataFrame:
    """With a number that the same graph has on every rank, by first appearance."""
    form = ["whole_graph", "ops", "labels"]
    graphs = graphs.with_columns(place=pl.int_range(pl.len()).over("lane", *form))
    numbers = graphs.select(*form, "place").unique(maintain_order=True).with_row_index("number")
    return graphs.join(numbers, on=[*form, "place"], how="left", maintain_order="left")


def _cycles(phased: PhasedTrace, replays: pl.DataFrame) -> pl.Series:
    """The cycle that each replay was launched for, else that in which it ran, -1 for none."""
    process = np.array(phased.ranks.process)
    cycles = phased.cycles
    known = pl.DataFrame(
        {
            "process": process[cycles.spans.lane],
            "number": phased.spans.number[cycles.forward],
            "launched_for": np.arange(cycles.spans.size),
        }
    ).filter(pl.col("number") >= 0)
    number = np.append(phased.spans.number, -1)[replays["span"].to_numpy()]
    launched_for = pl.DataFrame(
        {"process": process[replays["lane"].to_numpy()], "number": number}
    ).join(
        known.unique(["process", "number"], keep="first", maintain_order=True),
        on=["process", "number"],
        how="left",
        maintain_order="left",
    )["launched_for"]
    return launched_for.fill_null(replays["cycle"])


def _launches(phased: PhasedTrace, idle: IdleTime, replays: pl.DataFrame) -> list[pl.Series]:
    """Length of each launch call, and the part of it that the GPU was idle for the replay.

    Null where there is no launch row.
    """
    launch = replays["launch"].to_numpy()
    held = launch >= 0
    calls = phased.trace.launches[np.where(held, launch, 0)] if held.any() else None
    if calls is None:
        return [pl.Series(name, [None] * launch.size, pl.Int64) for name in _LAUNCH_COLUMNS]
    start, end = calls["start_ns"].to_numpy(), calls["end_ns"].to_numpy()
    first = replays["first_ns"].to_numpy()
    idle_since = _idle_since(idle, replays["lane"].to_numpy(), first)
    waited = np.maximum(np.minimum(end, first) - np.maximum(start, idle_since), 0)
    values = (end - start, waited)
    return [
        pl.select(pl.when(pl.Series(held)).then(pl.Series(value))).to_series().alias(name)
        for name, value in zip(_LAUNCH_COLUMNS, values, strict=True)
    ]


_LAUNCH_COLUMNS: Final = ("launch_ns", "waited_ns")


def _idle_since(idle: IdleTime, lane: Int64s, at_ns: Int64s) -> Int64s:
    """Start of the idle time that lasts until each instant, or the instant itself for none.

    It is when the ops before have ended; before the first of a lane, when its first cycle began.
    """
    ops = idle.ops
    last = np.searchsorted(ops.start, ops.packing.key(lane, at_ns)) - 1
    ended = np.maximum(np.append(ops.reached, -1), np.append(ops.end, -1))[last]
    held = ops.packing.lane(ended) == lane
    return np.minimum(at_ns, np.where(held, ops.packing.time(ended), _begun(idle, lane, at_ns)))


def _begun(idle: IdleTime, lane: Int64s, at_ns: Int64s) -> Int64s:
    """When the idle time before a lane's first op began, or the instant itself for none."""
    first = np.searchsorted(idle.spans.lane, lane)
    lanes, begun_ns = np.append(idle.spans.lane, -1), np.append(idle.since_ns, 0)
    return np.where(lanes[first] == lane, begun_ns[first], at_ns)


def _blocks(phased: PhasedTrace, graphs: pl.DataFrame) -> pl.Series:
    """How many blocks recur in the longest replay of each graph, null for none."""
    lane, launch = graphs["lane"].to_numpy(), graphs["launch"].to_numpy()
    wanted = np.zeros(phased.trace.launches.height + 1, bool)
    wanted[launch[launch >= 0]] = True
    kernels = of_kinds(phased.trace.ops, "kernel") & phased.collected
    rows = np.flatnonzero(wanted[phased.attribution.launch] & kernels)
    rows = rows[np.argsort(phased.ops.start_ns[rows], kind="stable")]
    names = phased.trace.ops["name"].to_numpy()[rows]
    of_launch, of_lane = phased.attribution.launch[rows], phased.ops.lane[rows]
    found: list[int | None] = []
    for own_lane, own_launch in zip(lane.tolist(), launch.tolist(), strict=True):
        own = (of_launch == own_launch) & (of_lane == own_lane)
        blocks = recurring_blocks(names[own].tolist())
        found.append(None if blocks is None else blocks.count)
    return pl.Series(found, dtype=pl.Int64)

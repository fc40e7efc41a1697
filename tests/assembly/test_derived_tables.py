"""The tables that an analysis adds: each op's phase, rank and cycle, and the cycles."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given

from tests.harness import SAMPLE_TRACES
from tests.strategies import RULES, examples, traces
from traceanalyzer import analyze, load
from traceanalyzer.assembly.derived_tables import ATTRIBUTED_OPS, CYCLES, derived_tables
from traceanalyzer.phases.phased import settle_phases
from traceanalyzer.phases.rules import Rules

if TYPE_CHECKING:
    from traceanalyzer.trace import Trace

WINDOW = "_window_ns"


@examples(0.08)
@given(traces())
def test_each_op_has_its_row(trace: Trace) -> None:
    phased = settle_phases(trace, RULES)
    tables = derived_tables(trace, RULES)
    ops, cycles = tables["attributed_ops"], tables["cycles"]
    assert ops.schema == ATTRIBUTED_OPS.polars_schema
    assert ops["op"].to_list() == list(range(trace.ops.height))
    if not ops.height:
        return
    assert ops["phase"].to_list() == [phased.labels[label] for label in phased.label]
    assert ops["launch"].fill_null(-1).to_list() == phased.attribution.launch.tolist()
    assert ops["cycle"].fill_null(-1).to_list() == phased.cycle.tolist()
    own = trace.ops.with_columns(ops).filter(pl.col("cycle").is_not_null())
    found = own.join(cycles, on="cycle", suffix="_of_cycle")
    assert found.height == own.height
    assert (found["rank"] == found["rank_of_cycle"]).all()
    assert (found["start_ns"] >= found["start_ns_of_cycle"]).all()
    assert (found["start_ns"] < found["end_ns_of_cycle"]).all()
    unlaunched = ops.filter(pl.col("launch").is_null())
    assert (unlaunched["method"] == "no launch row").all()


@examples(0.08)
@given(traces())
def test_windows_and_overlap_add_up_to_the_period(trace: Trace) -> None:
    cycles = derived_tables(trace, RULES)["cycles"]
    declared = CYCLES.polars_schema
    assert dict(cycles.schema.items()) == {
        **declared,
        **{name: pl.Int64() for name in cycles.columns if name not in declared},
    }
    windows = [name for name in cycles.columns if name.endswith(WINDOW)]
    assert set(cycles.columns) == {*declared, *windows}
    total = cycles.select(
        pl.sum_horizontal(*windows, "overlap_ns", pl.lit(0, pl.Int64))
    ).to_series()
    assert (total == cycles["period_ns"]).all()
    assert (cycles["end_ns"] - cycles["start_ns"] == cycles["period_ns"]).all()


@pytest.mark.parametrize(
    "name", ["eagle3_tp2_nodes.sqlite", "eagle3_tp2_graphs.sqlite", "eagle3_host_only.sqlite"]
)
def test_means_over_the_kept_cycles_are_those_of_the_report(name: str) -> None:
    trace = load(SAMPLE_TRACES / name)
    report = analyze(trace)
    cycles = derived_tables(trace, Rules.shipped())["cycles"]
    kept = cycles.filter(pl.col("state") == "kept")
    assert len(report.buckets) == kept["bucket"].n_unique() > 0
    for place, bucket in enumerate(report.buckets):
        own = kept.filter(pl.col("bucket") == place)
        assert own.height == bucket.cycles
        assert own["period_ns"].mean() == pytest.approx(bucket.period_ns.mean)
        for phase in bucket.phases:
            mean = own[f"{phase.phase}{WINDOW}"].mean()
            assert mean == pytest.approx(phase.window_ns_per_cycle.mean)
    for rank in report.ranks:
        states = cycles.filter(pl.col("rank") == rank.rank)["state"].cast(pl.String)
        assert (states == "kept").sum() == rank.cycles.kept
        for state in ("warm_up", "edge", "interrupted", "dummy"):
            assert (states == state).sum() == getattr(rank.cycles.dropped, state)


def test_a_trace_without_gpu_work_has_the_cycles_of_its_ranges() -> None:
    tables = derived_tables(load(SAMPLE_TRACES / "eagle3_host_only.sqlite"), Rules.shipped())
    assert tables["attributed_ops"].equals(ATTRIBUTED_OPS.empty())
    assert tables["cycles"].height > 0


def test_without_inference_nothing_is_inferred() -> None:
    trace = load(SAMPLE_TRACES / "eagle3_tp2_nodes.sqlite")
    trace = replace(trace, ranges=trace.ranges.clear())
    with_it, without = (
        set(derived_tables(trace, Rules.shipped(), infer=infer)["attributed_ops"]["method"])
        for infer in (True, False)
    )
    assert "inferred" in with_it - without

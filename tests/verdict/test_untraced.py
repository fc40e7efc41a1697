"""A cycle over a plain step when nobody records them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import examples
from tests.verdict.made import MS, around, decode_bucket, seed_bucket
from traceanalyzer.report import BucketReport, Estimated
from traceanalyzer.verdict.baseline import Step
from traceanalyzer.verdict.untraced import (
    ASSUMED_NODE_US,
    host_period,
    nodes_alone,
    periods_of_step,
    served_period,
)

MOST_NS = 1e3 * ASSUMED_NODE_US[1]


def with_nodes(bucket: BucketReport, nodes: float) -> BucketReport:
    phase = bucket.phases[0]
    one = decode_bucket(1.0, classes={"other": 0.5}).phases[0].classes[0]
    own = replace(one, ops_per_cycle=nodes, replayed_ops_per_cycle=nodes)
    phases = [replace(each, classes=[]) for each in bucket.phases[1:]]
    return replace(bucket, phases=[replace(phase, classes=[own]), *phases])


def recorded(bucket: BucketReport, nodes: float, doubt: float = 0.01) -> BucketReport:
    return replace(with_nodes(bucket, nodes), mean_period_ns=around(bucket.period_ns.mean, doubt))


def step_of(bucket: BucketReport) -> Step:
    return Step(served_period(bucket), "a capture", bucket)


@examples(0.3)
@given(st.floats(0, 2000), st.floats(0, 2000), st.floats(0.05, 3.0))
def test_the_ratio_holds_that_of_any_cost_of_a_node(
    verify_nodes: float, plain_nodes: float, cost_us: float
) -> None:
    bucket, plain = (
        recorded(seed_bucket(), verify_nodes),
        recorded(decode_bucket(11.1), plain_nodes),
    )
    found = periods_of_step(bucket, step_of(plain))
    cycle_ns, step_ns = bucket.mean_period_ns.value, plain.mean_period_ns.value
    true = (cycle_ns - 1e3 * cost_us * verify_nodes) / (step_ns - 1e3 * cost_us * plain_nodes)
    assert found.value == pytest.approx(cycle_ns / step_ns)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= true * (1 + 1e-9)
    assert true * (1 - 1e-9) <= found.high


def test_the_same_cost_of_both_cancels() -> None:
    """Nodes in proportion to time change no ratio, however wide each period is."""
    bucket, plain = recorded(seed_bucket(), 3174.4), recorded(decode_bucket(11.1), 1110)
    free = periods_of_step(recorded(seed_bucket(), 0), step_of(recorded(decode_bucket(11.1), 0)))
    found = periods_of_step(bucket, step_of(plain))
    assert (found.low, found.high) == pytest.approx((free.low, free.high))
    period = served_period(bucket)
    assert period.low == pytest.approx(bucket.mean_period_ns.low - 3174.4 * MOST_NS)  # type: ignore[operator]


def test_whole_graphs_cost_no_nodes() -> None:
    bucket = recorded(seed_bucket(), 1000)
    mixed = replace(bucket, phases=[replace(each, whole_cycles=9) for each in bucket.phases])
    assert nodes_alone(bucket) == 1000
    assert nodes_alone(mixed) == 0
    assert served_period(mixed) == mixed.mean_period_ns


def test_the_host_costs_what_the_gpu_waited() -> None:
    bucket = replace(recorded(seed_bucket(), 0), recorder_ns_per_cycle=50_000.0)
    assert bucket.mean_period_ns.low is not None
    assert host_period(bucket).low == bucket.mean_period_ns.low - 50_000
    assert host_period(bucket).high == bucket.mean_period_ns.high


def test_a_cost_above_the_cycle_leaves_no_interval() -> None:
    bucket = recorded(seed_bucket(), 31.744 * MS / MOST_NS + 1)
    assert periods_of_step(bucket, Step(Estimated(11.1 * MS), "a number")).low is None

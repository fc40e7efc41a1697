"""Draft steps and layers of two passes: times of one, shares of the other; simulated servers."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.simulated_passes import (
    SMALL_SERVER,
    TOTALS_SEED,
    analyzed,
    models_of,
    node_pass,
    totals_pass,
)
from traceanalyzer.report import Estimated, Report
from traceanalyzer.simulation import eagle3_server
from traceanalyzer.verdict.two_pass import with_shares

if TYPE_CHECKING:
    from traceanalyzer.report import PartTime, PhaseParts

SERVER = replace(SMALL_SERVER, inner_ranges=True, capture_recorded=True)
SERVERS = models_of(SERVER)

Key = tuple[str, str, int]
"""Phase, part ("layer"), number."""


def totals_of(model: str) -> Report:
    """The pass with whole-graph rows."""
    return totals_pass(SERVERS[model])


def nodes_of(model: str, node_us: float, inside: float, seed: int) -> tuple[Report, Report]:
    """A pass with nodes and the same run without what recording them costs."""
    return node_pass(SERVERS[model], node_us, inside, seed)


def means(report: Report) -> dict[Key, PartTime]:
    return {
        (phases.phase, phases.part, part.number): part
        for phases in report.parts
        for part in phases.parts
    }


def tables(report: Report) -> dict[tuple[str, str], PhaseParts]:
    return {(phases.phase, phases.part): phases for phases in report.parts}


def covers(found: Estimated | None, truth: float) -> bool:
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    return found.low <= truth <= found.high


PASSES = [
    ("mla_moe", 0.5, 0.0, 21),
    ("mla_moe", 1.0, 1.0, 22),
    ("mla_moe", 3.0, 0.3, 24),
    ("dense", 0.5, 1.0, 27),
    ("dense", 1.0, 0.0, 25),
    ("dense", 3.0, 1.0, 26),
]


@pytest.mark.parametrize(("model", "node_us", "inside", "seed"), PASSES)
def test_the_interval_of_every_step_and_layer_covers_the_truth(
    model: str, node_us: float, inside: float, seed: int
) -> None:
    nodes, undisturbed = nodes_of(model, node_us, inside, seed)
    found = with_shares(totals_of(model), nodes)
    assert found.node_recording is not None
    refused = {each.phase for each in found.node_recording.phases if each.refused}
    truth = means(undisturbed)
    given = means(found)
    in_graphs = {each.phase for each in found.node_recording.phases}
    assert set(given) == {key for key in truth if key[0] in in_graphs and key[0] not in refused}
    assert len(given) >= SERVERS[model].layers
    missed = [
        (key, part.corrected_ns, truth[key].busy_ns_per_cycle.mean)
        for key, part in given.items()
        if not covers(part.corrected_ns, truth[key].busy_ns_per_cycle.mean)
    ]
    assert missed == []
    for key, phases in tables(found).items():
        assert covers(phases.corrected_mean_ns, tables(undisturbed)[key].mean_ns)


@cache
def truth_of_totals(model: str) -> Report:
    """What the pass with whole-graph rows would have shown, had recording nodes cost nothing."""
    return analyzed(eagle3_server(replace(SERVERS[model], graph_mode="node", seed=TOTALS_SEED)))


@pytest.mark.parametrize(("model", "node_us", "inside", "seed"), PASSES)
def test_times_are_scaled_to_the_first_pass(
    model: str, node_us: float, inside: float, seed: int
) -> None:
    truth = truth_of_totals(model)
    (bucket,), (whole,) = truth.buckets, totals_of(model).buckets
    assert bucket.mean_period_ns.value == pytest.approx(whole.mean_period_ns.value, rel=1e-4)
    found = means(with_shares(totals_of(model), nodes_of(model, node_us, inside, seed)[0]))
    for key, part in found.items():
        assert covers(part.corrected_ns, means(truth)[key].busy_ns_per_cycle.mean), key


def test_what_was_recorded_with_nodes_is_outside_of_the_intervals() -> None:
    """At 3 us a node, all of it in the kernels, the correction is more than its doubt."""
    nodes, _ = nodes_of(*PASSES[-1])
    found = means(with_shares(totals_of("dense"), nodes))
    steps = {key: part for key, part in found.items() if key[:2] == ("draft", "draft step")}
    assert len(steps) == SERVER.draft_tokens - 1
    for key, part in steps.items():
        assert not covers(part.corrected_ns, means(nodes)[key].busy_ns_per_cycle.mean)


@pytest.mark.parametrize("place", range(len(PASSES)))
def test_a_table_fits_together(place: int) -> None:
    nodes, _ = nodes_of(*PASSES[place])
    found = with_shares(totals_of(PASSES[place][0]), nodes)
    assert found.node_recording is not None
    windows = {each.phase: each.whole_window_ns.value for each in found.node_recording.phases}
    for phases in found.parts:
        assert sum(part.share for part in phases.parts) == pytest.approx(1)
        times = [part.busy_ns_per_cycle for part in phases.parts]
        weights = [part.cycles for part in phases.parts]
        whole = sum(time.mean * weight for time, weight in zip(times, weights, strict=True))
        assert whole / sum(weights) == pytest.approx(phases.mean_ns, rel=1e-3)
        assert whole <= windows[phases.phase] * max(weights)
        longest = max(phases.parts, key=lambda part: part.busy_ns_per_cycle.mean)
        assert phases.longest == longest.number
        for part in phases.parts:
            assert part.corrected_ns is not None
            assert part.busy_ns_per_cycle.mean == part.corrected_ns.value
            assert part.busy_ns_per_cycle.p5 <= part.busy_ns_per_cycle.mean
            assert part.busy_ns_per_cycle.mean <= part.busy_ns_per_cycle.p99
    assert Report.from_json(found.to_json()) == found


def test_a_refused_phase_has_no_parts() -> None:
    nodes, _ = nodes_of("mla_moe", 3.0, 0.3, 24)
    found = with_shares(totals_of("mla_moe"), nodes)
    assert found.node_recording is not None
    assert [each.phase for each in found.node_recording.phases if each.refused] == ["draft"]
    assert "draft" in {phases.phase for phases in nodes.parts}
    assert "draft" not in {phases.phase for phases in found.parts}


def test_parts_are_matched_by_bucket() -> None:
    nodes, _ = nodes_of("dense", 1.0, 0.0, 25)
    totals = totals_of("dense")
    (bucket,) = totals.buckets
    other = replace(bucket, shape=replace(bucket.shape, batch=7))
    found = with_shares(replace(totals, buckets=[other, bucket]), nodes)
    assert {phases.bucket for phases in found.parts} == {1}


def test_a_part_that_never_ran_is_left_out() -> None:
    """As a report may say that was edited by hand."""
    nodes, _ = nodes_of("dense", 1.0, 0.0, 25)
    parts = [
        replace(phases, parts=[replace(part, cycles=0) for part in phases.parts])
        for phases in nodes.parts
    ]
    assert with_shares(totals_of("dense"), replace(nodes, parts=parts)).parts == []


def test_cycles_of_both_kinds_in_one_capture_are_corrected_alike() -> None:
    mixed = replace(SERVER, detail_cycles=8, node_overhead_us=1.0, seed=31)
    recording = eagle3_server(mixed)
    assert recording.undisturbed is not None
    truth = means(analyzed(recording.undisturbed))
    found = means(analyzed(recording))
    assert set(found) == set(truth)
    for key, part in found.items():
        assert covers(part.corrected_ns, truth[key].busy_ns_per_cycle.mean), key


def test_without_whole_graph_rows_parts_stay_as_they_were_recorded() -> None:
    nodes, _ = nodes_of("dense", 1.0, 0.0, 25)
    assert {part.corrected_ns for part in means(nodes).values()} == {None}

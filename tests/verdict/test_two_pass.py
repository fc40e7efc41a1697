"""Two passes made one: laws on reports made by hand, and simulated passes with their truth."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulated_passes import SMALL_SERVER, analyzed, models_of, node_pass, totals_pass
from tests.strategies import examples
from tests.verdict.made import MS, SEED_COUNTS, phase, report, verify_bucket
from traceanalyzer.analyses.kernel_classes import ROWS
from traceanalyzer.errors import InputError
from traceanalyzer.report import BucketPhase, ClassTime, Estimated, Report
from traceanalyzer.simulation import eagle3_server
from traceanalyzer.speculation.confidence import Estimate
from traceanalyzer.verdict.judgement import judged
from traceanalyzer.verdict.known import Known
from traceanalyzer.verdict.node_overhead import (
    ClassWork,
    Overhead,
    RecordedPhase,
    Slowed,
    fit_overhead,
    undisturbed_shares,
)
from traceanalyzer.verdict.node_phases import MOST_DISTURBANCE, OVERLAP
from traceanalyzer.verdict.two_pass import unjudged, with_own_shares, with_shares

if TYPE_CHECKING:
    from collections.abc import Mapping


# Reports made by hand.

NODES = {"draft": {"dense GEMM": 24, "all-reduce": 8}, "verify": {"dense GEMM": 900, "norm": 300}}


def whole_phase(name: str, ms: float, doubt: float = 0.001) -> BucketPhase:
    """As a pass with whole-graph rows shows it."""
    window = Estimated(ms * MS, ms * MS * (1 - doubt), ms * MS * (1 + doubt))
    return replace(
        phase(name, ms, 30.0),
        window_ns=window,
        graph_launches_per_cycle=1.0,
        whole_cycles=100,
        whole_window_ns=window,
    )


def node_phase(name: str, ms: float, classes: Mapping[str, tuple[float, float]]) -> BucketPhase:
    """As a pass with nodes shows it; classes with their ms and nodes."""
    return replace(
        phase(name, ms, 30.0),
        graph_launches_per_cycle=1.0,
        classes=[
            ClassTime(each, nodes, class_ms * MS, each, nodes, 0.001 * class_ms * MS)
            for each, (class_ms, nodes) in classes.items()
        ],
        class_cycles=100,
        class_window_ns=ms * MS,
        class_window_half_width_ns=0.001 * ms * MS,
    )


def passes_of(*phases: tuple[BucketPhase, BucketPhase]) -> tuple[Report, Report]:
    whole, nodes = ([pair[place] for pair in phases] for place in (0, 1))
    return tuple(  # type: ignore[return-value]
        report(verify_bucket(each, SEED_COUNTS), path=path)
        for each, path in ((whole, "totals"), (nodes, "shares"))
    )


@st.composite
def drawn_passes(draw: st.DrawFn, *, added: bool = True) -> tuple[Report, Report]:
    per_node_us = draw(st.floats(0, 2)) if added else 0.0
    pairs = []
    for name in ("draft", "verify", "draft_extend"):
        classes = {
            each: (draw(st.floats(0.01, 5)), float(draw(st.integers(1, 400))))
            for each in draw(st.lists(st.sampled_from(ROWS[:6]), min_size=1, unique=True))
        }
        busy_ms = sum(ms for ms, _ in classes.values())
        nodes = sum(count for _, count in classes.values())
        ms = busy_ms + draw(st.floats(0, 1)) + per_node_us * nodes / 1e3
        whole_ms = ms - per_node_us * nodes / 1e3
        pairs.append((whole_phase(name, whole_ms), node_phase(name, ms, classes)))
    return passes_of(*pairs)


@examples(0.15)
@given(drawn_passes())
def test_classes_and_idle_time_add_up_to_the_window_of_the_first_pass(
    passes: tuple[Report, Report],
) -> None:
    found = with_shares(*passes)
    assert found.node_recording is not None
    for told, before, after in zip(
        found.node_recording.phases,
        passes[0].buckets[0].phases,
        found.buckets[0].phases,
        strict=True,
    ):
        assert after.window_ns == before.window_ns
        if told.refused is not None:
            assert (after.classes, told.shares) == ([], [])
            continue
        assert sum(each.share.value for each in told.shares) == pytest.approx(1)
        assert after.class_window_ns == before.window_ns.value
        busy_ns = sum(each.busy_ns_per_cycle for each in after.classes)
        idle_ns = told.shares[-1].share.value * after.class_window_ns
        assert busy_ns + idle_ns == pytest.approx(after.class_window_ns)


@examples(0.15)
@given(drawn_passes(added=False))
def test_without_overhead_shares_are_those_that_were_recorded(
    passes: tuple[Report, Report],
) -> None:
    found = with_shares(*passes)
    assert found.node_recording is not None
    assert found.node_recording.per_node_ns.value == pytest.approx(0, abs=1e-3)
    for recorded, after in zip(passes[1].buckets[0].phases, found.buckets[0].phases, strict=True):
        before = {each.kernel_class: each.busy_ns_per_cycle for each in recorded.classes}
        assert {
            each.kernel_class: each.busy_ns_per_cycle for each in after.classes
        } == pytest.approx(before, rel=1e-6, abs=1)


@examples(0.3)
@given(
    st.floats(0, 50_000),
    st.floats(0, 3_000),
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 2_000)), min_size=2, max_size=6),
)
def test_the_fit_finds_what_was_added(
    per_replay: float, per_node: float, phases: list[tuple[int, int]]
) -> None:
    rows = [
        Slowed(replays, nodes, Estimate.exact(per_replay * replays + per_node * nodes))
        for replays, nodes in phases
    ]
    found = fit_overhead(rows)
    if len({nodes / replays for replays, nodes in phases}) > 1:
        for each, wanted in ((found.per_replay_ns, per_replay), (found.per_node_ns, per_node)):
            assert each.value == pytest.approx(wanted, abs=0.02 + 1e-5 * (per_replay + per_node))
    else:
        assert found.per_node_ns.high >= per_node * (1 - 1e-9)
    for row in rows:
        assert found.of(row.replays, row.nodes) == pytest.approx(row.added_ns.value, abs=1)


@examples(0.3)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 3),
            st.integers(1, 500),
            st.floats(-1e5, 1e5),
            st.just(0.0) | st.floats(1, 1e4),
        ),
        max_size=6,
    )
)
def test_no_part_of_the_overhead_is_below_0(rows: list[tuple[int, int, float, float]]) -> None:
    found = fit_overhead(
        [
            Slowed(replays, nodes, Estimate(added, added - half, added + half))
            for replays, nodes, added, half in rows
        ]
    )
    assert found.per_node_ns.low >= 0
    assert found.per_replay_ns.low >= 0


@pytest.mark.parametrize(("longer", "refused"), [(0.099, False), (0.101, True)])
def test_shares_are_refused_above_a_tenth(longer: float, refused: bool) -> None:
    draft = whole_phase("draft", 2.0), node_phase("draft", 2.02, {"norm": (1.9, 20.0)})
    classes = {"dense GEMM": (18.0, 900.0)}
    verify = whole_phase("verify", 20.0), node_phase("verify", 20.0 * (1 + longer), classes)
    found = with_shares(*passes_of(draft, verify))
    assert found.node_recording is not None
    kept, told = found.node_recording.phases
    assert kept.refused is None
    assert kept.shares
    assert (told.refused is not None) == refused
    assert bool(found.buckets[0].phases[1].classes) != refused
    if refused:
        assert told.refused is not None
        assert "10%" in told.refused
        (check,) = (each for each in found.trust if each.check == "node recording")
        assert check.status == "warning"
        assert "verify" in check.text


def test_a_phase_that_is_much_shorter_with_nodes_was_another_load() -> None:
    verify = whole_phase("verify", 20.0), node_phase("verify", 17.0, {"norm": (16.0, 20.0)})
    found = with_shares(*passes_of(verify))
    assert found.node_recording is not None
    assert "the load was another" in (found.node_recording.phases[0].refused or "")


def test_a_phase_without_nodes_is_named() -> None:
    verify = whole_phase("verify", 20.0), node_phase("verify", 20.5, {"norm": (16.0, 20.0)})
    draft = whole_phase("draft", 2.0), phase("draft", 2.0, 30.0)
    found = with_shares(*passes_of(verify, draft))
    assert found.node_recording is not None
    assert found.node_recording.not_matched == ["draft of verify cycles at batch 1"]


def test_one_number_of_nodes_cannot_tell_replays_from_nodes() -> None:
    found = fit_overhead([Slowed(1.0, 100.0, Estimate(50_000.0, 40_000.0, 60_000.0))])
    assert (found.per_node_ns.low, found.per_node_ns.value, found.per_node_ns.high) == (0, 500, 600)
    assert (found.per_replay_ns.value, found.per_replay_ns.high) == (0, 60_000)


def test_a_phase_shorter_than_its_overhead_has_no_shares() -> None:
    overhead = Overhead(Estimate.exact(0.0), Estimate.exact(10.0))
    recorded = RecordedPhase(900.0, 0.0, 1.0, [ClassWork(800.0, 0.0, 100.0)])
    assert undisturbed_shares(recorded, overhead) is None


def test_gaps_cannot_have_grown_by_more_than_there_is_of_them() -> None:
    """100 nodes at 10 ns each; only 200 ns of the 1,000 can lie in the gaps."""
    overhead = Overhead(Estimate.exact(0.0), Estimate.exact(10.0))
    recorded = RecordedPhase(11_000.0, 0.0, 1.0, [ClassWork(10_800.0, 0.0, 100.0)])
    shares = undisturbed_shares(recorded, overhead)
    assert shares is not None
    kernels, idle = shares
    assert (kernels.low, kernels.high) == pytest.approx((0.98, 1.0))
    assert (idle.low, idle.high) == pytest.approx((0.0, 0.02))
    assert kernels.value + idle.value == pytest.approx(1)


def test_passes_of_other_shapes_are_refused() -> None:
    verify = whole_phase("verify", 20.0), node_phase("verify", 20.5, {"norm": (16.0, 20.0)})
    totals, shares = passes_of(verify)
    shape = replace(shares.buckets[0].shape, batch=2)
    other = replace(shares, buckets=[replace(shares.buckets[0], shape=shape)])
    with pytest.raises(InputError, match="same shape"):
        with_shares(totals, other)


def test_judging_adds_only_the_checks_that_are_taken_away_again() -> None:
    verify = whole_phase("verify", 20.0), node_phase("verify", 20.5, {"norm": (16.0, 20.0)})
    totals, _ = passes_of(verify)
    assert unjudged(judged(totals, Known(tokens_per_s=71.0))) == totals


def test_the_name_of_overlap_is_that_of_its_row() -> None:
    assert ROWS[-1] == OVERLAP


# Simulated passes.

SERVERS = models_of(SMALL_SERVER)


def totals_of(model: str) -> Report:
    return totals_pass(SERVERS[model])


def recorded_shares(found: Report) -> dict[tuple[str, str], float]:
    """Of each phase and class, as they stand in a report; idle time too."""
    shares = {}
    for each in found.buckets[0].phases:
        for row in each.classes:
            shares[each.phase, row.kernel_class] = row.busy_ns_per_cycle / each.class_window_ns
        busy_ns = sum(row.busy_ns_per_cycle for row in each.classes)
        shares[each.phase, "idle"] = 1 - busy_ns / each.class_window_ns
    return shares


def slowed(model: str, node_us: float, inside: float, seed: int) -> tuple[Report, Report]:
    """A pass with nodes and its undisturbed twin."""
    return node_pass(SERVERS[model], node_us, inside, seed)


@pytest.mark.parametrize(
    ("model", "node_us", "inside", "seed", "refused"),
    [
        ("mla_moe", 0.5, 0.0, 21, set()),
        ("mla_moe", 1.0, 1.0, 22, set()),
        ("mla_moe", 3.0, 0.3, 24, {"draft"}),
        ("dense", 1.0, 0.0, 25, set()),
        ("dense", 3.0, 1.0, 26, set()),
    ],
)
def test_the_interval_of_every_share_covers_the_truth(
    model: str, node_us: float, inside: float, seed: int, refused: set[str]
) -> None:
    nodes, undisturbed = slowed(model, node_us, inside, seed)
    truth = recorded_shares(undisturbed)
    found = with_shares(totals_of(model), nodes).node_recording
    assert found is not None
    assert_within(found.per_node_ns, 1e3 * node_us)
    assert_within(found.per_replay_ns, 12_000.0)
    missed = [
        (each.phase, share.kernel_class)
        for each in found.phases
        for share in each.shares
        if not covers(share.share, truth[each.phase, share.kernel_class])
    ]
    assert missed == []
    assert refused == {each.phase for each in found.phases if each.refused}
    assert refused == {
        each.phase for each in found.phases if each.disturbance_share.value > MOST_DISTURBANCE
    }
    assert any(each.shares for each in found.phases)


def covers(found: Estimated, truth: float) -> bool:
    assert found.low is not None
    assert found.high is not None
    return found.low <= truth <= found.high


def assert_within(found: Estimated, truth: float) -> None:
    assert covers(found, truth), found


def test_cycles_of_both_kinds_in_one_capture_are_corrected_alike() -> None:
    mixed = replace(SMALL_SERVER, detail_cycles=8, node_overhead_us=1.0, seed=31)
    recording = eagle3_server(mixed)
    assert recording.undisturbed is not None
    truth = recorded_shares(analyzed(recording.undisturbed))
    report = analyzed(recording)
    found = report.node_recording
    assert found is not None
    assert found.shares_from is None
    assert_within(found.per_node_ns, 1_000.0)
    for each in found.phases:
        for share in each.shares:
            assert_within(share.share, truth[each.phase, share.kernel_class])
    assert Report.from_json(report.to_json()) == report
    told = {check.check: check for check in report.trust}
    assert "graphs" not in told
    assert "us a node" in told["node recording"].text


def test_a_capture_of_one_kind_stays_as_it_is() -> None:
    for found in (totals_of("mla_moe"), report()):
        assert with_own_shares(found).buckets == found.buckets
        assert with_own_shares(found).node_recording is None


def test_graphs_recorded_in_both_ways_stand_side_by_side() -> None:
    nodes, _ = slowed("mla_moe", 1.0, 1.0, 22)
    found = with_shares(totals_of("mla_moe"), nodes).node_recording
    assert found is not None
    decoding = [each for each in found.graphs if "prefill" not in each.phases[0]]
    by_size = sorted(decoding, key=lambda each: each.nodes)
    assert [each.phases for each in by_size] == [["draft_extend"], ["draft"], ["verify"]]
    added = [each.node_span_ns - each.whole_span_ns for each in by_size]
    assert all(one < other for one, other in pairwise(added))

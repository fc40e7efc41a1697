"""The worked case and its runs: what was reported of it, and rows that hold what is claimed."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.harness import SAMPLE_TRACES
from traceanalyzer.simulation import PRESETS, Eagle3Settings, Truth, eagle3_server, truth_of
from traceanalyzer.simulation.__main__ import main
from traceanalyzer.simulation.moe_kernel_names import DECODE_ATTENTION, PROMPT_ATTENTION
from traceanalyzer.simulation.recording import SYNC_CONTEXT

if TYPE_CHECKING:
    from traceanalyzer.simulation import Recording
    from traceanalyzer.simulation.recording import Op
    from traceanalyzer.simulation.truth_tables import BucketTruth

PHASES = ("draft", "verify", "draft_extend")


@pytest.fixture(scope="module")
def seed() -> Recording:
    return eagle3_server(replace(PRESETS["seed"](), ranks=2, cycles=60))


@pytest.fixture(scope="module")
def seed_truth(seed: Recording) -> Truth:
    return truth_of(seed)


@pytest.fixture(scope="module")
def baseline() -> Recording:
    return eagle3_server(PRESETS["seed-baseline"]())


def only_bucket(truth: Truth) -> BucketTruth:
    (bucket,) = truth.buckets
    return bucket


def test_the_samples_figures_print_as_they_were_reported():
    (bucket,) = sample_truth()["buckets"]
    period_ms = bucket["period_ns"] / 1e6
    printed = [f"{bucket['windows_ns'][phase] / 1e6:.2f}" for phase in PHASES]
    assert (*printed, f"{period_ms:.2f}") == ("2.18", "28.45", "1.12", "31.74")
    shares = [f"{bucket['windows_ns'][phase] / bucket['period_ns']:.1%}" for phase in PHASES]
    assert shares == ["6.9%", "89.6%", "3.5%"]
    assert bucket["overlap_ns"] == 0
    acceptance = bucket["acceptance"]
    assert f"{acceptance['accept_len']:.2f}" == "2.25"
    assert 70.6 <= 1000 * acceptance["accept_len"] / period_ms <= 71.4
    reached = acceptance["request_cycles"]
    survival = []
    for count in acceptance["accepted_histogram"][:-1]:
        reached -= count
        survival.append(reached / acceptance["request_cycles"])
    assert survival == pytest.approx([0.57, 0.33, 0.19, 0.11, 0.06], abs=0.006)


def test_the_sample_is_long_enough():
    truth = sample_truth()
    assert len(truth["ranks"]) == 8
    assert all(rank["cycles"]["kept"] >= 250 for rank in truth["ranks"])
    (acceptance,) = truth["acceptance"]
    assert acceptance["requests"] >= 20


def sample_truth() -> dict[str, Any]:
    return json.loads((SAMPLE_TRACES / "seed_case.truth.json").read_text())


def test_fewer_ranks_and_cycles_have_the_same_windows(seed_truth):
    bucket = only_bucket(seed_truth)
    wanted = PRESETS["seed"]()
    ms = {phase: ns / 1e6 for phase, ns in bucket.windows_ns.items()}
    assert ms == {
        "draft": pytest.approx(wanted.draft_window_ms, abs=0.001),
        "verify": pytest.approx(wanted.verify_window_ms(), abs=0.001),
        "draft_extend": pytest.approx(wanted.draft_extend_ms, abs=0.001),
    }


def test_the_baseline_takes_a_decode_step(baseline):
    bucket = only_bucket(truth_of(baseline))
    assert (bucket.kind, bucket.draft_tokens, bucket.verified_tokens) == ("decode", 0, 1)
    assert f"{bucket.period_ns / 1e6:.2f}" == "11.10"
    assert f"{1e9 / bucket.period_ns:.1f}" == "90.1"
    assert not {mark.name for mark in baseline.marks} & {"accept", "accept_count"}
    phases = {op.phase for op in baseline.ops}
    assert phases == {"decode", "prefill"}


@pytest.mark.parametrize(
    ("preset", "fixed_ms", "token_ms", "rates"),
    [
        ("seed-sweep", 23.22, 0.87, {1: 60.3, 3: 72.1, 5: 71.0, 10: 60.0}),
        ("seed-sweep-linear", 7.63, 3.47, {1: 100.2, 3: 87.9, 5: 71.0, 10: 45.0}),
    ],
)
def test_sweeps_follow_the_two_cost_laws(preset, fixed_ms, token_ms, rates):
    for draft_tokens, rate in rates.items():
        settings = replace(PRESETS[preset](), draft_tokens=draft_tokens)
        bucket = only_bucket(truth_of(eagle3_server(settings)))
        assert bucket.cycles >= 40
        assert bucket.verified_tokens == draft_tokens + 1
        wanted_ms = fixed_ms + token_ms * (draft_tokens + 1)
        assert bucket.windows_ns["verify"] / 1e6 == pytest.approx(wanted_ms, abs=0.05)
        draft_ms = bucket.windows_ns["draft"] / 1e6
        assert draft_ms == pytest.approx(0.5445 * (draft_tokens - 1), abs=0.02)
        chance = settings.accept_probability
        accept_len = sum(chance**position for position in range(draft_tokens + 1))
        assert 1e9 * accept_len / bucket.period_ns == pytest.approx(rate, abs=0.3)


def test_one_token_costs_a_decode_step_where_cost_is_by_token():
    sweep = PRESETS["seed-sweep-linear"]()
    assert sweep.verify_window_ms(1) == pytest.approx(sweep.decode_ms)
    assert sweep.verify_window_ms(6) == pytest.approx(PRESETS["seed"]().verify_window_ms())


def nodes_by_launch(recording: Recording, phase: str) -> list[list[Op]]:
    """Kernels of each replay that is written node by node."""
    launches: dict[object, list[Op]] = defaultdict(list)
    for op in recording.ops:
        if op.phase == phase and op.graph_node_id is not None:
            launches[op.process, op.correlation_id].append(op)
    return list(launches.values())


@pytest.mark.parametrize(
    ("phase", "attention", "other"),
    [
        ("verify", PROMPT_ATTENTION, DECODE_ATTENTION),
        ("decode", DECODE_ATTENTION, PROMPT_ATTENTION),
    ],
)
def test_a_target_forward_runs_what_61_layers_need(phase, attention, other, seed, baseline):
    replays = nodes_by_launch(seed if phase == "verify" else baseline, phase)
    assert len(replays) == 3
    for replay in replays:
        counts = Counter(op.kernel for op in replay if op.kernel)
        names = Counter(op.kernel.short for op in replay if op.kernel)
        assert (counts[attention], counts[other]) == (61, 0)
        assert names["ncclDevKernel_AllReduce_Sum_bf16_RING_LL"] == 2 * 61
        assert names["Marlin"] == 2 * 60
        assert names["kimi_k2_moe_fused_gate_kernel_small_token"] == 60


def test_detail_is_of_whole_cycles_on_the_ranks_asked_for(seed, seed_truth):
    with_nodes = {op.process for op in seed.ops if op.graph_node_id is not None}
    assert with_nodes == {seed.processes[0]}
    assert only_bucket(seed_truth).detailed_cycles == 3
    known = {(node.thread.process, node.node_id) for node in seed.graph_nodes}
    assert all(
        (op.process, op.graph_node_id) in known for op in seed.ops if op.graph_node_id is not None
    )


def test_a_replay_has_nodes_or_one_row(seed):
    kinds: dict[object, set[str]] = defaultdict(set)
    rows: Counter[object] = Counter()
    for op in seed.ops:
        if op.graph_id is not None:
            kinds[op.process, op.correlation_id].add(op.kind)
            rows[op.process, op.correlation_id] += op.kind == "graph"
    assert all(len(found) == 1 for found in kinds.values())
    assert set(rows.values()) == {0, 1}


def test_collectives_are_a_small_part_of_drafting(seed, seed_truth):
    bucket = only_bucket(seed_truth)
    assert 0.3e6 <= bucket.collective_ns["draft"] <= 0.6e6
    start_ns, end_ns = next(
        (cycle.start_ns, cycle.end_ns)
        for cycle in seed_truth.ranks[0].cycles
        if any(
            op.cycle == cycle.number and op.kind == "kernel" and op.step is not None
            for op in seed_truth.ranks[0].ops
        )
    )
    own = [
        op.end_ns - op.start_ns
        for op in seed.ops
        if op.process is seed.processes[0]
        and start_ns <= op.start_ns < end_ns
        and op.phase == "draft"
        and op.kernel
        and op.kernel.short.startswith("nccl")
    ]
    assert len(own) == 3 * 4
    assert sum(own) == pytest.approx(bucket.collective_ns["draft"], rel=0.1)


def test_synchronising_costs_what_the_truth_says():
    settings = replace(PRESETS["seed-synchronised"](), layers=4)
    recording = eagle3_server(settings)
    truth = truth_of(recording)
    told = truth.synchronisation
    assert told is not None
    assert told.calls_per_iteration == 2 * len(PHASES)
    plain = only_bucket(truth_of(eagle3_server(replace(settings, synchronise=False))))
    slow = only_bucket(truth)
    assert plain.period_ns == told.undisturbed_period_ns
    assert told.slower_share == slow.period_ns / plain.period_ns - 1
    assert 0.03 < told.slower_share < 0.15
    for phase in PHASES:
        assert slow.windows_ns[phase] > plain.windows_ns[phase]


def test_synchronising_calls_are_inside_the_phases_and_leave_no_work_running():
    recording = eagle3_server(replace(PRESETS["seed-synchronised"](), layers=2, cycles=6))
    ends = defaultdict(list)
    for op in recording.ops:
        ends[op.process].append(op)
    calls = [row for row in recording.syncs if row.sync_type == SYNC_CONTEXT]
    assert calls
    for row in calls:
        assert not any(op.start_ns < row.end_ns < op.end_ns for op in ends[row.process]), (
            "work is left when the call returns"
        )
        assert any(
            opened.name in PHASES
            and opened.thread.process is row.process
            and opened.start_ns <= row.start_ns
            and row.end_ns <= opened.end_ns
            for opened in recording.ranges
        )


def test_without_exactness_chance_has_its_say():
    wanted = Eagle3Settings.seed_case(cycles=40, ranks=1)
    exact, loose = (
        only_bucket(truth_of(eagle3_server(replace(wanted, exact=exact, layers=4))))
        for exact in (True, False)
    )
    verify_ns = 1e6 * wanted.verify_window_ms()
    assert abs(exact.windows_ns["verify"] - verify_ns) < 1_000
    assert abs(loose.windows_ns["verify"] - verify_ns) > 1_000


@pytest.mark.parametrize("preset", ["seed-baseline", "seed"])
def test_torch_traces_have_nodes_only(preset, tmp_path):
    out = tmp_path / "t.json"
    options = ["--preset", preset, "--ranks", "1", "--cycles", "6", "--set", "layers=2"]
    assert main([str(out), *options, "--format", "kineto"]) == 0
    document = json.loads(out.read_text())
    assert document["deviceProperties"][0]["name"].startswith("NVIDIA RTX PRO 6000")
    names = {event["name"] for event in document["traceEvents"] if event.get("cat") == "kernel"}
    assert any("BatchMLAPagedAttentionKernel" in name for name in names) is (
        preset == "seed-baseline"
    )
    truth = json.loads((tmp_path / "t.truth.json").read_text())
    assert not any(
        phase["graph_rows"] for rank in truth["ranks"] for phase in rank["phases"].values()
    )

"""What engineers concluded from profiles made by hand, said by the report of the same case.

Golden first screens are in tests/golden/known_cases; TRACEANALYZER_UPDATE_GOLDEN=1 writes them.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING

import pytest

from tests.renderers.test_golden import assert_golden
from tests.worlds.answers import is_off
from traceanalyzer import analyze, load
from traceanalyzer.pipeline import AnalysisOptions
from traceanalyzer.renderers.terminal import render_terminal
from traceanalyzer.simulation.worlds import World
from traceanalyzer.simulation.worlds.known_cases import (
    DRAFT_WINDOW,
    EXPOSED_LAUNCH,
    LATE_RANK,
    SEED_CASE,
    draft_window,
    exposed_launch,
    late_rank,
    seed,
)
from traceanalyzer.verdict.baseline import measured_baseline
from traceanalyzer.verdict.judgement import judged
from traceanalyzer.verdict.known import Known
from traceanalyzer.verdict.two_pass import with_shares

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traceanalyzer.report import BucketPhase, GraphReport, Report
    from traceanalyzer.simulation.recording import Op
    from traceanalyzer.simulation.worlds import Capture

MS = 1e6
CLOSE = 0.01
SEED, WINDOW, LAUNCH, LATE = (
    World(case.settings) for case in (SEED_CASE, DRAFT_WINDOW, EXPOSED_LAUNCH, LATE_RANK)
)
TRACED = WINDOW.record(DRAFT_WINDOW.graphs)
NODES = LAUNCH.record(EXPOSED_LAUNCH.nodes)
STEPS = LATE.record(LATE_RANK.nodes)


def report_of(capture: Capture, name: str, known: Known | None = None) -> Report:
    """Through a file in the working directory, whose name the first screen shows."""
    path = capture.write(Path(f"{name}.sqlite"))
    return analyze(load(path), AnalysisOptions(known=known or Known()))


@pytest.fixture(scope="module", autouse=True)
def _files(tmp_path_factory: pytest.TempPathFactory) -> Iterable[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("known"))
        yield


def first_screen(report: Report) -> str:
    """Up to the tables that show why."""
    return render_terminal(report, plain=True).partition("\nCUDA graphs\n")[0] + "\n"


def phase_of(report: Report, name: str) -> BucketPhase:
    return next(each for each in report.buckets[0].phases if each.phase == name)


def graph_of(report: Report, name: str) -> GraphReport:
    return next(each for each in report.graphs if each.phases == [name])


def ops_of(capture: Capture, rank: int, phase: str) -> list[Op]:
    """Of a rank's phase, by start."""
    ops = (op for op in capture.recording.ops if op.process.gpu_id == rank and op.phase == phase)
    return sorted(ops, key=lambda op: op.start_ns)


def spans(capture: Capture, phase: str) -> list[list[Op]]:
    """Replays of a phase's graph on the first rank."""
    replays: dict[int, list[Op]] = defaultdict(list)
    for op in ops_of(capture, 0, phase):
        if op.graph_id is not None:
            replays[op.correlation_id].append(op)
    return list(replays.values())


def span_ms(replay: list[Op]) -> float:
    return (max(op.end_ns for op in replay) - min(op.start_ns for op in replay)) / MS


def covered_ms(ops: list[Op]) -> float:
    """Time in which any of them runs."""
    total = reached = 0
    for op in sorted(ops, key=lambda op: op.start_ns):
        total += max(0, op.end_ns - max(op.start_ns, reached))
        reached = max(reached, op.end_ns)
    return total / MS


@pytest.fixture(scope="module")
def seed_report() -> Report:
    plain, speculating = (
        with_shares(
            report_of(world.record(SEED_CASE.graphs), f"{name}_graphs"),
            report_of(world.record(SEED_CASE.nodes), f"{name}_nodes"),
        )
        for name, world in (("baseline", SEED.plain), ("seed_case", SEED))
    )
    tokens_per_s = seed.ACCEPT_LEN / seed.CYCLE_MS * 1e3
    return judged(speculating, Known(measured_baseline(plain), tokens_per_s=tokens_per_s))


def test_the_seed_case_is_served_as_it_was_published() -> None:
    served = SEED.served.bucket("verify")
    published = {
        seed.DRAFT_MS: served.window_ns("draft"),
        seed.VERIFY_MS: served.window_ns("verify", "sample"),
        seed.EXTEND_MS: served.window_ns("draft_extend"),
        seed.CYCLE_MS: served.period_ns,
        seed.PLAIN_MS: SEED.plain.served.bucket("decode").period_ns,
    }
    assert {ms: ns for ms, ns in published.items() if is_off(ns / MS, ms) > CLOSE} == {}
    assert is_off(served.accept_len, seed.ACCEPT_LEN) < CLOSE
    truth = SEED.truth
    assert truth.break_even_accept_len is not None
    assert is_off(truth.break_even_accept_len, seed.BREAK_EVEN) < CLOSE


def test_verify_and_not_the_draft_is_what_the_seed_case_loses_by(seed_report: Report) -> None:
    bucket, verdict = seed_report.buckets[0], seed_report.verdict
    assert verdict is not None
    assert verdict.outcome == "losing"
    (main,) = verdict.buckets
    assert main.break_even_accept_len is not None
    assert main.accept_len is not None
    assert main.break_even_accept_len.value == pytest.approx(seed.BREAK_EVEN, rel=CLOSE)
    assert main.accept_len.value == pytest.approx(seed.ACCEPT_LEN, rel=CLOSE)
    shares = {each.name: each.share_of_period for each in bucket.rollups}
    assert shares["target"] == pytest.approx(seed.VERIFY_MS / seed.CYCLE_MS, abs=0.002)
    drafting = (seed.DRAFT_MS + seed.EXTEND_MS) / seed.CYCLE_MS
    assert shares["drafting"] == pytest.approx(drafting, abs=0.002)
    assert main.free_drafting_speedup is not None
    assert main.free_drafting_speedup < 1, "no draft is cheap enough"
    (alone,) = [each for each in verdict.actions if "TP1" in each.action]
    assert "cannot win" in alone.action
    assert alone.gain_share_at_most is not None
    assert alone.gain_share_at_most < seed.DRAFT_MS / seed.CYCLE_MS
    assert [each.action for each in verdict.actions if "dense GEMM" in each.action] == []
    assert_golden("known_cases/seed_case.txt", first_screen(seed_report))


@pytest.fixture(scope="module")
def window_report() -> Report:
    known = Known(tokens_per_s=draft_window.UNTRACED_TOKENS_PER_S)
    return report_of(TRACED, "draft_window", known)


def test_the_draft_window_is_served_as_it_was_published() -> None:
    bucket = TRACED.figures.bucket("verify")
    verify_ms = mean(map(span_ms, spans(TRACED, "verify")))
    between_ms = bucket.period_ns / MS - verify_ms
    assert is_off(bucket.period_ns / MS, draft_window.ROUND_MS) < CLOSE
    assert is_off(verify_ms, draft_window.VERIFY_REPLAY_MS) < CLOSE
    assert is_off(between_ms, draft_window.DRAFT_WINDOW_MS) < CLOSE
    kernels_ms = sum(mean(map(span_ms, spans(TRACED, name))) for name in ("draft", "draft_extend"))
    gaps_ms = bucket.window_ns("draft", "draft_extend") / MS - kernels_ms
    tail_ms = (bucket.window_ns("verify") / MS) - verify_ms
    assert round(kernels_ms, 1) == draft_window.DRAFT_KERNELS_MS
    assert round(gaps_ms, 1) == draft_window.DRAFT_GAPS_MS
    assert round(tail_ms, 1) == draft_window.LAUNCH_TAIL_MS
    assert is_off(bucket.tokens_per_s, draft_window.TRACED_TOKENS_PER_S) < CLOSE
    served = WINDOW.served.bucket("verify").tokens_per_s
    assert is_off(served, draft_window.UNTRACED_TOKENS_PER_S) < CLOSE
    slowdown = 1 - draft_window.TRACED_TOKENS_PER_S / draft_window.UNTRACED_TOKENS_PER_S
    assert 1 - bucket.tokens_per_s / served == pytest.approx(slowdown, abs=0.002)


def test_a_free_draft_buys_eleven_per_cent(window_report: Report) -> None:
    found = window_report.buckets[0].free_drafting
    assert found is not None
    assert found.speedup_with_launch - 1 == pytest.approx(draft_window.FREE_DRAFT_GAIN, abs=0.01)
    assert found.speedup < found.speedup_with_launch, "a part of it is the launch of verify"
    verify = graph_of(window_report, "verify")
    assert is_off(verify.span_p50_ns / MS, draft_window.VERIFY_REPLAY_MS) < CLOSE
    kernels_ns = sum(
        graph_of(window_report, each).span_p50_ns for each in ("draft", "draft_extend")
    )
    assert round(kernels_ns / MS, 1) == draft_window.DRAFT_KERNELS_MS
    gaps_ns = sum(
        phase_of(window_report, each).gap_ns_per_cycle for each in ("draft", "draft_extend")
    )
    assert round(gaps_ns / MS, 1) == draft_window.DRAFT_GAPS_MS
    (tail,) = phase_of(window_report, "verify").gaps
    assert tail.cause == "launch latency"
    assert round(tail.ns_per_cycle / MS, 1) == draft_window.LAUNCH_TAIL_MS
    assert verify.waited_ns is not None
    assert verify.waited_ns == pytest.approx(tail.ns_per_cycle, rel=0.1)
    (tracing,) = [each for each in window_report.trust if each.check == "tracing"]
    assert "186.0 untraced: slower by 1." in tracing.text
    assert_golden("known_cases/draft_window.txt", first_screen(window_report))


@pytest.fixture(scope="module")
def launch_report() -> Report:
    return report_of(NODES, "exposed_launch")


def test_the_exposed_launch_is_served_as_it_was_published() -> None:
    replays = spans(NODES, "verify")
    summed = median(sum(op.end_ns - op.start_ns for op in replay) / MS for replay in replays)
    launched = {(replay[0].process.process_id, replay[0].correlation_id) for replay in replays}
    calls = [
        call.end_ns - call.start_ns
        for call in NODES.recording.calls
        if (call.thread.process.process_id, call.correlation_id) in launched
    ]
    published = {
        exposed_launch.SUM_MS: summed,
        exposed_launch.UNION_MS: median(map(covered_ms, replays)),
        exposed_launch.SPAN_MS: median(map(span_ms, replays)),
        exposed_launch.DRAFT_SPAN_MS: median(map(span_ms, spans(NODES, "draft"))),
        exposed_launch.EXTEND_SPAN_MS: median(map(span_ms, spans(NODES, "draft_extend"))),
        exposed_launch.CYCLE_MS: LAUNCH.served.bucket("verify").period_ns / MS,
        exposed_launch.LAUNCH_MS: median(calls) / MS,
    }
    assert {ms: got for ms, got in published.items() if is_off(got, ms) > CLOSE} == {}


def test_a_sum_of_kernels_is_no_duration_and_the_launch_is_exposed(launch_report: Report) -> None:
    verify = graph_of(launch_report, "verify")
    assert is_off(verify.summed_ns / MS, exposed_launch.SUM_MS) < CLOSE
    assert is_off(verify.busy_ns / MS, exposed_launch.UNION_MS) < CLOSE
    assert is_off(verify.span_p50_ns / MS, exposed_launch.SPAN_MS) < CLOSE
    assert verify.launch_ns is not None
    assert is_off(verify.launch_ns / MS, exposed_launch.LAUNCH_MS) < CLOSE
    told = (exposed_launch.SPAN_MS, exposed_launch.EXTEND_SPAN_MS, exposed_launch.DRAFT_SPAN_MS)
    assert verify.waited_ns is not None
    assert 0 < verify.waited_ns / MS < exposed_launch.CYCLE_MS - sum(told)
    assert phase_of(launch_report, "verify").gaps[0].cause == "launch latency"
    screen = first_screen(launch_report)
    assert "they add up to 14.4" in screen
    assert "keep the GPU busy for 11.2" in screen
    assert "The launch of the verify graph is exposed" in screen
    assert_golden("known_cases/exposed_launch.txt", screen)


@pytest.fixture(scope="module")
def late_report() -> Report:
    return report_of(STEPS, "late_rank")


def test_the_late_rank_is_served_as_it_was_published() -> None:
    steps = late_rank_steps()
    assert is_off(LATE.served.bucket("decode").period_ns / MS, late_rank.STEP_MS) < CLOSE
    entered = [
        [op for op in ops_of(STEPS, rank, "decode") if op.wait_ns is not None] for rank in (0, 1)
    ]
    assert is_off(len(entered[0]) / steps, late_rank.ALL_REDUCES) < CLOSE
    skew_ns = sum(abs(one.start_ns - other.start_ns) for one, other in zip(*entered, strict=True))
    assert is_off(skew_ns / steps / MS, late_rank.SKEW_MS) < CLOSE
    late = ops_of(STEPS, 1, "decode")
    idle_ns = sum(max(0, after.start_ns - before.end_ns) for before, after in pairwise(late))
    assert is_off(idle_ns / steps / MS, late_rank.LATE_IDLE_MS) < 0.05


def late_rank_steps() -> int:
    return LATE_RANK.settings.cycles


def test_half_of_the_step_is_waiting_for_the_late_rank(late_report: Report) -> None:
    (group,) = late_report.skew
    assert group.late_rank == 1
    assert group.cost_share is not None
    assert group.cost_share == pytest.approx(late_rank.SKEW_MS / late_rank.STEP_MS, abs=0.01)
    assert group.cost_share == pytest.approx(0.5, abs=0.02)
    named = group.by_rank[1]
    assert named.idle_share is not None
    assert named.idle_share == pytest.approx(late_rank.LATE_IDLE_MS / late_rank.SKEW_MS, abs=0.03)
    (waiting,) = [each for each in group.waits if each.rank == 0 and each.phase == "decode"]
    assert waiting.wait_ns_per_cycle is not None
    assert waiting.transfer_ns_per_cycle is not None
    assert waiting.transfer_ns_per_cycle < 0.1 * waiting.wait_ns_per_cycle, "not the link"
    screen = first_screen(late_report)
    assert "Ranks wait for rank 1" in screen
    assert "the late rank, not the link" in " ".join(screen.split())
    assert_golden("known_cases/late_rank.txt", screen)

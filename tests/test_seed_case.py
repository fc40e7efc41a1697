"""The case that started the tool, from its simulated sample traces, to the printed digit."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.harness import SAMPLE_TRACES, run_cli
from traceanalyzer import AnalysisOptions, analyze, load
from traceanalyzer.importers.acceptance.log import reading_of_number
from traceanalyzer.simulation.__main__ import main as simulate
from traceanalyzer.verdict.baseline import measured_baseline
from traceanalyzer.verdict.known import Known
from traceanalyzer.verdict.sweep import sweep_of

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.report import BucketReport, BucketVerdict, Report
    from traceanalyzer.report.sweep import SweepBatch

BASELINE = SAMPLE_TRACES / "seed_baseline_parquetdir"
LENGTHS = (1, 2, 3, 5, 10)


@cache
def report_of(name: str, tokens_per_s: float | None = None) -> Report:
    baseline = measured_baseline(analyze(load(BASELINE)))
    known = Known(baseline=baseline, tokens_per_s=tokens_per_s)
    return analyze(load(SAMPLE_TRACES / name), AnalysisOptions(known=known))


@pytest.fixture
def seed() -> Report:
    return report_of("seed_case.sqlite", 71.0)


@pytest.fixture
def bucket(seed: Report) -> BucketReport:
    return seed.buckets[0]


@pytest.fixture
def verdict(seed: Report) -> BucketVerdict:
    assert seed.verdict is not None
    return seed.verdict.buckets[0]


def test_where_the_cycle_goes(bucket: BucketReport) -> None:
    printed = {
        phase.phase: (
            f"{phase.window_ns_per_cycle.mean / 1e6:.2f}",
            f"{100 * phase.window_share:.1f}",
        )
        for phase in bucket.phases
    }
    assert printed == {
        "draft": ("2.18", "6.9"),
        "verify": ("28.45", "89.6"),
        "draft_extend": ("1.12", "3.5"),
    }
    assert f"{bucket.period_ns.mean / 1e6:.2f}" == "31.74"


def test_enough_requests_and_cycles(bucket: BucketReport) -> None:
    assert bucket.acceptance is not None
    assert bucket.acceptance.cycles >= 250
    assert bucket.acceptance.requests is not None
    assert bucket.acceptance.requests >= 20
    assert bucket.acceptance.interval_from == "requests"


def test_the_verdict(seed: Report, verdict: BucketVerdict) -> None:
    assert seed.verdict is not None
    assert seed.verdict.outcome == "losing"
    figures = (
        verdict.break_even_accept_len,
        verdict.speedup,
        verdict.accept_len,
    )
    assert [f"{figure.value:.2f}" for figure in figures if figure] == ["2.86", "0.79", "2.25"]
    assert f"{verdict.target_ns_per_verified_token / 1e6:.2f}" == "4.74"  # type: ignore[operator]
    assert f"{verdict.target_to_decode:.2f}" == "2.56"
    assert verdict.baseline_tokens_per_s is not None
    assert f"{verdict.baseline_tokens_per_s.value:.1f}" == "90.1"


def test_throughput_implies_the_same_length(seed: Report) -> None:
    assert seed.verdict is not None
    (implied,) = (
        row.accept_len for row in seed.verdict.agreement if row.counted_by == "tokens/s x period"
    )
    assert f"{implied:.2f}" == "2.25"
    assert {check.check: check.status for check in seed.trust}["acceptance"] == "ok"


def test_the_draft_could_never_have_mattered(seed: Report, verdict: BucketVerdict) -> None:
    """What the draft's all-reduce takes, and what the draft at TP1 could save at most."""
    assert verdict.free_drafting_speedup is not None
    assert verdict.free_drafting_speedup < 1
    assert verdict.draft_collective_ns is not None
    assert 0 < verdict.draft_collective_ns / seed.buckets[0].period_ns.mean < 0.05
    assert seed.verdict is not None
    (action,) = (each for each in seed.verdict.actions if "TP1" in each.action)
    assert action.tokens_per_s_at_most is not None
    assert verdict.baseline_tokens_per_s is not None
    assert action.tokens_per_s_at_most < verdict.baseline_tokens_per_s.value


def test_verify_runs_another_attention_kernel_than_decode(verdict: BucketVerdict) -> None:
    (attention,) = (row for row in verdict.growth if row.name == "attention")
    assert attention.decode_kernel != attention.verify_kernel


def test_the_first_screen_says_it_in_order() -> None:
    screen = run_cli("report", SAMPLE_TRACES / "seed_case.sqlite", "--baseline", BASELINE).stdout
    places = [
        screen.index(text)
        for text in (
            "Speculation is losing: 71.0 tok/s vs 90.1 without it",
            "31.74",
            "accept_len 2.25",
            "break-even, any one of:",
            "Why verify costs 2.56× a plain step",
            "What to do",
            "Next measurement:",
            "Can it be trusted?",
        )
    ]
    assert places == sorted(places)


def test_the_synchronised_run_is_called_distorted_with_how_much() -> None:
    report = report_of("seed_synchronised_parquetdir")
    assert report.verdict is not None
    assert report.verdict.outcome == "withheld"
    first = report.trust[0]
    assert (first.check, first.status) == ("instrumentation", "failed")
    assert report.instrumentation is not None
    truth = json.loads((SAMPLE_TRACES / "seed_synchronised_parquetdir.truth.json").read_text())
    slower = truth["synchronisation"]["slower_share"]
    shorter = slower / (1 + slower)
    assert report.instrumentation.host_gap_share == pytest.approx(shorter, abs=0.003)


def test_0_98_is_called_bonus_exclusive() -> None:
    known = Known(readings=(reading_of_number(0.98, definition="bonus included"),))
    trace = load(SAMPLE_TRACES / "seed_synchronised_parquetdir")
    report = analyze(trace, AnalysisOptions(known=known))
    (check,) = (each for each in report.trust if each.check == "acceptance")
    assert check.status == "failed"
    assert "leaves the bonus token out (1.98 with it)" in check.text


def swept(name: str) -> SweepBatch:
    reports = [report_of(f"{name}_k{length:02d}_parquetdir") for length in LENGTHS]
    (batch,) = sweep_of(reports).batches
    return batch


def test_a_sweep_tells_a_fixed_step_from_a_cost_per_token() -> None:
    fixed, linear = swept("seed"), swept("seed_linear")
    assert (fixed.world, linear.world) == ("fixed step", "per token")
    assert fixed.advice is not None
    assert fixed.advice.startswith("Switch speculation off")
    assert linear.advice is not None
    assert linear.advice.startswith("Draft 1:")
    assert fixed.per_token_ns is not None
    assert f"{fixed.per_token_ns.value / 1e6:.2f}" == "0.87"


@pytest.mark.parametrize("name", ["seed", "seed_linear"])
def test_a_sweep_predicts_a_length_it_was_not_shown(name: str) -> None:
    """Leave k = 3 out, and find what its capture measured within the interval."""
    shown = [report_of(f"{name}_k{length:02d}_parquetdir") for length in LENGTHS if length != 3]
    (batch,) = sweep_of(shown).batches
    predicted = next(each for each in batch.predictions if each.draft_tokens == 3)
    assert not predicted.measured
    left_out = report_of(f"{name}_k03_parquetdir").verdict
    assert left_out is not None
    measured = left_out.buckets[0].tokens_per_s
    assert measured is not None
    assert predicted.tokens_per_s.low is not None
    assert predicted.tokens_per_s.high is not None
    assert predicted.tokens_per_s.low <= measured.value <= predicted.tokens_per_s.high
    assert predicted.tokens_per_s.value == pytest.approx(measured.value, rel=0.02)


def short_run(folder: Path, preset: str, container: str, *settings: str) -> Path:
    """A shallow model on one rank, recorded as Nsight Systems or as torch.profiler does."""
    suffix = {"sqlite": "sqlite", "kineto": "json.gz"}[container]
    path = folder / f"{preset}{''.join(settings[-1:])}.{suffix}"
    options = ["--preset", preset, "--ranks", "1", "--cycles", "40", "--format", container]
    shallow = ("layers=6", "exact=false", *settings)
    assert simulate([str(path), *options, *(f"--set={setting}" for setting in shallow)]) == 0
    return path


def test_the_verdict_does_not_depend_on_who_recorded(tmp_path: Path) -> None:
    found = {}
    for container in ("sqlite", "kineto"):
        plain = short_run(tmp_path, "seed-baseline", container)
        fast = short_run(tmp_path, "seed", container)
        known = Known(baseline=measured_baseline(analyze(load(plain))))
        report = analyze(load(fast), AnalysisOptions(known=known))
        assert report.verdict is not None
        (bucket,) = report.verdict.buckets
        assert bucket.speedup is not None
        growth = {row.name: row.verify_ns for row in bucket.growth}
        found[container] = (bucket.outcome, bucket.speedup.value, growth["attention"])
    assert found["kineto"][0] == found["sqlite"][0]
    assert found["kineto"][1] == pytest.approx(found["sqlite"][1], rel=0.005)
    # One holds the kernels of every cycle, the other those of three.
    assert found["kineto"][2] == pytest.approx(found["sqlite"][2], rel=0.05)


def test_compare_and_sweep_read_torch_profilers_traces_too(tmp_path: Path) -> None:
    traces = [
        short_run(tmp_path, "seed-sweep-linear", "kineto", f"draft_tokens={k}") for k in (1, 5)
    ]
    swept = run_cli("sweep", *traces, "--baseline-ms", "11.1").stdout
    assert "Draft 1:" in swept
    assert "per token" in swept
    plain = short_run(tmp_path, "seed-baseline", "kineto")
    compared = run_cli("compare", plain, traces[1]).stdout
    assert "decode → verify" in compared
    assert "accept length" in compared

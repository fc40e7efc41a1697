"""The simulated server with each cause planted in turn: the report names that one and no other."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from traceanalyzer import Report, analyze, load
from traceanalyzer.renderers.growth_text import cause_lines
from traceanalyzer.renderers.markdown import render_markdown
from traceanalyzer.renderers.terminal import render_terminal
from traceanalyzer.simulation.eagle3 import eagle3_server
from traceanalyzer.simulation.nsys_files import write_nsys_sqlite
from traceanalyzer.simulation.presets import VERIFY_CAUSES, verify_cause
from traceanalyzer.verdict.baseline import measured_baseline
from traceanalyzer.verdict.judgement import judged
from traceanalyzer.verdict.known import Known

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.simulation.settings import Eagle3Settings

LAYERS = 12
CAUSES = {
    "attention": "attention kernel",
    "all-reduce": "all-reduce algorithm",
    "experts": "experts",
    "eager": "eager launch",
    "padding": "padding",
}


def smaller(settings: Eagle3Settings) -> Eagle3Settings:
    """The server with fewer layers, its times as much shorter; launches alone cost as much."""
    share = LAYERS / settings.layers
    return replace(
        settings,
        layers=LAYERS,
        decode_ms=share * settings.decode_ms,
        verify_ms=share * settings.verify_ms,
        verify_token_ms=share * settings.verify_token_ms,
        prefill_ms=share * settings.prefill_ms,
        sample_ms=share * settings.sample_ms,
        verify_eager_us=settings.verify_eager_us / share,
    )


def reported(settings: Eagle3Settings, path: Path) -> Report:
    write_nsys_sqlite(eagle3_server(settings), path)
    return analyze(load(path))


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Report, Report]]:
    """Plain server and speculating server of each cause."""
    folder = tmp_path_factory.mktemp("causes")
    found = {}
    for cause in VERIFY_CAUSES:
        settings = smaller(verify_cause(cause))
        plain = replace(settings, draft_tokens=0, graph_batch=0)
        found[cause] = (
            reported(plain, folder / f"{cause}_plain.sqlite"),
            reported(settings, folder / f"{cause}.sqlite"),
        )
    return found


def with_verdict(pair: tuple[Report, Report]) -> Report:
    plain, speculating = pair
    return judged(speculating, Known(baseline=measured_baseline(plain)))


@pytest.mark.parametrize("planted", CAUSES)
def test_the_planted_cause_is_named_alone(planted, pairs):
    report = with_verdict(pairs[planted])
    (bucket,) = report.verdict.buckets
    assert [each.cause for each in bucket.growth_causes] == [CAUSES[planted]]
    (cause,) = bucket.growth_causes
    whole_ns = math.fsum(row.more_ns for row in bucket.growth)
    assert cause.growth_share == pytest.approx(cause.ns / whole_ns)
    assert cause.growth_share > 0.5
    (line,) = cause_lines(bucket)
    assert line in " ".join(render_terminal(report, plain=True).split())
    assert f"{cause.ns / 1e6:+.2f}" in render_markdown(report)


def test_where_all_kernels_grow_alike_none_is_named(pairs):
    (bucket,) = with_verdict(pairs["even"]).verdict.buckets
    assert bucket.target_to_decode > 1.1
    assert bucket.growth_causes == []
    assert cause_lines(bucket) == ["Nothing stands out: no class grows much beyond the others."]


@pytest.mark.parametrize("planted", VERIFY_CAUSES)
def test_rows_add_up_to_the_windows(planted, pairs):
    plain, speculating = pairs[planted]
    (bucket,) = with_verdict(pairs[planted]).verdict.buckets
    target = next(each for each in speculating.buckets[0].rollups if each.name == "target")
    assert sum(row.verify_ns for row in bucket.growth) == pytest.approx(target.mean_ns_per_cycle)
    step = sum(each.window_ns.value for each in plain.buckets[0].phases)
    assert sum(row.decode_ns for row in bucket.growth) == pytest.approx(step)
    for row in bucket.growth:
        for side in ("decode_ns", "verify_ns"):
            if row.kernels:
                together = sum(getattr(each, side) for each in row.kernels)
                assert together == pytest.approx(getattr(row, side))


@pytest.mark.parametrize("planted", VERIFY_CAUSES)
def test_layers_match_kernel_by_kernel(planted, pairs):
    (bucket,) = with_verdict(pairs[planted]).verdict.buckets
    assert bucket.growth_evidence.matched_share > 0.98
    attention = next(row for row in bucket.growth if row.name == "attention")
    (pair,) = attention.kernels
    assert (pair.decode_ops, pair.verify_ops) == (LAYERS, LAYERS)


def test_a_plain_steps_report_read_back_explains_as_much(pairs):
    plain, speculating = pairs["attention"]
    again = Report.from_json(plain.to_json())
    one, other = (with_verdict((each, speculating)).verdict for each in (plain, again))
    assert one == other


def test_launches_and_padding_are_told(pairs):
    eager = with_verdict(pairs["eager"]).verdict.buckets[0].growth_evidence
    assert eager.verify_eager_ops == eager.verify_ops
    assert (eager.decode_graph_launches, eager.verify_graph_launches) == (1, 0)
    padded = with_verdict(pairs["padding"]).verdict.buckets[0].growth_evidence
    assert (padded.batch, padded.decode_padded_batch, padded.verify_padded_batch) == (1, 1, 16)


def test_waiting_is_told_apart_where_all_ranks_are_there(tmp_path):
    """The second rank of the speculating server is slower, so the first waits for it."""
    settings = replace(smaller(verify_cause("even")), ranks=2, tp_size=2)
    plain = reported(replace(settings, draft_tokens=0), tmp_path / "plain.sqlite")
    slow = reported(replace(settings, slow_rank_share=0.4), tmp_path / "slow.sqlite")
    (bucket,) = with_verdict((plain, slow)).verdict.buckets
    row = next(each for each in bucket.growth if each.name == "all-reduce")
    assert row.decode_wait_ns is not None
    waits = [each for each in slow.skew[0].waits if each.phase == "verify"]
    gather = next(each for each in bucket.growth if each.name == "other collective")
    told = sum(each.wait_ns_per_cycle for each in waits) / len(waits)
    assert row.verify_wait_ns + gather.verify_wait_ns == pytest.approx(told, rel=0.01)
    assert "waiting" in [each.cause for each in bucket.growth_causes]

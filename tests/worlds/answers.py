"""What traceanalyzer says of a world, and how far that lies from the truth."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import traceanalyzer
from traceanalyzer.importers.acceptance.log import read_acceptance
from traceanalyzer.pipeline import AnalysisOptions, analyze
from traceanalyzer.simulation.worlds import UNTRACED, World
from traceanalyzer.verdict.baseline import measured_baseline
from traceanalyzer.verdict.judgement import judged
from traceanalyzer.verdict.known import Known
from traceanalyzer.verdict.two_pass import with_shares

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.report import BucketReport, Report
    from traceanalyzer.simulation.worlds import Capture, Figures, Recorder
    from traceanalyzer.simulation.worlds.steps import Shape


NUMBERS: Final = ("batch", "padded_batch", "verified_tokens", "draft_tokens", "prompt_tokens")


def analyzed(capture: Capture, folder: Path, known: Known | None = None) -> Report:
    """The report of one capture, through its file."""
    path = capture.write(folder / "capture.sqlite")
    return analyze(traceanalyzer.load(path), AnalysisOptions(known=known or Known()))


def against_baseline(
    world: World, folder: Path, recorder: Recorder = UNTRACED, *, tokens_per_s: float | None = None
) -> Report:
    """The report with a verdict: both servers recorded in the same way."""
    plain = analyzed(world.plain.record(recorder), folder)
    known = Known(baseline=measured_baseline(plain), tokens_per_s=tokens_per_s)
    return analyzed(world.record(recorder), folder, known)


def in_two_passes(world: World, folder: Path, graph: Recorder, node: Recorder) -> Report:
    """Totals of a whole-graph pass, shares of a node pass, of both servers."""
    plain, speculating = (
        with_shares(
            analyzed(each.record(graph), folder),
            analyzed(each.record(node), folder),
        )
        for each in (world.plain, world)
    )
    return judged(speculating, Known(baseline=measured_baseline(plain)))


def bucket_like(report: Report, shape: Shape) -> BucketReport:
    """The report's bucket of a shape, whatever phases its forward is fused with."""
    for bucket in report.buckets:
        own = bucket.shape
        told = {name: getattr(own, name) or 0 for name in NUMBERS}
        wanted = {name: getattr(shape, name) for name in NUMBERS}
        if shape.kind in own.kind and told == wanted:
            return bucket
    raise AssertionError(f"no bucket like {shape}: {[each.shape for each in report.buckets]}")


def windows_of(bucket: BucketReport) -> dict[str, float]:
    """Mean window of each phase."""
    return {phase.phase: phase.window_ns.value for phase in bucket.phases}


def is_off(value: float, truth: float) -> float:
    """By what share a value misses the truth."""
    return abs(value / truth - 1)


def complaints(report: Report) -> list[str]:
    """Checks that do not pass, and findings above mere information."""
    checks = [f"{each.check}: {each.text}" for each in report.trust if each.status != "ok"]
    found = [f"{each.finding}: {each.text}" for each in report.findings if each.severity != "info"]
    return checks + found


def with_log(folder: Path, text: str, engine: str, version: str, known: Known) -> Known:
    """What is known, with an engine's log beside it."""
    path = folder / "server.log"
    path.write_text(text)
    return replace(known, readings=(read_acceptance(path, engine=engine, version=version),))


def same_buckets(report: Report, figures: Figures) -> None:
    """Check every bucket of the report against the run's own truth, to the nanosecond."""
    for own in figures.buckets:
        bucket = bucket_like(report, own.shape)
        assert bucket.cycles == own.cycles, own.shape
        assert is_off(bucket.mean_period_ns.value, own.period_ns) < 1e-9, own.shape
        for phase, window_ns in own.windows_ns.items():
            got = windows_of(bucket).get(phase, 0.0)
            assert abs(got - window_ns) < 1e-3, (own.shape, phase)
        assert abs(bucket.overlap_ns_per_cycle - own.overlap_ns) < 1e-3
        if own.shape.draft_tokens and own.live_request_cycles:
            found = bucket.acceptance
            assert found is not None, own.shape
            counted = (found.request_cycles, found.committed_tokens)
            assert counted == (own.live_request_cycles, own.committed_tokens), own.shape


def same_leads(report: Report, figures: Figures) -> None:
    """Check the host lead of every rank and phase."""
    for place, rank in enumerate(report.ranks):
        told = {phase.phase: phase.host_lead_ns for phase in rank.phases}
        for (own, phase), truth in figures.host_lead.items():
            if own == place:
                lead = told[phase]
                assert lead is not None, (place, phase)
                assert (lead.p5, lead.p50) == (truth.p5, truth.p50), (place, phase)


def same_waits(report: Report, figures: Figures) -> int:
    """Check every wait that is told, on true clocks; returns how many are."""
    told = 0
    for group in report.skew:
        for row in group.waits:
            if row.wait_ns_per_cycle is not None:
                truth = figures.collective_wait_ns.get((row.rank, row.phase), 0.0)
                assert abs(row.wait_ns_per_cycle - truth) < 1, (row.rank, row.phase)
                told += 1
    return told

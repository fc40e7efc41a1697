"""Reports made by hand: buckets of round figures, so that a verdict can be worked out on paper."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from traceanalyzer.report import (
    BucketAcceptance,
    BucketPhase,
    BucketReport,
    BucketShape,
    Capture,
    CaptureFile,
    ClassTime,
    Clock,
    Coverage,
    CyclesReport,
    Device,
    Dropped,
    Estimated,
    Gap,
    Instrumentation,
    RankReport,
    Report,
    Rollup,
    Spread,
    Tool,
)
from traceanalyzer.speculation.acceptance import AcceptanceCounts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MS = 1e6


def around(value: float, doubt: float = 0.0) -> Estimated:
    """A figure whose interval reaches `doubt` (a share) to either side; exact without."""
    return Estimated(value, value * (1 - doubt), value * (1 + doubt))


def phase(
    name: str,
    ms: float,
    period_ms: float,
    *,
    gaps: Mapping[str, float] | None = None,
    classes: Mapping[str, float] | None = None,
    kernel: str = "kernel",
) -> BucketPhase:
    """A phase of so many ms a cycle; gaps by cause and kernel classes in ms too."""
    gap_ms = sum((gaps or {}).values())
    return BucketPhase(
        phase=name,
        window_ns_per_cycle=Spread(ms * MS, *[round(ms * MS)] * 4),
        window_ns=around(ms * MS),
        window_share=ms / period_ms,
        gap_ns_per_cycle=gap_ms * MS,
        gaps=[Gap(cause, 0, each * MS, each / gap_ms) for cause, each in (gaps or {}).items()],
        classes=[
            ClassTime(each, 1.0, class_ms * MS, f"{each} {kernel}")
            for each, class_ms in (classes or {}).items()
        ],
        class_cycles=1 if classes else 0,
        class_window_ns=ms * MS if classes else 0.0,
    )


def acceptance(counts: AcceptanceCounts, *, batch: int = 1, doubt: float = 0.0) -> BucketAcceptance:
    """What a bucket with these counts accepted."""
    assert counts.accept_len is not None
    cycles = counts.request_cycles // batch
    committed = counts.accepted_drafts + counts.request_cycles
    return BucketAcceptance(
        cycles=cycles,
        request_cycles=counts.request_cycles,
        requests=None,
        committed_tokens=committed,
        accept_len=around(counts.accept_len, doubt),
        committed_per_cycle=around(committed / cycles, doubt),
        counts=[(k, accepted, count) for (k, accepted), count in counts.cells.items()],
        survival=list(counts.survival()),
        conditional=list(counts.conditional()),
        interval_from="blocks of cycles",
        ledger=None,
    )


def verify_bucket(
    phases: Sequence[BucketPhase],
    counts: AcceptanceCounts | None,
    *,
    batch: int | None = 1,
    n: int = 6,
    share: float = 1.0,
    **changes: Any,
) -> BucketReport:
    """Speculating cycles of these phases, one after the other."""
    period_ms = sum(each.window_ns.value for each in phases) / MS
    k = counts.longest if counts else n - 1
    requests = batch or 1
    sides = {"target": ("verify", "sample"), "drafting": ("draft", "draft_extend")}
    bucket = BucketReport(
        shape=BucketShape(
            "verify",
            batch,
            batch,
            None if batch is None else n * requests,
            None if batch is None else k * requests,
            None,
            "CUDA graph",
        ),
        ranks=1,
        cycles=counts.request_cycles // requests if counts else 100,
        time_share=share,
        period_ns=Spread(period_ms * MS, *[round(period_ms * MS)] * 4),
        mean_period_ns=around(period_ms * MS),
        overlap_ns_per_cycle=0.0,
        overlap_share=0.0,
        phases=list(phases),
        rollups=[
            Rollup(side, ns, ns / (period_ms * MS))
            for side, names in sides.items()
            for ns in [sum(each.window_ns.value for each in phases if each.phase in names)]
            if ns
        ],
        acceptance=acceptance(counts, batch=requests) if counts else None,
    )
    return replace(bucket, **changes)


def decode_bucket(
    ms: float, *, batch: int | None = 1, classes: Mapping[str, float] | None = None, **changes: Any
) -> BucketReport:
    """Plain decode steps."""
    step = phase("decode", ms, ms, classes=classes, kernel="plain kernel")
    bucket = BucketReport(
        shape=BucketShape("decode", batch, batch, batch, 0, None, "CUDA graph"),
        ranks=1,
        cycles=100,
        time_share=1.0,
        period_ns=Spread(ms * MS, *[round(ms * MS)] * 4),
        mean_period_ns=around(ms * MS),
        overlap_ns_per_cycle=0.0,
        overlap_share=0.0,
        phases=[step],
        rollups=[],
    )
    return replace(bucket, **changes)


def report(*buckets: BucketReport, path: str = "made.sqlite", syncs: float = 0.0) -> Report:
    """A report of these buckets, timed on the GPU."""
    file = CaptureFile(path, "nsys-sqlite", "by hand", None, None, None, None)
    return Report(
        tool=Tool("traceanalyzer", "0"),
        capture=Capture([file], "gpu", 1, 1, 1),
        clock=Clock("ns", ""),
        coverage=None,
        ranks=[],
        buckets=list(buckets),
        instrumentation=Instrumentation(100, [], syncs, 0.0, 0.0),
    )


def rank(gpu: str, kept: int = 100) -> RankReport:
    """A rank on a GPU of this name."""
    return RankReport(
        rank=0,
        process_id=1,
        process_name=None,
        device=Device(0, gpu),
        coverage=Coverage(0, 0.0, 0, []),
        cycles=CyclesReport(kept, Dropped(0, 0, 0, 0), None, 0),
        phases=[],
    )


SEED_COUNTS = AcceptanceCounts.from_histogram(5, [430, 245, 140, 80, 45, 60])


def seed_bucket(counts: AcceptanceCounts | None = SEED_COUNTS, **changes: Any) -> BucketReport:
    """The worked case's cycle: draft 2.178, verify 28.447, draft extend 1.119 ms."""
    times = {"draft": 2.178, "verify": 28.447, "draft_extend": 1.119}
    period_ms = sum(times.values())
    phases = [phase(name, ms, period_ms) for name, ms in times.items()]
    return verify_bucket(phases, counts, **changes)

"""What a plain decode step costs without speculation, by batch: measured, or told as a number."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from traceanalyzer.errors import InputError
from traceanalyzer.report import Estimated
from traceanalyzer.verdict.estimates import NS_PER_MS
from traceanalyzer.verdict.untraced import served_period

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traceanalyzer.report import BucketReport, BucketShape, Report


@dataclass(frozen=True, slots=True)
class Step:
    """A plain decode step at one batch.

    Attributes:
        period_ns: From one step to the next.
        source: Where it comes from.
        bucket: The cycles it was measured from; None for a number.
        report: Of their capture; None for a number.
        assumed: What was assumed to use it, when something was.
    """

    period_ns: Estimated
    source: str
    bucket: BucketReport | None = None
    report: Report | None = None
    assumed: str | None = None


@dataclass(frozen=True, slots=True)
class Baseline:
    """Plain decode steps by batch; the batch of a step is None where it is not known.

    Several steps of one batch are those of different paths (graph replay, eager launch), the one
    with most time first. `mixed` holds steps that carry prompt tokens too, by batch and prompt
    tokens.
    """

    steps: Mapping[int | None, Sequence[Step]] = field(default_factory=dict)
    mixed: Mapping[tuple[int, int], Step] = field(default_factory=dict)

    def at(self, shape: BucketShape, *, only_shape: bool) -> Step | None:
        """The step to compare a bucket with, None when there is none.

        Args:
            shape: Of the bucket.
            only_shape: Whether all speculating cycles have one shape, so that a step of unknown
                batch (or cycles of unknown batch) can only mean that one.
        """
        if shape.batch is not None and shape.batch in self.steps:
            return _on_the_same_path(self.steps[shape.batch], shape)
        if not only_shape or len(self.steps) != 1:
            return None
        ((known, steps),) = self.steps.items()
        if shape.batch is not None and known is not None:
            return None
        return replace(
            _on_the_same_path(steps, shape),
            assumed="the plain decode step and the cycles are taken to have the same batch",
        )

    def with_steps_of(self, other: Baseline) -> Baseline:
        """Both together; where both know a batch the other's steps hold."""
        return Baseline({**self.steps, **other.steps}, {**self.mixed, **other.mixed})

    def with_prompt(self, shape: BucketShape) -> Step | None:
        """The plain step that carries as many prompt tokens beside as many requests."""
        if shape.batch is None or not shape.prompt_tokens:
            return None
        return self.mixed.get((shape.batch, shape.prompt_tokens))


def _on_the_same_path(steps: Sequence[Step], shape: BucketShape) -> Step:
    """The step that was launched like the bucket, from a graph or not; else the commonest."""
    alike = [each for each in steps if each.bucket and _is_eager(each.bucket) == _eager(shape)]
    step = (alike or steps)[0]
    if len(steps) == 1 or step.bucket is None:
        return step
    others = sum(each.bucket.cycles for each in steps if each.bucket and each is not step)
    return replace(step, source=f"{step.source} ({others:,} launched differently left out)")


def _is_eager(bucket: BucketReport) -> bool | None:
    return _eager(bucket.shape)


def _eager(shape: BucketShape) -> bool | None:
    return None if shape.graph is None else shape.graph == "no graph"


def measured_baseline(report: Report) -> Baseline:
    """The decode steps of a capture of a server with speculation off.

    Args:
        report: Of that capture.

    Raises:
        InputError: The capture speculates, or holds no complete decode cycle.
    """
    path = report.capture.files[0].path
    if any(speculates(bucket) for bucket in report.buckets):
        raise InputError(
            "this capture speculates, so its plain steps are no baseline: a server that can "
            "speculate decodes more slowly",
            where=path,
            next_step="Record the same load with speculation switched off.",
        )
    steps: dict[int | None, list[Step]] = {}
    mixed: dict[tuple[int, int], Step] = {}
    for bucket in report.buckets:  # most time first
        shape = bucket.shape
        source = f"{bucket.cycles:,} {shape.kind} cycles of {path}"
        step = Step(served_period(bucket), source, bucket, report)
        if shape.kind == "decode":
            steps.setdefault(shape.batch, []).append(step)
        elif shape.kind == "mixed" and shape.batch and shape.prompt_tokens:
            mixed.setdefault((shape.batch, shape.prompt_tokens), step)
    if not steps:
        raise InputError(
            "this capture holds no complete decode cycle, so it gives no baseline",
            where=path,
            next_step="Name its decode ranges with --phases, record longer, or give the step's "
            "time with --baseline-ms.",
        )
    return Baseline(steps, mixed)


def told_baseline(texts: Sequence[str]) -> Baseline:
    """Steps from texts like "11.1" (ms) or "8=14.2" (batch and ms).

    Raises:
        InputError: A text is neither.
    """
    steps: dict[int | None, list[Step]] = {}
    for text in texts:
        batch_text, separator, ms_text = text.rpartition("=")
        try:
            batch = int(batch_text) if separator else None
            ms = float(ms_text)
        except ValueError:
            ms, batch = 0.0, None
        if not 0 < ms < float("inf") or (batch is not None and batch < 1):
            raise InputError(
                f"not a time of a decode step: {text!r}",
                where="--baseline-ms",
                next_step="Write milliseconds (11.1), or batch and milliseconds (8=14.2).",
            )
        steps[batch] = [Step(Estimated(ms * NS_PER_MS), f"{ms:g} ms as given")]
    return Baseline(steps)


def speculates(bucket: BucketReport) -> bool:
    """Whether a bucket's forwards judge drafts."""
    return "verify" in bucket.shape.kind

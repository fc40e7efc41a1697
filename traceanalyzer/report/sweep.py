"""Captures at several draft lengths or batches: what verify costs by token, and the best length."""

from __future__ import annotations

from dataclasses import dataclass, field

from traceanalyzer.report.buckets import Estimated
from traceanalyzer.report.capture import Tool
from traceanalyzer.report.verdict import Action

SWEEP_SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """One bucket of one capture.

    Attributes:
        source: The capture.
        batch: Requests in each cycle; None when unknown.
        draft_tokens: k; None when unknown.
        verified_tokens: n, tokens verified for one request; None when unknown.
        cycles: Kept cycles over all ranks.
        period_ns: From one target forward to the next.
        target_ns: Windows of verify and sample.
        draft_ns: Window of the draft.
        draft_extend_ns: Window of the draft extend.
        accept_len: Bonus token included; None when unknown.
        tokens_per_s: All requests together; None when acceptance is unknown.
        speedup: None without acceptance or baseline.
    """

    source: str
    batch: int | None
    draft_tokens: int | None
    verified_tokens: int | None
    cycles: int
    period_ns: Estimated
    target_ns: Estimated
    draft_ns: float
    draft_extend_ns: float
    accept_len: Estimated | None
    tokens_per_s: Estimated | None
    speedup: Estimated | None


@dataclass(frozen=True, slots=True)
class SweepPrediction:
    """What a chain of so many drafts would give at one batch.

    `extrapolated` says that acceptance or a cost lies beyond what was measured, `measured` that a
    capture has this length.
    """

    draft_tokens: int
    accept_len: Estimated
    period_ns: Estimated
    tokens_per_s: Estimated
    speedup: Estimated | None
    measured: bool
    extrapolated: bool


@dataclass(frozen=True, slots=True)
class SweepBatch:
    """The captures of one batch.

    Attributes:
        batch: Requests in each cycle; None when unknown.
        baseline_ns: A plain decode step; None when unknown.
        points: The captures, by draft length.
        world: "fixed step" (verify costs more than a step whatever it carries), "per token", or
            "undecided"; None with fewer than two numbers of tokens or no baseline.
        fixed_step_ns: What verify costs over a plain step before its second token.
        per_token_ns: What each token adds.
        fixed_share: Of verify's growth at the most tokens measured.
        survival: Share of request-cycles that accept at least 1, 2, ... drafts, all captures.
        predictions: By draft length; empty where acceptance is unknown or drafts are no chain.
        best_draft_tokens: Most tokens per second among the predictions.
        advice: One sentence.
        actions: What to do at the best measured length.
    """

    batch: int | None
    baseline_ns: Estimated | None
    points: list[SweepPoint]
    world: str | None = None
    fixed_step_ns: Estimated | None = None
    per_token_ns: Estimated | None = None
    fixed_share: Estimated | None = None
    survival: list[float] = field(default_factory=list)
    predictions: list[SweepPrediction] = field(default_factory=list)
    best_draft_tokens: int | None = None
    advice: str | None = None
    actions: list[Action] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class BatchThreshold:
    """The batch at which the best speed-up falls through 1, with its interval."""

    batch: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What several captures tell together."""

    schema_version: int = SWEEP_SCHEMA_VERSION
    tool: Tool
    batches: list[SweepBatch]
    threshold: BatchThreshold | None = None
    caveats: list[str] = field(default_factory=list)

    def to_json(self) -> bytes:
        """The sweep as JSON."""
        import msgspec

        return msgspec.json.format(msgspec.json.encode(self), indent=2)

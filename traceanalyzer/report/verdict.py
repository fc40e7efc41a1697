"""Whether speculation wins, by how much, what would change it, and what to measure next."""

from __future__ import annotations

from dataclasses import dataclass, field

from traceanalyzer.report.buckets import Estimated
from traceanalyzer.report.growth import Growth, GrowthCause, GrowthEvidence


@dataclass(frozen=True, slots=True)
class Reading:
    """Acceptance that somebody else counted, brought to our definition.

    Attributes:
        source: Where it was read.
        read_as: What the number means there.
        conversion: What was done to it.
        accept_len: Committed tokens per request and cycle, bonus token included.
        draft_tokens: k, when told.
        survival: Share of cycles that accept at least 1, 2, ... drafts, when told.
        request_cycles: How many it stands for, when told.
        tokens_per_s: Tokens per second that the source tells, all requests together.
        batch: Mean number of running requests, when told.
        notes: What to know about it.
    """

    source: str
    read_as: str
    conversion: str
    accept_len: float
    draft_tokens: int | None
    survival: list[float]
    request_cycles: int | None
    tokens_per_s: float | None
    batch: float | None
    notes: list[str]


@dataclass(frozen=True, slots=True)
class BucketVerdict:
    """One bucket of speculating cycles against plain decode at the same batch.

    Attributes:
        bucket: Place in the report's buckets.
        outcome: "winning", "losing", "undecided" (the interval holds 1), or what is missing:
            "no acceptance", "no baseline".
        accept_len: Bonus token included.
        accept_len_from: Where it comes from and by which definition.
        accept_len_requests: How many requests it was counted over; None where marks do not tell
            them apart. What was counted over one says nothing of how others differ.
        tokens_per_s: While decoding in this bucket, all requests together.
        baseline_ns: A plain decode step at this batch, speculation off.
        baseline_from: Where that comes from.
        baseline_tokens_per_s: While decoding without speculation.
        speedup: Of decoding, above 1 is a win.
        break_even_baseline_ns: Plain decode step at which the speed-up is 1: speculation wins
            where a step takes longer.
        break_even_accept_len: Accept length at which it is 1.
        break_even_period_ns: Cycle at which it is 1.
        break_even_verify_ns: Verify and sample windows at which it is 1; None when the rest of
            the cycle alone is too long.
        target_ns: Verify and sample windows of a cycle.
        target_ns_per_verified_token: For one request: the window over its verified tokens.
        target_ns_per_committed_token: For one request.
        target_to_decode: Verify and sample windows over a plain step.
        wasted_share: Verified slots that committed nothing.
        free_drafting_speedup: If draft and draft extend cost nothing.
        perfect_acceptance_speedup: If every draft were accepted.
        growth: Kernel classes, plain step against verify, the largest growth first.
        growth_causes: What stands out among them, the dearest first; empty where nothing does.
        growth_evidence: What they rest on; None where `growth` is empty.
        draft_collective_ns: Collectives inside draft and draft extend per cycle, waiting
            included; None where kernels were not recorded.
    """

    bucket: int
    outcome: str
    accept_len: Estimated | None = None
    accept_len_from: str | None = None
    accept_len_requests: int | None = None
    tokens_per_s: Estimated | None = None
    baseline_ns: Estimated | None = None
    baseline_from: str | None = None
    baseline_tokens_per_s: Estimated | None = None
    speedup: Estimated | None = None
    break_even_baseline_ns: Estimated | None = None
    break_even_accept_len: Estimated | None = None
    break_even_period_ns: float | None = None
    break_even_verify_ns: float | None = None
    target_ns: float | None = None
    target_ns_per_verified_token: float | None = None
    target_ns_per_committed_token: float | None = None
    target_to_decode: float | None = None
    wasted_share: float | None = None
    free_drafting_speedup: float | None = None
    perfect_acceptance_speedup: float | None = None
    growth: list[Growth] = field(default_factory=list)
    growth_causes: list[GrowthCause] = field(default_factory=list)
    growth_evidence: GrowthEvidence | None = None
    draft_collective_ns: float | None = None


@dataclass(frozen=True, slots=True)
class MixedLoad:
    """All speculating buckets together, each against its own baseline.

    `speedup` is None when less than four fifths of their wall time has a baseline.
    """

    speedup: Estimated | None
    matched_share: float


@dataclass(frozen=True, slots=True)
class Action:
    """Something to do, with what it gains at most and what would prove it wrong."""

    action: str
    tokens_per_s_at_most: float | None
    gain_share_at_most: float | None
    evidence: str
    refuted_by: str


@dataclass(frozen=True, slots=True)
class Agreement:
    """One way to count tokens a cycle, for comparison with the others."""

    counted_by: str
    accept_len: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer.

    Attributes:
        outcome: "winning", "losing", "undecided", "mixed" (some buckets win, some lose),
            "withheld" (a trust check failed), or "unknown" (something is missing).
        withheld_because: The failed checks.
        missing: What could not be said, and what would let it be said.
        buckets: One a bucket of speculating cycles, the one with most time first.
        mixed: Over all buckets, where there are several, plain steps of this server included.
        actions: What to do, ranked.
        next_measurement: The one measurement that would decide most.
        service_speedup: Of requests end to end, where the share that is not decoding is known.
        readings: Acceptance counted elsewhere.
        agreement: Independent counts of accept_len.
        caveats: What to keep in mind.
    """

    outcome: str
    withheld_because: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    buckets: list[BucketVerdict] = field(default_factory=list)
    mixed: MixedLoad | None = None
    actions: list[Action] = field(default_factory=list)
    next_measurement: str | None = None
    service_speedup: float | None = None
    readings: list[Reading] = field(default_factory=list)
    agreement: list[Agreement] = field(default_factory=list)
    caveats: list[str] = field(default_factory=list)

"""Two captures beside each other: plain data, versioned, equal after a trip through JSON.

A ratio is B over A; its interval takes the two captures to be independent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from traceanalyzer.report.buckets import BucketShape, Estimated
from traceanalyzer.report.capture import Tool

COMPARISON_SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure in both captures.

    Attributes:
        a: In A, None where A lacks it.
        b: In B, None where B lacks it.
        ratio: B over A; None where one is missing or not above 0.
    """

    a: Estimated | None
    b: Estimated | None
    ratio: Estimated | None = None


@dataclass(frozen=True, slots=True)
class ClassComparison:
    """One kernel class of a phase, or "idle" for the time in which nothing runs.

    Attributes:
        kernel_class: The class.
        ns_per_cycle: Its time.
        ns_per_token: The same over the tokens that a cycle commits; None where they are unknown.
        ops_per_cycle: Kernels, copies and sets; None for idle time.
        longest_kernel_a: The kernel of A with most time in the class.
        longest_kernel_b: That of B.
    """

    kernel_class: str
    ns_per_cycle: Figure
    ns_per_token: Figure | None
    ops_per_cycle: Figure | None
    longest_kernel_a: str | None
    longest_kernel_b: str | None


@dataclass(frozen=True, slots=True)
class PhaseComparison:
    """One phase's window in two buckets; a phase may stand against another one.

    Attributes:
        phase_a: In A, None where A lacks it.
        phase_b: In B, None where B lacks it.
        ns_per_cycle: Its window.
        ns_per_token: The same over the tokens that a cycle commits; None where they are unknown.
        idle_ns_per_cycle: Idle time in the window.
        period_change_share: What its window adds to the period, of A's period; with that of the
            other phases and of the overlap it adds up to the period's change.
        classes: By kernel class, the largest change first; empty unless both recorded kernels.
        class_cycles_a: Cycles of A in which kernels were recorded.
        class_cycles_b: Those of B.
    """

    phase_a: str | None
    phase_b: str | None
    ns_per_cycle: Figure
    ns_per_token: Figure | None
    idle_ns_per_cycle: Figure
    period_change_share: float
    classes: list[ClassComparison] = field(default_factory=list)
    class_cycles_a: int = 0
    class_cycles_b: int = 0


@dataclass(frozen=True, slots=True)
class BucketSide:
    """One capture's bucket in a comparison."""

    bucket: int
    shape: BucketShape
    ranks: int
    cycles: int
    time_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketComparison:
    """A bucket of A against one of B.

    Attributes:
        relation: "same shape", "speculation" (plain decode against verify, at the same batch), or
            "same tokens" (plain decode of n requests against verify of n tokens, which separates
            the path from the tokens).
        a: The bucket of A.
        b: The bucket of B.
        period_ns: A cycle.
        overlap_ns_per_cycle: Two or more phases run.
        overlap_change_share: What it adds to the period, of A's period.
        phases: By phase, in A's order.
        accept_len: Committed tokens per request and cycle, bonus token included.
        requests_per_cycle: Requests that commit tokens in a cycle.
        period_ns_per_token: Time a committed token, all requests together.
        tokens_per_s: While decoding, all requests together. Its ratio is the net change:
            that of accept_len times that of requests_per_cycle over that of the period.
        outcome: "faster", "slower", "no sure change" (the interval holds 1), or "unknown".
        assumed: What was assumed to compare the two.
        missing: What could not be said, and why.
        summary: The change in one sentence.
    """

    relation: str
    a: BucketSide
    b: BucketSide
    period_ns: Figure
    overlap_ns_per_cycle: Figure
    overlap_change_share: float
    phases: list[PhaseComparison]
    accept_len: Figure | None = None
    requests_per_cycle: Figure | None = None
    period_ns_per_token: Figure | None = None
    tokens_per_s: Figure | None = None
    outcome: str = "unknown"
    assumed: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Unmatched:
    """A bucket that stands in one capture only."""

    capture: str
    side: BucketSide
    period_ns: Estimated


@dataclass(frozen=True, slots=True)
class Overall:
    """All matched buckets together, reweighted to A's mix of tokens.

    Attributes:
        relation: Of the buckets that were matched.
        matched_share_a: Share of A's cycle time that was matched.
        matched_share_b: That of B.
        net: Tokens per second of B over those of A, for A's tokens in each bucket; None where
            withheld.
        withheld_because: Why it is.
    """

    relation: str
    matched_share_a: float
    matched_share_b: float
    net: Estimated | None = None
    withheld_because: str | None = None


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What makes two captures not comparable, or weakens the comparison.

    Attributes:
        obstacle: What differs or lacks.
        text: What it is in these captures.
        next_step: What to do.
        blocks: Whether no verdict can be given.
    """

    obstacle: str
    text: str
    next_step: str | None
    blocks: bool


@dataclass(frozen=True, slots=True)
class ComparedCapture:
    """One of the two captures."""

    files: list[str]
    product: str
    time_base: str
    gpus: list[str]
    ranks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What changed from A to B.

    Attributes:
        schema_version: Of this form.
        tool: What wrote it.
        a: The capture compared with.
        b: The capture that is compared.
        outcome: "faster", "slower", "no sure change", "mixed" (some buckets are faster, some
            slower), "not comparable", or "unknown" (something is missing).
        summary: The answer in one sentence.
        obstacles: What stands against comparing them, what blocks a verdict first.
        buckets: Matched buckets; those on which the verdict rests first, most time first.
        unmatched: Buckets on one side only.
        overall: Over all matched buckets, where several are.
    """

    schema_version: int = COMPARISON_SCHEMA_VERSION
    tool: Tool
    a: ComparedCapture
    b: ComparedCapture
    outcome: str
    summary: str
    obstacles: list[Obstacle]
    buckets: list[BucketComparison]
    unmatched: list[Unmatched]
    overall: Overall | None = None

    def to_json(self) -> bytes:
        """The comparison as JSON."""
        import msgspec

        return msgspec.json.format(msgspec.json.encode(self), indent=2)

    @classmethod
    def from_json(cls, data: bytes) -> Comparison:
        """Read what `to_json` wrote.

        Raises:
            InputError: The data is no comparison of this schema version.
        """
        import msgspec

        from traceanalyzer.errors import InputError

        try:
            found = msgspec.json.decode(data, type=cls)
        except msgspec.MsgspecError as error:
            raise InputError(f"this is no comparison: {error}") from None
        if found.schema_version != COMPARISON_SCHEMA_VERSION:
            raise InputError(f"comparisons of schema version {found.schema_version} cannot be read")
        return found

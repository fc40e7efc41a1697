"""Cycles of one shape: where their time goes, and what they committed."""

from __future__ import annotations

from dataclasses import dataclass, field

from traceanalyzer.report.ranks import Gap, Spread


@dataclass(frozen=True, slots=True)
class Estimated:
    """A number with its 95 % interval; no interval where nothing tells one."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class BucketShape:
    """What makes cycles comparable; None is unknown."""

    kind: str
    batch: int | None
    padded_batch: int | None
    verified_tokens: int | None
    draft_tokens: int | None
    prompt_tokens: int | None
    graph: str | None


@dataclass(frozen=True, slots=True)
class ClassTime:
    """Kernels of one class in a phase of a cycle.

    Attributes:
        kernel_class: The class, or "overlap across streams".
        ops_per_cycle: Kernels, copies and sets.
        busy_ns_per_cycle: Time in which they run; the classes add up to the phase's busy time.
        longest_kernel: The kernel with most time in the class.
        replayed_ops_per_cycle: Those that are nodes of a graph.
        busy_half_width_ns: To either end of the 95 % interval of `busy_ns_per_cycle`; None of one
            cycle.
        wait_ns_per_cycle: Of collectives: the part of `busy_ns_per_cycle` in which the device only
            waited for a late rank; None where waiting cannot be told from transfer.
    """

    kernel_class: str
    ops_per_cycle: float
    busy_ns_per_cycle: float
    longest_kernel: str | None
    replayed_ops_per_cycle: float = 0.0
    busy_half_width_ns: float | None = None
    wait_ns_per_cycle: float | None = None


@dataclass(frozen=True, slots=True)
class KernelSlot:
    """Kernels that stand in one place of a forward, in all of its layers that are alike.

    Attributes:
        kernel: Its name; `OTHER_KERNELS` for all of the class that are not listed.
        kernel_class: Its class.
        block: Place in the phase's `kernel_blocks` of the block that it stands in, the slots of a
            block in the order in which they run; -1 for what stands in none.
        ops_per_cycle: Over the cycles of `classes`.
        busy_ns_per_cycle: Time in which they run.
        busy_half_width_ns: To either end of its 95 % interval; None of one cycle.
    """

    kernel: str
    kernel_class: str
    block: int
    ops_per_cycle: float
    busy_ns_per_cycle: float
    busy_half_width_ns: float | None = None


@dataclass(frozen=True, slots=True)
class BucketPhase:
    """One phase's window in the cycles of a bucket, over all ranks.

    Attributes:
        phase: The phase.
        window_ns_per_cycle: Its window.
        window_ns: The mean window with its interval.
        window_share: Of the mean period.
        gap_ns_per_cycle: Idle time in the window.
        gaps: By cause.
        graph_launches_per_cycle: Graph launches, mean.
        kernel_launches_per_cycle: Launches of single kernels, mean.
        classes: Time by kernel class, over the cycles in which every replay was recorded node by
            node; empty where none was.
        class_cycles: How many cycles those are.
        class_window_ns: Mean window in those cycles.
        class_window_half_width_ns: To either end of its 95 % interval; None of one cycle.
        class_idle_half_width_ns: The same of its idle time in those cycles.
        kernel_blocks: How often each block of kernels runs, in the order of most of those cycles;
            empty where the phase is none of the target's, or has too many kernels to list.
        kernel_slots: Time by place in those blocks. In the cycles in which kernels were recorded
            the slots of a class add up to its time; `classes` are what they are shares of.
        whole_cycles: How many cycles have replays of the phase as whole-graph rows.
        whole_window_ns: Mean window in those; None where none has.
    """

    phase: str
    window_ns_per_cycle: Spread
    window_ns: Estimated
    window_share: float
    gap_ns_per_cycle: float
    gaps: list[Gap]
    graph_launches_per_cycle: float = 0.0
    kernel_launches_per_cycle: float = 0.0
    classes: list[ClassTime] = field(default_factory=list)
    class_cycles: int = 0
    class_window_ns: float = 0.0
    class_window_half_width_ns: float | None = None
    class_idle_half_width_ns: float | None = None
    kernel_blocks: list[int] = field(default_factory=list)
    kernel_slots: list[KernelSlot] = field(default_factory=list)
    whole_cycles: int = 0
    whole_window_ns: Estimated | None = None


@dataclass(frozen=True, slots=True)
class Rollup:
    """Several phases' windows together: target = verify + sample, drafting = draft + draft_extend.

    `share_of_period` is what removing them could save at most.
    """

    name: str
    mean_ns_per_cycle: float
    share_of_period: float


@dataclass(frozen=True, slots=True)
class FreeDrafting:
    """What a draft that costs nothing would buy at most, whatever is accepted.

    Attributes:
        drafting_ns: Windows of draft and draft extend.
        speedup: Of the cycle, without them.
        launch_wait_ns: Idle time before the target's replays whose launch came late or was on its
            way: what a draft hides in part while it runs, and a timer around it counts to it. 0
            where the target's kernels are recorded one by one.
        speedup_with_launch: Of the cycle, without that too.
    """

    drafting_ns: float
    speedup: float
    launch_wait_ns: float
    speedup_with_launch: float


@dataclass(frozen=True, slots=True)
class SlotLedger:
    """Where the verified token slots went; they add up to `verified`."""

    verified: int
    committed: int
    rejected: int
    overshoot: int
    stale: int
    idle: int


@dataclass(frozen=True, slots=True)
class BucketAcceptance:
    """What the cycles of a bucket accepted.

    Attributes:
        cycles: Distinct cycles of the bucket with accept marks.
        request_cycles: Live requests, summed over those cycles.
        requests: Distinct requests, None where marks do not tell them apart.
        committed_tokens: Accepted drafts and bonus tokens, overshoot left out.
        accept_len: Committed tokens per live request-cycle, bonus token included.
        committed_per_cycle: Committed tokens per cycle, all requests together.
        counts: Rows of k, accepted drafts, and live request-cycles.
        survival: Share of request-cycles that accept at least 1, 2, ... drafts.
        conditional: Chance of position 1, 2, ... given all before; None where none came so far.
        interval_from: What was resampled: "requests" or "blocks of cycles".
        ledger: Where the verified slots went; None where the marks tell no verified tokens.
    """

    cycles: int
    request_cycles: int
    requests: int | None
    committed_tokens: int
    accept_len: Estimated
    committed_per_cycle: Estimated
    counts: list[tuple[int, int, int]]
    survival: list[float]
    conditional: list[float | None]
    interval_from: str | None
    ledger: SlotLedger | None


@dataclass(frozen=True, slots=True)
class BucketReport:
    """The kept cycles of one shape, over all ranks.

    The mean windows of the phases and `overlap_ns_per_cycle` add up to the mean period.
    `recorder_ns_per_cycle` is the most that recording may have added to it: work on the host for
    which the GPU waited. `free_drafting` is None where nothing is drafted on the GPU, and where
    drafting cannot be told from the target.
    """

    shape: BucketShape
    ranks: int
    cycles: int
    time_share: float
    period_ns: Spread
    mean_period_ns: Estimated
    overlap_ns_per_cycle: float
    overlap_share: float
    phases: list[BucketPhase]
    rollups: list[Rollup]
    recorder_ns_per_cycle: float = 0.0
    acceptance: BucketAcceptance | None = None
    free_drafting: FreeDrafting | None = None


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Accepted drafts of requests in cycles; the bonus token is in `accept_len` alone.

    Histograms count request-cycles by accepted drafts, from 0 up. `accept_len` is committed
    tokens per live request-cycle; stale ones are finished requests verified once more.
    """

    source: str
    request_cycles: int
    live_request_cycles: int
    stale_request_cycles: int
    accepted_drafts_histogram: list[int]
    live_accepted_drafts_histogram: list[int]
    overshoot_tokens: int
    committed_tokens: int
    accept_len: float | None

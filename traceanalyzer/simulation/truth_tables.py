"""What can be known about a recording, as plain tables; `truth.truth_of` fills them.

The words are those of the definitions; a rank is (process, device).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Status = Literal["kept", "warm_up", "edge", "interrupted", "dummy"]


@dataclass(slots=True)
class PhaseTruth:
    """What one phase did on one rank over the whole trace.

    `kernels` and `kernel_ns` hold kernels only, replayed ones included; `graph_rows` are whole
    replays written as one row; `launches` are API calls that caused ops of this phase; `wait_ns`
    is time in collectives before the last rank came.
    """

    ops: int = 0
    kernels: int = 0
    kernel_ns: int = 0
    graph_rows: int = 0
    graph_row_ns: int = 0
    memcpys: int = 0
    memcpy_ns: int = 0
    memsets: int = 0
    memset_ns: int = 0
    launches: int = 0
    graph_launches: int = 0
    wait_ns: int = 0


@dataclass(frozen=True, slots=True)
class CycleTruth:
    """One cycle of a rank: from a target forward's first kernel to the next one's.

    Attributes:
        end_ns: None when no target forward follows.
        status: Why the cycle is averaged or not; the first that holds of warm-up, dummy, edge
            (no target forward follows) and interrupted (a prefill fell in).
        windows_ns: Per phase, time in which only it runs and the gaps that its ops end.
        overlap_ns: Time in which two phases or more run. Windows and overlap make the period.
        accepted_drafts: Accepted drafts per request that this cycle's verify judged.
    """

    number: int
    kind: str
    status: Status
    start_ns: int
    end_ns: int | None
    windows_ns: dict[str, int]
    overlap_ns: int
    batch_size: int
    draft_tokens: int
    verified_tokens: int
    accepted_drafts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OpTruth:
    """The truth about one op.

    `cycle` is the number of the cycle in which it starts; a rank's last cycle lasts until its last
    op that has a phase.
    """

    kind: str
    start_ns: int
    end_ns: int
    stream_id: int
    correlation_id: int
    phase: str
    method: str
    cycle: int | None
    iteration: int | None
    step: int | None
    wait_ns: int | None


@dataclass(frozen=True, slots=True)
class RankTruth:
    """All that is known about one process on one device."""

    process_id: int
    device_id: int
    phases: dict[str, PhaseTruth]
    cycles: tuple[CycleTruth, ...]
    ops: tuple[OpTruth, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class AcceptanceTruth:
    """Accepted drafts per request and cycle, bonus token excluded.

    `accepted_histogram` counts request-cycles by accepted drafts, from 0 to k; `accept_len` has
    the bonus token in.
    """

    draft_tokens: int
    request_cycles: int
    requests: int
    accepted_histogram: tuple[int, ...]
    accept_len: float


@dataclass(frozen=True, slots=True)
class BucketTruth:
    """Kept cycles of one shape, over all ranks.

    Attributes:
        cycles: Cycles, each rank's counted.
        windows_ns: Mean window of each phase.
        acceptance: Of the same cycles, each counted once; None when nothing was drafted.
        detailed_cycles: Those without a whole-graph row; in them every kernel is known.
        collective_ns: Mean time of each phase's collectives in a detailed cycle, waiting included.
    """

    kind: str
    batch_size: int
    draft_tokens: int
    verified_tokens: int
    cycles: int
    period_ns: float
    windows_ns: dict[str, float]
    overlap_ns: float
    acceptance: AcceptanceTruth | None
    detailed_cycles: int
    collective_ns: dict[str, float]


@dataclass(frozen=True, slots=True)
class UndisturbedTruth:
    """Kept cycles of one shape, had recording nodes cost nothing.

    Attributes:
        windows_ns: Mean window of each phase.
        slower_share: By phase, how much longer its mean window really is.
    """

    kind: str
    batch_size: int
    windows_ns: dict[str, float]
    slower_share: dict[str, float]


@dataclass(frozen=True, slots=True)
class SynchronisationTruth:
    """What synchronising calls around the phases do.

    `slower_share` is how much longer the mean period of kept cycles is than without them.
    """

    calls_per_iteration: float
    undisturbed_period_ns: float
    slower_share: float

"""What a simulated EAGLE-3 server does: sizes, times, and which hard cases its trace holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from traceanalyzer.errors import InputError

GraphMode = Literal["node", "graph", "eager"]


@dataclass(frozen=True, slots=True)
class Eagle3Settings:
    """Settings of `eagle3_server`; the defaults give a trace with most hard cases in it.

    Attributes:
        ranks: Tensor-parallel processes, one device each; their correlation ids collide.
        cycles: Scheduler iterations, warm-up included.
        draft_tokens: k, drafts per request; the draft graph holds k - 1 forwards because the
            first draft comes from the draft extend.
        verified_tokens: n, tokens the target runs per request.
        layers: Layers of the target; the draft model has one.
        graph_mode: `node`: replays are written node by node, all under one correlation id;
            `graph`: one row a replay; `eager`: one launch a kernel.
        graph_share: Share of the iterations whose forwards are replayed; the rest runs eagerly.
        lag_cycles: How many iterations the CPU runs ahead; 0 waits for its own results.
        warm_up_cycles: Slow iterations at the start.
        prefill_every: A prefill falls in after every so many iterations; 0 never. One is always
            at the start.
        decode_every: Every so many iterations nothing is drafted; 0 never.
        dummy_every: Every so many iterations run on padding; 0 never.
        straddle_every: Every so many iterations four launches straddle range borders; 0 never.
        orphan_kernels: Kernels at the start whose launch is not in the trace.
        batch_sizes: Requests per batch, in turn, eight iterations each.
        accept_probability: Chance that a draft is accepted when the one before it was.
        draft_ms: Mean window of the draft phase per cycle.
        verify_ms: Mean window of verify and sample together.
        sample_ms: The part of `verify_ms` that is sampling.
        draft_extend_ms: Mean window of the draft extend.
        decode_ms: Mean window of a plain decode step, sampling included.
        prefill_ms: Mean time of a prefill, draft prefill included.
        host_ms: Host work per iteration apart from CUDA calls.
        jitter_share: Spread of kernel lengths from cycle to cycle.
        slow_rank_share: How much longer the last rank's kernels take.
        domain: NVTX domain of the server's ranges; None writes bare names.
        registered: Registered strings (textId) or plain text.
        cycle_ranges: Whether iterations have a `cycle` range, and the scheduler its own; without
            them, what is outside every phase range counts as unattributed.
        sample_ranges: Whether sampling has its own range inside of verify.
        marks: Whether rank 0 writes batch, token and accept marks.
        requests: Whether requests are start/end ranges, some closed by another thread.
        other_kernels: Kernels per iteration outside every phase range.
        offload_thread: Whether a second CPU thread launches work in ranges of its own.
        backtraces: Whether each API call has a twin row of event class 67.
        capture_recorded: Whether graph construction is inside the recording.
        one_visible_gpu: Whether every process sees its GPU as device 0.
        gpu_rows: Whether the trace holds GPU work and API calls at all.
        seed: Seed of every random choice.
    """

    ranks: int = 2
    cycles: int = 40
    draft_tokens: int = 5
    verified_tokens: int = 6
    layers: int = 8
    graph_mode: GraphMode = "node"
    graph_share: float = 1.0
    lag_cycles: int = 1
    warm_up_cycles: int = 3
    prefill_every: int = 16
    decode_every: int = 0
    dummy_every: int = 0
    straddle_every: int = 8
    orphan_kernels: int = 2
    batch_sizes: tuple[int, ...] = (1,)
    accept_probability: float = 0.57
    draft_ms: float = 2.18
    verify_ms: float = 28.45
    sample_ms: float = 0.35
    draft_extend_ms: float = 1.12
    decode_ms: float = 11.1
    prefill_ms: float = 45.0
    host_ms: float = 0.4
    jitter_share: float = 0.04
    slow_rank_share: float = 0.0
    domain: str | None = "eagle"
    registered: bool = True
    cycle_ranges: bool = True
    sample_ranges: bool = True
    marks: bool = True
    requests: bool = True
    other_kernels: int = 2
    offload_thread: bool = True
    backtraces: bool = False
    capture_recorded: bool = True
    one_visible_gpu: bool = False
    gpu_rows: bool = True
    seed: int = 1

    def __post_init__(self) -> None:
        for name, low, high in (
            ("ranks", 1, 1024),
            ("cycles", 1, 1 << 24),
            ("draft_tokens", 2, 255),
            ("verified_tokens", 2, 255),
            ("layers", 1, 1024),
            ("lag_cycles", 0, 16),
            ("graph_share", 0, 1),
            ("accept_probability", 0, 1),
            ("jitter_share", 0, 0.5),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise InputError(f"must be between {low} and {high}, not {value}", where=name)
        if self.graph_mode not in ("node", "graph", "eager"):
            raise InputError(
                f"must be node, graph or eager, not {self.graph_mode}", where="graph_mode"
            )
        if not self.batch_sizes or not all(1 <= size <= 64 for size in self.batch_sizes):
            raise InputError("needs batch sizes between 1 and 64", where="batch_sizes")

    @classmethod
    def seed_case(cls, cycles: int = 100, ranks: int = 8) -> Eagle3Settings:
        """The project's worked case: k = 5, n = 6, windows of 2.18, 28.45 and 1.12 ms.

        Nothing else runs: no prefill after the first, no second thread, no sampling range.
        """
        return cls(
            ranks=ranks,
            cycles=cycles,
            prefill_every=0,
            straddle_every=0,
            orphan_kernels=0,
            sample_ranges=False,
            other_kernels=0,
            offload_thread=False,
        )

    @classmethod
    def small(cls) -> Eagle3Settings:
        """A few hundred kernels a rank: two layers, twelve iterations, a tenth of the seed case."""
        return cls(
            cycles=12,
            draft_tokens=3,
            verified_tokens=4,
            layers=2,
            warm_up_cycles=2,
            prefill_every=8,
            straddle_every=4,
            draft_ms=0.218,
            verify_ms=2.845,
            sample_ms=0.05,
            draft_extend_ms=0.112,
            decode_ms=1.11,
            prefill_ms=4.5,
        )

"""What a simulated EAGLE-3 server does: sizes, times, and which hard cases its trace holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from traceanalyzer.errors import InputError
from traceanalyzer.simulation.gpus import GPUS

GraphMode = Literal["node", "graph", "eager"]
Model = Literal["dense", "mla_moe"]
VerifyGrowth = Literal["usual", "even", "attention", "all_reduce", "experts"]


@dataclass(frozen=True, slots=True)
class Eagle3Settings:
    """Settings of `eagle3_server`; the defaults give a trace with most hard cases in it.

    Attributes:
        ranks: Tensor-parallel processes that are traced, one device each; their correlation ids
            collide.
        tp_size: Ranks of the server, traced or not; 0: those that are traced.
        cycles: Scheduler iterations, warm-up included.
        draft_tokens: k, drafts per request; the draft graph holds k - 1 forwards because the
            first draft comes from the draft extend. 0 switches speculation off: no draft model.
        verified_tokens: n, tokens the target runs per request; 0: k + 1, as on a chain.
        model: `dense`: a Llama-like target; `mla_moe`: latent attention and quantised experts.
        verify_growth: What takes the time by which verify is longer than decode (of `mla_moe`):
            `usual`: much of it attention, on another kernel, and all-reduces, the rest by token;
            `even`: every kernel in proportion, on the kernels of decode; `attention`: the kernel
            for prompts alone; `all_reduce`: NCCL where decode runs a one-shot kernel; `experts`:
            the experts' matrix products, on the kernels of decode.
        verify_eager_us: Host work before each kernel of a verify that is launched kernel by
            kernel where all else is replayed; 0: verify is replayed too.
        graph_batch: Requests that graphs are captured for, when more than run; their kernels work
            on the padding too.
        layers: Layers of the target; the draft model has one.
        gpu: Device type, a key of `gpus.GPUS`.
        graph_mode: `node`: replays are written node by node, all under one correlation id;
            `graph`: one row a replay; `eager`: one launch a kernel.
        graph_share: Share of the iterations whose forwards are replayed; the rest runs eagerly.
        prefill_replayed: Whether prompts are graph replays too.
        detail_cycles: In graph mode, so many of the complete cycles are written node by node all
            the same, as if a recording of them had been put into the file.
        detail_ranks: On how many ranks, from the first.
        node_overhead_us: By how much recording a node slows its replay.
        node_overhead_inside_share: The part of that which lengthens the node's kernel; the rest
            lengthens the gap after it.
        replay_overhead_us: By how much recording nodes delays each replay besides.
        lag_cycles: How many iterations the CPU runs ahead; 0 waits for its own results.
        warm_up_cycles: Slow iterations at the start.
        prefill_every: A prefill falls in after every so many iterations; 0 never. One is always
            at the start.
        request_turnover: Whether each prefill brings a new request in the place of an older one.
        decode_every: Every so many iterations nothing is drafted; 0 never.
        dummy_every: Every so many iterations run on padding; 0 never.
        straddle_every: Every so many iterations four launches straddle range borders; 0 never.
        orphan_kernels: Kernels at the start whose launch is not in the trace.
        batch_sizes: Requests per batch, in turn, eight iterations each.
        accept_probability: Chance that a draft is accepted when the one before it was.
        draft_ms: Mean window of the draft phase per cycle, apart from its forwards' part below.
        draft_step_ms: What each draft forward adds to it.
        verify_ms: Mean window of verify and sample together, apart from the tokens' part below.
        verify_token_ms: What each verified token adds to it.
        sample_ms: The part of verify that is sampling.
        draft_extend_ms: Mean window of the draft extend.
        decode_ms: Mean window of a plain decode step, sampling included.
        prefill_ms: Mean time of a prefill, draft prefill included.
        host_ms: Host work per iteration apart from CUDA calls.
        jitter_share: Spread of kernel lengths from cycle to cycle.
        cycle_jitter_share: Spread of whole forwards from cycle to cycle.
        slow_rank_share: How much longer the last rank's kernels take.
        late_launch_ms: Host work by which the last rank begins each phase later.
        slow_link_share: How much longer the transfer of each forward's collective takes.
        exact: Whether mean windows of kept cycles and acceptance are what is asked for, as near as
            whole nanoseconds and requests allow, instead of by chance.
        synchronise: Whether a timer calls cudaDeviceSynchronize at the start and the end of each
            phase; the CPU is then never ahead, and windows grow by what the host takes.
        domain: NVTX domain of the server's ranges; None writes bare names.
        registered: Registered strings (textId) or plain text.
        cycle_ranges: Whether iterations have a `cycle` range; without, what is outside every
            phase range counts as unattributed.
        scheduler_ranges: Whether the scheduler has ranges of its own, when iterations have.
        sample_ranges: Whether sampling has its own range inside of verify.
        marks: Whether rank 0 writes batch, token and accept marks.
        requests: Whether requests are start/end ranges, some closed by another thread.
        other_kernels: Kernels per iteration outside every phase range.
        offload_thread: Whether a second CPU thread launches work in ranges of its own.
        result_stream: Whether results are copied on a stream of their own.
        backtraces: Whether each API call has a twin row of event class 67.
        capture_recorded: Whether graph construction is inside the recording.
        precapture: Whether it is recorded although it came before the recording, at negative
            times, as nsys does when told so.
        inner_ranges: Whether draft steps and layers have ranges of their own while captured.
        graph_clones: How often a captured graph is cloned before it is instantiated.
        recapture_every: Every so many iterations all graphs are destroyed and captured anew, and
            their ids are used again for other nodes; 0 never.
        fused: Whether one graph holds target, sampling, draft extend and draft steps.
        one_visible_gpu: Whether every process sees its GPU as device 0.
        gpu_rows: Whether the trace holds GPU work and API calls at all.
        seed: Seed of every random choice.
    """

    ranks: int = 2
    tp_size: int = 0
    cycles: int = 40
    draft_tokens: int = 5
    verified_tokens: int = 6
    model: Model = "dense"
    verify_growth: VerifyGrowth = "usual"
    verify_eager_us: float = 0.0
    graph_batch: int = 0
    layers: int = 8
    gpu: str = "h200"
    graph_mode: GraphMode = "node"
    graph_share: float = 1.0
    prefill_replayed: bool = False
    detail_cycles: int = 0
    detail_ranks: int = 1
    node_overhead_us: float = 0.0
    node_overhead_inside_share: float = 0.0
    replay_overhead_us: float = 0.0
    lag_cycles: int = 1
    warm_up_cycles: int = 3
    prefill_every: int = 16
    request_turnover: bool = False
    decode_every: int = 0
    dummy_every: int = 0
    straddle_every: int = 8
    orphan_kernels: int = 2
    batch_sizes: tuple[int, ...] = (1,)
    accept_probability: float = 0.57
    draft_ms: float = 2.18
    draft_step_ms: float = 0.0
    verify_ms: float = 28.45
    verify_token_ms: float = 0.0
    sample_ms: float = 0.35
    draft_extend_ms: float = 1.12
    decode_ms: float = 11.1
    prefill_ms: float = 45.0
    host_ms: float = 0.4
    jitter_share: float = 0.04
    cycle_jitter_share: float = 0.0
    slow_rank_share: float = 0.0
    late_launch_ms: float = 0.0
    slow_link_share: float = 0.0
    exact: bool = False
    synchronise: bool = False
    domain: str | None = "eagle"
    registered: bool = True
    cycle_ranges: bool = True
    scheduler_ranges: bool = True
    sample_ranges: bool = True
    marks: bool = True
    requests: bool = True
    other_kernels: int = 2
    offload_thread: bool = True
    result_stream: bool = True
    backtraces: bool = False
    capture_recorded: bool = True
    precapture: bool = False
    inner_ranges: bool = False
    graph_clones: int = 0
    recapture_every: int = 0
    fused: bool = False
    one_visible_gpu: bool = False
    gpu_rows: bool = True
    seed: int = 1

    def __post_init__(self) -> None:
        for name, low, high in (
            ("ranks", 1, 1024),
            ("cycles", 1, 1 << 24),
            ("draft_tokens", 0, 255),
            ("verified_tokens", 0, 255),
            ("layers", 1, 1024),
            ("graph_batch", 0, 64),
            ("verify_eager_us", 0, 1_000),
            ("lag_cycles", 0, 16),
            ("graph_share", 0, 1),
            ("accept_probability", 0, 1),
            ("jitter_share", 0, 0.5),
            ("cycle_jitter_share", 0, 0.5),
            ("detail_cycles", 0, 1 << 24),
            ("detail_ranks", 1, self.ranks),
            ("node_overhead_us", 0, 1_000),
            ("node_overhead_inside_share", 0, 1),
            ("replay_overhead_us", 0, 1_000_000),
        ):
            value = getattr(self, name)
            if not low <= value <= high:
                raise InputError(f"must be between {low} and {high}, not {value}", where=name)
        for name, choices in (
            ("graph_mode", ("node", "graph", "eager")),
            ("model", ("dense", "mla_moe")),
            ("gpu", tuple(GPUS)),
            ("verify_growth", get_args(VerifyGrowth)),
        ):
            choice = getattr(self, name)
            if choice not in choices:
                raise InputError(f"must be one of {', '.join(choices)}, not {choice}", where=name)
        if self.verify_growth != "usual" and self.model != "mla_moe":
            raise InputError("needs the model mla_moe", where="verify_growth")
        if not self.batch_sizes or not all(1 <= size <= 64 for size in self.batch_sizes):
            raise InputError("needs batch sizes between 1 and 64", where="batch_sizes")

    @property
    def speculates(self) -> bool:
        """Whether there is a draft model."""
        return self.draft_tokens > 0

    @property
    def tokens_to_verify(self) -> int:
        """n, tokens the target runs per request when drafts are verified."""
        return self.verified_tokens or self.draft_tokens + 1

    @property
    def server_ranks(self) -> int:
        """Ranks of the server, traced or not."""
        return max(self.tp_size, self.ranks)

    @property
    def slows_nodes(self) -> bool:
        """Whether recording nodes slows their replays."""
        return self.node_overhead_us > 0 or self.replay_overhead_us > 0

    @property
    def iterations_ahead(self) -> int:
        """How far the CPU is ahead of the results; a synchronising timer takes that away."""
        return 0 if self.synchronise else self.lag_cycles

    @property
    def draft_window_ms(self) -> float:
        """Mean window of the draft phase at batch 1."""
        return self.draft_ms + self.draft_step_ms * max(self.draft_tokens - 1, 0)

    @property
    def verify_eager(self) -> bool:
        """Whether verify is launched kernel by kernel where all else is replayed."""
        return self.verify_eager_us > 0

    def padded_batch(self, batch_size: int) -> int:
        """Requests that a graph for this batch has room for."""
        return max(batch_size, self.graph_batch)

    def verify_window_ms(self, tokens: int | None = None) -> float:
        """Mean window of verify and sample at batch 1, for n or another number of tokens."""
        count = self.tokens_to_verify if tokens is None else tokens
        return self.verify_ms + self.verify_token_ms * count

    @classmethod
    def seed_case(cls, cycles: int = 280, ranks: int = 8) -> Eagle3Settings:
        """The project's worked case: k = 5, n = 6, windows of 2.18, 28.45 and 1.12 ms.

        A target of Kimi-K2.5's shape on eight cards over PCIe, one request after another. Draft
        forwards and verified tokens have the costs that fit its runs with 5 and 10 drafts: 23.2 ms
        whatever is verified, and 0.87 ms a token. Acceptance is 2.2535 tokens a cycle, bonus
        included.
        """
        return cls(
            ranks=ranks,
            tp_size=8,
            cycles=cycles,
            verified_tokens=0,
            model="mla_moe",
            layers=61,
            gpu="rtx_pro_6000",
            graph_mode="graph",
            prefill_replayed=True,
            detail_cycles=3,
            detail_ranks=1,
            prefill_every=14,
            request_turnover=True,
            straddle_every=0,
            orphan_kernels=0,
            accept_probability=0.5718,
            draft_ms=0.0,
            draft_step_ms=0.5445,
            verify_ms=23.227,
            verify_token_ms=0.87,
            draft_extend_ms=1.119,
            prefill_ms=220.0,
            cycle_jitter_share=0.015,
            exact=True,
            scheduler_ranges=False,
            sample_ranges=False,
            requests=False,
            other_kernels=0,
            offload_thread=False,
            result_stream=False,
            capture_recorded=False,
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

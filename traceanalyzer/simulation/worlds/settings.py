"""What a world is made of: true costs, how its engine behaves, its load, and who records it.

Costs are those of the untraced server. What a recorder adds lies in `Recorder` alone, so that one
world can be served untraced and recorded in any way.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, Literal

from traceanalyzer.errors import InputError

EngineName = Literal["sglang_v1", "sglang_v2", "vllm", "tensorrt_llm"]
Method = Literal["chain", "tree", "ngram", "none"]
GraphTrace = Literal["graph", "node"]

MOST_CYCLES: Final = 4_096
MOST_REQUESTS: Final = 64


@dataclass(frozen=True, slots=True)
class Cost:
    """Time of a kernel: once, for each token of its forward, and for each request, in us."""

    fixed_us: float
    token_us: float = 0.0
    request_us: float = 0.0

    def ns(self, tokens: int, requests: int) -> float:
        """Of a forward of so many tokens of so many requests."""
        return 1e3 * (self.fixed_us + self.token_us * tokens + self.request_us * requests)


@dataclass(frozen=True, slots=True)
class Costs:
    """True time of each kernel by its class, the same in every layer.

    Attributes:
        layers: Of the target; the draft model has one.
        draft_factor: A kernel of the draft model over the target's.
        verify_attention_factor: Attention over several tokens of a request, against over one.
        dependent_launch_us: By how much a kernel of a graph starts before its predecessor ends
            (programmatic dependent launch); 0 for none. Its work begins when that one ends.
        collective_gap_us: Idle time of a graph after each of its collectives.
        jitter_share: Spread of a kernel's length from cycle to cycle.
    """

    layers: int = 3
    norm: Cost = Cost(4.0, 0.02)
    qkv: Cost = Cost(22.0, 0.12)
    attention: Cost = Cost(16.0, 0.15, 0.8)
    out: Cost = Cost(15.0, 0.08)
    up: Cost = Cost(34.0, 0.25)
    activation: Cost = Cost(4.0, 0.02)
    down: Cost = Cost(28.0, 0.2)
    collective: Cost = Cost(12.0, 0.08)
    head: Cost = Cost(48.0, 0.3)
    sample: Cost = Cost(9.0, 0.05)
    draft_factor: float = 0.6
    verify_attention_factor: float = 1.6
    dependent_launch_us: float = 0.0
    collective_gap_us: float = 0.0
    jitter_share: float = 0.03


@dataclass(frozen=True, slots=True)
class Speculation:
    """How tokens are proposed.

    Attributes:
        draft_tokens: k, longest run that can be accepted; several are used in turn, by cycle. With
            0 nothing is drafted: a plain step of a server that could have.
        tree_tokens: Drafts of a request's tree (its root left out); on a chain they are k.
        accept_probability: Chance that a draft is accepted when the one before it was.
        request_spread: By how much that differs between requests, to either side.
        accepted_in_turn: Accepted drafts of a request's verifications, over and over again in this
            order; empty: by chance.
        ngram_us: Host time of a look-up for one request (n-gram drafting).
    """

    method: Method = "chain"
    draft_tokens: tuple[int, ...] = (4,)
    tree_tokens: int = 0
    accept_probability: float = 0.6
    request_spread: float = 0.0
    accepted_in_turn: tuple[int, ...] = ()
    ngram_us: float = 60.0

    def drafts(self, longest: int) -> int:
        """Drafts of one request that the target judges."""
        return max(self.tree_tokens, longest) if self.method == "tree" else longest


@dataclass(frozen=True, slots=True)
class Load:
    """Requests that come.

    Attributes:
        batch: Requests that can run together.
        arrivals_per_s: Poisson arrivals; 0: whoever finishes is replaced at once.
        prompt_tokens: Least and most.
        output_tokens: Least and most, up to the token that ends the request.
        chunk_tokens: Prompt tokens that are mixed into a forward of running requests; 0: prompts
            have forwards of their own.
        padded: Whether graphs exist for powers of two only, and batches are padded to them.
    """

    batch: int = 1
    arrivals_per_s: float = 0.0
    prompt_tokens: tuple[int, int] = (256, 512)
    output_tokens: tuple[int, int] = (40, 80)
    chunk_tokens: int = 0
    padded: bool = True


@dataclass(frozen=True, slots=True)
class Host:
    """Host work, us.

    Attributes:
        schedule_us: Before each step.
        phase_us: Before each phase's launches.
        results_us: After a step's results have come.
        jitter_share: Spread of all three.
        rank_jitter_share: Spread of the same between ranks.
        target_launch_us: How much longer the launch call of the target's whole graph takes, for
            the nodes that the simulated ones stand for.
        launch_ahead_share: Part of a graph's launch call that is left when the graph can begin.
        stall_every: Every so many steps the host stalls (garbage collection, another process).
        stall_us: For so long.
        grammar_us: From the end of the verify launch until the mask of allowed tokens is there,
            which sampling waits for; 0: no grammar.
        transfer_us: From one process to another (vLLM).
    """

    schedule_us: float = 60.0
    phase_us: float = 25.0
    results_us: float = 30.0
    jitter_share: float = 0.1
    rank_jitter_share: float = 0.1
    target_launch_us: float = 0.0
    launch_ahead_share: float = 0.0
    stall_every: int = 0
    stall_us: float = 0.0
    grammar_us: float = 0.0
    transfer_us: float = 25.0


@dataclass(frozen=True, slots=True)
class Parallel:
    """Processes on several GPUs.

    Attributes:
        tensor: Ranks that share every layer.
        data: Data-parallel attention ranks, each with requests of its own (with `tensor` 1).
        pipeline: Stages, one rank each, with as many micro-batches (with `tensor` and `data` 1).
        slow_rank_share: How much longer the last rank's kernels take.
        late_launch_us: By how much later the last rank begins each phase.
        late_call_us: Host time of the last rank after each of its launch calls.
    """

    tensor: int = 1
    data: int = 1
    pipeline: int = 1
    slow_rank_share: float = 0.0
    late_launch_us: float = 0.0
    late_call_us: float = 0.0


@dataclass(frozen=True, slots=True)
class Recorder:
    """What a recorder does to the server, and to what it saw.

    Attributes:
        graph_trace: Whether replays are recorded as one row or node by node.
        node_us: By how much recording slows each node.
        node_inside_share: The part of that inside of the kernel; the rest follows it.
        replay_us: By how much recording nodes delays each replay on the GPU.
        launch_us: How much longer a graph launch call takes when nodes are recorded.
        call_us: How much longer every API call takes.
        range_us: Host time of each range border and mark.
        flush_every_us: Buffers are flushed after each of these; 0: never.
        flush_us: For so long the host then stands still.
        clock_offsets_us: Error of each GPU's clock, the last one for all further GPUs.
        drift_ppm: How fast that error of the last GPU's clock grows.
        lost_buffers: Buffers of kernel records that never arrive.
        window_us: Begin and end of what is recorded of the session; None for all of it.
        synchronise: Whether timers around each phase wait for the device.
    """

    graph_trace: GraphTrace = "graph"
    node_us: float = 0.0
    node_inside_share: float = 0.3
    replay_us: float = 0.0
    launch_us: float = 0.0
    call_us: float = 0.0
    range_us: float = 0.0
    flush_every_us: float = 0.0
    flush_us: float = 0.0
    clock_offsets_us: tuple[float, ...] = ()
    drift_ppm: float = 0.0
    lost_buffers: int = 0
    window_us: tuple[float, float] | None = None
    synchronise: bool = False


UNTRACED: Final = Recorder()
"""A recorder that costs nothing and errs nowhere: what it records is what was served."""


@dataclass(frozen=True, slots=True)
class WorldSettings:
    """One server under one load.

    Attributes:
        cycles: Decoding steps after which the session ends.
        piecewise: Whether attention runs eagerly between graph pieces.
        fused_propose: Whether the engine's own range around draft extend and draft is all there
            is (vLLM without hooks).
        rank_marks: Whether every rank tells its place.
        seed: Of every random choice.
    """

    engine: EngineName = "sglang_v1"
    costs: Costs = field(default_factory=Costs)
    speculation: Speculation = field(default_factory=Speculation)
    load: Load = field(default_factory=Load)
    host: Host = field(default_factory=Host)
    parallel: Parallel = field(default_factory=Parallel)
    cycles: int = 60
    piecewise: bool = False
    fused_propose: bool = False
    rank_marks: bool = True
    seed: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.cycles <= MOST_CYCLES:
            raise InputError(f"must be between 1 and {MOST_CYCLES}", where="cycles")
        if not 1 <= self.load.batch <= MOST_REQUESTS:
            raise InputError(f"must be between 1 and {MOST_REQUESTS}", where="load.batch")
        sizes = (self.parallel.tensor, self.parallel.data, self.parallel.pipeline)
        if sum(size > 1 for size in sizes) > 1:
            raise InputError("ranks are parallel in one way at a time", where="parallel")

    @property
    def speculates(self) -> bool:
        """Whether anything is drafted."""
        return self.speculation.method != "none"

    @property
    def drafts_on_gpu(self) -> bool:
        """Whether there is a draft model."""
        return self.speculation.method in ("chain", "tree")

    @property
    def steps_ahead(self) -> int:
        """How many steps the host launches before it knows their predecessors' results."""
        return 1 if self.engine in ("sglang_v2", "tensorrt_llm") else 0

    def without_speculation(self) -> WorldSettings:
        """The same server with speculation off: its decode steps are the baseline."""
        return replace(self, speculation=replace(self.speculation, method="none"))

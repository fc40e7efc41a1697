"""Reading TensorRT-LLM's calls: what a batch is, and how far each request grew when it was judged.

The executor launches a step, samples, and takes the tokens over later, in the next iteration under
the overlap scheduler: the sampler's state carries the step's number and its requests from the one
call to the other. Drafts are counted by a list's length only, since its items may be tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nvtx_hooks import vocabulary
from nvtx_hooks.advice import TAG
from nvtx_hooks.observations import Acceptance, Padding, Ranks, Row, Step
from nvtx_hooks.readings import Unreadable, boolean, integer, length
from nvtx_hooks.vocabulary import Flags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvtx_hooks.observations import Observation
    from nvtx_hooks.targets import Call

JUDGED: Final = "_eagle_judged"
"""Attribute of a sampler's state: its requests with drafts, and how many of them could be kept."""

_FORWARDS: Final = "tensorrt_llm draft forwards"
_WHOLE_LOOP: Final = "tensorrt_llm whole draft loop"
_ONE_MODEL: Final = "tensorrt_llm one model"
_DUMMIES: Final = ("is_attention_dp_dummy", "is_cuda_graph_dummy")
_DEPTHS: Final = ("max_draft_len", "max_draft_tokens")

ONE_MODEL_CYCLE: Final = vocabulary.fused(
    vocabulary.DRAFT, vocabulary.VERIFY, vocabulary.SAMPLE, vocabulary.DRAFT_EXTEND
)
"""The target's forward of one-model speculation: acceptance and drafting are part of it."""

ONE_MODEL_PREFILL: Final = vocabulary.fused(
    vocabulary.DRAFT, vocabulary.PREFILL, vocabulary.DRAFT_PREFILL
)


def _is_dummy(request: Any) -> bool:
    """Whether a request only fills up the batch of a rank or a graph."""
    return any(getattr(request, name, False) is True for name in _DUMMIES)


def _live(requests: Any) -> list[Any]:
    length(requests)
    return [request for request in requests if not _is_dummy(request)]


def _drafts(request: Any) -> int:
    """Draft tokens that a request brings, without those that only pad it for a graph."""
    tokens = request.py_draft_tokens
    brought = 0 if tokens is None else length(tokens)
    effective = getattr(request, "py_draft_tokens_effective_len", None)
    return brought if effective is None else min(integer(effective), brought)


def _depth(executor: Any) -> int | None:
    """Longest run that can be accepted: with a tree fewer than it has nodes."""
    for name in _DEPTHS:
        depth = getattr(executor, name, None)
        if type(depth) is int and depth > 0:
            return depth
    return None


def _longest(request: Any, depth: int | None) -> int:
    drafts = _drafts(request)
    return drafts if depth is None else min(drafts, depth)


def _uses_one_model(executor: Any) -> bool:
    """Whether the draft model runs inside the target's forward."""
    config = getattr(executor.model_engine, "spec_config", None)
    asked = getattr(getattr(config, "spec_dec_mode", None), "use_one_engine", None)
    return False if asked is None else boolean(asked())


def begin_drafting(call: Call) -> tuple[str, ...]:
    """A drafter begins; its forwards open their own ranges.

    TensorRT-LLM has ranges of its own inside this call and around each forward, whose names do
    not tell the phases apart. Only a range inside those wins over them.
    """
    call.notes[_FORWARDS] = 0
    call.notes[_WHOLE_LOOP] = getattr(call.owner, "use_static_draft_loop", False) is True
    return ()


def end_drafting(call: Call) -> Sequence[Observation]:
    """The drafter has returned."""
    call.notes.pop(_FORWARDS, None)
    return ()


def step_ranges(call: Call) -> tuple[str, ...] | None:
    """A step of the executor; the range of its phase is opened by the engine's forward inside."""
    call.notes.pop(_FORWARDS, None)
    batch = call.argument("scheduled_requests")
    generating = length(batch.generation_requests)
    if not generating and not length(batch.context_requests):
        return None
    call.notes[_ONE_MODEL] = _uses_one_model(call.owner)
    return () if generating else (vocabulary.PREFILL,)


def step_before(call: Call) -> Step:
    """Count a batch before the forward moves its requests on.

    Dummies count only where there is nothing else.
    """
    batch = call.argument("scheduled_requests")
    prompts, generating = _live(batch.context_requests), _live(batch.generation_requests)
    if not prompts and not generating:
        padding = length(batch.context_requests) + length(batch.generation_requests)
        return Step(padding, verified=padding, flags=int(Flags.IDLE))
    drafts = [_drafts(request) for request in generating]
    depth = _depth(call.owner)
    return Step(
        len(prompts) + len(generating),
        drafted=sum(drafts),
        verified=sum(drafts) + len(generating),
        prompt_requests=len(prompts),
        prompt_tokens=sum(integer(request.context_chunk_size) for request in prompts),
        k=max((_longest(request, depth) for request in generating), default=0),
    )


def executed_step(call: Call) -> Sequence[Observation]:
    """What the step carried."""
    return (call.before,)


def forward_ranges(call: Call) -> tuple[str, ...] | None:
    """A forward of the draft model while a drafter runs, or of the target inside a step."""
    forwards = call.notes.get(_FORWARDS)
    if forwards is not None:
        call.notes[_FORWARDS] = forwards + 1
        return _draft_forward(call, forwards)
    if not call.in_step:
        return None
    batch = call.argument("scheduled_requests", None)
    return (_target_phase(call, call.argument("batch") if batch is None else batch),)


def _draft_forward(call: Call, forwards: int) -> tuple[str, ...]:
    """The first forward runs over the prompt or the accepted tokens, the others draft.

    A static loop is one forward, and often one CUDA graph, with all of it.
    """
    if forwards:
        return (vocabulary.DRAFT_STEP,)
    prefill = call.kind == vocabulary.PREFILL
    first = vocabulary.DRAFT_PREFILL if prefill else vocabulary.DRAFT_EXTEND
    return (vocabulary.fused(vocabulary.DRAFT, first) if call.notes.get(_WHOLE_LOOP) else first,)


def _target_phase(call: Call, batch: Any) -> str:
    one_model = call.notes.get(_ONE_MODEL)
    generating = batch.generation_requests
    if length(batch.context_requests):
        if length(generating):
            return vocabulary.MIXED
        return ONE_MODEL_PREFILL if one_model else vocabulary.PREFILL
    if not any(_drafts(request) for request in generating):
        return vocabulary.DECODE
    return ONE_MODEL_CYCLE if one_model else vocabulary.VERIFY


def graph_key(call: Call) -> Sequence[Observation]:
    """Batch size of the graph that the target's forward replays: the first part of its key."""
    if not call.in_step:
        return ()
    key = call.argument("key", None)
    if key is None:
        key = call.argument("batch_size")
    return (Padding(integer(key[0] if isinstance(key, tuple) else key)),)


def graph_runner(call: Call) -> Sequence[Observation]:
    """The same where each graph has a runner of its own."""
    return (Padding(integer(call.owner.batch_size)),) if call.in_step else ()


def sample_ranges(call: Call) -> tuple[str, ...]:
    """Sampling the target's logits, or the draft model's in versions without a drafter."""
    return (vocabulary.DRAFT if _FORWARDS in call.notes else vocabulary.SAMPLE,)


def judged_requests(call: Call) -> Sequence[Observation]:
    """Keep which requests brought drafts into the step that was sampled, and how many.

    TensorRT-LLM itself takes the counts here: before the tokens are taken over, `py_draft_tokens`
    is the next step's already (`SpecSampler.sample_async`).
    """
    if call.result is None or _FORWARDS in call.notes:
        return ()
    depth = _depth(call.owner)
    generating = _live(call.argument("scheduled_batch").generation_requests)
    judged = [(request, _longest(request, depth)) for request in generating if _drafts(request)]
    setattr(call.result, JUDGED, judged)
    return ()


def lengths_before(call: Call) -> list[tuple[Any, int, int]] | None:
    """Request, longest accepted run and tokens so far of what is about to be taken over."""
    state = call.argument("sample_state")
    judged = getattr(state, JUDGED, None)
    if judged is None:
        return None
    setattr(state, JUDGED, None)
    return [(request, k, integer(request.get_num_tokens(0))) for request, k in judged]


def accepted_drafts(call: Call) -> Sequence[Observation]:
    """Accepted drafts from how much each request has grown, the bonus token left out.

    `py_num_accepted_draft_tokens` alone will not do: a sampler leaves it as it was when the first
    token already ends the request, and the one-model sampler of 0.20 never sets it. Where that
    sampler does, it counts past the request's end: the difference is overshoot. A request that has
    not grown was finished when its result arrived; its drafts were never judged on the CPU, and
    its row is stale with none accepted.
    """
    if not call.before:
        return ()
    state = call.argument("sample_state")
    tag = getattr(state, TAG, None)
    if tag is None:
        raise Unreadable("the sampler's state has lost its step")
    counts_on = getattr(getattr(state, "host", None), "new_tokens_lens", None) is not None
    rows = [_row(request, k, before, counts_on) for request, k, before in call.before]
    return (Acceptance(tuple(rows), integer(tag[0])),)


def _row(request: Any, k: int, before: int, counts_on: bool) -> Row:
    name = vocabulary.request_hash(str(integer(request.py_request_id)))
    grown = integer(request.get_num_tokens(0)) - before
    if grown < 1:
        return Row(name, k, 0, int(Flags.STALE))
    kept = grown - 1
    accepted = integer(request.py_num_accepted_draft_tokens) if counts_on else kept
    lost = max(accepted - kept, 0)
    return Row(name, k, kept + lost, int(Flags.OVERSHOOT if lost else Flags.NONE), lost)


def nothing_left(call: Call) -> bool:
    """Whether the executor has no request any more, and will wait for the next one."""
    return not length(call.owner.active_requests)


def executor_ranks(call: Call) -> Sequence[Observation]:
    """This executor's ranks; with attention data parallelism each one has requests of its own."""
    mapping = call.owner.dist.mapping
    rank, size = integer(mapping.tp_rank), integer(mapping.tp_size)
    stage = (integer(mapping.pp_rank), integer(mapping.pp_size))
    if getattr(call.owner, "enable_attention_dp", False) is True:
        return (Ranks(0, 1, rank, size, *stage),)
    return (Ranks(rank, size, 0, 1, *stage),)

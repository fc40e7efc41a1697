"""Reading vLLM's calls: what was scheduled, and what was accepted of it.

The scheduler decides and counts in one process, and workers run in others. The number of a step is
the scheduler's; it travels as an attribute of the scheduler's output, and both sides also emit the
step's signature, which aligns them where the attribute is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nvtx_hooks import vocabulary
from nvtx_hooks.advice import TAG
from nvtx_hooks.observations import Acceptance, Padding, Ranks, Row, Signature, Step
from nvtx_hooks.readings import Unreadable, boolean, integer, length, optional_integer, text
from nvtx_hooks.vocabulary import Flags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvtx_hooks.observations import Observation
    from nvtx_hooks.targets import Call

_TOKENS_A_REQUEST: Final = "vllm tokens a request"
_MODEL_PROPOSERS: Final = {"EagleProposer", "SpecDecodeBaseProposer"}
_EXTENDS: Final = (vocabulary.DRAFT_EXTEND, vocabulary.DRAFT_PREFILL)
_UNIFORM_PHASES: Final = (vocabulary.VERIFY, vocabulary.DECODE)


class Composition(NamedTuple):
    """What one scheduler output holds.

    Attributes:
        requests: Requests scheduled.
        tokens: Tokens scheduled.
        drafted: Draft tokens among them.
        prompt_requests: Requests with more tokens than drafts and the last sampled one.
        prompt_tokens: Their tokens.
    """

    requests: int
    tokens: int
    drafted: int
    prompt_requests: int
    prompt_tokens: int

    @property
    def phase(self) -> str:
        """What the target's forward over it is."""
        if self.prompt_requests == self.requests:
            return vocabulary.PREFILL
        if self.prompt_requests:
            return vocabulary.MIXED
        return vocabulary.VERIFY if self.drafted else vocabulary.DECODE


def composition(scheduled: Any) -> Composition:
    """Count a scheduler output.

    The loop over requests runs only when prompt tokens are there. A prompt's last chunk of one
    token looks like a decode step and is counted as one.
    """
    counts, drafts = scheduled.num_scheduled_tokens, scheduled.scheduled_spec_decode_tokens
    tokens = integer(scheduled.total_num_scheduled_tokens)
    requests, drafted = length(counts), sum(map(length, drafts.values()))
    new = scheduled.scheduled_new_reqs
    if tokens == requests + drafted and not length(new):
        return Composition(requests, tokens, drafted, 0, 0)
    begun = {text(request.req_id) for request in new}
    prompts = [
        integer(count)
        for request, count in counts.items()
        if request in begun or count > 1 + length(drafts.get(request, ()))
    ]
    return Composition(requests, tokens, drafted, len(prompts), sum(prompts))


def scheduled_signature(call: Call) -> Sequence[Observation]:
    """What the scheduler has just decided."""
    seen = composition(call.result)
    if not seen.tokens:
        return ()
    return (Signature(seen.requests, seen.tokens, seen.drafted),)


def step_number(call: Call) -> int | None:
    """The number the scheduler gave the step, when it came with its output."""
    tag = getattr(call.argument("scheduler_output"), TAG, None)
    return None if tag is None else integer(tag[0])


def execute_ranges(call: Call) -> tuple[str, ...] | None:
    """Phase of a worker's forward; None when there is nothing to run, or only padding."""
    if call.argument("dummy_run", False) is True:
        return None
    scheduled = call.argument("scheduler_output")
    if not integer(scheduled.total_num_scheduled_tokens):
        return None
    seen = composition(scheduled)
    even = seen.tokens % seen.requests == 0
    call.notes[_TOKENS_A_REQUEST] = seen.tokens // seen.requests if even else 0
    return (seen.phase,)


def execute_step(call: Call) -> Sequence[Observation]:
    """What a worker's forward carries."""
    seen = composition(call.argument("scheduler_output"))
    return (
        Step(
            seen.requests,
            drafted=seen.drafted,
            verified=seen.tokens - seen.prompt_tokens,
            prompt_requests=seen.prompt_requests,
            prompt_tokens=seen.prompt_tokens,
        ),
        Signature(seen.requests, seen.tokens, seen.drafted),
    )


def has_result(call: Call) -> bool:
    """Whether `execute_model` did it all; else `sample_tokens` ends the step."""
    return call.result is not None


def graph_padding(call: Call) -> Sequence[Observation]:
    """Batch size of the graph a worker's forward will replay, from the padded token count."""
    mode = call.argument("cudagraph_runtime_mode", None)
    padded = call.argument("num_tokens", None)
    each = call.notes.get(_TOKENS_A_REQUEST, 0)
    if call.inside not in _UNIFORM_PHASES or mode is None or padded is None or not each:
        return ()
    if text(mode.name) == "NONE":
        return ()
    return (Padding(integer(padded) // each),)


def _first_forward(kind: str) -> tuple[str, ...]:
    """The draft model's first forward: over the prompt, or over the accepted tokens."""
    prefill = kind == vocabulary.PREFILL
    return (vocabulary.DRAFT_PREFILL if prefill else vocabulary.DRAFT_EXTEND,)


def drafter_ranges(call: Call) -> tuple[str, ...]:
    """The runner's proposal; a drafter without a draft model only drafts."""
    drafter = type(getattr(call.owner, "drafter", None))
    if any(base.__name__ in _MODEL_PROPOSERS for base in drafter.__mro__):
        return _first_forward(call.kind)
    return (vocabulary.DRAFT,)


def propose_ranges(call: Call) -> tuple[str, ...]:
    """A drafter's own `propose`; inside the runner's proposal its range is open already."""
    return _first_forward(call.kind)


def draft_ranges(call: Call) -> tuple[str, ...] | None:
    """The steps after the first forward, outside a proposal only while a graph is captured."""
    if call.inside == vocabulary.CAPTURE:
        return (vocabulary.DRAFT,)
    return () if call.inside in _EXTENDS else None


def captured_extend_ranges(call: Call) -> tuple[str, ...] | None:
    """The first forward while its graph is captured; elsewhere `propose` has opened its range."""
    return (vocabulary.DRAFT_EXTEND,) if call.inside == vocabulary.CAPTURE else None


def draft_step_ranges(call: Call) -> tuple[str, ...] | None:
    """One draft step that runs in Python, eagerly or while its graph is captured."""
    if call.inside == vocabulary.CAPTURE:
        return (vocabulary.DRAFT, vocabulary.DRAFT_STEP)
    return (vocabulary.DRAFT_STEP,) if call.inside == vocabulary.DRAFT else None


class Verified(NamedTuple):
    """One request with drafts before the scheduler takes its output.

    Attributes:
        request: Its id.
        k: Drafts that were verified.
        tokens: The host's list of its sampled tokens, which the scheduler cuts at the end.
        sampled: Tokens in it now.
        stale: Whether the request had left already.
    """

    request: str
    k: int
    tokens: list[int]
    sampled: int
    stale: bool


def verified_requests(call: Call) -> list[Verified]:
    """Requests whose drafts were verified in the step that `update_from_output` handles."""
    scheduled, output = call.argument("scheduler_output"), call.argument("model_runner_output")
    invalid = getattr(scheduled, "num_invalid_spec_tokens", None) or {}
    requests, sampled = call.owner.requests, output.sampled_token_ids
    verified = []
    for name, drafts in scheduled.scheduled_spec_decode_tokens.items():
        index = output.req_id_to_index.get(name)
        if index is None or not length(sampled):
            continue
        tokens = sampled[index]
        if not isinstance(tokens, list):
            raise Unreadable("sampled tokens are not a list")
        stale = _left(requests.get(name))
        if tokens or stale:
            k = length(drafts) - integer(invalid.get(name, 0))
            verified.append(Verified(text(name), k, tokens, len(tokens), stale))
    return verified


def _left(request: Any) -> bool:
    """Whether the scheduler will throw a request's output away."""
    if request is None or boolean(request.is_finished()):
        return True
    dropped = getattr(request, "drop_stale_output", False) is True
    return dropped and optional_integer(getattr(request, "num_stale_output_tokens", 0)) > 0


def accepted_drafts(call: Call) -> Sequence[Observation]:
    """Accepted drafts of each request, as `make_spec_decoding_stats` counts them.

    The scheduler has cut each request's token list at its end by now: the difference is overshoot.
    """
    if not call.before:
        return ()
    bonus = optional_integer(getattr(call.owner, "num_sampled_tokens_per_step", 1), 1)
    rows = []
    for seen in call.before:
        lost = 0 if seen.stale else seen.sampled - len(seen.tokens)
        flags = Flags.STALE if seen.stale else Flags.OVERSHOOT if lost else Flags.NONE
        rows.append(
            Row(
                vocabulary.request_hash(seen.request),
                seen.k,
                max(seen.sampled - bonus, 0),
                int(flags),
                lost,
            )
        )
    tag = getattr(call.argument("scheduler_output"), TAG, None)
    cycle = vocabulary.NO_CYCLE if tag is None else integer(tag[0])
    return (Acceptance(tuple(rows), cycle),)


def _data_parallel(config: Any) -> tuple[int, int]:
    return (
        optional_integer(getattr(config, "data_parallel_rank", 0)),
        optional_integer(getattr(config, "data_parallel_size", 0)),
    )


def worker_ranks(call: Call) -> Sequence[Observation]:
    """A worker's ranks from its parallel configuration; pipeline stages stride by TP size."""
    config = call.argument("vllm_config").parallel_config
    rank, tp_size = integer(config.rank), integer(config.tensor_parallel_size)
    dp_rank, dp_size = _data_parallel(config)
    pp_size = integer(config.pipeline_parallel_size)
    return (Ranks(rank % tp_size, tp_size, dp_rank, dp_size, rank // tp_size % pp_size, pp_size),)


def scheduler_ranks(call: Call) -> Sequence[Observation]:
    """The data-parallel rank of a scheduler, which stands outside any tensor-parallel group."""
    dp_rank, dp_size = _data_parallel(call.argument("vllm_config").parallel_config)
    return (Ranks(dp_rank=dp_rank, dp_size=dp_size),)

"""Reading SGLang's calls: what a batch is, and where its accepted counts are on the CPU.

Version 1 workers have the counts when `verify` returns, as lists that SGLang itself made.
Version 2 workers leave them on the GPU, and the scheduler has them one iteration later: there the
result carries the cycle's tag from the forward to the result processor.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from nvtx_hooks import vocabulary
from nvtx_hooks.advice import TAG
from nvtx_hooks.observations import Acceptance, Padding, Ranks, Row, Step
from nvtx_hooks.readings import (
    Unreadable,
    boolean,
    dimension,
    integer,
    integers,
    length,
    optional_integer,
    text,
)
from nvtx_hooks.vocabulary import Flags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvtx_hooks.observations import Observation
    from nvtx_hooks.targets import Call

ACCEPTED: Final = "_eagle_accepted"
"""Attribute of a result: its accepted drafts, in versions that keep them in a local variable."""

_ACCEPTED_FIELDS: Final = ("num_correct_drafts_per_req_cpu", "accept_length_per_req_cpu")
_COUNTER_FIELDS: Final = ("spec_num_correct_drafts", "spec_accepted_tokens")
_FORWARD_PHASES: Final = {
    "EXTEND": vocabulary.PREFILL,
    "SPLIT_PREFILL": vocabulary.PREFILL,
    "MIXED": vocabulary.MIXED,
    "DECODE": vocabulary.DECODE,
    "IDLE": vocabulary.DECODE,
    "TARGET_VERIFY": vocabulary.VERIFY,
}
_TARGET_PHASES: Final = (vocabulary.VERIFY, vocabulary.DECODE, vocabulary.MIXED)


def _batch(call: Call) -> Any:
    """The batch of a worker's call, under each of its names."""
    batch = call.argument("model_worker_batch", None)
    if batch is None:
        batch = call.argument("batch", None)
    return batch


def _mode(batch: Any) -> str:
    return text(batch.forward_mode.name)


def _requests(batch: Any) -> int:
    """How many requests a batch has; batches on their way to the GPU keep only tensors."""
    reqs = getattr(batch, "reqs", None)
    return dimension(batch.seq_lens, 0) if reqs is None else length(reqs)


def _decodes(batch: Any) -> bool:
    """Whether a speculative worker drafts and verifies for this batch, rather than prefill."""
    extends = getattr(batch, "is_extend_in_batch", False) is True
    return _mode(batch) in ("DECODE", "IDLE") and not extends


def worker_ranges(call: Call) -> tuple[str, ...]:
    """Ranges of a speculative worker's step: a cycle, or none around a prefill."""
    return (vocabulary.CYCLE,) if _decodes(_batch(call)) else ()


def worker_batch(call: Call) -> tuple[bool, int, str, Any]:
    """What a speculative worker is about to run, before it changes the batch.

    Returns:
        Whether it drafts and verifies, its requests, the forward mode, and the prompt tokens.
    """
    batch = _batch(call)
    tokens = getattr(batch, "extend_num_tokens", None)
    return _decodes(batch), _requests(batch), _mode(batch), tokens


def worker_step(call: Call) -> Sequence[Observation]:
    """The step of a speculative worker.

    Steps and tree size are read after the call: adaptive speculation sets them inside it.
    """
    decodes, requests, mode, prompt_tokens = call.before
    flags = int(Flags.IDLE if mode == "IDLE" else Flags.NONE)
    if not decodes:
        tokens = optional_integer(prompt_tokens)
        return (Step(requests, prompt_requests=requests, prompt_tokens=tokens, flags=flags),)
    k, tree = _depth(call.owner), _tree_size(call.owner)
    if k == 0:
        return (Step(requests, verified=requests, flags=flags),)
    return (Step(requests, requests * (tree - 1), requests * tree, k=k, flags=flags),)


def _tree_size(worker: Any) -> int:
    """Tokens verified for each request, the last accepted one included."""
    for name in ("speculative_num_draft_tokens", "draft_token_num"):
        size = getattr(worker, name, None)
        if size is not None:
            return integer(size)
    raise Unreadable("no number of draft tokens")


def _depth(worker: Any) -> int:
    """Longest accepted run possible; n-gram workers do not state it and can fill their tree."""
    steps = getattr(worker, "speculative_num_steps", None)
    return _tree_size(worker) - 1 if steps is None else integer(steps)


def verify_ranges(call: Call) -> tuple[str, ...]:
    """Verification, or a plain decode step while drafting is switched off."""
    return (vocabulary.DECODE,) if _depth(call.owner) == 0 else (vocabulary.VERIFY,)


def target_ranges(call: Call) -> tuple[str, ...] | None:
    """Ranges of the target's forward; none inside a phase, which names it already."""
    if call.inside not in ("", vocabulary.CYCLE):
        return None
    batch = _batch(call)
    mode = _mode(call.argument("forward_batch") if batch is None else batch)
    phase = _FORWARD_PHASES.get(mode)
    if phase is None:
        return None
    plain = call.inside == "" and phase in (vocabulary.DECODE, vocabulary.MIXED)
    return (vocabulary.CYCLE, phase) if plain and not call.in_step else (phase,)


def target_batch(call: Call) -> tuple[int, str, Any, int] | None:
    """What the target is about to run without a speculative worker around it."""
    batch = _batch(call)
    if batch is None:
        return None
    decoding = getattr(batch, "decoding_reqs", None)
    return (
        _requests(batch),
        _mode(batch),
        getattr(batch, "extend_num_tokens", None),
        0 if decoding is None else length(decoding),
    )


def target_step(call: Call) -> Sequence[Observation]:
    """A step of the target alone: decode, prefill, or both in one forward."""
    if call.before is None:
        return ()
    requests, mode, tokens, decoding = call.before
    if mode in ("DECODE", "IDLE"):
        flags = int(Flags.IDLE if mode == "IDLE" else Flags.NONE)
        return (Step(requests, verified=requests, flags=flags),)
    # A mixed batch counts one token of each decoding request among its extend tokens.
    prompt = max(optional_integer(tokens) - decoding, 0)
    return (
        Step(
            requests,
            verified=decoding,
            prompt_requests=requests - decoding,
            prompt_tokens=prompt,
        ),
    )


def draft_step_ranges(call: Call) -> tuple[str, ...] | None:
    """One eager forward of the draft model inside `draft`; every other forward is left alone."""
    if call.inside == vocabulary.DRAFT and boolean(call.owner.is_draft_worker):
        return (vocabulary.DRAFT_STEP,)
    return None


def sample_ranges(call: Call) -> tuple[str, ...] | None:
    """Sampling after a target forward."""
    inside = (vocabulary.DECODE, vocabulary.PREFILL, vocabulary.MIXED)
    return (vocabulary.SAMPLE,) if call.inside in inside else None


def graph_padding(call: Call) -> Sequence[Observation]:
    """Batch size of the graph that the target's runner has replayed."""
    return (Padding(integer(call.owner.bs)),) if call.inside in _TARGET_PHASES else ()


def _counter(request: Any) -> int | None:
    """A request's own count of accepted drafts, where its version keeps one."""
    for name in _COUNTER_FIELDS:
        count = getattr(request, name, None)
        if count is not None:
            return integer(count)
    return None


def verified_requests(call: Call) -> list[tuple[str, Any, int | None]]:
    """Requests of a batch that is about to be verified: id, request, its count so far."""
    batch = _batch(call)
    if not isinstance(batch.reqs, list):
        raise Unreadable("requests are not a list")
    return [(text(request.rid), request, _counter(request)) for request in batch.reqs]


def _accepted(holder: Any) -> list[int]:
    """Accepted drafts a request, as the version names them."""
    for name in _ACCEPTED_FIELDS:
        value = getattr(holder, name, None)
        if value is not None:
            return integers(value)
    raise Unreadable("no accepted counts on the CPU")


def worker_acceptance(call: Call) -> Sequence[Observation]:
    """Accepted drafts after `EAGLEWorker.verify`, whose result's second item has them.

    Its list stops where the request ends, while the request's own counter, where there is one,
    goes on: the difference is overshoot.
    """
    accepted, k = _accepted(call.result[1]), _depth(call.owner)
    rows = []
    for (rid, request, count), kept in zip(call.before, accepted, strict=True):
        now = _counter(request)
        lost = 0 if count is None or now is None else max(now - count - kept, 0)
        flags = int(Flags.OVERSHOOT if lost else Flags.NONE)
        rows.append(Row(vocabulary.request_hash(rid), k, kept + lost, flags, lost))
    return (Acceptance(tuple(rows)),)


def counted_requests(call: Call) -> list[tuple[str, Any, int | None]]:
    """Requests of an n-gram worker's batch, none when it is a prefill."""
    return verified_requests(call) if _decodes(_batch(call)) else []


def counted_acceptance(call: Call) -> Sequence[Observation]:
    """Accepted drafts of a synchronous n-gram worker, from the requests' own counters."""
    k = _depth(call.owner)
    rows = []
    for rid, request, count in call.before[1]:
        now = _counter(request)
        if count is None or now is None:
            raise Unreadable("requests do not count accepted drafts")
        rows.append(Row(vocabulary.request_hash(rid), k, now - count))
    total = optional_integer(getattr(call.result, "num_accepted_tokens", 0))
    if total and not any(row.accepted for row in rows):
        raise Unreadable("this version's requests do not count n-gram drafts")
    return (Acceptance(tuple(rows)),)


def ngram_batch(call: Call) -> tuple[tuple[bool, int, str, Any], list[Any]]:
    """What an n-gram worker is about to run, and its requests."""
    return worker_batch(call), counted_requests(call)


def ngram_step(call: Call) -> Sequence[Observation]:
    """The step of an n-gram worker, with its accepted drafts where they are there already.

    From 0.5.15 on the worker is asynchronous: the result has the width of its rows, and the
    counts come with the late result.
    """
    batch, requests = call.before
    call.before = batch
    step = worker_step(call)
    call.before = (batch, requests)
    late = getattr(call.result, "speculative_num_draft_tokens", None) is not None
    return step if late or not requests else (*step, *counted_acceptance(call))


def keep_accepted_lengths(call: Call) -> Sequence[Observation]:
    """Keep what 0.5.3 and 0.5.6 compute in the result processor and do not store."""
    returned = call.result
    lengths = (
        integers(returned[1])
        if isinstance(returned, tuple)
        else [length(tokens) for tokens in returned]
    )
    setattr(call.argument("result"), ACCEPTED, [count - 1 for count in lengths])
    return ()


def finished_before(call: Call) -> list[bool] | None:
    """Which requests of a late result had left the batch already; None: no late result."""
    if getattr(call.argument("result"), TAG, None) is None:
        return None
    return [
        request.finished_reason is not None or boolean(request.is_retracted)
        for request in call.argument("batch").reqs
    ]


def late_acceptance(call: Call) -> Sequence[Observation]:
    """Accepted drafts of a cycle whose result was handled an iteration later.

    A request that had finished was verified once more in a batch launched before that was known:
    its row is stale.
    """
    if call.before is None:
        return ()
    result = call.argument("result")
    cycle, k, flags = getattr(result, TAG)
    kept = getattr(result, ACCEPTED, None)
    accepted = _accepted(result) if kept is None else integers(kept)
    requests = call.argument("batch").reqs
    rows = [
        _late_row(request, k, count, flags, stale)
        for request, count, stale in zip(requests, accepted, call.before, strict=True)
    ]
    return (Acceptance(tuple(rows), cycle),)


def _late_row(request: Any, k: int, accepted: int, flags: int, stale: bool) -> Row:
    name = vocabulary.request_hash(text(request.rid))
    if stale:
        return Row(name, k, accepted, flags | int(Flags.STALE))
    kept = getattr(request, "finished_len", None)
    lost = 0 if kept is None else max(length(request.output_ids) - integer(kept), 0)
    return Row(name, k, accepted, flags | int(Flags.OVERSHOOT if lost else Flags.NONE), lost)


def scheduler_ranks(call: Call) -> Sequence[Observation]:
    """This scheduler's ranks, from itself or from where the version keeps them.

    Versions up to 0.5.12 have them as attributes, 0.5.15 in `ps`, newer ones in a module that
    SGLang has imported by then. Attention's tensor-parallel rank is the one that shares a batch.
    """
    scheduler = call.owner
    runtime = sys.modules.get("sglang.srt.runtime_context")
    parallel = getattr(runtime, "get_parallel", None)
    holders = [scheduler, getattr(scheduler, "ps", None)]
    if parallel is not None:
        holders.append(parallel())

    def rank(*names: str) -> int:
        for name in names:
            for holder in holders:
                value = getattr(holder, name, None)
                if type(value) is int:
                    return value
        return 0

    return (
        Ranks(
            tp_rank=rank("attn_tp_rank", "tp_rank"),
            tp_size=rank("attn_tp_size", "tp_size"),
            dp_rank=rank("dp_rank", "attn_dp_rank"),
            dp_size=rank("dp_size", "attn_dp_size"),
            pp_rank=rank("pp_rank"),
            pp_size=rank("pp_size"),
        ),
    )

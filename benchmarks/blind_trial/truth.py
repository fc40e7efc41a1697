"""The true numbers of the first screen, by definition, from what a world's server really did."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.report import BucketShape
    from traceanalyzer.simulation.worlds import BucketFigures, Figures

_MATCHED_SHARE = 0.8  # below it the speed-up of all cycles is withheld by definition


class Truth(NamedTuple):
    """A number, and the cycles behind it."""

    value: float
    cycles: int


def true_numbers(
    speculating: Figures, plain: Figures | None, shape: BucketShape
) -> dict[str, Truth]:
    """Numbers of one bucket by name, and the speed-up of all; empty where it was never served.

    Args:
        speculating: Of one session.
        plain: Of the same server with speculation off.
        shape: Of the bucket, as the report tells it; what it does not tell is free.
    """
    bucket = bucket_like(speculating, shape)
    if bucket is None:
        return {}
    numbers = dict(_of_cycle(bucket))
    numbers.update(_of_first_rank(speculating))
    step = step_at(plain, bucket.shape.batch) if plain else None
    if step is not None:
        numbers.update(_against(bucket, step))
    whole = _all_cycles(speculating, plain) if plain else None
    if whole is not None:
        numbers["speed-up of all cycles"] = Truth(whole, bucket.cycles)
    return numbers


def bucket_like(figures: Figures, shape: BucketShape) -> BucketFigures | None:
    """The bucket with most time among those of a shape."""
    for each in figures.buckets:
        own = each.shape
        pairs = (
            (shape.batch, own.batch),
            (shape.padded_batch, own.padded_batch),
            (shape.verified_tokens, own.verified_tokens),
            (shape.draft_tokens, own.draft_tokens),
            (shape.prompt_tokens, own.prompt_tokens),
        )
        if own.kind in shape.kind and all(told in (None, true) for told, true in pairs):
            return each
    return None


def step_at(plain: Figures, batch: int) -> BucketFigures | None:
    """Plain steps at a batch."""
    found = (each for each in plain.buckets if each.shape.kind == "decode")
    return next((each for each in found if each.shape.batch == batch), None)


def distinct_cycles(bucket: BucketFigures) -> float:
    """Cycles that the ranks of a group share, counted once."""
    if not bucket.tokens_per_s:
        return float(bucket.cycles)
    return 1e9 * bucket.committed_tokens / (bucket.tokens_per_s * bucket.period_ns)


def _of_cycle(bucket: BucketFigures) -> Iterator[tuple[str, Truth]]:
    cycles, period_ns = bucket.cycles, bucket.period_ns
    yield "period", Truth(period_ns, cycles)
    for phase, window_ns in bucket.windows_ns.items():
        yield f"window {phase}", Truth(window_ns, cycles)
        yield f"share {phase}", Truth(window_ns / period_ns, cycles)
    target_ns = bucket.window_ns("verify", "sample")
    for name, ns in (
        ("target", target_ns),
        ("drafting", bucket.window_ns("draft", "draft_extend")),
    ):
        if ns:
            yield f"share {name} together", Truth(ns / period_ns, cycles)
    if not bucket.live_request_cycles or not bucket.committed_tokens:
        return
    yield "accept_len", Truth(bucket.accept_len, cycles)
    yield "tok/s", Truth(bucket.tokens_per_s, cycles)
    slots = bucket.shape.verified_tokens * distinct_cycles(bucket)
    yield "wasted share", Truth(1 - bucket.committed_tokens / slots, cycles)
    per_request = bucket.shape.verified_tokens / bucket.shape.batch
    if target_ns:
        yield "per verified token", Truth(target_ns / per_request, cycles)
        yield "per committed token", Truth(target_ns / bucket.accept_len, cycles)


def _of_first_rank(figures: Figures) -> Iterator[tuple[str, Truth]]:
    """Host lead and waiting in collectives, of the whole session."""
    for (rank, phase), lead in figures.host_lead.items():
        if rank == 0:
            yield f"host lead {phase}", Truth(lead.p50, 1)
    for (rank, phase), wait_ns in figures.collective_wait_ns.items():
        if rank == 0:
            yield f"collective wait {phase}", Truth(wait_ns, 1)


def _against(bucket: BucketFigures, step: BucketFigures) -> Iterator[tuple[str, Truth]]:
    fewest, step_ns = min(bucket.cycles, step.cycles), step.period_ns
    yield "plain step", Truth(step_ns, step.cycles)
    yield "break-even accept_len", Truth(bucket.period_ns / step_ns, fewest)
    target_ns = bucket.window_ns("verify", "sample")
    if target_ns:
        yield "verify over plain step", Truth(target_ns / step_ns, fewest)
    if bucket.live_request_cycles:
        live = bucket.live_request_cycles / distinct_cycles(bucket)
        yield "plain tok/s", Truth(1e9 * live / step_ns, step.cycles)
        yield "speed-up", Truth(bucket.accept_len * step_ns / bucket.period_ns, fewest)


def _all_cycles(speculating: Figures, plain: Figures) -> float | None:
    """Committed tokens, each at its plain step, over the wall time: buckets with a baseline only.

    Where prompt tokens are carried along, one of the plain steps carries as many.
    """
    if len(speculating.buckets) < 2:
        return None
    whole_ns = worth_ns = wall_ns = 0.0
    for each in speculating.buckets:
        time_ns = each.cycles * each.period_ns
        whole_ns += time_ns
        plain_ns = _plain_ns(plain, each) if each.committed_tokens else None
        if plain_ns is not None:
            wall_ns += time_ns
            worth_ns += each.cycles * plain_ns
    return worth_ns / wall_ns if wall_ns >= _MATCHED_SHARE * whole_ns else None


def _plain_ns(plain: Figures, bucket: BucketFigures) -> float | None:
    """What a plain server takes for the tokens of a cycle; None where it served no such steps."""
    shape, tokens = bucket.shape, bucket.accept_len
    step = step_at(plain, shape.batch)
    if not shape.prompt_tokens:
        return tokens * step.period_ns if step else None
    alike = (shape.batch, shape.prompt_tokens)
    mixed = (each for each in plain.buckets if each.shape.kind == "mixed")
    first = next(
        (own for own in mixed if (own.shape.batch, own.shape.prompt_tokens) == alike), None
    )
    if first is None or (step is None and tokens > 1):
        return None
    return first.period_ns + ((tokens - 1) * step.period_ns if step else 0.0)

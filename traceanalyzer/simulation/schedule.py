"""What the scheduler will do, turn by turn: known before anything runs.

A turn is a scheduler iteration and the prefill that may follow it. Only the random choices that
belong to the requests are made here: how many drafts the target will accept.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from zlib import crc32

from traceanalyzer.simulation.recording import Iteration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceanalyzer.simulation.settings import Eagle3Settings

FIRST_PREFILL: Final = 1
"""Number of the step that runs the first prompt; prefills count too, as the hooks' steps do."""

_BATCH_BLOCK = 8


@dataclass(frozen=True, slots=True)
class Turn:
    """One scheduler iteration.

    Attributes:
        iteration: What it runs.
        straddles: Whether four of its launches straddle a border of a range.
        prefill: Number of the prefill that follows, None for none.
        complete: Whether the cycle that its target forward opens can be averaged.
        detailed: Whether that cycle is written node by node: this turn's target forward and draft
            extend, and the next one's draft.
    """

    iteration: Iteration
    straddles: bool
    prefill: int | None
    complete: bool
    detailed: bool = False


def plan(settings: Eagle3Settings) -> list[Turn]:
    """All turns of a server's run."""
    turns = list(_turns(settings))
    rng = random.Random(f"accept {settings.seed}")  # noqa: S311  no secret
    accepted = _dealt(turns, settings, rng) if settings.exact else _drawn(turns, settings, rng)
    detailed = _spread(turns, settings)
    return [
        replace(
            turn,
            iteration=replace(turn.iteration, accepted_drafts=drafts),
            detailed=place in detailed,
        )
        for place, (turn, drafts) in enumerate(zip(turns, accepted, strict=True))
    ]


def _turns(settings: Eagle3Settings) -> Iterator[Turn]:
    requests = [_request(number, settings) for number in range(1, max(settings.batch_sizes) + 1)]
    number, prefills = FIRST_PREFILL, 0
    for place in range(settings.cycles):
        number += 1
        iteration = _iteration(settings, place, number, requests)
        prefill = None
        if _is_turn(place, settings.prefill_every):
            number, prefills, prefill = number + 1, prefills + 1, number + 1
            if settings.request_turnover:
                newest = _request(len(requests) + prefills, settings)
                requests[(prefills - 1) % len(requests)] = newest
        last = place == settings.cycles - 1
        broken = iteration.warm_up or iteration.dummy or prefill is not None or last
        yield Turn(iteration, _straddles(settings, place, iteration), prefill, not broken)


def _iteration(
    settings: Eagle3Settings, place: int, number: int, requests: Sequence[int]
) -> Iteration:
    sizes = settings.batch_sizes
    batch_size = sizes[place // _BATCH_BLOCK % len(sizes)]
    decode = not settings.speculates or _is_turn(place, settings.decode_every)
    return Iteration(
        number,
        "decode" if decode else "verify",
        batch_size,
        0 if decode else settings.draft_tokens,
        1 if decode else settings.tokens_to_verify,
        (0,) * batch_size,
        tuple(requests[:batch_size]),
        replayed=settings.graph_mode != "eager" and _replays(settings, place),
        warm_up=place < settings.warm_up_cycles,
        dummy=_is_turn(place, settings.dummy_every),
    )


def _request(number: int, settings: Eagle3Settings) -> int:
    """What a request's accept marks carry: its place, or a hash of its id when ids go by."""
    if not settings.request_turnover:
        return number
    return crc32(f"request {number}".encode()) & 0xFFFF or 1


def _replays(settings: Eagle3Settings, place: int) -> bool:
    """Whether a turn replays graphs; the eager ones are spread evenly."""
    share = settings.graph_share
    return int((place + 1) * share) > int(place * share)


def _straddles(settings: Eagle3Settings, place: int, iteration: Iteration) -> bool:
    possible = settings.cycle_ranges and iteration.kind == "verify"
    return possible and _is_turn(place, settings.straddle_every)


def _drawn(
    turns: Sequence[Turn], settings: Eagle3Settings, rng: random.Random
) -> list[tuple[int, ...]]:
    """Accepted drafts of each turn's requests, each drawn for itself."""
    return [
        tuple(
            _accepted(turn.iteration.draft_tokens, settings.accept_probability, rng)
            for _request in turn.iteration.requests
        )
        for turn in turns
    ]


def _accepted(draft_tokens: int, chance: float, rng: random.Random) -> int:
    accepted = 0
    while accepted < draft_tokens and rng.random() < chance:
        accepted += 1
    return accepted


def _dealt(
    turns: Sequence[Turn], settings: Eagle3Settings, rng: random.Random
) -> list[tuple[int, ...]]:
    """The same from decks that hold each number as often as its chance says.

    Complete cycles have a deck of their own: they are the ones that are averaged.
    """
    slots: dict[tuple[bool, int], int] = defaultdict(int)
    for turn in turns:
        slots[turn.complete, turn.iteration.draft_tokens] += turn.iteration.batch_size
    decks = {}
    for key, count in slots.items():
        decks[key] = _deck(count, key[1], settings.accept_probability)
        rng.shuffle(decks[key])
    return [
        tuple(
            decks[turn.complete, turn.iteration.draft_tokens].pop()
            for _request in turn.iteration.requests
        )
        for turn in turns
    ]


def _deck(count: int, draft_tokens: int, chance: float) -> list[int]:
    """`count` numbers of accepted drafts; what rounding takes at one position the next one gets."""
    deck = [0] * count
    expected, dealt, reached = 0.0, 0, count
    for position in range(1, draft_tokens + 1):
        expected += count * chance**position
        reached = min(reached, max(0, round(expected - dealt)))
        dealt += reached
        deck[:reached] = [position] * reached
    return deck


def _spread(turns: Sequence[Turn], settings: Eagle3Settings) -> set[int]:
    """Places of the turns whose cycles are written node by node, evenly spread."""
    possible = [
        place for place, turn in enumerate(turns) if turn.complete and turn.iteration.replayed
    ]
    count = min(settings.detail_cycles, len(possible))
    return {possible[(2 * row + 1) * len(possible) // (2 * count)] for row in range(count)}


def _is_turn(number: int, every: int) -> bool:
    return every > 0 and number % every == every - 1

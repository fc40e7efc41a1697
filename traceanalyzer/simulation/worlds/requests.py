"""Requests that arrive, run and end, and how many drafts of each the target accepts.

What a request accepts comes from a random stream of its own, so that a recorder that slows the
server changes when tokens come, never which.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nvtx_hooks.vocabulary import request_hash

if TYPE_CHECKING:
    from traceanalyzer.simulation.worlds.settings import Load, Speculation


@dataclass(slots=True)
class Request:
    """One request.

    Attributes:
        remaining: Tokens until its last one.
        prompt_left: Prompt tokens that no forward has had yet.
        in_turn: Drafts that its verifications accept, over and over again; empty: by chance.
        judged: Its verifications so far.
    """

    name: str
    arrival_ns: int
    prompt_tokens: int
    remaining: int
    accept_probability: float
    rng: random.Random
    prompt_left: int = 0
    in_turn: tuple[int, ...] = ()
    judged: int = 0

    def __post_init__(self) -> None:
        self.prompt_left = self.prompt_tokens

    @property
    def hash(self) -> int:
        """As the accept marks carry it."""
        return request_hash(self.name)

    @property
    def ended(self) -> bool:
        """Whether its last token has been made."""
        return self.remaining <= 0

    def accepted(self, longest: int) -> int:
        """Drafts the target accepts of a run of `longest`."""
        self.judged += 1
        if self.in_turn:
            return min(self.in_turn[(self.judged - 1) % len(self.in_turn)], longest)
        count = 0
        while count < longest and self.rng.random() < self.accept_probability:
            count += 1
        return count


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one request got out of one step.

    Attributes:
        accepted: Drafts the verification accepted.
        committed: Tokens that reached the client, the bonus token included.
        overshoot: Tokens of accepted + 1 past its end.
        stale: Whether it had ended before.
        last: Whether its last token came now.
    """

    request: int
    longest: int
    accepted: int
    committed: int
    overshoot: int
    stale: bool
    last: bool = False


@dataclass(slots=True)
class Queue:
    """Requests that have arrived and wait, and those yet to come."""

    load: Load
    speculation: Speculation
    seed: str
    waiting: deque[Request] = field(default_factory=deque)
    made: int = 0
    next_arrival_ns: int = 0
    _rng: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        self._rng = random.Random(f"arrivals {self.seed}")  # noqa: S311  no secret

    def admit(self, now_ns: int, running: int) -> None:
        """Let those arrive that have by now; in a closed loop, those that fill the batch."""
        if not self.load.arrivals_per_s:
            while running + len(self.waiting) < self.load.batch:
                self.waiting.append(self._request(now_ns))
            return
        while self.next_arrival_ns <= now_ns:
            if self.next_arrival_ns:
                self.waiting.append(self._request(self.next_arrival_ns))
            base_ns = self.next_arrival_ns or now_ns
            wait_s = self._rng.expovariate(self.load.arrivals_per_s)
            self.next_arrival_ns = base_ns + 1 + int(1e9 * wait_s)

    def _request(self, now_ns: int) -> Request:
        self.made += 1
        name = f"request {self.seed} {self.made}"
        rng = random.Random(name)  # noqa: S311  no secret
        spread = self.speculation.request_spread
        chance = self.speculation.accept_probability + rng.uniform(-spread, spread)
        return Request(
            name,
            now_ns,
            rng.randint(*self.load.prompt_tokens),
            rng.randint(*self.load.output_tokens),
            min(max(chance, 0.0), 1.0),
            rng,
            in_turn=self.speculation.accepted_in_turn,
        )


def judge(request: Request, longest: int) -> Outcome:
    """Let a request go through a verification, or a plain step when nothing was drafted."""
    accepted = request.accepted(longest)
    if request.ended:
        return Outcome(request.hash, longest, accepted, 0, 0, stale=True)
    committed = min(accepted + 1, request.remaining)
    request.remaining -= committed
    overshoot = accepted + 1 - committed
    return Outcome(
        request.hash, longest, accepted, committed, overshoot, stale=False, last=request.ended
    )

"""A request, what it has generated so far, and a batch of running ones.

Everything here lives on the host; a request's tokens and states on the device are found by its
slot.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

FinishReason = Literal["eos", "length"]


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks for.

    Attributes:
        id: Its name.
        prompt: Tokens, at least one.
        max_tokens: Tokens to generate at most, at least one.
        seed: Decides its random draws, whatever else is served beside it.
    """

    id: str
    prompt: tuple[int, ...]
    max_tokens: int
    seed: int = 0


@dataclass(slots=True, eq=False)
class Generation:
    """A request in the engine.

    Attributes:
        request: What was asked for.
        slot: Its row of the caches.
        tokens: Committed tokens, the end token included.
        accepted: Accepted drafts of each of its cycles, the bonus token excluded.
        overshoot: Tokens accepted or added past its end, which only its last cycle can have.
        finish_reason: Why it ended, None while it runs.
    """

    request: Request
    slot: int
    tokens: list[int] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    overshoot: int = 0
    finish_reason: FinishReason | None = None

    def commit(self, tokens: Sequence[int], eos_token: int) -> int:
        """Take new tokens up to the request's end.

        Returns:
            How many were past it.
        """
        for taken, token in enumerate(tokens, 1):
            self.tokens.append(token)
            if token == eos_token:
                self.finish_reason = "eos"
            elif len(self.tokens) == self.request.max_tokens:
                self.finish_reason = "length"
            if self.finish_reason:
                return len(tokens) - taken
        return 0


@dataclass(frozen=True, slots=True)
class Batch:
    """Requests that go through a step together.

    Attributes:
        generations: One a row.
        slots: Int64 [B] on the device.
    """

    generations: tuple[Generation, ...]
    slots: Tensor

    @property
    def size(self) -> int:
        """Rows."""
        return len(self.generations)


StepKind = Literal["prefill", "cycle", "decode", "idle"]


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one step of the engine did: plain numbers that the host knows anyway.

    Attributes:
        kind: A prefill; a round of draft and verification; a round without drafts; nothing.
        request_ids: Requests in it, one a row.
        padded: Batch size of the recording that the target's forward replayed, 0 when eager.
        k: Longest run that could be accepted.
        drafted: Draft tokens judged, over all requests.
        verified: Tokens in the target's forward, prompts left out.
        prompt_tokens: Prompt tokens in the target's forward, padding left out.
        accepted: Accepted drafts of each request.
        overshoot: Tokens of accepted + 1 past the end of each request.
        finished: Requests that ended with this step.
    """

    kind: StepKind
    request_ids: list[str] = field(default_factory=list)
    padded: int = 0
    k: int = 0
    drafted: int = 0
    verified: int = 0
    prompt_tokens: int = 0
    accepted: list[int] = field(default_factory=list)
    overshoot: list[int] = field(default_factory=list)
    finished: list[Generation] = field(default_factory=list)

    @property
    def requests(self) -> int:
        """Requests in the step."""
        return len(self.request_ids)

    @property
    def committed(self) -> int:
        """Tokens that requests were given."""
        return sum(self.accepted) + self.requests - sum(self.overshoot)

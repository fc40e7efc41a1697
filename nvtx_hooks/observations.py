"""What an extractor may report about one call; `Recorder.observe` turns it into marks.

Every number is a plain int that the host already had on the CPU. Named tuples, because making a
frozen dataclass costs 1 us and these are made in every cycle.
"""

from __future__ import annotations

from typing import NamedTuple

from nvtx_hooks.vocabulary import Flags


class Step(NamedTuple):
    """One forward of the target with all it carried, counted once over a batch.

    Attributes:
        requests: Requests in the forward.
        drafted: Draft tokens judged.
        verified: Tokens forwarded, prompts left out.
        prompt_requests: Requests that bring prompt tokens.
        prompt_tokens: Prompt tokens forwarded.
        k: Longest accepted run possible, for results that come later.
        flags: What sets the step apart.
    """

    requests: int
    drafted: int = 0
    verified: int = 0
    prompt_requests: int = 0
    prompt_tokens: int = 0
    k: int = 0
    flags: int = Flags.NONE


class Padding(NamedTuple):
    """The batch size of the CUDA graph that the step's target forward replayed."""

    requests: int


class Row(NamedTuple):
    """The verification of one request in one cycle.

    Attributes:
        request: `vocabulary.request_hash` of its id, 0 when not known.
        k: Longest accepted run possible.
        accepted: Drafts accepted, the bonus token excluded.
        flags: What sets it apart.
        overshoot: Tokens of accepted + 1 that lie past the request's end.
    """

    request: int
    k: int
    accepted: int
    flags: int = Flags.NONE
    overshoot: int = 0


class Acceptance(NamedTuple):
    """The verified requests of one cycle.

    Attributes:
        rows: One a request.
        cycle: The cycle they belong to; None: the one that is running.
    """

    rows: tuple[Row, ...]
    cycle: int | None = None


class Ranks(NamedTuple):
    """Where this process stands; sizes are 0 when not known."""

    tp_rank: int = 0
    tp_size: int = 0
    dp_rank: int = 0
    dp_size: int = 0
    pp_rank: int = 0
    pp_size: int = 0


class Signature(NamedTuple):
    """What a scheduler and its workers both see of a step, to align them without a number."""

    requests: int
    scheduled: int
    drafted: int


Observation = Step | Padding | Acceptance | Ranks | Signature

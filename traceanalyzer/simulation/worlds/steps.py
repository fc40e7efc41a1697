"""What a server's steps are, and the marks that tell of them.

A step is one iteration of the scheduler: a prompt, a plain decode step, or a verification.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from nvtx_hooks import vocabulary
from nvtx_hooks.vocabulary import Flags
from traceanalyzer.simulation.recording import Iteration, Mark

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traceanalyzer.simulation.machine import HostThread
    from traceanalyzer.simulation.worlds.requests import Outcome
    from traceanalyzer.simulation.worlds.settings import Recorder

_KINDS: Final[Mapping[str, Literal["verify", "decode", "mixed"]]] = {
    "verify": "verify",
    "mixed": "mixed",
}
_MARK_NS = 500


@dataclass(frozen=True, slots=True)
class Shape:
    """What makes steps comparable; tokens are those of all requests together."""

    kind: str
    batch: int
    padded_batch: int
    verified_tokens: int
    draft_tokens: int
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Step:
    """One step.

    Attributes:
        number: Counts prompts too.
        longest: k, the longest run of drafts that can be accepted.
        per_request: n, tokens of each request in the target's forward.
        idle: Whether it runs on padding only.
        of_rank: What single ranks run, where each has requests of its own.
    """

    number: int
    shape: Shape
    longest: int
    per_request: int
    outcomes: tuple[Outcome, ...]
    idle: bool = False
    of_rank: Mapping[int, Step] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """Phase of its target forward."""
        return self.shape.kind

    def iteration(self) -> Iteration:
        """As the truth about ranks takes it."""
        return Iteration(
            self.number,
            _KINDS.get(self.kind, "decode"),
            self.shape.batch,
            self.longest,
            self.per_request,
            tuple(each.accepted for each in self.outcomes),
            tuple(each.request for each in self.outcomes),
            dummy=self.idle,
        )


@dataclass(frozen=True, slots=True)
class Marks:
    """Writes marks on one thread, each at the recorder's cost."""

    host: HostThread
    domain: str
    recorder: Recorder

    def ranks(self, tensor: tuple[int, int], data: tuple[int, int], stage: tuple[int, int]) -> None:
        """Say which rank this is, as rank and size of each group."""
        self._mark(vocabulary.RANKS, vocabulary.pack_ranks(*tensor, *data, *stage))

    def batch(self, step: Step) -> None:
        """Say what a step is about to run."""
        shape, number = step.shape, step.number
        flags = Flags.IDLE if step.idle else Flags.NONE
        self._mark(
            vocabulary.BATCH,
            vocabulary.pack_batch(number, shape.batch, shape.padded_batch, flags),
        )
        if shape.verified_tokens:
            self._mark(
                vocabulary.TOKENS,
                vocabulary.pack_tokens(number, shape.draft_tokens, shape.verified_tokens),
            )

    def prompt(self, number: int, requests: int, tokens: int) -> None:
        """Say that prompt tokens are in the forward."""
        self._mark(vocabulary.PROMPT, vocabulary.pack_prompt(number, requests, tokens))

    def signature(self, step: Step) -> None:
        """Say what another process can recognise the step by."""
        shape = step.shape
        scheduled = shape.verified_tokens + shape.prompt_tokens
        payload = vocabulary.pack_signature(shape.batch, scheduled, shape.draft_tokens)
        self._mark(vocabulary.SIGNATURE, payload)

    def accepted(self, number: int, outcomes: Sequence[Outcome]) -> None:
        """Say what each request got."""
        for each in outcomes:
            flags = Flags.STALE if each.stale else Flags.NONE
            if each.overshoot:
                flags |= Flags.OVERSHOOT
            payload = vocabulary.pack_accept(
                number, each.request, each.longest, each.accepted, flags
            )
            self._mark(vocabulary.ACCEPT, payload)
            if each.overshoot:
                self._mark(
                    vocabulary.OVERSHOOT,
                    vocabulary.pack_overshoot(number, each.request, each.overshoot),
                )

    def _mark(self, name: str, payload: int) -> None:
        host = self.host
        host.recording.marks.append(
            Mark(host.thread, host.now_ns, name, self.domain, payload=payload)
        )
        host.spend(_MARK_NS + round(1e3 * self.recorder.range_us))

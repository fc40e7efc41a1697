"""Marks of a speculating server: batches, tokens and accepted drafts as integer payloads.

A payload is a row of bit fields, the first field in the highest bits. One rank of a group writes
them (each says its rank once), and the accept marks of an iteration come when its results have
reached the host. The layout is that of `nvtx_hooks.vocabulary`, which a test compares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.simulation.recording import Mark

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traceanalyzer.simulation.machine import HostThread
    from traceanalyzer.simulation.recording import Iteration

MARK_NS: Final = 700
"""Host time of a mark."""

_BATCH = {"cycle": 24, "requests": 16, "padded_requests": 16, "flags": 6}
_TOKENS = {"cycle": 24, "drafted": 19, "verified": 20}
_PROMPT = {"cycle": 24, "requests": 15, "tokens": 24}
_ACCEPT = {"cycle": 24, "request": 16, "k": 8, "accepted": 8, "flags": 6}
_RANKS = {"tp_rank": 10, "tp_size": 10, "dp_rank": 10, "dp_size": 10, "pp_rank": 8, "pp_size": 8}
_WARM_UP, _DUMMY = 1, 4


def _packed(fields: Mapping[str, int], *values: int) -> int:
    """The values as one integer; each stops at its field's largest."""
    payload = 0
    for bits, value in zip(fields.values(), values, strict=True):
        payload = payload << bits | min(value, (1 << bits) - 1)
    return payload


@dataclass(frozen=True, slots=True)
class MarkWriter:
    """Writes marks on one host thread, taking its time like the real call."""

    host: HostThread
    domain: str | None
    registered: bool

    def ranks(self, rank: int, size: int) -> None:
        """Say which tensor-parallel rank this process is."""
        self._mark("ranks", _packed(_RANKS, rank, size, 0, 1, 0, 1))

    def batch(self, iteration: Iteration, padded_batch: int) -> None:
        """Say what an iteration is about to run; `padded_batch` is 0 where it is not replayed."""
        number, size = iteration.number, iteration.batch_size
        flags = _WARM_UP * iteration.warm_up + _DUMMY * iteration.dummy
        self._mark("batch", _packed(_BATCH, number, size, padded_batch, flags))
        drafted, verified = iteration.draft_tokens * size, iteration.verified_tokens * size
        self._mark("tokens", _packed(_TOKENS, number, drafted, verified))

    def prompt(self, number: int, tokens: int) -> None:
        """Say that one prompt is about to run."""
        self._mark("batch", _packed(_BATCH, number, 1, 0, 0))
        self._mark("prompt", _packed(_PROMPT, number, 1, tokens))

    def accepted(self, iteration: Iteration) -> None:
        """Say how many drafts of each request were accepted."""
        number, k = iteration.number, iteration.draft_tokens
        for request, accepted in zip(iteration.requests, iteration.accepted_drafts, strict=True):
            self._mark("accept", _packed(_ACCEPT, number, request, k, accepted, 0))

    def _mark(self, name: str, payload: int) -> None:
        host = self.host
        host.recording.marks.append(
            Mark(host.thread, host.now_ns, name, self.domain, self.registered, payload)
        )
        host.spend(MARK_NS)

"""What the hooks say in a trace: range and mark names, and how their integer payloads are packed.

Everything lives in the NVTX domain `eagle`. Numbers travel in payloads, never in names, because
the nvtx package and Nsight Systems keep every distinct name for ever; only
`torch.profiler.record_function`, which has no payload, carries them in its text.
"""

from __future__ import annotations

from binascii import crc32
from dataclasses import dataclass
from enum import IntFlag
from typing import Final, NamedTuple

DOMAIN: Final = "eagle"

CYCLE: Final = "cycle"
SCHEDULE: Final = "schedule"
DRAFT: Final = "draft"
DRAFT_STEP: Final = "draft.step"
VERIFY: Final = "verify"
SAMPLE: Final = "sample"
DRAFT_EXTEND: Final = "draft_extend"
DECODE: Final = "decode"
PREFILL: Final = "prefill"
DRAFT_PREFILL: Final = "draft_prefill"
MIXED: Final = "mixed"
WARM_UP: Final = "warm_up"
CAPTURE: Final = "capture"
DUMMY: Final = "dummy"

PHASES: Final = (
    DRAFT,
    VERIFY,
    SAMPLE,
    DRAFT_EXTEND,
    DECODE,
    PREFILL,
    DRAFT_PREFILL,
    MIXED,
)
"""Ranges whose launches belong to the phase of that name."""

RANGE_PHASES: Final = {name: name for name in PHASES} | {DRAFT_STEP: DRAFT}
"""The phase of each range that has one; `fused(...)` names are their own phase."""

CONDITIONS: Final = (WARM_UP, CAPTURE, DUMMY)
"""Ranges that put their flag on everything inside them and have no phase of their own."""

RANGES: Final = (CYCLE, SCHEDULE, DRAFT_STEP, *PHASES, *CONDITIONS)
"""Every range name but `fused(...)`; a range's payload is the number of its cycle."""

BATCH: Final = "batch"
TOKENS: Final = "tokens"
PROMPT: Final = "prompt"
ACCEPT: Final = "accept"
ACCEPT_COUNT: Final = "accept_count"
OVERSHOOT: Final = "overshoot"
RANKS: Final = "ranks"
SIGNATURE: Final = "signature"

ACCEPT_MARKS_LIMIT: Final = 64
"""Requests up to which a cycle has one `accept` mark each; above it `accept_count` marks."""

NO_CYCLE: Final = 0
"""Payload of a range or mark that belongs to no cycle."""


class Flags(IntFlag):
    """What sets a cycle, or one request in it, apart; six bits."""

    NONE = 0
    WARM_UP = 1
    CAPTURE = 2
    DUMMY = 4
    IDLE = 8
    STALE = 16
    OVERSHOOT = 32


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a payload: `(payload >> shift) & mask`.

    Attributes:
        name: The field's name.
        bits: Its width.
        shift: How far it stands above bit 0.
        meaning: What it holds. Every field but a cycle number stops at its largest value.
    """

    name: str
    bits: int
    shift: int
    meaning: str

    @property
    def mask(self) -> int:
        """The field's largest value."""
        return (1 << self.bits) - 1


def _layout(*fields: tuple[str, int, str]) -> tuple[Field, ...]:
    """Place fields from the highest bit down to bit 0."""
    shift = sum(bits for _, bits, _ in fields)
    if shift > 63:
        raise ValueError(f"a payload has 63 bits, not {shift}")
    placed = []
    for name, bits, meaning in fields:
        shift -= bits
        placed.append(Field(name, bits, shift, meaning))
    return tuple(placed)


_CYCLE_BITS: Final = 24
_CYCLE_FIELD: Final = ("cycle", _CYCLE_BITS, "cycle number of the process")
_FLAGS_FIELD: Final = ("flags", 6, "Flags")

LAYOUTS: Final[dict[str, tuple[Field, ...]]] = {
    BATCH: _layout(
        _CYCLE_FIELD,
        ("requests", 16, "requests in the forward"),
        ("padded_requests", 16, "requests the CUDA graph was captured for; 0: eager or unknown"),
        _FLAGS_FIELD,
    ),
    TOKENS: _layout(
        _CYCLE_FIELD,
        ("drafted", 19, "draft tokens the target forward judges, over all requests"),
        ("verified", 20, "tokens in the target forward, prompts left out; one a request: decode"),
    ),
    PROMPT: _layout(
        _CYCLE_FIELD,
        ("requests", 15, "requests that bring prompt tokens"),
        ("tokens", 24, "prompt tokens in the target forward"),
    ),
    ACCEPT: _layout(
        _CYCLE_FIELD,
        ("request", 16, "request_hash of the engine's request id; 0: not known"),
        ("k", 8, "longest accepted run that was possible: chain length or tree depth"),
        ("accepted", 8, "drafts the verification accepted, bonus token excluded"),
        _FLAGS_FIELD,
    ),
    ACCEPT_COUNT: _layout(
        _CYCLE_FIELD,
        ("count", 16, "requests with this k, accepted and flags"),
        ("k", 8, "as in accept"),
        ("accepted", 8, "as in accept"),
        _FLAGS_FIELD,
    ),
    OVERSHOOT: _layout(
        _CYCLE_FIELD,
        ("request", 16, "request_hash, as in accept"),
        ("tokens", 16, "tokens of accepted + 1 that lie past the request's end"),
    ),
    RANKS: _layout(
        ("tp_rank", 10, "rank in the tensor-parallel group"),
        ("tp_size", 10, "size of the tensor-parallel group; 0: not known"),
        ("dp_rank", 10, "data-parallel rank"),
        ("dp_size", 10, "number of data-parallel ranks; 0: not known"),
        ("pp_rank", 8, "pipeline stage"),
        ("pp_size", 8, "number of pipeline stages; 0: not known"),
    ),
    SIGNATURE: _layout(
        ("requests", 14, "requests scheduled"),
        ("scheduled", 24, "tokens scheduled"),
        ("drafted", 22, "draft tokens among them"),
    ),
}
"""Fields of each mark's payload, highest first. A payload is a non-negative signed 64-bit int."""

MARKS: Final = tuple(LAYOUTS)

_LAST_CYCLE: Final = (1 << _CYCLE_BITS) - 1


def next_cycle(number: int) -> int:
    """The number after `number`: 1 to 2**24 - 1, then 1 again (0 means no cycle).

    A cycle number wraps, where counts stop at their largest value: at 100 cycles a second a
    stopped number would make every mark after two days point at one cycle, while a wrapped one
    stays unique in any capture shorter than that.
    """
    return number + 1 if number < _LAST_CYCLE else 1


def request_hash(request_id: str) -> int:
    """A request id in 16 bits, the same in every process; never 0."""
    return (crc32(request_id.encode("utf-8", "surrogatepass")) & 0xFFFF) or 1


def _saturated(mark: str, *values: int) -> int:
    """Any mark's payload, whatever the values; the packers below take the short way past it.

    Raises:
        ValueError: A value is negative, or the cycle is none that `next_cycle` gives.
    """
    payload = 0
    for field, value in zip(LAYOUTS[mark], values, strict=True):
        if value < 0 or (field.name == "cycle" and value > field.mask):
            raise ValueError(f"not a {field.name}: {value}")
        payload |= min(int(value), field.mask) << field.shift
    return payload


def pack_batch(cycle: int, requests: int, padded_requests: int, flags: int) -> int:
    """Payload of a `batch` mark; counts too large for their field stop at its largest value.

    Raises:
        ValueError: A value is negative, or `cycle` is no cycle number.
    """
    if cycle >> 24 | (requests | padded_requests) >> 16 | flags >> 6:
        return _saturated(BATCH, cycle, requests, padded_requests, flags)
    # int(): or-ing a Flags member would make the payload one, which nvtx does not take.
    return cycle << 38 | requests << 22 | padded_requests << 6 | int(flags)


def pack_tokens(cycle: int, drafted: int, verified: int) -> int:
    """Payload of a `tokens` mark, as `pack_batch`."""
    if cycle >> 24 | drafted >> 19 | verified >> 20:
        return _saturated(TOKENS, cycle, drafted, verified)
    return cycle << 39 | drafted << 20 | verified


def pack_prompt(cycle: int, requests: int, tokens: int) -> int:
    """Payload of a `prompt` mark, as `pack_batch`."""
    return _saturated(PROMPT, cycle, requests, tokens)


def pack_accept(cycle: int, request: int, k: int, accepted: int, flags: int) -> int:
    """Payload of an `accept` mark, as `pack_batch`."""
    if cycle >> 24 | request >> 16 | (k | accepted) >> 8 | flags >> 6:
        return _saturated(ACCEPT, cycle, request, k, accepted, flags)
    return cycle << 38 | request << 22 | k << 14 | accepted << 6 | int(flags)


def pack_accept_count(cycle: int, count: int, k: int, accepted: int, flags: int) -> int:
    """Payload of an `accept_count` mark, as `pack_batch`."""
    return _saturated(ACCEPT_COUNT, cycle, count, k, accepted, flags)


def pack_overshoot(cycle: int, request: int, tokens: int) -> int:
    """Payload of an `overshoot` mark, as `pack_batch`."""
    return _saturated(OVERSHOOT, cycle, request, tokens)


def pack_ranks(
    tp_rank: int, tp_size: int, dp_rank: int, dp_size: int, pp_rank: int, pp_size: int
) -> int:
    """Payload of a `ranks` mark, as `pack_batch`."""
    return _saturated(RANKS, tp_rank, tp_size, dp_rank, dp_size, pp_rank, pp_size)


def pack_signature(requests: int, scheduled: int, drafted: int) -> int:
    """Payload of a `signature` mark, as `pack_batch`."""
    if requests >> 14 | scheduled >> 24 | drafted >> 22:
        return _saturated(SIGNATURE, requests, scheduled, drafted)
    return requests << 46 | scheduled << 22 | drafted


def unpack(mark: str, payload: int) -> dict[str, int]:
    """The fields of one mark's payload by name.

    Args:
        mark: One of `MARKS`.
        payload: The mark's payload.

    Raises:
        KeyError: No such mark.
        ValueError: A negative payload, or bits above the mark's fields.
    """
    fields = LAYOUTS[mark]
    if payload < 0 or payload >> (fields[0].shift + fields[0].bits):
        raise ValueError(f"not a payload of {mark}: {payload}")
    return {field.name: payload >> field.shift & field.mask for field in fields}


def fused(*phases: str) -> str:
    """Name of a range that holds several phases which cannot be told apart.

    Raises:
        ValueError: Fewer than two names, or one that is no phase.
    """
    if len(phases) < 2 or not set(phases) <= set(PHASES):
        raise ValueError(f"not phases to fuse: {phases}")
    return f"fused({', '.join(phases)})"


class Annotation(NamedTuple):
    """A range or mark that travels as text."""

    name: str
    payload: int | None


def annotation(name: str, payload: int | None = None) -> str:
    """`name` and payload as one text: `eagle:verify:17`, or `eagle:verify` without a payload."""
    return f"{DOMAIN}:{name}" if payload is None else f"{DOMAIN}:{name}:{payload}"


def read_annotation(text: str) -> Annotation | None:
    """Undo `annotation`; None for a text that is not ours."""
    domain, _, rest = text.partition(":")
    name, separator, digits = rest.partition(":")
    if domain != DOMAIN or not name:
        return None
    if not separator:
        return Annotation(name, None)
    return Annotation(name, int(digits)) if digits.isascii() and digits.isdigit() else None

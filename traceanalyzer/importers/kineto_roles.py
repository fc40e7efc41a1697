"""The part that an event plays in a Trace, by its category, and the device and stream of an op."""

from __future__ import annotations

import re
from itertools import compress
from typing import TYPE_CHECKING, Final, cast

from traceanalyzer.importers.kineto_events import whole_number
from traceanalyzer.schema import OP_KINDS

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping, Sequence

    from traceanalyzer.importers.kineto_events import Arguments, Event

    Notes = Counter[tuple[str, str]]

# Capitalised categories are those of torch 1.8; HIP calls come as cuda_runtime too.
_OP_CATEGORIES: Final = {
    "kernel": "kernel",
    "Kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "Memcpy": "memcpy",
    "gpu_memset": "memset",
    "Memset": "memset",
}
_LAUNCH, _ANNOTATION, _SYNC, _CPU_OP, OPERATOR, _WINDOW, _OVERHEAD = range(
    len(OP_KINDS), len(OP_KINDS) + 7
)
ROLES: Final[Mapping[str | None, int]] = {
    **{category: OP_KINDS.index(kind) for category, kind in _OP_CATEGORIES.items()},
    **dict.fromkeys(("cuda_runtime", "cuda_driver", "Runtime"), _LAUNCH),
    "user_annotation": _ANNOTATION,
    "cuda_sync": _SYNC,
    "cpu_op": _CPU_OP,
    "Operator": OPERATOR,
    "Trace": _WINDOW,
    "overhead": _OVERHEAD,
}


def _among(*roles: int) -> bytes:
    """A table of all roles, with a 1 for these."""
    return bytes(role in roles for role in range(256))


OPS: Final = _among(*range(len(OP_KINDS)))
LAUNCHES, ANNOTATIONS = _among(_LAUNCH), _among(_ANNOTATION)
SYNCS, OVERHEADS = _among(_SYNC), _among(_OVERHEAD)
NAMED: Final = _among(*range(len(OP_KINDS)), _LAUNCH, _ANNOTATION, _OVERHEAD)
CALLED: Final = _among(_LAUNCH, _ANNOTATION)
ON_CPU: Final = _among(_LAUNCH, _ANNOTATION, _CPU_OP, OPERATOR)
WANTED: Final = frozenset(category for category in ROLES if category is not None)
"""Categories of the spans that a Trace needs."""

_TRAILING_NUMBER: Final = re.compile(r"(\d{1,18})\s*\Z")  # torch 1.8: "tid": "stream 7"
INT32_MAX: Final = (1 << 31) - 1


def chosen(spans: list[Event], roles: bytes, table: bytes) -> list[Event]:
    """The spans whose role has a 1 in a table of all roles."""
    marks = roles.translate(table)
    return spans if 0 not in marks else list(compress(spans, marks)) if 1 in marks else []


def devices_of(ops: Sequence[Event], arguments: Sequence[Arguments], notes: Notes) -> list[int]:
    """Device of each op: from its arguments, else from its row."""
    devices = [each.device for each in arguments]
    distinct = set(devices)  # nearly always one, and quicker to make than None to look for
    if None in distinct:
        devices = [
            whole_number(op.pid) if device is None else device
            for op, device in zip(ops, devices, strict=True)
        ]
        distinct = set(devices)
    if any(ordinal(device) is None for device in distinct):
        devices = [ordinal(device) for device in devices]
    return _known(devices, "devices", notes)


def streams_of(ops: Sequence[Event], arguments: Sequence[Arguments], notes: Notes) -> list[int]:
    """Stream of each op: from its arguments, else from its row."""
    streams = [each.stream for each in arguments]
    if None in set(streams):
        streams = [
            _stream_of_row(op.tid) if stream is None else stream
            for op, stream in zip(ops, streams, strict=True)
        ]
    return _known(streams, "streams", notes)


def _known(values: list[int | None], what: str, notes: Notes) -> list[int]:
    if None not in set(values):
        return cast("list[int]", values)
    notes["warning", f"ops of unknown {what} were put on number 0"] += values.count(None)
    return [value or 0 for value in values]


def ordinal(device: int | None) -> int | None:
    """A device ordinal that a table can hold."""
    return device if device is not None and abs(device) <= INT32_MAX else None


def _stream_of_row(thread_id: int | str | None) -> int | None:
    """The stream a GPU event's row stands for: 7, "7" or "stream 7"."""
    if isinstance(thread_id, str):
        number = _TRAILING_NUMBER.search(thread_id)
        return None if number is None else int(number[1])
    return thread_id

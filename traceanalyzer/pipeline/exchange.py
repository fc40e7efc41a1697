"""A measurement as bytes and back, for other processes, other machines, and a cache.

One JSON line, then the tables it lists as Arrow IPC files. Reading runs nothing.
"""

from __future__ import annotations

import io
import json
from dataclasses import fields
from typing import TYPE_CHECKING, Final

import polars as pl

from traceanalyzer.pipeline.measured import Measured, Tables
from traceanalyzer.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Iterable

FORMAT: Final = 1
"""Raised whenever a table changes, so that nothing old is read as something new."""


def to_bytes(measured: Measured) -> bytes:
    """The measurement, in tables of Arrow IPC."""
    frames = [*_frames(measured.trace, "trace"), *_frames(measured.tables, "tables")]
    packed = [(name, table_to_bytes(frame)) for name, frame in frames]
    head = {
        "format": FORMAT,
        "time_base": measured.time_base,
        "labels": measured.labels,
        "tables": [(name, len(data)) for name, data in packed],
    }
    return b"".join([json.dumps(head).encode(), b"\n", *(data for _, data in packed)])


def from_bytes(data: bytes) -> Measured:
    """What `to_bytes` wrote.

    Raises:
        ValueError: It is nothing of this format.
    """
    line, _, body = data.partition(b"\n")
    head = json.loads(line)
    if head.get("format") != FORMAT:
        raise ValueError(f"a measurement of format {head.get('format')}, not {FORMAT}")
    found: dict[str, dict[str, pl.DataFrame]] = {"trace": {}, "tables": {}}
    first = 0
    for name, size in head["tables"]:
        room, _, table = name.partition(".")
        found[room][table] = table_from_bytes(body[first : first + size])
        first += size
    return Measured(
        Trace(**found["trace"]),
        head["time_base"],
        tuple(head["labels"]),
        Tables(**found["tables"]),
    )


def table_from_bytes(data: bytes) -> pl.DataFrame:
    """What `table_to_bytes` wrote."""
    return pl.read_ipc(io.BytesIO(data)) if data else pl.DataFrame()


def _frames(tables: Trace | Tables, room: str) -> Iterable[tuple[str, pl.DataFrame]]:
    return ((f"{room}.{each.name}", getattr(tables, each.name)) for each in fields(tables))


def table_to_bytes(frame: pl.DataFrame) -> bytes:
    """One table; nothing of one without columns."""
    if not frame.width:
        return b""
    written = io.BytesIO()
    frame.write_ipc(written, compression="lz4")
    return written.getvalue()

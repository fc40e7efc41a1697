"""Does a file unpack to what a recording can be, or to more than the machine should hold?

DEFLATE packs at most 1,032 bytes into one, parquet any number of equal rows into none; real
traces and logs stay below 50 times.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final

from traceanalyzer.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

_ANY_BYTES: Final = 128 << 20
_MOST_TIMES: Final = 100
_ANY_ROWS: Final = 1 << 20

UNPACKS_TO_TOO_MUCH: Final = f"the compressed data unpacks to over {_MOST_TIMES} times its size"


def is_too_much(packed_bytes: int, unpacked_bytes: int, any_bytes: int = _ANY_BYTES) -> bool:
    """Whether that much of a compressed stream gave more than real ones do.

    Args:
        packed_bytes: Read so far.
        unpacked_bytes: What they gave.
        any_bytes: What may come of any stream, however small.
    """
    return unpacked_bytes > max(any_bytes, _MOST_TIMES * packed_bytes)


def check_rows(file: Path, opened: IO[bytes]) -> None:
    """Refuse a parquet file that states more rows than it has bytes, before they are read.

    Raises:
        InputError: It does.
        polars.exceptions.PolarsError: It is no parquet file.
    """
    import polars as pl

    rows = pl.scan_parquet(opened).select(pl.len()).collect().item()
    opened.seek(0)
    size = file.stat().st_size
    if rows > max(_ANY_ROWS, size):
        raise InputError(
            f"the table states {rows:,} rows in {size:,} bytes: it would unpack to far more than "
            "a recording holds",
            where=file,
            next_step="Export the report again.",
        )

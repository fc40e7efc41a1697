"""What a report of Nsight Systems stores of the recorded program's environment: names of variables.

The exports that are made of a report leave environments behind, so the report itself is looked at.
It holds them unpacked, as protocol buffers (read in reports of 2022.4 and 2023.4): a map from
names to values, and one block of `NAME=value`, parted by NUL, called DeviceEnvironment.
Environments of other processes are packed, and not seen. No value leaves this module.
"""

from __future__ import annotations

import mmap
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_REPORT: Final = re.compile(
    rb"NVIDIA Tegra Profiler Report|.{0,16}NVIDIA Nsight Systems Stream", re.S
)
_HEAD_BYTES: Final = 256
_NAME: Final = rb"[A-Za-z_][A-Za-z0-9_]*"
# Field 1, its length, the name; then field 2, the value, begins.
_MAP_ENTRY: Final = re.compile(rb"\n(.)(" + _NAME + rb")\x12", re.DOTALL)
_BLOCK: Final = re.compile(rb"\n\x11DeviceEnvironment\x12([\x80-\xff]{0,4}[\x00-\x7f])")
_ASSIGNMENT: Final = re.compile(rb"(?:\A|(?<=\0))(" + _NAME + rb")=")
_LOOKED_AT_BYTES: Final = 64 << 20
"""At either end of a report: environments stand in its first and its last megabytes."""


def recorded_variables(path: Path) -> tuple[str, ...]:
    """Names of the variables that a report stores.

    Args:
        path: Any file or folder; only reports and raw streams of Nsight Systems store what is
            read here.

    Returns:
        Names, sorted; those of the recorder's own properties (CpuCores, Hostname, ...), which
        stand in a map of the same form, are among them.
    """
    try:
        if not path.is_file():
            return ()
        with path.open("rb") as file:
            if not _REPORT.match(file.read(_HEAD_BYTES)):
                return ()
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return tuple(sorted({name.decode() for name in _names(data)}))
    except OSError:
        return ()


def _names(data: mmap.mmap) -> Iterator[bytes]:
    size = len(data)
    parts = [
        (0, min(size, _LOOKED_AT_BYTES)),
        (max(_LOOKED_AT_BYTES, size - _LOOKED_AT_BYTES), size),
    ]
    for first, end in parts:
        for entry in _MAP_ENTRY.finditer(data, first, end):
            if entry[1][0] == len(entry[2]):
                yield entry[2]
        for block in _BLOCK.finditer(data, first, end):
            text = data[block.end() : block.end() + _number(block[1])]
            yield from _ASSIGNMENT.findall(text)


def _number(varint: bytes) -> int:
    """A number in groups of seven bits, the lowest first."""
    return sum((group & 127) << (7 * place) for place, group in enumerate(varint))

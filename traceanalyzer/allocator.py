"""Memory that was freed: kept for reuse while a command runs, and given back between its steps.

glibc gives every array of a million rows pages of its own and returns them at once; faulting new
ones in took 0.4 s of the 4.9 s of CPU of a report on a million kernels. What is kept lies in
pieces between what is still used, so that a step with arrays of other sizes takes new memory:
without giving it back a report on 500 MB of JSON took 100 MB more.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import cache
from typing import Final

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # parameters of mallopt(3)
_LARGEST_REUSED: Final = 64 << 20
"""Larger ones go back: at two million kernels that is 230 MB of the peak, and no CPU time."""
_MOST_KEPT: Final = 80 << 20
"""Giving back less at a time costs a sixth of the CPU at two million kernels, and saves nothing."""


def keep_freed_memory() -> None:
    """Tell glibc's malloc; elsewhere there is nothing to tell."""
    with suppress(OSError, AttributeError):
        mallopt = _libc().mallopt
        mallopt(_MMAP_THRESHOLD, _LARGEST_REUSED)
        mallopt(_TRIM_THRESHOLD, _LARGEST_REUSED)


def give_back_freed_memory() -> None:
    """Return the pages of what was freed to the system, where glibc's malloc has many of them."""
    with suppress(OSError, AttributeError):
        mallinfo = _libc().mallinfo2
        mallinfo.restype = _Mallinfo
        if mallinfo().fordblks > _MOST_KEPT:
            _libc().malloc_trim(0)


class _Mallinfo(ctypes.Structure):
    """What mallinfo2(3) returns; `fordblks` is what is freed and kept, in bytes."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    ]


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)

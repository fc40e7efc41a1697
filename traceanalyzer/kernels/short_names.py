"""Kernel names a person can read: without return type, template arguments and parameters."""

from __future__ import annotations

import re
from typing import Final

_RETURN_TYPE: Final = re.compile(r"^(?:(?:static|inline|__global__)\s+)*void\s+")
_UNNAMED: Final = ("(anonymous namespace)::", "<unnamed>::", "(unnamed namespace)::")
_TRAILING: Final = ".@ "


def short_name(name: str) -> str:
    """A kernel's qualified name alone.

    Template arguments go wherever they stand, parameters from the first parenthesis on. A name
    that is not written as C++ (mangled, or a plain identifier) is returned as it is.

    >>> short_name("void flash::fwd<cutlass::half_t, Traits<64>>(Params)")
    'flash::fwd'
    """
    text = name
    for unnamed in _UNNAMED:
        text = text.replace(unnamed, "")
    text = _RETURN_TYPE.sub("", text)
    kept, depth = [], 0
    for char in text:
        if char == "(" and not depth:
            break
        depth += char == "<"
        if not depth:
            kept.append(char)
        depth = max(0, depth - (char == ">"))
    return "".join(kept).strip(_TRAILING) or name


def short_pair(one: str, other: str) -> tuple[str, str]:
    """Two different kernels, each short, told apart by more of their names where needed."""
    shorts = short_name(one), short_name(other)
    return shorts if one == other or shorts[0] != shorts[1] else (one, other)

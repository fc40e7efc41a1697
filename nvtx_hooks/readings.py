"""Reading the host's values without ever touching a tensor's data.

A value of any type but the plain one asked for raises `Unreadable`, and the hook then emits
nothing: `int(tensor)`, `len(tensor)` or a comparison would synchronise the GPU.
"""

from __future__ import annotations

from array import array
from collections import deque
from typing import Any


class Unreadable(TypeError):
    """The host's value is not of the plain type that was expected."""


def integer(value: Any) -> int:
    """An int that is no bool, no enum and no NumPy or tensor scalar."""
    if type(value) is int:
        return value
    raise Unreadable(f"not an int: {type(value).__name__}")


def boolean(value: Any) -> bool:
    """A bool."""
    if type(value) is bool:
        return value
    raise Unreadable(f"not a bool: {type(value).__name__}")


def text(value: Any) -> str:
    """A string."""
    if isinstance(value, str):
        return value
    raise Unreadable(f"not a string: {type(value).__name__}")


def integers(value: Any) -> list[int]:
    """A list or tuple of ints."""
    if isinstance(value, (list, tuple)) and all(type(item) is int for item in value):
        return list(value)
    raise Unreadable(f"not a list of ints: {type(value).__name__}")


def length(value: Any) -> int:
    """How many items one of Python's own containers has."""
    if isinstance(value, (list, tuple, dict, set, frozenset, deque, array)):
        return len(value)
    raise Unreadable(f"not a plain container: {type(value).__name__}")


def dimension(value: Any, axis: int) -> int:
    """One size of an array or tensor, from its shape: metadata that is always on the CPU."""
    return integer(value.shape[axis])


def optional_integer(value: Any, default: int = 0) -> int:
    """An int, or `default` when the value is anything else."""
    return value if type(value) is int else default

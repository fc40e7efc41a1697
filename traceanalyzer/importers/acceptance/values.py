"""Figures in JSON objects and CSV rows: a value, or an error that names it."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from traceanalyzer.errors import InputError
from traceanalyzer.importers.acceptance.lines import LARGEST_COUNT, number_in, shown

if TYPE_CHECKING:
    from collections.abc import Mapping


def real_of(values: Mapping[str, Any], name: str) -> float | None:
    """The finite number called `name`; None when it is absent, null or empty.

    Raises:
        InputError: It is something else.
    """
    value = values.get(name)
    if value is None or value == "":
        return None
    number = number_in(value) if isinstance(value, str) else value
    if isinstance(number, float) and math.isfinite(number):
        return number
    if type(number) is int and abs(number) <= LARGEST_COUNT:
        return float(number)
    raise InputError(f"its {name} is {shown(str(value))}, no number")


def count_of(values: Mapping[str, Any], name: str) -> int | None:
    """The whole number from 0 to `LARGEST_COUNT` called `name`; None when absent, null or empty.

    Raises:
        InputError: It is something else.
    """
    number = real_of(values, name)
    if number is None:
        return None
    if not 0 <= number <= LARGEST_COUNT or not number.is_integer():
        raise InputError(f"its {name} is {number:g}, no count")
    return int(number)


def counts_of(values: Mapping[str, Any], name: str) -> tuple[int, ...] | None:
    """The list of counts called `name`: a list, or its text ("[3, 1]", "3 1", "3|1|0").

    Raises:
        InputError: It is something else.
    """
    value = values.get(name)
    if value is None or value == "":
        return None
    items = _items(value) if isinstance(value, str) else value
    if not isinstance(items, list) or not items:
        raise InputError(f"its {name} is {shown(str(value))}, no list of counts")
    return tuple(
        found
        for item in items
        if (found := count_of({name: 0 if item == "" else item}, name)) is not None
    )


def _items(text: str) -> Any:
    if text.strip().startswith("["):
        try:
            return json.loads(text)
        except ValueError:
            return None
    for separator in ("|", ";", ","):
        text = text.replace(separator, " ")
    return text.split()

"""Which family a collective kernel is of, and whether that family ends on all ranks together.

The families are data (`collectives.toml`); which kernels are collectives at all, `classification`
tells. Only in families that end together is waiting for a late rank told from transfer.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.kernels.classification import CLASSES, COLLECTIVES, class_of_ops

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from traceanalyzer.trace import Trace

_COLLECTIVE: Final = tuple(place for place, name in enumerate(CLASSES) if name in COLLECTIVES)


@dataclass(frozen=True, slots=True)
class Family:
    """Collectives of one algorithm.

    Attributes:
        name: What it is called in a report.
        ends_together: Whether no rank can end before the last one has started, and all end
            together.
        pattern: Regular expression that must occur in the kernel's name, in any case.
        examples: Names that the family takes, no earlier one does.
    """

    name: str
    ends_together: bool
    pattern: str
    examples: tuple[str, ...]


@cache
def shipped_families() -> tuple[Family, ...]:
    """The families in the order in which they are tried; the last one takes every name."""
    text = resources.files(__package__).joinpath("collectives.toml").read_text(encoding="utf-8")
    return tuple(
        Family(row["name"], row["ends_together"], row["pattern"], tuple(row["examples"]))
        for row in tomllib.loads(text)["family"]
    )


def family_of_names(names: pl.Series) -> NDArray[np.int64]:
    """Place in `shipped_families()` of each name of a collective kernel."""
    found = np.full(len(names), -1, np.int64)
    for place, family in enumerate(shipped_families()):
        takes = names.str.contains(f"(?i:{family.pattern})").fill_null(False).to_numpy()
        found[(found < 0) & takes] = place
    return found


def family_of_ops(trace: Trace, class_of_op: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """Place in `shipped_families()` of each op, -1 for ops that are no collective.

    Args:
        trace: The tables.
        class_of_op: See `class_of_ops`, where it is known.
    """
    classes = class_of_ops(trace) if class_of_op is None else class_of_op
    is_kind = np.zeros(len(CLASSES), bool)
    is_kind[list(_COLLECTIVE)] = True
    name, op = trace.ops["name"].to_numpy(), np.flatnonzero(is_kind[classes])
    occurs = np.zeros(trace.names.height, bool)
    occurs[name[op]] = True
    used = np.flatnonzero(occurs)
    of_name = np.full(trace.names.height, -1, np.int64)
    of_name[used] = family_of_names(trace.names["text"].gather(used))
    found = np.full(name.size, -1, np.int64)
    found[op] = of_name[name[op]]
    return found

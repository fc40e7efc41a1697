"""The kernels of each phase by name, over all ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from traceanalyzer.analyses.kernel_classes import ROWS
from traceanalyzer.report import OTHER_KERNELS, KernelTotal

if TYPE_CHECKING:
    from collections.abc import Sequence

KERNELS_LISTED: Final = 40
"""Names listed for each phase."""


def kernel_rows(totals: pl.DataFrame, labels: Sequence[str], texts: pl.Series) -> list[KernelTotal]:
    """Phase by phase, the kernel with most time first.

    Args:
        totals: See `analyses.kernel_classes.kernel_totals`.
        labels: Phase of each label.
        texts: Text of each name of the trace.
    """
    whole_ns: dict[int, int] = dict(totals.group_by("label").agg(pl.sum("busy_ns")).iter_rows())
    rows = totals.select("label", "name", "class", "ops", "busy_ns").iter_rows()
    return [
        KernelTotal(
            phase=labels[label],
            kernel=texts[name] if name >= 0 else None,
            kernel_class=OTHER_KERNELS if place is None else ROWS[place],
            ops=ops,
            busy_ns=busy_ns,
            share=busy_ns / whole_ns[label] if whole_ns[label] else 0.0,
        )
        for label, name, place, ops, busy_ns in rows
    ]

"""What an nsys export says of itself and of the machine: versions, limits, GPUs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

_TABLES_OF_NOTE = (
    "NVTX_EVENTS",
    "CUPTI_ACTIVITY_KIND_RUNTIME",
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
)


class _Source(Protocol):
    def columns(self, table: str) -> frozenset[str]: ...

    def read(self, table: str, columns: Sequence[str]) -> pl.DataFrame: ...


def export_metadata(source: _Source) -> dict[str, str]:
    """The export's own metadata: META_DATA_EXPORT since 2023.3, EXPORT_META_DATA before."""
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        if source.columns(table):
            return dict(source.read(table, ("name", "value")).drop_nulls().iter_rows())
    return {}


def limits_of_export(meta: Mapping[str, str]) -> list[str]:
    """What the export was told to leave out, as far as it is missed here."""
    limits = []
    patterns = meta.get("EXPORT_PARAM_TABLES_TO_EXPORT", "").split()
    absent = [
        table
        for table in _TABLES_OF_NOTE
        if not any(_names(pattern, table) for pattern in patterns)
    ]
    if patterns and absent:
        limits.append(
            f"the export was limited to {' '.join(patterns)}, without {', '.join(absent)}"
        )
    if meta.get("EXPORT_PARAM_TIMES_TO_EXPORT"):
        limits.append(f"the export is cut to times {meta['EXPORT_PARAM_TIMES_TO_EXPORT']}")
    return limits


def _names(pattern: str, table: str) -> bool:
    """Whether a pattern of `nsys export --tables` (POSIX) takes a table, as far as we read it."""
    try:
        return re.search(pattern, table, re.IGNORECASE) is not None
    except re.error:
        return False


def gpu_names(source: _Source, *keys: str) -> dict[int, str]:
    """GPU names by the first of `keys` that the export has, in any of its three layouts."""
    for table in ("TARGET_INFO_GPU", "TARGET_INFO_CUDA_GPU"):
        present = source.columns(table)
        key = next((column for column in keys if column in present), None)
        if key is not None and "name" in present:
            return dict(source.read(table, (key, "name")).drop_nulls().iter_rows())
    return {}


def cuda_ordinals(source: _Source) -> dict[tuple[int, int], int]:
    """(process id, CUDA ordinal) -> GPU id, where visibility differs between processes."""
    rows = source.read("TARGET_INFO_CUDA_DEVICE", ("pid", "cudaId", "gpuId")).drop_nulls()
    return {(pid, ordinal): gpu for pid, ordinal, gpu in rows.iter_rows()}

"""What the hooks told beside the ranges: batches, tokens and accepted drafts, by cycle number.

Marks travel as NVTX marks of domain `eagle`, or under torch.profiler as annotations whose text
carries the number; one process of a tensor-parallel group speaks for all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from nvtx_hooks import vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.trace import Trace


def read_marks(trace: Trace, mark: str) -> pl.DataFrame:
    """Every mark of one name.

    Args:
        trace: The capture.
        mark: One of `nvtx_hooks.vocabulary.MARKS`.

    Returns:
        One row a mark, by process and time: process, time_ns, and the fields of its payload
        (Int64). Payloads that cannot be one of this mark are left out.
    """
    unpacked = [
        (pl.col("payload") // (1 << field.shift) % (1 << field.bits)).alias(field.name)
        for field in vocabulary.LAYOUTS[mark]
    ]
    return marks_by_thread(trace, mark).select("process", "time_ns", *unpacked)


def only_marks(trace: Trace) -> pl.DataFrame:
    """All of our marks, annotations among them, as a table of marks whose names are texts.

    Returns:
        time_ns, thread, domain (text), name (text), payload.
    """
    ours = np.isin(trace.marks["domain"].to_numpy(), _named(trace, vocabulary.DOMAIN))
    nvtx = trace.marks[np.flatnonzero(ours)]
    columns = ("time_ns", "thread", "name", "payload")
    parts = [nvtx.with_columns(name=trace.names["text"].gather(nvtx["name"])).select(columns)]
    for mark in vocabulary.LAYOUTS if _any_annotated(trace) else ():
        told = _annotations(trace, mark)
        if told is not None:
            parts.append(told.with_columns(name=pl.lit(mark)).select(columns))
    return pl.concat(parts).with_columns(domain=pl.lit(vocabulary.DOMAIN))


def marks_by_thread(trace: Trace, mark: str) -> pl.DataFrame:
    """Every mark of one name with its payload as it is.

    Returns:
        One row a mark, by process and time: process, thread, time_ns, payload (Int64).
    """
    highest = vocabulary.LAYOUTS[mark][0]
    limit = 1 << (highest.shift + highest.bits)
    told, annotations = _nvtx_marks(trace, mark), _annotations(trace, mark)
    if annotations is not None:
        told = pl.concat([told, annotations])
    told = told.filter(pl.col("payload").is_between(0, limit - 1))
    process = pl.lit(trace.threads["process"]).gather(pl.col("thread")).alias("process")
    return told.select(process, "thread", "time_ns", "payload").sort(
        "process", "time_ns", maintain_order=True
    )


def _nvtx_marks(trace: Trace, mark: str) -> pl.DataFrame:
    """Few of many names are ours, so texts are compared once, not once a mark."""
    columns = ("time_ns", "thread", "payload")
    domain, name = trace.marks["domain"].to_numpy(), trace.marks["name"].to_numpy()
    ours = np.isin(domain, _named(trace, vocabulary.DOMAIN)) & np.isin(name, _named(trace, mark))
    return trace.marks.select(columns)[np.flatnonzero(ours)]


def _named(trace: Trace, text: str) -> NDArray[np.int64]:
    """Rows of `names` that hold a text; what is null is in none of them."""
    return np.flatnonzero((trace.names["text"] == text).to_numpy())


def _any_annotated(trace: Trace) -> bool:
    """Whether any text of a range is one of a mark."""
    begins = pl.col("text").str.starts_with(f"{vocabulary.DOMAIN}:")
    return bool(trace.ranges.height and trace.names.select(begins.any()).item())


def _annotations(trace: Trace, mark: str) -> pl.DataFrame | None:
    """Marks that travel as text, `eagle:accept:17`: torch.profiler's annotations; None without."""
    if not trace.ranges.height:
        return None
    begin = f"{vocabulary.DOMAIN}:{mark}:"
    told = trace.names.filter(pl.col("text").str.starts_with(begin))
    if not told.height:  # as in any trace of NVTX
        return None
    number = pl.col("text").str.extract(rf"^{begin}(\d+)$").cast(pl.Int64, strict=False)
    return (
        trace.ranges.filter(
            (pl.col("style") == "annotation") & pl.col("name").is_in(told["name"].implode())
        )
        .select("name", "thread", time_ns="start_ns")
        .join(told.select("name", payload=number), on="name", how="left", maintain_order="left")
        .drop_nulls("payload")
        .select("time_ns", "thread", "payload")
    )

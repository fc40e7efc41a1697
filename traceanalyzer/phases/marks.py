"""What the hooks told beside the ranges: batches, tokens and accepted drafts, by cycle number.

Marks travel as NVTX marks of domain `eagle`, or under torch.profiler as annotations whose text
carries the number; one process of a tensor-parallel group speaks for all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import polars as pl

from nvtx_hooks import vocabulary
from traceanalyzer.schema import MARKS

if TYPE_CHECKING:
    from traceanalyzer.trace import Trace


_MARK: Final = {
    **{name: MARKS.polars_schema[name] for name in ("time_ns", "thread")},
    "payload": pl.Int64(),
}


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
    texts = trace.names["text"]
    ours = _named(trace, pl.col("text") == vocabulary.DOMAIN)["name"]
    nvtx = trace.marks.filter(pl.col("domain").is_in(ours.implode()).fill_null(False))
    nvtx = nvtx.with_columns(name=texts.gather(nvtx["name"]))
    told = [
        _annotations(trace, mark).with_columns(name=pl.lit(mark)) for mark in vocabulary.LAYOUTS
    ]
    columns = ("time_ns", "thread", "name", "payload")
    marks = pl.concat([part.select(columns) for part in (nvtx, *told)])
    return marks.with_columns(domain=pl.lit(vocabulary.DOMAIN))


def marks_by_thread(trace: Trace, mark: str) -> pl.DataFrame:
    """Every mark of one name with its payload as it is.

    Returns:
        One row a mark, by process and time: process, thread, time_ns, payload (Int64).
    """
    highest = vocabulary.LAYOUTS[mark][0]
    limit = 1 << (highest.shift + highest.bits)
    told = pl.concat([_nvtx_marks(trace, mark), _annotations(trace, mark)]).filter(
        pl.col("payload").is_between(0, limit - 1)
    )
    return (
        told.with_columns(process=trace.threads["process"].gather(told["thread"]))
        .sort("process", "time_ns", maintain_order=True)
        .select("process", "thread", "time_ns", "payload")
    )


def _nvtx_marks(trace: Trace, mark: str) -> pl.DataFrame:
    domain, name = (_named(trace, pl.col("text") == text) for text in (vocabulary.DOMAIN, mark))
    ours = pl.col("domain").is_in(domain["name"].implode()) & pl.col("name").is_in(
        name["name"].implode()
    )
    return trace.marks.filter(ours.fill_null(False)).select("time_ns", "thread", "payload")


def _annotations(trace: Trace, mark: str) -> pl.DataFrame:
    """Marks that travel as text, `eagle:accept:17`: torch.profiler's annotations."""
    begin = f"{vocabulary.DOMAIN}:{mark}:"
    number = pl.col("text").str.extract(rf"^{begin}(\d+)$").cast(pl.Int64, strict=False)
    told = _named(trace, pl.col("text").str.starts_with(begin)).with_columns(payload=number)
    if not told.height:  # as in any trace of NVTX
        return pl.DataFrame(schema=_MARK)
    return (
        trace.ranges.filter(
            (pl.col("style") == "annotation") & pl.col("name").is_in(told["name"].implode())
        )
        .select("name", "thread", time_ns="start_ns")
        .join(told, on="name", how="left", maintain_order="left")
        .drop_nulls("payload")
        .select("time_ns", "thread", "payload")
    )


def _named(trace: Trace, wanted: pl.Expr) -> pl.DataFrame:
    """Rows of `names`: few of many are ours, so texts are compared once, not once a mark."""
    return trace.names.filter(wanted)

"""Small traces: built by hand from rows, or drawn by hypothesis with the hard cases common."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.programs import DOMAINS, Machine, block
from tests.reference import Meaning
from traceanalyzer import schema
from traceanalyzer.phases.rules import Rules
from traceanalyzer.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

    from tests.reference import Meanings

EXAMPLES = int(os.environ.get("TRACEANALYZER_EXAMPLES", "300"))


def examples(share: float = 1.0) -> settings:
    """How often a property is tried: `TRACEANALYZER_EXAMPLES` times its share.

    Properties that ask for less are slow ones, or ones that others imply in good part.
    """
    return settings(
        max_examples=max(1, int(EXAMPLES * share)),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


# What the names of ranges mean here. "quiet" is a domain in which names mean nothing.

_NAMES: dict[str, Meaning] = {
    "draft": Meaning("draft"),
    "verify": Meaning("verify"),
    "verify bs=4": Meaning("verify", batch=4),
    "sample": Meaning("sample"),
    "draft_extend": Meaning("draft_extend"),
    "decode": Meaning("decode"),
    "prefill": Meaning("prefill"),
    "draft_prefill": Meaning("draft_prefill"),
    "mixed": Meaning("mixed"),
    "propose": Meaning("fused(draft, draft_extend)"),
    "forward": Meaning("fused(verify, decode, prefill)"),
    "cycle": Meaning(cycle=True),
    "warm-up": Meaning(flags=frozenset({"warm-up"})),
    "capture": Meaning(flags=frozenset({"capture"})),
    "dummy": Meaning(flags=frozenset({"dummy"})),
    "idle verify": Meaning("verify", flags=frozenset({"idle"})),
    "known": Meaning(),
    "target?": Meaning("verify", flags=frozenset({"inferred"})),
    "decode?": Meaning("decode", flags=frozenset({"inferred"})),
}
MEANINGS: Meanings = {
    (domain, name): Meaning() if domain == "quiet" else meaning
    for domain in DOMAINS
    for name, meaning in _NAMES.items()
}


class FixedRules(Rules):
    """Rules that look names up in `MEANINGS`; the real ones have tests of their own."""

    def classify(self, names: pl.DataFrame) -> pl.DataFrame:
        found = [MEANINGS.get(pair) for pair in names.select("domain_text", "name_text").rows()]
        return names.with_columns(
            phase=pl.Series([each and each.phase for each in found], dtype=pl.String),
            role=pl.Series([each and _role(each) for each in found], dtype=pl.String),
            flags=pl.Series(
                [sorted(each.flags) if each else [] for each in found], dtype=pl.List(pl.String)
            ),
            batch=pl.Series([each and each.batch for each in found], dtype=pl.Int64),
            cycle=pl.Series([None] * len(found), dtype=pl.Int64),
        )


def _role(meaning: Meaning) -> str:
    return "phase" if meaning.phase else "cycle" if meaning.cycle else "none"


RULES = FixedRules(())


# Traces from rows.


def build(
    *,
    ops: Iterable[Mapping[str, Any]] = (),
    launches: Iterable[Mapping[str, Any]] = (),
    ranges: Iterable[Mapping[str, Any]] = (),
    syncs: Iterable[Mapping[str, Any]] = (),
    threads: Sequence[int] = (0,),
) -> Trace:
    """A Trace from rows with texts; what a row leaves out has the simplest value.

    Args:
        ops: start_ns and end_ns; kind, process, device_id, stream_id, correlation_id, name, ids.
        launches: start_ns, end_ns; thread, correlation_id, name.
        ranges: start_ns, end_ns, name; thread, end_thread, style, domain, closed.
        syncs: start_ns; kind, process, device_id, stream_id.
        threads: The process of each thread.
    """
    names: dict[str, int] = {}

    def named(text: str | None) -> int | None:
        return None if text is None else names.setdefault(text, len(names))

    op_rows = [{**_OP, **row} for row in ops]
    launch_rows = [{**_LAUNCH, **row} for row in launches]
    range_rows = [{**_RANGE, **row} for row in ranges]
    for row in (*op_rows, *launch_rows, *range_rows):
        row["name"] = named(row["name"])
    for row in range_rows:
        row["domain"] = named(row["domain"])
    for row in launch_rows:
        row["process"] = threads[row["thread"]]
    processes = 1 + max(threads)
    devices = sorted({(row["process"], row["device_id"]) for row in op_rows})
    tables: dict[str, Any] = {
        "files": [
            {"file": 0, "path": "made by hand", "format": "nsys-sqlite", "product": "by hand"}
        ],
        "processes": [
            {"process": row, "file": 0, "process_id": 1000 + row} for row in range(processes)
        ],
        "threads": [
            {"thread": row, "process": process, "thread_id": 5000 + row}
            for row, process in enumerate(threads)
        ],
        "devices": [{"process": process, "device_id": device} for process, device in devices],
        "names": [{"name": row, "text": text} for text, row in names.items()],
        "ops": op_rows,
        "launches": launch_rows,
        "ranges": range_rows,
        "syncs": [{**_SYNC, **row} for row in syncs],
    }
    return Trace.checked({name: frame(name, rows) for name, rows in tables.items()})


def frame(table: str, rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Rows as a table of the schema, absent values null."""
    declared = next(each for each in schema.TABLES if each.name == table)
    return pl.DataFrame(
        {column.name: [row.get(column.name) for row in rows] for column in declared.columns},
        schema=declared.polars_schema,
    )


_OP = {"kind": "kernel", "process": 0, "device_id": 0, "stream_id": 7, "name": "kernel_a"}
_LAUNCH = {"thread": 0, "name": "cudaLaunchKernel"}
_RANGE = {"thread": 0, "style": "push_pop", "domain": None, "closed": True}
_SYNC = {"kind": "stream_wait_event", "end_ns": 0, "process": 0}


# Drawn traces.

_RNG = random.Random(8)
# Blocks are made once and chosen by hypothesis: one draw a block instead of dozens. The shortest
# come first, so that shrinking leads to them.
_BLOCKS = sorted((block(_RNG) for _ in range(4000)), key=lambda tokens: len(repr(tokens)))
_programs = st.lists(
    st.tuples(st.sampled_from(_BLOCKS), st.sampled_from((1, 1, 2, 3))), min_size=1, max_size=6
).map(lambda chosen: [token for tokens, times in chosen for token in tokens * times])

SINCE_1970_NS = 1_790_000_000_000_000_000
"""Where the clock of a profiler that counts from 1970 stands."""

_MACHINES = (((0,), 1), ((0,), 1), ((0, 0), 1), ((0, 1), 1), ((0, 0), 2), ((0, 1, 1), 2))


@st.composite
def traces(draw: DrawFn) -> Trace:
    """A trace of one to three threads; times begin anywhere, zero and below included."""
    machine = Machine(*draw(st.sampled_from(_MACHINES)))
    for thread in range(len(machine.threads)):
        machine.run(thread, draw(_programs), draw(st.sampled_from((0, 3))))
    machine.stop(origin_ns=draw(st.sampled_from((1, 0, -15, SINCE_1970_NS))))
    for row in machine.ops[: draw(st.sampled_from((0, 0, 0, 1, 3)))]:
        row |= {"start_ns": 0, "end_ns": 0}
    order = draw(st.sampled_from((None, None, 1, 2)))
    if order is not None:
        for rows in (machine.ops, machine.launches, machine.ranges):
            random.Random(order).shuffle(rows)
    return build(
        ops=machine.ops,
        launches=machine.launches,
        ranges=machine.ranges,
        syncs=machine.syncs,
        threads=machine.threads,
    )


def host_traces() -> SearchStrategy[Trace]:
    """Traces without GPU work."""
    return traces().map(
        lambda trace: replace(trace, ops=trace.ops.clear(), devices=trace.devices.clear())
    )


def gpu_traces() -> SearchStrategy[Trace]:
    """Traces with GPU work."""
    return traces().filter(lambda trace: trace.ops.height > 0)

"""What an analysis finds in some processes by themselves: small tables that can be joined.

Attribution never crosses processes, so all that needs ops, launches and ranges is measured part by
part. `join` puts measurements one after another; what crosses ranks is told from the joined ones.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer import schema
from traceanalyzer.phases.marks import only_marks
from traceanalyzer.phases.phased import OTHER, UNATTRIBUTED
from traceanalyzer.phases.rules import phase_order
from traceanalyzer.trace import Trace, concatenate

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from numpy.typing import NDArray

    Int64s = NDArray[np.int64]

GPU: Final = "gpu"
HOST: Final = "host"


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a measurement.

    Row numbers in `lanes`, `cycles` and `graphs` and the place of a label in `Measured.labels` are
    the keys that other tables use, as are those of the trace's processes, threads and names.
    Columns of these meanings are `lane`, `cycle`, `graph`, `label` (`labels` is a bit set),
    `process`, `thread` and `name`; -1 stands for none.

    Attributes:
        lanes: One row a rank, or on the host a thread: process; of ranks also not_collected (ops
            without times) and idle_cycles.
        cycles: One row a cycle: lane, start_ns, end_ns, state (place in `STATES`), number, kind,
            named_batch, graph_text (see `cycle_shapes`), overlap_ns.
        stalls: See `stalls_of`.
        stalled_cycles: One row a cycle: usable, stretched (see `Stalling`).
        exclusive: Time in which one label alone runs, by cycle: cycle, label, ns.
        gaps: Idle time: lane, cycle, label, cause (place in the causes), ns.
        totals: See `phase_totals`; on the host lane, label and busy_ns.
        leads: See `host_lead`.
        coverage: See `coverage_ledger`.
        classes: See `class_time`.
        replayed: See `replayed_ops`.
        launches: See `cycle_launches`.
        cycle_kernels: See `kernels_by_cycle`.
        kernels: See `kernel_time`.
        parts: See `sub_phase_time`.
        syncs: See `synchronisations`.
        graphs: See `Graphs`.
        replays: See `Graphs`.
        runs: See `KernelRuns`.
        run_cycles: See `KernelRuns.cycles`.
        run_times: See `KernelRuns.times`.
        late: See `KernelRuns`.
        collectives: See `Collectives.ops`.
        beside: See `Collectives`: lane, start_ns, end_ns.
        steps: See `signed_steps`.
        numbers: Cycles that have ranges: process, number.
        inferred: See `LaneInference`.
        carried: See `CarriedPhase`.
        process_facts: See `Facts`.
        overhead_facts: See `Facts`.
        phase_facts: See `Facts`.
        name_facts: See `Facts`.
    """

    lanes: pl.DataFrame
    cycles: pl.DataFrame
    stalls: pl.DataFrame
    stalled_cycles: pl.DataFrame
    exclusive: pl.DataFrame
    gaps: pl.DataFrame
    totals: pl.DataFrame
    leads: pl.DataFrame
    coverage: pl.DataFrame
    classes: pl.DataFrame
    replayed: pl.DataFrame
    launches: pl.DataFrame
    cycle_kernels: pl.DataFrame
    kernels: pl.DataFrame
    parts: pl.DataFrame
    syncs: pl.DataFrame
    graphs: pl.DataFrame
    replays: pl.DataFrame
    runs: pl.DataFrame
    run_cycles: pl.DataFrame
    run_times: pl.DataFrame
    late: pl.DataFrame
    collectives: pl.DataFrame
    beside: pl.DataFrame
    steps: pl.DataFrame
    numbers: pl.DataFrame
    inferred: pl.DataFrame
    carried: pl.DataFrame
    process_facts: pl.DataFrame
    overhead_facts: pl.DataFrame
    phase_facts: pl.DataFrame
    name_facts: pl.DataFrame


_FACTS: Final = ("process_facts", "overhead_facts", "phase_facts", "name_facts")
_OF_ALL_PARTS: Final = frozenset({"steps", "numbers", "inferred", "syncs", *_FACTS})
"""Tables that a part timed on the host adds even where others are timed on the GPU."""

# Few enough values for these types in any trace that int64 arrays of its ops fit in memory.
_NARROW: Final[Mapping[str, pl.DataType]] = {
    **dict.fromkeys(("lane", "cycle", "name", "graph", "run", "process", "thread"), pl.Int32()),
    **dict.fromkeys(("label", "class", "family", "before", "state", "cause", "part"), pl.Int8()),
}
_WIDE: Final = dict.fromkeys(_NARROW, pl.Int64())

_LARGE: Final = frozenset({"classes", "replayed", "cycle_kernels", "collectives"})
"""Tables of a row for every few ops: of all parts together too, their keys are narrow."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A measurement.

    Attributes:
        trace: The measured trace with small tables alone: no ops, launches, ranges and such; of
            marks ours, of names those that `tables` and marks use, by text.
        time_base: "gpu" or "host".
        labels: Phases that occur, then "other" and (on the GPU) "unattributed".
        tables: What was found.
    """

    trace: Trace
    time_base: str
    labels: tuple[str, ...]
    tables: Tables

    @property
    def tells_phases(self) -> bool:
        """Whether a range of the recording means a phase."""
        return bool(self.tables.process_facts["phase_ranges"].sum())

    def with_tables(self, names: Container[str]) -> Measured:
        """With some of the tables alone, the others empty."""
        known = [each.name for each in fields(Tables)]
        found = {name: getattr(self.tables, name) for name in known if name in names}
        return replace(
            self, tables=Tables(**{name: found.get(name, pl.DataFrame()) for name in known})
        )


def labels_of(phases: Sequence[str], time_base: str) -> tuple[str, ...]:
    """The labels of a trace in which some phases occur."""
    ends = (OTHER, UNATTRIBUTED) if time_base == GPU else (OTHER,)
    return (*phases, *ends)


def measured_of(
    trace: Trace, time_base: str, labels: tuple[str, ...], tables: dict[str, pl.DataFrame]
) -> Measured:
    """A measurement of narrow columns; a table left out is empty.

    Args:
        trace: The whole trace, whose names the tables use.
        time_base: "gpu" or "host".
        labels: What `label` counts.
        tables: By their names in `Tables`.
    """
    marks = only_marks(trace)
    used = [table["name"] for table in tables.values() if "name" in table.columns]
    numbers = [np.unique(column.cast(pl.Int64).to_numpy()) for column in used]
    known = np.unique(np.concatenate([np.zeros(0, np.int64), *numbers]))
    known = known[known >= 0]
    of_tables = trace.names["text"].gather(known)
    texts = pl.concat([of_tables, marks["name"], marks["domain"]]).unique().sort()
    names = pl.DataFrame({"text": texts}).with_row_index("name").cast(schema.NAMES.polars_schema)
    number = np.full(trace.names.height + 1, -1, np.int64)  # negative ones stay what they are
    number[known] = texts.search_sorted(of_tables).to_numpy()
    place = _lookup("name", lambda rows: np.where(rows >= 0, number[rows], rows))
    kept = ("files", "processes", "threads", "devices", "diagnostics")
    small = {name: getattr(trace, name) for name in kept} | {
        "names": names,
        "marks": marks.with_columns(
            texts.search_sorted(marks[name]).alias(name) for name in ("name", "domain")
        ),
    }
    found = {name: narrow(_replaced(table, place)) for name, table in tables.items()}
    return Measured(
        Trace.checked(small),
        time_base,
        labels,
        Tables(**{each.name: found.get(each.name, pl.DataFrame()) for each in fields(Tables)}),
    )


def join(parts: Sequence[Measured], files: Sequence[int]) -> Measured:
    """Put measurements one after another.

    Args:
        parts: At least one, those of one file by its processes.
        files: A number for each; those of equal ones are parts of one file.

    Returns:
        What measuring all of their processes together would have found, in the same order.
    """
    return taken_together(list(parts), files)


def taken_together(parts: list[Measured], files: Sequence[int]) -> Measured:
    """The same as `join`; `parts` is empty afterwards, so that one table a time is held twice."""
    time_base = GPU if any(part.time_base == GPU for part in parts) else HOST
    phases = {phase for part in parts for phase in part.labels} - {OTHER, UNATTRIBUTED}
    labels = labels_of(sorted(phases, key=phase_order), time_base)
    trace = _with_sorted_names(concatenate([part.trace for part in parts], files))
    offsets = dict.fromkeys(("process", "thread", "lane", "cycle", "graph", "run", "op"), 0)
    found: dict[str, list[tuple[pl.DataFrame, list[Replacement]]]] = {
        each.name: [] for each in fields(Tables)
    }
    for part in parts:
        counts = part.time_base == time_base
        shifts = _shifts(offsets, part, labels, trace)
        for name, rows in found.items():
            table: pl.DataFrame = getattr(part.tables, name)
            if table.width and (counts or name in _OF_ALL_PARTS):
                rows.append((table, shifts))
        _advance(offsets, part, counts=counts)
        del part, table
    parts.clear()
    return Measured(
        trace,
        time_base,
        labels,
        Tables(**{name: _end_to_end(found.pop(name), _joined_as(name)) for name in [*found]}),
    )


def _joined_as(name: str) -> Callable[[pl.DataFrame], pl.DataFrame]:
    return narrow if name in _LARGE else _wide


def _end_to_end(
    rows: list[tuple[pl.DataFrame, list[Replacement]]],
    typed: Callable[[pl.DataFrame], pl.DataFrame],
) -> pl.DataFrame:
    """A table of all parts; the list is empty afterwards."""
    frames = []
    while rows:
        table, shifts = rows.pop(0)
        frames.append(typed(_replaced(table, *shifts)))
    return pl.concat(frames).rechunk() if frames else pl.DataFrame()


Replacement = tuple[str, "Callable[[Int64s], Int64s]"]
"""A column and what to put for its values."""


def _shifts(
    offsets: dict[str, int], part: Measured, labels: tuple[str, ...], trace: Trace
) -> list[Replacement]:
    """How the keys of a part read in the joined tables, those that read otherwise."""
    found = [_lookup(column, _moved_by(offset)) for column, offset in offsets.items() if offset]
    if part.labels != labels:
        place = np.array([*(labels.index(label) for label in part.labels), -1])
        found += [
            _lookup("label", lambda rows: place[rows]),
            _lookup("before", lambda rows: place[rows]),
            _lookup("labels", lambda rows: _bits(rows, place)),
        ]
    texts = part.trace.names["text"]
    if not texts.equals(trace.names["text"]):
        name = np.append(trace.names["text"].search_sorted(texts).to_numpy(), -1).astype(np.int64)
        found.append(
            _lookup("name", lambda rows: np.where(rows >= 0, name[np.maximum(rows, -1)], rows))
        )
    return found


def _moved_by(offset: int) -> Callable[[Int64s], Int64s]:
    return lambda rows: np.where(rows >= 0, rows + offset, rows)


def _lookup(column: str, value: Callable[[Int64s], Int64s]) -> Replacement:
    return column, value


def _bits(sets: Int64s, place: Int64s) -> Int64s:
    found = np.zeros_like(sets)
    for label, new in enumerate(place[:-1].tolist()):
        found |= (sets >> label & 1) << new
    return found


def _advance(offsets: dict[str, int], part: Measured, *, counts: bool) -> None:
    offsets["process"] += part.trace.processes.height
    offsets["thread"] += part.trace.threads.height
    if counts:
        for key in ("lane", "cycle", "graph"):
            offsets[key] += getattr(part.tables, f"{key}s").height
        for key, table in (("run", part.tables.runs), ("op", part.tables.collectives)):
            numbers = table[key].to_numpy() if table.height else np.zeros(0, np.int64)
            offsets[key] += 1 + int(numbers.max(initial=-1))


def _replaced(table: pl.DataFrame, *replacements: Replacement) -> pl.DataFrame:
    """The table with other values in its key columns."""
    columns, known = [], set(table.columns)
    for column, value in replacements:
        if column in known:
            rows = table[column].cast(pl.Int64).to_numpy()
            columns.append(pl.Series(column, value(rows), pl.Int64))
    return table.with_columns(columns) if columns else table


def narrow(table: pl.DataFrame) -> pl.DataFrame:
    """A table of a measurement with its keys as narrow as they can be."""
    return _typed(table, _NARROW)


def _wide(table: pl.DataFrame) -> pl.DataFrame:
    return _typed(table, _WIDE)


def _typed(table: pl.DataFrame, types: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """With keys of those types; column by column, since a cast of a table costs 0.1 ms."""
    columns = [
        column.cast(types[column.name]) if column.name in types else column
        for column in table.get_columns()
    ]
    return pl.DataFrame(columns)


def _with_sorted_names(trace: Trace) -> Trace:
    """With names in the order of their texts, which does not depend on the parts."""
    texts = trace.names["text"].sort()
    number = texts.search_sorted(trace.names["text"])
    marks = trace.marks.with_columns(
        number.gather(trace.marks[name]).cast(pl.Int32).alias(name) for name in ("name", "domain")
    )
    tables = {each.name: getattr(trace, each.name) for each in schema.TABLES}
    names = trace.names.with_columns(text=texts)
    return Trace(**{**tables, "marks": marks, "names": names})

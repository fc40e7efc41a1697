"""What the project sets itself, and where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from peers.results import times_ours
from peers.tools import floors, ours
from peers.traces import KINETO, PARQUETDIR, SQLITE, Wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from peers.results import Row

SMALLEST: Final = 2_000
"""Kernels of the export that start-up is measured on."""
SMALLEST_MB: Final = 1
GRAPH_KERNELS: Final = 100_000
"""Up to so many kernels the smallest export is also made in graph mode."""
LARGE_MB: Final = 500
LAYOUT_MB: Final = 100
_ABOUT: Final = 0.9
One = TypeVar("One")
Other = TypeVar("Other")


@dataclass(frozen=True, slots=True)
class Target:
    """A bound and what was measured; None where a row is missing."""

    text: str
    bound: float
    measured: float | None
    at_least: bool
    unit: str

    @property
    def holds(self) -> bool | None:
        """Whether the bound is kept; None when it is not known."""
        if self.measured is None:
            return None
        return (self.measured >= self.bound) == self.at_least or self.measured == self.bound


class Rows:
    """Measured rows, to be asked."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = [row for row in rows if row.failure is None]

    def one(self, wanted: Wanted, tool: str) -> Row | None:
        """The row of a tool on a trace; of several versions the newest."""
        return self.on(wanted.name, tool)

    def on(self, trace: str, tool: str) -> Row | None:
        """The same for a trace's name; a peer's is the beginning of its rows' names."""
        rows = [row for row in self._rows if row.trace == trace and row.tool.startswith(tool)]
        rows = [row for row in rows if row.tool == tool or not row.is_own]
        return max(rows, key=lambda row: _version(row.version), default=None)

    def json_from(self, megabytes: float) -> list[Row]:
        """Our report's rows on JSON of about so many megabytes or more."""
        return [
            row
            for row in self._rows
            if row.form == KINETO
            and row.tool == ours.REPORT
            and row.megabytes >= _ABOUT * megabytes
        ]

    def recorded(self, tool: str) -> list[Row]:
        """A tool's rows on large JSON grown from recordings."""
        return [
            row
            for row in self._rows
            if "recorded" in row.trace and row.tool.startswith(tool) and row.megabytes > LARGE_MB
        ]


def _version(text: str) -> list[int]:
    return [int(part) for part in text.split("+")[0].split(".") if part.isdigit()]


def targets(rows: Sequence[Row]) -> list[Target]:
    """All of them, in the order of their statement."""
    table = Rows(rows)
    return [*_exports(table), *_json(table), *_formats(table)]


def _exports(table: Rows) -> list[Target]:
    two, ten = Wanted(SQLITE, 2e6), Wanted(SQLITE, 10e6)
    report, scan = table.one(two, ours.REPORT), table.one(two, floors.SCAN)
    large = table.one(ten, ours.REPORT)
    most_mb = 500 + 150 * report.kernels / 1e6 if report else 800
    return [
        Target(f"{two.name}: CPU of {peer} / ours", bound, _times(table, two, peer), True, "x")
        for peer, bound in (
            ("nsys stats nvtx_kern_sum", 15),
            ("nsys stats nvtx_gpu_proj_sum", 15),
            ("nsys-ai", 25),
        )
    ] + [
        Target(
            f"{two.name}: CPU of ours / SQLite's own scan",
            3.5,
            _both(report, scan, lambda own, floor: 1 / times_ours(floor, own)),
            False,
            "x",
        ),
        Target(f"{two.name}: peak memory", most_mb, _peak(report), False, "MB"),
        Target(f"{ten.name}: CPU", 60, large.cpu_s if large else None, False, "s"),
        Target(f"{ten.name}: peak memory", 2000, _peak(large), False, "MB"),
        Target(
            "CPU a kernel, start-up subtracted, 10M / 1M kernels", 1.6, _growth(table), False, "x"
        ),
    ]


def _json(table: Rows) -> list[Target]:
    wanted, huge = Wanted(KINETO, LARGE_MB), Wanted(KINETO, 2000)
    largest = table.one(huge, ours.REPORT)
    own = [row for row in (table.one(wanted, ours.REPORT),) if row]
    return [
        *(
            target
            for row in (*own, *table.recorded(ours.REPORT))
            for target in _of_json(table, row)
        ),
        *(_slowest(table, megabytes) for megabytes in (LARGE_MB, LAYOUT_MB)),
        Target(
            f"{huge.name}: peak memory / size",
            0.4,
            largest.peak_mb / largest.megabytes if largest else None,
            False,
            "x",
        ),
    ]


def _slowest(table: Rows, megabytes: float) -> Target:
    """The layout that takes longest, start-up included."""
    row = min(table.json_from(megabytes), key=_speed, default=None)
    text = f"slowest layout from {megabytes} MB ({row.trace if row else 'none'}), a second of CPU"
    return Target(text, 80, _speed(row) if row else None, True, "MB")


def _of_json(table: Rows, own: Row) -> list[Target]:
    """The targets of one large trace that our report has a row of."""
    found = []
    for peer in ("HolisticTraceAnalysis", "TraceLens"):
        row = table.on(own.trace, peer)
        ratio = times_ours(row, own) if row else None
        found.append(Target(f"{own.trace}: CPU of {peer} / ours", 10, ratio, True, "x"))
    return [*found, Target(f"{own.trace}: peak memory", 400, own.peak_mb, False, "MB")]


def _formats(table: Rows) -> list[Target]:
    two, tables = Wanted(SQLITE, 2e6), Wanted(PARQUETDIR, 2e6)
    slow, fast = (_own_cpu(table, wanted, ours.READ) for wanted in (two, tables))
    found = [
        Target(
            "read step, SQLite / parquetdir, start-up subtracted",
            4,
            _both(slow, fast, lambda sqlite, parquet: sqlite / parquet),
            True,
            "x",
        )
    ]
    for wanted in (two, tables, Wanted(KINETO, LARGE_MB)):
        first, second = table.one(wanted, ours.REPORT), table.one(wanted, ours.CACHED)
        share = _both(second, first, lambda later, one: later.cpu_s / one.cpu_s)
        found.append(Target(f"{wanted.name}: CPU of a second report", 0.25, share, False, "x"))
    return found


def _speed(row: Row) -> float:
    return row.megabytes / row.cpu_s


def _peak(row: Row | None) -> float | None:
    return row.peak_mb if row else None


def _times(table: Rows, wanted: Wanted, peer: str) -> float | None:
    return _both(table.one(wanted, peer), table.one(wanted, ours.REPORT), times_ours)


def _growth(table: Rows) -> float | None:
    large, small = (_kernel_cpu(table, Wanted(SQLITE, size)) for size in (10e6, 1e6))
    return _both(large, small, lambda ten, one: ten / one)


def _kernel_cpu(table: Rows, wanted: Wanted) -> float | None:
    row, own = table.one(wanted, ours.REPORT), _own_cpu(table, wanted, ours.REPORT)
    return _both(row, own, lambda report, cpu_s: cpu_s / report.kernels)


def _own_cpu(table: Rows, wanted: Wanted, tool: str) -> float | None:
    """CPU seconds less those on the smallest trace of that form."""
    size = SMALLEST_MB if wanted.form == KINETO else SMALLEST
    pair = table.one(wanted, tool), table.one(Wanted(wanted.form, size), tool)
    return _both(*pair, lambda row, start: row.cpu_s - start.cpu_s)


def _both(
    one: One | None, other: Other | None, combine: Callable[[One, Other], float]
) -> float | None:
    return None if one is None or other is None else combine(one, other)

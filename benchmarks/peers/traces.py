"""The traces of the comparison: made once, kept in a folder, with their truth beside them.

All but those grown from files that somebody names are simulated.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

from peers import kineto_growth, nsys_growth
from peers.range_truth import ANNOTATED, EVERYTHING, truths

from traceanalyzer.simulation import (
    FLAVOURS,
    Eagle3Settings,
    eagle3_server,
    write_kineto,
    write_nsys_parquetdir,
    write_nsys_sqlite,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from peers.range_truth import Totals

    from traceanalyzer.simulation import Recording
    from traceanalyzer.simulation.settings import GraphMode

SQLITE, PARQUETDIR, KINETO = "SQLite", "parquetdir", "Kineto JSON"
NATIVE: Final = "Kineto's own"
_SUFFIXES: Final = {SQLITE: ".sqlite", PARQUETDIR: "_parquetdir", KINETO: ".json"}
_RANKS: Final = 8
_SMALLEST_OF_RANKS: Final = 20_000
_KERNELS_A_CYCLE: Final = 171
"""About so many kernels a rank and cycle, which sets how long the small recording is."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A trace to measure on.

    Attributes:
        form: SQLITE, PARQUETDIR or KINETO.
        size: Kernels of an export, megabytes of JSON.
        graph_mode: How replays are recorded.
        layout: Of JSON.
        grown_from: A recorded trace to repeat instead of a simulated one.
        peers: Whether peers run on it.
    """

    form: str
    size: float
    graph_mode: GraphMode = "node"
    layout: str = NATIVE
    grown_from: Path | None = None
    peers: bool = True

    @property
    def name(self) -> str:
        """How tables call it."""
        if self.form != KINETO:
            mode = "" if self.graph_mode == "node" else f", {self.graph_mode} mode"
            return f"{self.form}, {_short(self.size)} kernels{mode}"
        source = (
            f"recorded {self.grown_from.name.split('.')[0]}" if self.grown_from else "simulated"
        )
        layout = "" if self.grown_from else f", {self.layout} layout"
        return f"{self.form}, {self.size:,.0f} MB, {source}{layout}"


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace that is there.

    Attributes:
        name: How tables call it.
        path: File or folder.
        form: SQLITE, PARQUETDIR or KINETO.
        kernels: How many it holds.
        megabytes: Its size.
        truth: The true answer by question, in nanoseconds; only totals for a recorded one.
        peers: Whether peers run on it.
    """

    name: str
    path: Path
    form: str
    kernels: int
    megabytes: float
    truth: dict[str, Totals]
    peers: bool = True


def _short(count: float) -> str:
    return f"{count / 1e6:g}M" if count >= 1e6 else f"{count / 1e3:g}k"


def made(wanted: Wanted, folder: Path) -> Trace:
    """The trace, made when the folder does not hold it yet."""
    stem = "".join(letter if letter.isalnum() else "_" for letter in wanted.name)
    path = folder / f"{stem}{_SUFFIXES[wanted.form]}"
    known = folder / f"{stem}.truth"
    if known.exists():
        kept = json.loads(known.read_text())
        return replace(Trace(**kept), path=path, peers=wanted.peers)
    kernels, truth = _WRITERS[wanted.form](wanted, path)
    trace = Trace(wanted.name, path, wanted.form, kernels, _megabytes(path), truth, wanted.peers)
    known.write_text(json.dumps({**asdict(trace), "path": str(path)}))
    return trace


def _megabytes(path: Path) -> float:
    files = path.iterdir() if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files) / 1e6


def _recording(wanted: Wanted, ranks: int, kernels: float) -> tuple[Recording, int]:
    """A server's recording of about so many kernels, and its cycles."""
    cycles = max(12, round(kernels / ranks / _KERNELS_A_CYCLE))
    settings = Eagle3Settings(
        ranks=ranks, cycles=cycles, graph_mode=wanted.graph_mode, graph_share=0.5
    )
    return eagle3_server(settings), cycles + 1


def _kernels(recording: Recording) -> int:
    return sum(op.kind == "kernel" for op in recording.ops)


def _times(truth: dict[str, Totals], copies: int) -> dict[str, Totals]:
    return {
        question: {name: ns * copies for name, ns in totals.items()}
        for question, totals in truth.items()
    }


def _write_export(wanted: Wanted, path: Path) -> tuple[int, dict[str, Totals]]:
    ranks = _RANKS if wanted.size >= _SMALLEST_OF_RANKS else 1
    recording, cycles = _recording(wanted, ranks, min(wanted.size, 100_000))
    copies = max(1, round(wanted.size / _kernels(recording)))
    small = path.with_name(f"small_{path.name}")
    flavour = FLAVOURS["2025.5" if wanted.graph_mode == "graph" else "2022.4"]
    write_nsys_sqlite(recording, small, flavour)
    if wanted.form == SQLITE:
        nsys_growth.grow_sqlite(small, path, copies, cycles)
    else:
        step = nsys_growth.step_of(small, cycles)
        tables = path.with_name(f"small_tables_{path.name}")
        write_nsys_parquetdir(recording, tables)
        nsys_growth.grow_parquetdir(tables, path, copies, step)
        for file in tables.iterdir():
            file.unlink()
        tables.rmdir()
    small.unlink()
    return _kernels(recording) * copies, _times(truths(recording), copies)


def _write_kineto(wanted: Wanted, path: Path) -> tuple[int, dict[str, Totals]]:
    if wanted.grown_from is not None:
        return _grow_recorded(wanted.grown_from, wanted.size, path)
    recording, cycles = _recording(wanted, 1, min(wanted.size * 500, 20_000))
    write_kineto(recording, path)
    text = kineto_growth.read_text(path)
    if wanted.layout != NATIVE:
        text = kineto_growth.relaid(text, wanted.layout)
    copies = kineto_growth.copies_for(text, wanted.size)
    kineto_growth.grow(text, path, copies, cycles)
    return _kernels(recording) * copies, _times(truths(recording), copies)


def _grow_recorded(source: Path, megabytes: float, path: Path) -> tuple[int, dict[str, Totals]]:
    """Kernels and their time are counted with the standard library."""
    text = kineto_growth.read_text(source)
    copies = kineto_growth.copies_for(text, megabytes)
    kineto_growth.grow(text, path, copies)
    rows = [row for row in json.loads(text, strict=False)["traceEvents"] if "dur" in row]
    work = [row for row in rows if str(row.get("cat", "")).lower() == "kernel"]
    kernel_ns = sum(row["dur"] for row in work) * 1000
    truth: dict[str, Totals] = {ANNOTATED: {EVERYTHING: kernel_ns}} if work else {}
    return len(work) * copies, _times(truth, copies)


_WRITERS: Final[dict[str, Callable[[Wanted, Path], tuple[int, dict[str, Totals]]]]] = {
    SQLITE: _write_export,
    PARQUETDIR: _write_export,
    KINETO: _write_kineto,
}

"""A small trace of the reference pipeline by Nsight Systems, for the sample traces.

The program runs unmodified under `traceanalyzer capture`, with an environment of its own that holds
nothing but what it needs, in a folder whose name tells nothing. What is kept is the export that the
analyzer made and trimmed, once other processes' names and the exporter's own paths are gone too.
"""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from nvtx_hooks import reference
from nvtx_hooks.installation import TARGETS_VARIABLE

if TYPE_CHECKING:
    from steady import Size

REPOSITORY = Path(__file__).resolve().parents[2]
LIMIT_S = 120
PROCESS_OF = "({0} / 0x1000000) * 0x1000000"
"""A globalTid without its thread: the globalPid (nsys documentation, "Common SQLite Examples")."""

THREADS = "ThreadNames"
TEXTS = {"nameId", "textId", "jsonTextId", "shortName", "demangledName", "mangledName"}
"""Columns that refer to StringIds."""

TELLING = ("%PATH%", "%FILE%", "%HOST%", "%USER%")
"""Names of export metadata that speak of the machine."""


def record(folder: Path, name: str, device: str, size: Size) -> tuple[Path, Path] | None:
    """Record, analyze and export a short run.

    Args:
        folder: Where the files go.
        name: Of the files, without their endings.
        device: "cpu" or "cuda".
        size: Of the pipeline.

    Returns:
        The export, and what the pipeline counted itself; None without nsys, or when it failed and
        has said why.
    """
    nsys = shutil.which("nsys")
    if nsys is None:
        print("nsys is not there: no trace of it is recorded")
        return None
    with TemporaryDirectory(prefix="run-") as scratch:
        counts = Path(scratch) / "counts.json"
        done = subprocess.run(
            [
                *(sys.executable, "-m", "traceanalyzer", "capture", "-o", "run.nsys-rep"),
                *(() if device == "cuda" else ("--no-cuda",)),
                "--",
                *(sys.executable, "-m", "nvtx_hooks.reference", "--device", device),
                *("--training-steps", str(size.training_steps), "--layers", str(size.layers)),
                *("--hidden-size", str(size.hidden_size), "--batch", str(size.batch)),
                *("--draft-tokens", str(size.draft_tokens), "--requests", str(size.batch)),
                *("--max-tokens", "12", "--json", str(counts)),
            ],
            cwd=scratch,
            env=_environment(Path(scratch), Path(nsys)),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        exports = sorted(Path(scratch).rglob("*.sqlite"))
        if done.returncode or len(exports) != 1:
            print(f"no trace by nsys: {(done.stderr or done.stdout).strip().splitlines()[-1]}")
            return None
        kept = folder / f"{name}.sqlite", folder / f"{name}.counts.json"
        scrub(exports[0])
        shutil.copyfile(exports[0], kept[0])
        shutil.copyfile(counts, kept[1])
    return kept


def _environment(home: Path, nsys: Path) -> dict[str, str]:
    return {
        "PATH": f"/usr/bin:/bin:{nsys.parent}",
        "HOME": str(home),
        "PYTHONPATH": str(REPOSITORY),
        TARGETS_VARIABLE: str(files(reference) / "hooks.toml"),
    }


def scrub(export: Path) -> None:
    """Take out of an nsys export what tells of the machine: processes, paths, host and user."""
    with closing(sqlite3.connect(export)) as database:
        columns = {
            table: [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
            for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
        tables = [name for name in columns if "globalTid" in columns[name] and name != THREADS]
        traced = _union(PROCESS_OF.format("globalTid"), tables)
        for statement in (
            f"DELETE FROM PROCESSES WHERE globalPid NOT IN ({traced})",
            f"DELETE FROM {THREADS} WHERE {PROCESS_OF.format('globalTid')} NOT IN ({traced})",
            "UPDATE PROCESSES SET name = 'python'",
        ):
            database.execute(statement)
        for table in columns.keys() & {"EXPORT_META_DATA", "META_DATA_EXPORT"}:
            for pattern in TELLING:
                database.execute(f'DELETE FROM "{table}" WHERE name LIKE ?', (pattern,))
        used = " UNION ".join(
            _union(name, [table]) for table in columns for name in columns[table] if name in TEXTS
        )
        database.execute(f"DELETE FROM StringIds WHERE id NOT IN ({used})")
        database.commit()
        database.execute("VACUUM")


def _union(value: str, tables: list[str]) -> str:
    """Every value of an expression in tables; a null would make any NOT IN false."""
    return " UNION ".join(
        f'SELECT {value} FROM "{table}" WHERE {value} IS NOT NULL' for table in tables
    )

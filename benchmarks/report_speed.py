"""CPU time and memory of `traceanalyzer report`, beside SQLite's own scan of the same columns.

Runs alternate, so that a drift of the machine's speed touches both. The trace is simulated.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

SCAN = """
import sqlite3, sys
database = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro&immutable=1", uri=True)
for table, columns in (
    ("CUPTI_ACTIVITY_KIND_KERNEL",
     "start end globalPid deviceId streamId correlationId graphNodeId demangledName"),
    ("CUPTI_ACTIVITY_KIND_RUNTIME", "start end globalTid correlationId nameId eventClass"),
    ("NVTX_EVENTS", "start end globalTid textId domainId"),
):
    totals = ", ".join(f'total("{column}")' for column in columns.split())
    database.execute(f"SELECT {totals} FROM {table}").fetchall()
"""


@dataclass(frozen=True)
class Run:
    """One finished process."""

    cpu_s: float
    wall_s: float
    peak_mb: float


def timed(command: list[str]) -> Run:
    """Run a command to its end and ask the system what it took."""
    before = os.times().elapsed
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} failed with {process.returncode}")
    return Run(usage.ru_utime + usage.ru_stime, os.times().elapsed - before, usage.ru_maxrss / 1024)


def grown(seed: Path, target: Path, kernels: int) -> int:
    """Repeat a small simulated trace in time until it holds enough kernels; returns how many."""
    shutil.copy(seed, target)
    with closing(sqlite3.connect(target)) as database:
        database.execute("PRAGMA synchronous = OFF")
        (have,) = database.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
        (span,) = database.execute("SELECT max(end) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()
        (ids,) = database.execute(
            "SELECT max(correlationId) FROM CUPTI_ACTIVITY_KIND_RUNTIME"
        ).fetchone()
        copies = -(-kernels // have)
        for table in ("KERNEL", "MEMCPY", "MEMSET", "RUNTIME", "SYNCHRONIZATION"):
            repeat(database, f"CUPTI_ACTIVITY_KIND_{table}", copies, span, ids)
        repeat(database, "NVTX_EVENTS", copies, span, ids)
        database.commit()
    return have * copies


def repeat(database: sqlite3.Connection, table: str, copies: int, span_ns: int, ids: int) -> None:
    """Append copies of a table's rows, each later in time and with fresh correlation ids."""
    columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
    if not columns:
        return
    shifted = {"start": "+ i.n * :span", "end": "+ i.n * :span", "correlationId": "+ i.n * :ids"}
    values = ", ".join(f't."{column}" {shifted.get(column, "")}' for column in columns)
    database.execute(
        f'INSERT INTO "{table}" WITH RECURSIVE i(n) AS '
        "(SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n + 1 < :copies) "
        f'SELECT {values} FROM i, (SELECT * FROM "{table}") t',
        {"span": span_ns + 1_000_000, "ids": ids + 1, "copies": copies},
    )


def median(runs: list[Run]) -> Run:
    """Each figure's median."""
    return Run(
        statistics.median(run.cpu_s for run in runs),
        statistics.median(run.wall_s for run in runs),
        statistics.median(run.peak_mb for run in runs),
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--trace", type=Path, help="an SQLite export to use instead")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trace = arguments.trace or Path(folder) / "grown.sqlite"
        if arguments.trace is None:
            small = Path(folder) / "small.sqlite"
            simulate = [sys.executable, "-m", "traceanalyzer.simulation", str(small)]
            subprocess.run([*simulate, "--preset", "server"], check=True, stdout=subprocess.DEVNULL)
            print(f"{grown(small, trace, arguments.kernels):,} kernels, simulated", end="; ")
        print(f"{trace.stat().st_size / 1e6:,.0f} MB of SQLite")
        report_runs, scan_runs = [], []
        for _ in range(arguments.runs + 1):  # the first of each warms the page cache
            report_runs.append(timed([sys.executable, "-m", "traceanalyzer", "report", str(trace)]))
            scan_runs.append(timed([sys.executable, "-c", SCAN, str(trace)]))
    versions = ", ".join(f"{name} {version(name)}" for name in ("polars", "numpy"))
    print(f"Python {platform.python_version()}, {versions}, {os.cpu_count()} CPUs")
    print(f"{'median of ' + str(arguments.runs):14} {'CPU s':>8} {'wall s':>8} {'peak MB':>8}")
    report, scan = median(report_runs[1:]), median(scan_runs[1:])
    for name, run in (("report", report), ("SQLite scan", scan)):
        print(f"{name:14} {run.cpu_s:8.2f} {run.wall_s:8.2f} {run.peak_mb:8.0f}")
    ratios = sorted(a.cpu_s / b.cpu_s for a, b in zip(report_runs[1:], scan_runs[1:], strict=True))
    print(
        f"CPU ratio report / scan: median {statistics.median(ratios):.1f} "
        f"({ratios[0]:.1f} to {ratios[-1]:.1f})"
    )
    print(f"CPU without the scan: {report.cpu_s - scan.cpu_s:.2f} s")


if __name__ == "__main__":
    main()

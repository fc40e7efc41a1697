"""What comes of bad input: every kind of it through the real command line, and the fuzzers' counts.

`python benchmarks/bad_input.py --kills` tries all, keeps what came of it in
results/bad_input.json, and writes docs/bad_input.md from there. `--kind` tries one kind anew.
Counts of fuzz runs come from files of what `python -m tests.fuzzing` printed: `--fuzzed FILE...`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.bad_input_runs import LIMIT_S, problem, run
from tests.fuzzing.running import RESULTS
from tests.hostile_inputs import ALL_KINDS as KINDS
from tests.kills import KILLED, moments_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.kills import Killed

PAGE = Path(__file__).resolve().parents[1] / "docs" / "bad_input.md"
FOUND = Path(__file__).resolve().parent / "results" / "bad_input.json"
_HEAD = f"""# What comes of bad input

Written by `python benchmarks/bad_input.py --kills`. Each input goes through the real command line
in a process of its own whose address space is bounded. Read means that a report came; refused means
exit code 2 with a message that says what is wrong. A total is wrong where the number of ops in the
report is not that of an independent count, or where the time of all kernels, or the busy time (the
union of GPU work on each process's GPU), is not what the standard library sums up event by event.
Times are summed in SQLite exports, and in torch traces of up to 64 MiB of text as far as they are
whole; not in folders and damaged databases. A hang is more than {LIMIT_S:.0f} s of processor time,
or minutes of waiting; CPU is the most that any of the kind took, all threads together, and memory
the peak of that process, Python and its libraries included.

| kind | tried | read | refused | tracebacks | hangs | wrong totals | not told | CPU, s | MiB |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"""
_KILLED_HEAD = """
## Killed

Ten `kill -9` each: five at moments spread over a whole run, five as soon as something unfinished
appears beside the final name. While writing means that the run left such a thing behind; damaged,
that something under a final name was not whole. Runs that were faster than the kill do not count:
another one is killed sooner.

| what was written | kills | while writing | damaged | next run |
|---|--:|--:|--:|---|"""
_FUZZ_HEAD = """
## Fuzzing

`python -m tests.fuzzing --seconds N --seed S` draws inputs, reads them in process, and recounts
with the standard library what they hold: a lie is a figure that differs. One export in four and
one trace in ten are analysed too.

| kind | seeds | cases | read | refused | crashes | hangs | lies |
|---|---|--:|--:|--:|--:|--:|--:|"""
_FOUND = """
## What these found

All but the last are held by tests.

- Times at the ends of int64, and rows longer than 13 days: sums ran over. Such rows are left out
  and counted.
- Virtual tables by a table's name were read; now only tables with pages of their own are.
- Gzip streams and parquet tables that unpack to far more than a recording were read to their end,
  and so was metadata of any length behind a trace's events.
- Rule files nested thousands deep, or with numbers of thousands of digits, ended in a traceback;
  so did an output behind a circle of links.
- A pattern of a user's rule that only looks like a named group, as in `[(?<batch>]+`, ended in a
  traceback once a range matched it.
- Pipes that nobody writes to, and devices without an end, were waited for wherever a file is named.
- Two million distinct range names took 30 s of processor time, as marks were looked up by text
  once a name. The table tells what they take now, on a machine that other work kept busy; the most
  of three tries there was 10.5, 11.4 and 12.1 s. About half of it is the reading of the export.
"""
PROBLEMS = ("traceback", "hang", "wrong total", "not told")


@dataclass
class Row:
    """What came of one kind."""

    tried: int = 0
    read: int = 0
    problems: dict[str, int] = field(default_factory=dict)
    most_cpu_s: float = 0.0
    most_mib: float = 0.0


def tried(kind: str, folder: Path) -> Row:
    """Try all inputs of a kind, and tell of those that went wrong."""
    row = Row()
    for bad in KINDS[kind](folder):
        done = run(bad)
        found = problem(bad, done)
        row.tried += 1
        print(
            f"{done.cpu_s:6.1f} s {done.peak_mib:6.0f} MiB {done.exit_code} {bad.arguments[:2]}",
            file=sys.stderr,
        )
        row.read += done.exit_code == 0
        row.most_cpu_s = max(row.most_cpu_s, done.cpu_s)
        row.most_mib = max(row.most_mib, done.peak_mib)
        if found:
            row.problems[found] = row.problems.get(found, 0) + 1
            said = done.stderr.decode(errors="replace")[-1500:]
            print(f"{kind}: {found} ({done.exit_code}): {bad}\n{said}", file=sys.stderr)
    return row


def in_a_folder(kind: str) -> Row:
    """Try a kind in a folder that goes away."""
    with tempfile.TemporaryDirectory(prefix="traceanalyzer-bad-") as folder:
        Path(folder).chmod(0o755)
        return tried(kind, Path(folder))


def page(found: dict[str, Any]) -> str:
    """The page's text.

    Args:
        found: As in `FOUND`: rows by kind, kills by what was written, fuzz counts by kind.
    """
    lines = [_HEAD]
    for kind in KINDS:
        row = Row(**found["kinds"][kind])
        problems = (row.problems.get(each, 0) for each in PROBLEMS)
        cells = " | ".join(map(str, (row.tried, row.read, row.tried - row.read, *problems)))
        lines.append(f"| {kind} | {cells} | {row.most_cpu_s:.1f} | {row.most_mib:,.0f} |")
    lines.append(_KILLED_HEAD)
    for what, kills in found["killed"].items():
        cells = " | ".join(str(kills[each]) for each in ("kills", "while_writing", "damaged"))
        lines.append(f"| {what} | {cells} | {kills['next_run']} |")
    return "\n".join([*lines, *fuzz_lines(found["fuzzed"])]) + "\n" + _FOUND


def fuzz_counts(files: Sequence[Path]) -> dict[str, Any]:
    """Seeds and results by kind, from what fuzz runs printed."""
    counts: dict[str, Any] = {}
    for run_counts in (json.loads(line) for path in files for line in path.open()):
        own = counts.setdefault(run_counts["kind"], dict.fromkeys(RESULTS, 0) | {"seeds": []})
        own["seeds"].append(run_counts["seed"])
        for result in RESULTS:
            own[result] += run_counts[result]
    return counts


def fuzz_lines(counts: dict[str, Any]) -> list[str]:
    """The table of fuzz runs."""
    lines = [_FUZZ_HEAD]
    total = 0
    for kind, own in sorted(counts.items()):
        cases = sum(own[result] for result in RESULTS)
        total += cases
        seeds = ", ".join(map(str, own["seeds"]))
        cells = " | ".join(f"{own[result]:,}" for result in RESULTS)
        lines.append(f"| {kind} | {seeds} | {cases:,} | {cells} |")
    return [*lines, "", f"{total:,} cases in all."] if counts else []


def main() -> None:
    """Try everything, or some kinds, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="only these")
    parser.add_argument("--no-kinds", action="store_true", help="keep what is known of all kinds")
    parser.add_argument("--kills", action="store_true", help="kill runs, too")
    parser.add_argument("--fuzzed", nargs="*", type=Path, default=[], help="replace the counts")
    parser.add_argument("--jobs", type=int, default=2, help="how much is tried at a time")
    options = parser.parse_args()
    kinds = [] if options.no_kinds else options.kind or list(KINDS)
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        for kind, row in zip(kinds, pool.map(in_a_folder, kinds), strict=True):
            print(kind, row, flush=True)
            keep(("kinds", kind), asdict(row))
        whats = list(KILLED) if options.kills else []
        for what, killed in zip(whats, pool.map(kills_of, whats), strict=True):
            print(what, killed, flush=True)
            keep(("killed", what), asdict(killed))
    for kind, counts in fuzz_counts(options.fuzzed).items():
        keep(("fuzzed", kind), counts)
    found = json.loads(FOUND.read_text())
    if found["kinds"].keys() == KINDS.keys():
        PAGE.write_text(page(found))
    sys.exit(int(any(row["problems"] for row in found["kinds"].values())))


def keep(place: tuple[str, str], value: object) -> None:
    """Put one result where the page is written from."""
    found = json.loads(FOUND.read_text())
    found[place[0]][place[1]] = value
    ordered = {kind: found["kinds"][kind] for kind in KINDS if kind in found["kinds"]}
    FOUND.write_text(json.dumps(found | {"kinds": ordered}, indent=1) + "\n")


def kills_of(what: str) -> Killed:
    """Kill runs, ten times, in a folder that goes away."""
    with tempfile.TemporaryDirectory(prefix="traceanalyzer-killed-") as folder:
        return KILLED[what](Path(folder), moments_of(seed=9, count=10))


if __name__ == "__main__":
    main()

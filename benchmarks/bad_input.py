"""What comes of bad input: every kind of it through the real command line, and the fuzzers' counts.

`python benchmarks/bad_input.py` writes docs/bad_input.md. Counts of fuzz runs are added from
files of what `python -m tests.fuzzing` printed: `--fuzzed FILE...`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.bad_input_runs import LIMIT_S, problem, run
from tests.bad_inputs import KINDS
from tests.fuzzing.running import RESULTS

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE = Path(__file__).resolve().parents[1] / "docs" / "bad_input.md"
_HEAD = f"""# What comes of bad input

Written by `python benchmarks/bad_input.py`. Each input goes through the real command line in a
process of its own whose address space is bounded. Read means that a report came, with the number
of ops that an independent count gives; refused means exit code 2 with a message that says what is
wrong. A hang is more than {LIMIT_S:.0f} s; CPU is processor time on two cores, and memory the peak
of that process, Python and its libraries included.

| kind | tried | read | refused | tracebacks | hangs | wrong totals | not told | CPU, s | MiB |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"""
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
- Two million distinct range names took 30 s of processor time, as marks were looked up by text
  once a name. The table tells what they take now.
"""
PROBLEMS = ("traceback", "hang", "wrong total", "not told")


@dataclass
class Row:
    """What came of one kind."""

    tried: int = 0
    read: int = 0
    problems: Counter[str] = field(default_factory=Counter)
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
            row.problems[found] += 1
            said = done.stderr.decode(errors="replace")[-1500:]
            print(f"{kind}: {found} ({done.exit_code}): {bad}\n{said}", file=sys.stderr)
    return row


def page(rows: dict[str, Row], fuzzed: Sequence[Path]) -> str:
    """The page's text."""
    lines = [_HEAD]
    for kind, row in rows.items():
        counts = (row.tried, row.read, row.tried - row.read, *(row.problems[it] for it in PROBLEMS))
        cells = " | ".join(f"{count}" for count in counts)
        lines.append(f"| {kind} | {cells} | {row.most_cpu_s:.1f} | {row.most_mib:,.0f} |")
    return "\n".join([*lines, *fuzz_lines(fuzzed)]) + "\n" + _FOUND


def fuzz_lines(files: Sequence[Path]) -> list[str]:
    """The table of fuzz runs."""
    runs = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    totals: dict[str, Counter[str]] = {}
    for counts in runs:
        own = totals.setdefault(counts["kind"], Counter())
        own.update({result: counts[result] for result in RESULTS})
    lines = [_FUZZ_HEAD]
    for kind, own in sorted(totals.items()):
        seeds = ", ".join(str(counts["seed"]) for counts in runs if counts["kind"] == kind)
        cells = " | ".join(f"{own[result]:,}" for result in RESULTS)
        lines.append(f"| {kind} | {seeds} | {own.total():,} | {cells} |")
    cases = sum(own.total() for own in totals.values())
    return [*lines, "", f"{cases:,} cases in all."] if runs else []


def main() -> None:
    """Try everything, or some kinds, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="only these; no page")
    parser.add_argument("--fuzzed", nargs="*", type=Path, default=[])
    options = parser.parse_args()
    rows = {}
    for kind in options.kind or KINDS:
        with tempfile.TemporaryDirectory(prefix="traceanalyzer-bad-") as folder:
            Path(folder).chmod(0o755)
            rows[kind] = tried(kind, Path(folder))
        print(kind, rows[kind], flush=True)
    if not options.kind:
        PAGE.write_text(page(rows, options.fuzzed))
    sys.exit(int(any(row.problems for row in rows.values())))


if __name__ == "__main__":
    main()

"""Real engines under `traceanalyzer capture`, with hooks on: does the trace tell what they count?

Prints one line an engine and exits 1 when a figure differs. Needs nsys, and a registry the first
time; a GPU it does not need.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from cases import CASES, SETTINGS, Case
from comparison import Figure, Traced, compare, read
from environments import REPOSITORY, Place, prepare, versions

from traceanalyzer.capture.outcome import recorded_file
from traceanalyzer.importers.nsys_command import candidates

LIMIT_S = 900
COLUMNS = (
    "| engine | ranges: draft, verify, draft_extend | rows | stale | accepted drafts, live "
    "| up to the end | figures equal to the engine's own | |"
)


@dataclass(frozen=True)
class Outcome:
    """What a case came to."""

    case: Case
    traced: Traced
    figures: list[Figure]

    @property
    def agrees(self) -> bool:
        """Whether every figure does."""
        return all(figure.agrees for figure in self.figures)

    def row(self) -> str:
        """One line of the table."""
        acceptance, ranges = self.traced.acceptance, self.traced.ranges
        counts = ", ".join(str(ranges[name]) for name in ("draft", "verify", "draft_extend"))
        equal = ", ".join(
            f"{figure.name} {_short(figure.engine)}" for figure in self.figures if figure.agrees
        )
        return (
            f"| {self.case.name} | {counts} | {acceptance.request_cycles} "
            f"| {acceptance.stale_request_cycles} | {acceptance.live_accepted_drafts_histogram} "
            f"| {self.traced.committed} | {equal} | {'OK' if self.agrees else 'DIFFERS'} |"
        )


def _short(value: object) -> str:
    if isinstance(value, list) and len(value) > 6:
        return f"({len(value)} values)"
    return str(value)


def run(case: Case, place: Place, folder: Path) -> Outcome:
    """Record an engine and compare.

    Raises:
        SystemExit: The engine told nothing; its log says why.
    """
    folder.mkdir(parents=True, exist_ok=True)
    report, figures = folder / f"{case.name}.nsys-rep", folder / f"{case.name}.json"
    figures.unlink(missing_ok=True)
    log = folder / f"{case.name}.log"
    capture = [sys.executable, "-m", "traceanalyzer", "capture", "--no-cuda", "-o", str(report)]
    capture += ["--window", f"until:{figures}", "--"]
    command = [*capture, *case.command(place.python, figures, place.models)]
    with log.open("wb") as output:
        _wait(
            subprocess.Popen(
                command,
                cwd=REPOSITORY,
                env=_environment(case, place),
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        )
    if not figures.exists():
        raise SystemExit(f"{case.name} told no figures; see {log}")
    traced = read(recorded_file(report))
    return Outcome(case, traced, compare(case, traced, figures, log.read_text(errors="replace")))


def _wait(capture: subprocess.Popen[bytes]) -> None:
    """Wait for a recording; when it takes too long, end it as Ctrl-C does, its engine with it."""
    try:
        capture.wait(LIMIT_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt) as reason:
        capture.send_signal(signal.SIGINT)
        capture.wait()
        if isinstance(reason, KeyboardInterrupt):
            raise


def _environment(case: Case, place: Place) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if SETTINGS[case.setting].versions:
        kept["PYTHONPATH"] = str(place.source(case.version))
    return {**kept, **case.variables}


def main() -> int:
    """Run the cases that are named, or all."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("cases", nargs="*", help=f"any of {', '.join(CASES)}")
    options.add_argument("--folder", type=Path, default=REPOSITORY / "build" / "engine_check")
    options.add_argument("--keep-hooks", action="store_true", help="do not install the hooks again")
    chosen = options.parse_args()
    unknown = set(chosen.cases) - set(CASES)
    if unknown:
        options.error(f"no such case: {', '.join(sorted(unknown))}")
    cases = [CASES[name] for name in chosen.cases] or list(CASES.values())
    nsys = next(candidates(None), None)
    if nsys is None:
        raise SystemExit("engine-check needs nsys: install Nsight Systems")
    root = chosen.folder.absolute()
    needed = dict.fromkeys(case.setting for case in cases)
    places = {
        name: prepare(SETTINGS[name], root, refresh_hooks=not chosen.keep_hooks) for name in needed
    }
    print(f"{date.today()}, nsys {nsys.release}, Python {platform.python_version()}")
    for name, place in places.items():
        print(f"- {name}: {versions(place)}")
    print("", COLUMNS, "|---|---|---|---|---|---|---|---|", sep="\n", flush=True)
    agree = True
    for case in cases:
        begun = time.monotonic()
        outcome = run(case, places[case.setting], root / "runs")
        print(outcome.row(), flush=True)
        for figure in outcome.figures:
            if not figure.agrees:
                print(f"  {figure.name}: engine {figure.engine}, trace {figure.trace}", flush=True)
        print(f"{case.name}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
        agree &= outcome.agrees
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())

"""What a timeline page of a million spans costs: to make, to keep, to open, and to move in.

The trace is simulated. CPU is counted, not time: that of this process while the page is made, and
that of the page's main thread in a headless Chromium, as its own trace clock tells it.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceanalyzer.analyses.timeline_lanes.choice import within_limit
from traceanalyzer.assembly.timeline import whole_timeline
from traceanalyzer.importers import load
from traceanalyzer.phases.rules import Rules
from traceanalyzer.renderers.html.timeline_page import timeline_page

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession, Page

RESULTS = Path(__file__).parent / "results" / "timeline_page.md"
CHROMIUM = "/usr/bin/chromium"
ZOOMS = (1, 4, 30, 1_000, 20_000, 1_000_000)
STEPS = 8


@dataclass(frozen=True)
class Made:
    """How the page came about."""

    spans: int
    load_s: float
    lanes_s: float
    page_s: float
    size: int


def simulated(folder: Path, cycles: int) -> Path:
    """A trace of two ranks in which no two cycles take the same time."""
    trace = folder / "simulated.sqlite"
    simulate = [sys.executable, "-m", "traceanalyzer.simulation", str(trace)]
    choices = ["--preset", "server", "--cycles", str(cycles)]
    subprocess.run([*simulate, *choices], check=True, stdout=subprocess.DEVNULL)
    return trace


def make(trace_file: Path, page_file: Path) -> Made:
    """Write the page and count the CPU of each step."""
    marks = [time.process_time()]
    trace = load([trace_file])
    marks.append(time.process_time())
    lanes = within_limit(whole_timeline(trace, Rules.shipped()), 10_000_000)
    marks.append(time.process_time())
    page_file.write_bytes(timeline_page(lanes, ["simulated.sqlite"]).encode())
    marks.append(time.process_time())
    spent = [after - before for before, after in pairwise(marks)]
    return Made(lanes.spans.size, *spent, page_file.stat().st_size)


def cpu_ms(session: CDPSession) -> float:
    """CPU of the page's main thread until now."""
    found = session.send("Performance.getMetrics")["metrics"]
    return 1000 * next(each["value"] for each in found if each["name"] == "TaskDuration")


def wait_ready(page: Page) -> None:
    """Wait without letting the page spend anything on it."""
    while not page.evaluate("typeof timelinePage === 'object' && timelinePage.ready"):
        time.sleep(0.2)


def steps_at(page: Page, session: CDPSession, zoom: int) -> float:
    """Mean CPU of a step (half zooms, half pans) at a zoom, ms."""
    page.evaluate(
        """zoom => {
          const { timeline } = timelinePage;
          const { end } = timeline.store;
          timeline.show(end * 0.5 - end / zoom / 2, end * 0.5 + end / zoom / 2);
        }""",
        zoom,
    )
    page.wait_for_timeout(150)
    before = cpu_ms(session)
    page.evaluate(
        """async steps => {
          const { timeline } = timelinePage;
          const frame = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)));
          for (let i = 0; i < steps; i++) {
            if (i % 2) timeline.pan(i % 4 === 1 ? 0.1 : -0.1);
            else timeline.zoomAt(700, i % 4 ? 1.1 : 1 / 1.1);
            await frame();
          }
        }""",
        STEPS,
    )
    return (cpu_ms(session) - before) / STEPS


def opened(page_file: Path, runs: int) -> tuple[list[float], dict[int, float], dict[str, float]]:
    """CPU to open in each run; CPU a step by zoom, and of single actions, in the last."""
    from playwright.sync_api import sync_playwright

    opens: list[float] = []
    steps: dict[int, float] = {}
    actions: dict[str, float] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for run in range(runs):
            page = browser.new_page(viewport={"width": 1600, "height": 1000})
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable", {"timeDomain": "threadTicks"})
            before = cpu_ms(session)
            page.goto(page_file.as_uri())
            wait_ready(page)
            opens.append(cpu_ms(session) - before)
            if run == runs - 1:
                steps = {zoom: steps_at(page, session, zoom) for zoom in ZOOMS}
                actions = {what: action(page, session, code) for what, code in ACTIONS.items()}
            page.close()
        browser.close()
    return opens, steps, actions


ACTIONS = {
    "search in all names, hits drawn": "timelinePage.timeline.find('gemm')",
    "totals of 1 % of the trace": (
        "timelinePage.timeline.find(''); timelinePage.timeline.setRegion("
        "timelinePage.store.end * 0.4, timelinePage.store.end * 0.41)"
    ),
    "totals of the whole trace": "timelinePage.timeline.setRegion(0, timelinePage.store.end)",
}


def action(page: Page, session: CDPSession, code: str) -> float:
    """CPU of one action and its frame, ms."""
    before = cpu_ms(session)
    page.evaluate(code)
    page.wait_for_timeout(100)
    return cpu_ms(session) - before


def report(made: Made, found: tuple[list[float], dict[int, float], dict[str, float]]) -> str:
    """The result as Markdown."""
    opens, steps, actions = found
    rows: list[tuple[str, Any]] = [
        ("spans", f"{made.spans:,}"),
        ("reading the trace, CPU s", f"{made.load_s:.2f}"),
        ("analysis and lanes, CPU s", f"{made.lanes_s:.2f}"),
        ("page from lanes, CPU s", f"{made.page_s:.2f}"),
        ("size, MB", f"{made.size / 1e6:.2f}"),
        ("bytes a span", f"{made.size / made.spans:.2f}"),
        (
            f"opening, main-thread CPU ms (median of {len(opens)})",
            f"{statistics.median(opens):.0f} ({min(opens):.0f} to {max(opens):.0f})",
        ),
        *(
            (f"a zoom or pan step, CPU ms, at 1:{zoom:,}", f"{cost:.1f}")
            for zoom, cost in steps.items()
        ),
        *((f"{what}, CPU ms", f"{cost:.0f}") for what, cost in actions.items()),
    ]
    lines = "\n".join(f"| {what} | {figure} |" for what, figure in rows)
    return (
        "# The timeline page\n\nWritten by `python benchmarks/timeline_page.py`; the trace is "
        "simulated.\n\n"
        f"Python {platform.python_version()}, numpy {version('numpy')}, {chromium_version()}, "
        f"headless, drawing without a GPU; {os.cpu_count()} CPUs ({cpu_model()}), 1600 x 1000 "
        "pixels.\n\n"
        f"| what | figure |\n|---|---:|\n{lines}\n"
    )


def chromium_version() -> str:
    """Name and version of the browser."""
    done = subprocess.run(
        [CHROMIUM, "--version"], capture_output=True, text=True, check=True, timeout=60
    )
    return " ".join(done.stdout.split()[:2])


def cpu_model() -> str:
    """What /proc/cpuinfo calls the processor."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"


def main() -> None:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=2_060)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--print-only", action="store_true", help="leave the results file alone")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        page_file = folder / "timeline.html"
        made = make(simulated(folder, arguments.cycles), page_file)
        text = report(made, opened(page_file, arguments.runs))
    print(text)
    if not arguments.print_only:
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()

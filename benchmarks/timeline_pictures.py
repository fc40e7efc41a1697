"""Pictures of the timeline page, for the README and for the eye of whoever changes it.

The trace is simulated and always the same, and so are the pictures on one machine; fonts differ
between machines.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
CHROMIUM = "/usr/bin/chromium"

OPEN_CYCLE: Final = "timelinePage.cycles.open(timelinePage.cycles.facts[30]);"
MARK_REGION: Final = """{
  const { timeline, cycles } = timelinePage;
  const { start, period } = cycles.facts[30];
  timeline.select(null);
  timeline.setRegion(Math.round(start + 0.845 * period), Math.round(start + period));
}"""
FOLLOW_LAUNCH: Final = """{
  const { timeline, store } = timelinePage;
  const launches = store.lanes.find(lane => lane.kind === "graph launches");
  const row = launches.firstEnding(timelinePage.cycles.facts[30].end - 3e6);
  timeline.select(launches, row);
  timeline.show(launches.start[row] - 2e4, launches.start[row] + 8e4);
}"""


@dataclass(frozen=True)
class Picture:
    """What to do with the page before it is taken, and which part of it."""

    code: str
    element: str | None = None
    colours: Literal["light", "dark"] = "light"


PICTURES: Final = {
    "timeline": Picture(OPEN_CYCLE + MARK_REGION, ".work"),
    "cycle_strip": Picture(
        "document.getElementById('strip-density').value = 'compact'; timelinePage.strip.arrange();",
        "#strip",
    ),
    "whole_trace": Picture(""),
    "a_tenth_of_a_millisecond": Picture(FOLLOW_LAUNCH),
    "dark": Picture(OPEN_CYCLE, colours="dark"),
}


def timeline_of_simulated(folder: Path) -> Path:
    """A page of 180 simulated cycles."""
    trace, page = folder / "simulated.sqlite", folder / "timeline.html"
    simulate = [sys.executable, "-m", "traceanalyzer.simulation", str(trace), "--cycles", "180"]
    draw = [sys.executable, "-m", "traceanalyzer", "timeline", str(trace), "-o", str(page)]
    for command in (simulate, draw):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return page


def take(browser: Browser, page_file: Path, picture: Picture, target: Path) -> None:
    """Open the page afresh, prepare it, and write the picture."""
    page = browser.new_page(viewport={"width": 1500, "height": 1080}, color_scheme=picture.colours)
    page.goto(page_file.as_uri())
    while not page.evaluate("timelinePage.ready"):
        time.sleep(0.05)
    page.evaluate(f"() => {{ {picture.code} }}")
    page.wait_for_timeout(300)
    if picture.element:
        page.locator(picture.element).screenshot(path=target)
    else:
        page.screenshot(path=target)
    page.close()


def main() -> None:
    """Take the pictures that are asked for."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["timeline", "cycle_strip"])
    parser.add_argument("--folder", type=Path, default=FOLDER)
    arguments = parser.parse_args()
    names = list(PICTURES) if arguments.names == ["all"] else arguments.names
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        page_file = timeline_of_simulated(Path(name))
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for each in names:
            take(browser, page_file, PICTURES[each], arguments.folder / f"{each}.png")
        browser.close()


if __name__ == "__main__":
    main()

"""One browser and one timeline page for all tests of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.harness import SAMPLE_TRACES
from tests.renderers.html.browsers import Opened, chromium, opened
from tests.renderers.html.looking import READY, crowded, hostile, written
from traceanalyzer.assembly.timeline import whole_timeline
from traceanalyzer.importers import load
from traceanalyzer.phases.phased import PhasedTrace, settle_phases
from traceanalyzer.phases.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import BrowserContext

    from traceanalyzer.analyses.timeline_lanes.model import TimelineLanes
    from traceanalyzer.trace import Trace


@pytest.fixture(scope="session")
def trace() -> Trace:
    return crowded(hostile(load([SAMPLE_TRACES / "eagle3_tp2_nodes.sqlite"])))


@pytest.fixture(scope="session")
def phased(trace: Trace) -> PhasedTrace:
    return settle_phases(trace, Rules.shipped())


@pytest.fixture(scope="session")
def lanes(trace: Trace) -> TimelineLanes:
    return whole_timeline(trace, Rules.shipped())


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    with chromium(tmp_path_factory.mktemp("profile")) as context:
        yield context


@pytest.fixture(scope="session")
def shared_page(
    browser: BrowserContext, lanes: TimelineLanes, tmp_path_factory: pytest.TempPathFactory
) -> Opened:
    return opened(browser, written(lanes, tmp_path_factory.mktemp("page")), READY)


@pytest.fixture
def page(shared_page: Opened) -> Iterator[Opened]:
    """The one page, as it was when it opened; nothing may have gone wrong in it."""
    shared_page.js(
        """() => {
          const { timeline } = timelinePage;
          document.getElementById("search").value = "";
          timeline.find("");
          timeline.select(null);
          timeline.setRegion(null);
          timeline.setMarks([]);
          timeline.arrange(layout => {
            layout.pinned.clear(); layout.collapsed.clear(); layout.arrange();
          });
          timeline.scrollTo(0);
          timeline.showAll();
          timeline.past = [];
          theme.set("light");
          document.getElementById("timeline").focus();
        }"""
    )
    shared_page.settle()
    yield shared_page
    assert shared_page.complaints == []
    assert all(url.startswith("file:") for url in shared_page.requests)
    assert len(shared_page.requests) == 1

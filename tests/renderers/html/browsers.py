"""A real Chromium for tests: what it says on its console and whatever it asks for is kept.

Under the pages' policy `wait_for_function` would itself be refused; tests poll with `evaluate`.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.harness import real_chromium

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import BrowserContext, Page

_PATIENCE_S = 60
_ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--force-device-scale-factor=1")


@dataclass
class Opened:
    """A page that is open, and what went on in it."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def js(self, code: str, argument: Any = None) -> Any:
        """The value of an expression, or of a function called with an argument."""
        return self.page.evaluate(code, argument)

    def wait_for(self, code: str) -> None:
        """Wait until an expression holds."""
        deadline = time.monotonic() + _PATIENCE_S
        while not self.js(code):
            assert time.monotonic() < deadline, f"never true: {code}; {self.complaints}"
            time.sleep(0.01)

    def settle(self) -> None:
        """Wait for the frame that shows the latest change."""
        self.js("() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)))")


@contextmanager
def chromium(profile: Path) -> Iterator[BrowserContext]:
    """A browser without network, closed in the end."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile,
            executable_path=real_chromium(),
            headless=True,
            args=list(_ARGUMENTS),
            offline=True,
            viewport={"width": 1400, "height": 1000},
        )
        yield context
        context.close()


def opened(context: BrowserContext, file: Path, ready: str, fragment: str = "") -> Opened:
    """Open a file in a new tab and wait until it is ready."""
    found = Opened(context.new_page())
    page = found.page
    page.on("console", lambda message: found.complaints.append(message.text))
    page.on("pageerror", lambda error: found.complaints.append(str(error)))
    page.on("request", lambda request: found.requests.append(request.url))
    page.goto(file.as_uri() + fragment)
    found.wait_for(ready)
    return found

"""The plotly.js in a page is the one that the installed plotly draws for."""

from __future__ import annotations

import os
from importlib import resources

import plotly.offline
import pytest

from traceanalyzer.renderers.html.plotly_source import plotly_source, shipped_bundle

VENDOR = resources.files("traceanalyzer.renderers.html") / "vendor"
VERSION = plotly.offline.get_plotlyjs_version()


def shipped_versions() -> list[str]:
    return [
        each.name.removeprefix("plotly-cartesian-").removesuffix(".min.js.gz")
        for each in VENDOR.iterdir()
        if each.name.endswith(".gz")
    ]


def test_the_shipped_bundle_is_the_one_of_the_installed_plotly() -> None:
    if shipped_versions() != [VERSION] and "TRACEANALYZER_REQUIRE" not in os.environ:
        pytest.skip(f"plotly.js {VERSION} is installed: its full bundle is used")
    assert shipped_versions() == [VERSION]
    assert plotly_source() == shipped_bundle(VERSION)


@pytest.mark.parametrize("version", shipped_versions())
def test_it_says_itself_which_version_it_is(version: str) -> None:
    bundle = shipped_bundle(version)
    assert bundle is not None
    assert f"plotly.js (cartesian - minified) v{version}" in bundle[:200]
    assert "MIT License" in (VENDOR / "plotly-cartesian.LICENSE").read_text(encoding="utf-8")


def test_another_version_brings_its_own_full_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plotly.offline, "get_plotlyjs_version", lambda: "0.0.1")
    assert plotly_source() == plotly.offline.get_plotlyjs()

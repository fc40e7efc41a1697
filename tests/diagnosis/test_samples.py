"""Every finding has a broken sample that raises it and nothing else, and a sound twin."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.harness import SAMPLE_TRACES
from traceanalyzer import analyze, load
from traceanalyzer.diagnosis.recording import secrets_stored
from traceanalyzer.diagnosis.registry import FINDINGS
from traceanalyzer.importers.nsys_environment import stored_environment
from traceanalyzer.simulation.troubles import BROKEN, HEALTHY

if TYPE_CHECKING:
    from traceanalyzer.report import Finding, Report

TWINS = {sample.name for sample in HEALTHY}


@cache
def report(name: str) -> Report:
    return analyze(load(SAMPLE_TRACES / name))


@cache
def findings(name: str) -> tuple[Finding, ...]:
    secret = secrets_stored(stored_environment(SAMPLE_TRACES / name).variables)
    return (*report(name).findings, *([secret] if secret else []))


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.finding)
def test_a_broken_sample_raises_exactly_its_finding(broken) -> None:
    (found,) = findings(broken.sample.name)
    assert found.finding == broken.finding
    assert found.severity in ("error", "warning", "info")
    for text in (found.text, found.evidence, found.consequence, found.next_step):
        assert text
    assert any(character.isdigit() for character in found.text + found.evidence) or (
        found.finding in ("truncated", "buffers_lost", "secrets_stored", "ranges_left_open")
    )


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.finding)
def test_its_twin_raises_none(broken) -> None:
    assert broken.twin in TWINS
    assert findings(broken.twin) == ()


def test_every_finding_has_a_broken_sample() -> None:
    names = {each.__name__ for each in (*FINDINGS, secrets_stored)}
    assert sorted(names) == sorted(broken.finding for broken in BROKEN)


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("nvtx_too_new", "failed"),
        ("captured_not_replayed", "failed"),
        ("ranges_left_open", "failed"),
        ("launches_without_kernels", "warning"),
        ("clocks_not_aligned", "warning"),
        ("profiler_overhead", "warning"),
        ("lag_over_a_cycle", None),
    ],
)
def test_the_report_shows_what_its_reader_has_to_know(name: str, check: str | None) -> None:
    rows = {row.check: row.status for row in report(f"broken/{name}.sqlite").trust}
    assert rows.get(name.replace("_", " ")) == check


_ABOUT_A_FIGURE_THAT_IS_ABSENT = frozenset({"accept_marks_missing"})
_ABOUT_SHARING_THE_FILE = frozenset({"secrets_stored"})


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.finding)
def test_what_matters_stands_in_the_trust_table_too(broken) -> None:
    """Each error and warning adds a row, or changes one, that its twin does not have so."""
    doubted, sound = (
        {
            (row.check, row.status)
            for row in report(name).trust
            if row.status in ("failed", "warning")
        }
        for name in (broken.sample.name, broken.twin)
    )
    (found,) = findings(broken.sample.name)
    silent = _ABOUT_A_FIGURE_THAT_IS_ABSENT | _ABOUT_SHARING_THE_FILE
    if found.severity != "info" and found.finding not in silent:
        assert doubted - sound
    else:
        assert found.finding in silent | {"kernels_without_launches", "lag_over_a_cycle"}

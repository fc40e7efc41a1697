"""The real sample traces tell what the recorded program counted itself."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.harness import SAMPLE_TRACES
from traceanalyzer.importers import load
from traceanalyzer.pipeline import analyze

if TYPE_CHECKING:
    from pathlib import Path

RECORDED = {
    "reference_cpu_nsys": SAMPLE_TRACES / "reference_cpu_nsys.sqlite",
    "reference_cpu_torch": SAMPLE_TRACES / "reference_cpu_torch.json.gz",
}


@pytest.mark.parametrize(("stem", "path"), RECORDED.items())
def test_a_recorded_sample_tells_what_the_program_counted(stem: str, path: Path) -> None:
    counted = json.loads((SAMPLE_TRACES / f"{stem}.counts.json").read_text(encoding="utf-8"))
    report = analyze(load(path))
    assert report.acceptance is not None
    totals = counted["totals"]
    assert report.acceptance.live_accepted_drafts_histogram == totals["accepted_histogram"]
    assert report.acceptance.committed_tokens == totals["committed"]
    assert report.acceptance.accept_len == totals["accept_len"]
    assert sum(bucket.cycles for bucket in report.buckets) == sum(
        rank.cycles.kept for rank in report.ranks
    )


@pytest.mark.parametrize(("stem", "path"), RECORDED.items())
def test_every_call_of_the_program_is_a_range(stem: str, path: Path) -> None:
    counted = json.loads((SAMPLE_TRACES / f"{stem}.counts.json").read_text(encoding="utf-8"))
    calls: Counter[str] = Counter()
    for replica in counted["replicas"]:
        calls.update(replica["calls"])
    trace = load(path)
    texts = trace.ranges.select(trace.text("name")).to_series().to_list()
    found = Counter(text.split(":")[1] if ":" in text else text for text in texts)
    assert {name: found[name] for name in calls} == dict(calls)


@pytest.mark.parametrize("path", RECORDED.values())
def test_a_recorded_sample_tells_nothing_of_the_machine(path: Path) -> None:
    trace = load(path)
    texts = [*trace.names["text"], *trace.processes["name"].drop_nulls()]
    assert not [text for text in texts if "/" in text or "@" in text]

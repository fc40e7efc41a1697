"""The blind trial at a small size, and its counting against cases worked out by hand."""

from __future__ import annotations

import importlib
import math
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.harness import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import SimpleNamespace

FOLDER = REPOSITORY / "benchmarks" / "blind_trial"
SEED, WORLDS = 9_001, 6
LEAST_SHARE = 0.9
"""Of the intervals of so few worlds; five hundred must hold the truth in 93 %."""


@pytest.fixture(scope="module")
def trial() -> Iterator[SimpleNamespace]:
    """The trial's modules, which are no package; their plain names are gone afterwards."""
    import types

    before = set(sys.modules)
    sys.path.insert(0, str(FOLDER))
    try:
        names = ("records", "recording", "refusals", "screen", "summary", "run")
        yield types.SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    finally:
        sys.path.remove(str(FOLDER))
        for name in set(sys.modules) - before:
            if "." not in name and (FOLDER / f"{name}.py").exists():
                del sys.modules[name]


@pytest.fixture(scope="module")
def tried(trial: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Some worlds, and the table of them."""
    folder = tmp_path_factory.mktemp("blind")
    assert trial.run.main(options(folder, WORLDS)) == 0
    worlds = list(trial.run.kept_worlds(folder / "kept.jsonl"))
    return folder, sorted(worlds, key=lambda world: world.seed)


def options(folder: Path, worlds: int) -> list[str]:
    kept, table = str(folder / "kept.jsonl"), str(folder / "table.md")
    return ["--worlds", str(worlds), "--seed", str(SEED), "--kept", kept, "-o", table]


def test_intervals_hold_the_truth_or_the_tool_says_that_they_do_not(
    trial: SimpleNamespace, tried: Any
) -> None:
    _, worlds = tried
    assert [world.seed for world in worlds] == list(range(SEED, SEED + WORLDS))
    row = trial.summary.row_of(trial.summary.cases_of(worlds, trial.recording.GRAPH))
    assert row.intervals > 10 * WORLDS / 2
    assert row.served >= LEAST_SHARE * row.intervals
    assert row.twin >= LEAST_SHARE * row.twins
    for recorded in (each for world in worlds for each in world.ways):
        if recorded.way in (trial.recording.NODE, trial.recording.SYNCHRONISED):
            period = recorded.number("period")
            off = period is not None and abs(period.bias) > trial.summary.MOST_UNTOLD_BIAS
            assert not off or trial.summary.is_told(recorded), recorded


def test_no_verdict_is_wrong_and_every_refusal_says_what_would_lift_it(
    trial: SimpleNamespace, tried: Any
) -> None:
    _, worlds = tried
    assert not trial.summary.wrong_signs(worlds, of_twin=True)
    refused = trial.refusals.refusals(worlds)
    assert all(each.names_a_measurement for each in refused), refused


def test_finished_worlds_are_not_tried_again(trial: SimpleNamespace, tried: Any) -> None:
    folder, worlds = tried
    kept = (folder / "kept.jsonl").read_bytes()
    table = (folder / "table.md").read_text()
    assert f"{WORLDS} worlds of seeds {SEED} to {SEED + WORLDS - 1}" in table
    assert trial.run.main(options(folder, WORLDS)) == 0
    assert (folder / "kept.jsonl").read_bytes() == kept
    cut = kept[: kept.rindex(b"\n", 0, -1) + 10]
    (folder / "kept.jsonl").write_bytes(cut)
    assert [each.seed for each in trial.run.kept_worlds(folder / "kept.jsonl")] != [
        world.seed for world in worlds
    ]
    (folder / "kept.jsonl").write_bytes(kept)


@pytest.mark.parametrize(
    ("truth", "more", "covers"),
    [
        (10.0, 1.0, True),
        (10.0 + math.sqrt(2) * 0.99, 1.0, True),
        (10.0 + math.sqrt(2) * 1.01, 1.0, False),
        (10.0 - 2 * math.sqrt(2) * 0.99, 1.0, True),
        (10.0 - 2 * math.sqrt(2) * 1.01, 1.0, False),
        (10.0 + 1.01, 1e9, False),
    ],
)
def test_the_other_sessions_own_chance_is_allowed_for(
    trial: SimpleNamespace, truth: float, more: float, covers: bool
) -> None:
    number = trial.records.Number("x", 10.0, 8.0, 11.0, 11.5, truth, more, 10.0)
    assert number.covers_served() is covers
    assert number.covers_twin() is False
    assert number.bias == pytest.approx(-0.15)


def recorded(trial: SimpleNamespace, outcome: str, *remarks: Any, **numbers: Any) -> Any:
    made = [trial.records.Number(name, *values) for name, values in numbers.items()]
    return trial.records.Recorded("graph mode", outcome, made, list(remarks))


def world(trial: SimpleNamespace, *ways: Any) -> Any:
    return trial.records.TriedWorld(1, "vllm", [], list(ways), 1.0, "")


def test_a_verdict_is_wrong_where_the_truth_lies_beyond_one(trial: SimpleNamespace) -> None:
    def wrong(outcome: str, truth: float) -> bool:
        numbers = [trial.records.Number("speed-up", 1.2, 1.1, 1.3, truth, truth, 1.0, 1.0)]
        way = trial.records.Recorded("graph mode", outcome, numbers)
        return bool(trial.summary.wrong_signs([world(trial, way)], of_twin=True))

    assert wrong("winning", 0.99)
    assert wrong("losing", 1.01)
    assert not wrong("winning", 1.01)
    assert not wrong("undecided", 0.99)


def test_a_verdict_on_one_request_is_not_one_on_another_session(trial: SimpleNamespace) -> None:
    numbers = {"speed-up": (1.2, 1.1, 1.3, 0.9, 0.9, 1.0, 1.0)}
    scope = trial.records.Remark(trial.records.SCOPE, "requests", "of one request", None)

    def wrong(*remarks: Any, of_twin: bool) -> bool:
        way = recorded(trial, "winning", *remarks, **numbers)
        return bool(trial.summary.wrong_signs([world(trial, way)], of_twin=of_twin))

    assert wrong(of_twin=False)
    assert not wrong(scope, of_twin=False)
    assert wrong(scope, of_twin=True)


def test_a_bias_without_interval_is_told_or_a_fault(trial: SimpleNamespace) -> None:
    def untold(estimate: float, *remarks: Any, served: float = 10.0) -> Any:
        numbers = {
            "ratio": (estimate, None, None, 10.0, served, 1.0, 10.0),
            "period": (10.0, 9.5, 10.5, 10.0, 10.0, 1.0, 10.0),
        }
        way = recorded(trial, "winning", *remarks, **numbers)
        (case,) = (
            case
            for case in trial.summary.cases_of([world(trial, way)], "graph mode")
            if case.number.name == "ratio"
        )
        return case.untold_bias

    assert untold(10.6) == pytest.approx(0.06)
    assert untold(10.4) is None, "within an interval shown beside it"
    assert untold(10.6, served=9.3) is None, "sessions differ as much"
    told = trial.records.Remark("warning", "node recording", "slows them", "Record twice.")
    assert untold(10.6, told) is None


def test_a_refusal_that_names_nothing_is_found(trial: SimpleNamespace) -> None:
    remark = trial.records.Remark
    silent = [
        recorded(trial, "unknown"),
        recorded(trial, "withheld", remark("failed", "x", "why", None)),
        recorded(trial, "no report", remark("no report", "x", "why", "Think again.")),
    ]
    named = [
        recorded(trial, "unknown", remark("missing", "verdict", "a baseline", "record it")),
        recorded(trial, "no report", remark("no report", "x", "why", "Use --baseline-ms.")),
        recorded(trial, "winning", remark("warning", "x", "why", None)),
    ]
    for way in silent:
        (found,) = trial.refusals.refusals([world(trial, way)])
        assert not found.names_a_measurement
    for way in named:
        assert all(
            each.names_a_measurement for each in trial.refusals.refusals([world(trial, way)])
        )

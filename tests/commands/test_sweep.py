from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.harness import SAMPLE_TRACES, run_cli

if TYPE_CHECKING:
    from pathlib import Path

BASELINE = SAMPLE_TRACES / "seed_baseline_parquetdir"
CAPTURES = [SAMPLE_TRACES / f"seed_linear_k{k:02d}_parquetdir" for k in (1, 3, 5)]


def test_the_screen_names_the_best_length_first() -> None:
    screen = run_cli("sweep", *CAPTURES, "--baseline", BASELINE).stdout
    assert screen.splitlines()[:2] == ["Batch 1", screen.splitlines()[1]]
    assert screen.splitlines()[1].startswith("Draft 1:")
    assert "measured, best" in screen
    assert "extrapolated" in screen


@pytest.mark.parametrize("suffix", [".json", ".md"])
def test_forms_by_suffix(tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"sweep{suffix}"
    done = run_cli("sweep", *CAPTURES, "--baseline", BASELINE, "-o", out)
    assert (done.exit_code, done.stdout) == (0, "")
    text = out.read_text(encoding="utf-8")
    if suffix == ".json":
        (batch,) = json.loads(text)["batches"]
        assert (batch["world"], batch["best_draft_tokens"]) == ("per token", 1)
    else:
        assert text.startswith("# Sweep\n\n## Batch 1\n")


def test_without_a_baseline_costs_are_shown_and_nothing_is_called_fixed() -> None:
    done = run_cli("sweep", *CAPTURES, "--format", "json")
    found = json.loads(done.stdout)
    (batch,) = found["batches"]
    assert batch["world"] is None
    assert any("without a baseline" in text for text in found["caveats"])
    assert "needs a baseline" in batch["advice"]


def test_one_capture_alone_predicts_nothing() -> None:
    found = json.loads(run_cli("sweep", CAPTURES[0], "--format", "json").stdout)
    assert found["batches"][0]["predictions"] == []


def test_captures_that_do_not_speculate_are_told() -> None:
    done = run_cli("sweep", BASELINE)
    assert done.exit_code == 2
    assert "none of these captures holds a cycle that speculates" in done.stderr

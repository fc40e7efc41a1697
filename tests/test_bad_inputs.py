"""Bad files and folders through the command line: told, never a traceback, never a wrong total."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

from tests.bad_input_runs import Run, problem
from tests.bad_input_totals import totals_in
from tests.bad_inputs import SLOW, kineto_text, report_of, sqlite_export, written
from tests.harness import run_cli
from tests.hostile_inputs import ALL_KINDS
from traceanalyzer import analyze, load

if TYPE_CHECKING:
    from pathlib import Path

_EVERY = 4
"""One input of so many; `benchmarks/bad_input.py` tries all."""


@pytest.mark.parametrize("kind", sorted(ALL_KINDS.keys() - SLOW - {"no permission"}))
def test_bad_input(kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from traceanalyzer.__main__ import main

    for bad in list(ALL_KINDS[kind](tmp_path))[::_EVERY]:
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in bad.arguments])
        out, err = capfd.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        done = Run(code, out.encode(errors="replace"), err.encode(errors="replace"), 0.0, 0.0)
        assert problem(bad, done) is None, f"{bad}: {code} {err}"


@pytest.mark.parametrize("form", ["sqlite", "torch"])
@pytest.mark.parametrize("wrong", ["ops", "kernel_ns", "busy_ns", None])
def test_a_wrong_total_is_noticed(form: str, wrong: str | None, tmp_path: Path) -> None:
    path, ops = sqlite_export(tmp_path) if form == "sqlite" else _torch_trace(tmp_path)
    told = json.loads(analyze(load(path)).to_json())
    places = {
        "ops": told["capture"],
        "kernel_ns": told["ranks"][0]["phases"][0],
        "busy_ns": told["coverage"],
    }
    if wrong:
        places[wrong][wrong] += 1
    done = Run(0, json.dumps(told).encode(), b"", 0.0, 0.0)
    found = problem(report_of(path, ops=ops), done)
    assert found == ("wrong total" if wrong else None)
    assert totals_in(path) is not None


def _torch_trace(folder: Path) -> tuple[Path, int]:
    data, ops = kineto_text()
    return written(folder, "trace.json.gz", gzip.compress(data)), ops


def test_a_loop_of_links_as_output_is_told(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    done = run_cli("report", tmp_path / "gone", "-o", tmp_path / "loop" / "report.json")
    assert done.exit_code == 2
    assert "Traceback" not in done.stderr

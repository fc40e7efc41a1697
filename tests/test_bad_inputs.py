"""Bad files and folders through the command line: told, never a traceback, never a wrong total."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.bad_input_runs import Run, problem
from tests.bad_inputs import SLOW
from tests.harness import run_cli
from tests.hostile_inputs import ALL_KINDS

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


def test_a_loop_of_links_as_output_is_told(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    done = run_cli("report", tmp_path / "gone", "-o", tmp_path / "loop" / "report.json")
    assert done.exit_code == 2
    assert "Traceback" not in done.stderr

"""The command line run inside the test, which is ten times as fast as starting Python."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.exports import Export, served
from tests.harness import CompletedResult
from traceanalyzer.__main__ import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Cli = Callable[..., CompletedResult]


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run `traceanalyzer` with these arguments."""

    def run(*arguments: str | Path) -> CompletedResult:
        monkeypatch.setattr(sys, "argv", ["traceanalyzer", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        assert isinstance(ended.value.code, int)
        out, err = capfd.readouterr()
        return CompletedResult(ended.value.code, out, err)

    return run


@pytest.fixture
def server(tmp_path: Path) -> Path:
    """Two ranks of a small server."""
    export = Export()
    served(export)
    served(export, 5200, rank=1)
    return export.write_sqlite(tmp_path / "server.sqlite")

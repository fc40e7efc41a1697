"""Pipes and devices where a file is named are refused at once; open pipes are read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from traceanalyzer.errors import InputError
from traceanalyzer.importers.acceptance.log import read_acceptance
from traceanalyzer.importers.endless import refuse_endless
from traceanalyzer.phases.rules import Rules


@pytest.mark.parametrize("name", ["pipe", "/dev/zero", "/dev/full"])
def test_what_never_ends_is_refused(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="not a file"):
        Rules.from_file(tmp_path / name)
    with pytest.raises(InputError, match="not a file"):
        read_acceptance(tmp_path / name)


def test_files_and_open_pipes_pass(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    reader, writer = os.pipe()
    try:
        for path in (tmp_path, tmp_path / "file", tmp_path / "gone", Path(f"/dev/fd/{reader}")):
            refuse_endless(path)
    finally:
        os.close(reader)
        os.close(writer)

from __future__ import annotations

import os
import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from traceanalyzer.capture.outcome import (
    collection_ended,
    disk_full,
    kept,
    left_by,
    recording_folder,
)
from traceanalyzer.capture.plan import Window
from traceanalyzer.errors import InputError

Usage = namedtuple("Usage", "total used free")


def test_collection_lasts_until_the_file_is_written(tmp_path: Path) -> None:
    done = tmp_path / "done"
    ended = collection_ended(tmp_path / "x.nsys-rep", Window.parse(f"until:{done}"))
    assert not ended()
    done.touch()
    assert ended()


def test_a_file_of_an_earlier_run_does_not_end_collection(tmp_path: Path) -> None:
    done = tmp_path / "done"
    done.touch()
    os.utime(done, ns=(0, 10**18))
    ended = collection_ended(tmp_path / "x.nsys-rep", Window.parse(f"until:{done}"))
    assert not ended()
    done.write_text("again")
    assert ended()
    done.unlink()
    assert not ended()


def test_without_a_window_the_program_ends_collection(tmp_path: Path) -> None:
    assert not collection_ended(tmp_path / "x.nsys-rep", Window())()


@pytest.mark.parametrize("suffix", [".nsys-rep", ".qdstrm"])
def test_what_nsys_left_takes_the_place_of_an_earlier_recording(
    suffix: str, tmp_path: Path
) -> None:
    report = tmp_path / "x.nsys-rep"
    for stale in (".nsys-rep", ".qdstrm", ".sqlite"):
        report.with_suffix(stale).write_text("stale")
    with recording_folder(report) as folder:
        (folder / "x").with_suffix(suffix).write_text("new")
        (folder / "rest").touch()
        recorded = left_by(folder / "x.nsys-rep")
        assert recorded is not None
        kept(recorded, report, whole=True)
    assert [path.name for path in tmp_path.iterdir()] == [f"x{suffix}"]
    assert report.with_suffix(suffix).read_text() == "new"


def test_what_is_cut_short_leaves_an_earlier_recording_alone(tmp_path: Path) -> None:
    report = tmp_path / "x.nsys-rep"
    report.write_text("whole")
    with recording_folder(report) as folder:
        half = folder / "x.nsys-rep"
        half.write_text("ha")
        kept(half, report, whole=False)
    assert report.read_text() == "whole"
    assert (tmp_path / "x.incomplete.nsys-rep").read_text() == "ha"


def test_nothing_stays_when_the_recording_is_broken_off(tmp_path: Path) -> None:
    def broken_off() -> None:
        with recording_folder(tmp_path / "x.nsys-rep") as folder:
            (folder / "x.nsys-rep").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken_off()
    assert not list(tmp_path.iterdir())


def test_an_empty_file_is_no_recording(tmp_path: Path) -> None:
    (tmp_path / "x.nsys-rep").touch()
    assert left_by(tmp_path / "x.nsys-rep") is None


def test_a_disk_without_room_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    rooms = {Path("/a"): 1 << 40, Path("/b"): 4096}
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(1 << 41, 0, rooms[path]))
    assert disk_full(Path("/a")) is None
    error = disk_full(Path("/a"), Path("/b"))
    assert isinstance(error, InputError)
    assert error.where == "/b"
    assert "4,096 bytes are free" in error.what


def test_a_folder_that_is_not_there_is_not_full() -> None:
    assert disk_full(Path("/no/such/folder")) is None

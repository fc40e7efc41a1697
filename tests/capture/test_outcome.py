from __future__ import annotations

import os
from typing import TYPE_CHECKING

from traceanalyzer.capture.outcome import collection_ended
from traceanalyzer.capture.plan import Window

if TYPE_CHECKING:
    from pathlib import Path


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

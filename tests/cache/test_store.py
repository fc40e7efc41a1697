from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from traceanalyzer.cache.folder import KEPT_SUFFIX, PARTIAL_PREFIX, make_room
from traceanalyzer.cache.store import Store, key_of
from traceanalyzer.importers.nsys_export_cache import Slot

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def writer(text: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "text").write_text(text)

    return write


def text_of(store: Store, key: str) -> str | None:
    found = store.find(key)
    return None if found is None else (found / "text").read_text()


def kept_keys(store: Store) -> set[str]:
    return {path.name.removesuffix(KEPT_SUFFIX) for path in store.folder.iterdir()}


def test_what_was_kept_is_found_and_nothing_else(tmp_path: Path) -> None:
    store = Store(tmp_path / "deep" / "cache")
    assert store.find("a") is None
    assert store.keep("a", writer("one")) is None
    assert (text_of(store, "a"), store.find("b")) == ("one", None)
    assert kept_keys(store) == {"a"}, "and no work folder is left"


def test_the_first_of_two_runs_wins_and_the_second_does_no_harm(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def overtaken(folder: Path) -> None:
        (folder / "text").write_text("second")
        assert store.keep("a", writer("first")) is None

    assert store.keep("a", overtaken) is None
    assert text_of(store, "a") == "first"
    assert kept_keys(store) == {"a"}


def test_many_runs_at_once_keep_and_find_whole_folders(tmp_path: Path) -> None:
    """With room for half of what they keep, so that they remove from under one another."""
    store = Store(tmp_path, limit_bytes=4 * 1000)
    wrong = []

    def work(number: int) -> None:
        for turn in range(40):
            key = f"{(number + turn) % 8}"
            reason = store.keep(key, writer(key * 1000))
            found = store.find(key)
            try:
                text = None if found is None else (found / "text").read_text()
            except OSError:
                text = None
            if reason is not None or text not in (None, key * 1000):
                wrong.append((reason, text))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert wrong == []
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(PARTIAL_PREFIX)]


def test_the_longest_unused_makes_room(tmp_path: Path) -> None:
    store = Store(tmp_path, limit_bytes=2500)
    for place, key in enumerate("abc"):
        store.keep(key, writer(key * 1000))
        os.utime(tmp_path / f"{key}{KEPT_SUFFIX}", (place + 1, place + 1))
        if key == "b":
            store.find("a")
    assert kept_keys(store) == {"a", "c"}


def test_what_is_larger_than_the_cache_is_not_kept_and_displaces_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path, limit_bytes=1500)
    store.keep("a", writer("a" * 1000))
    reason = store.keep("b", writer("b" * 2000))
    assert reason is not None
    assert kept_keys(store) == {"a"}


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def full(folder: Path) -> None:
        (folder / "text").write_text("a part")
        raise OSError(28, "No space left on device")

    reason = store.keep("a", full)
    assert reason is not None
    assert "No space left on device" in reason
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_only_a_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = Store(tmp_path / "file" / "cache")
    reason = store.keep("a", writer("one"))
    assert reason is not None
    assert "cannot be written to" in reason
    assert store.find("a") is None


def test_what_was_discarded_can_be_kept_anew(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.keep("a", writer("damaged"))
    store.discard("a")
    store.discard("never kept")
    assert store.find("a") is None
    store.keep("a", writer("whole"))
    assert text_of(store, "a") == "whole"


@pytest.mark.parametrize("change", ["content", "time", "another file", "choice", "added file"])
def test_a_key_changes_with_all_that_a_result_depends_on(tmp_path: Path, change: str) -> None:
    trace, other = tmp_path / "trace", tmp_path / "other"
    for folder in (trace, other):
        folder.mkdir()
        (folder / "ops").write_text("some ops")
        os.utime(folder / "ops", (1, 1))
    before = key_of([trace], "rules")
    assert key_of([tmp_path / "x" / ".." / "trace"], "rules") == before
    if change == "content":
        (trace / "ops").write_text("other ops")
        os.utime(trace / "ops", (1, 1))
    elif change == "time":
        os.utime(trace / "ops", (1, 2))
    elif change == "added file":
        (trace / "more").write_text("")
    source = other if change == "another file" else trace
    choices = ("other rules",) if change == "choice" else ("rules",)
    assert key_of([source], *choices) != before


def test_choices_do_not_run_into_one_another(tmp_path: Path) -> None:
    assert key_of([tmp_path], "ab", "c") != key_of([tmp_path], "a", "bc")


def test_exports_make_room_too_and_nothing_of_somebody_else_does(tmp_path: Path) -> None:
    ours = [f"trace.{'0' * 12}.{'a' * 12}.2022.4.2.1", f"trace.{'1' * 12}.{'b' * 12}.2025.5"]
    others = ["trace.sqlite", "notes.txt", "a_pqtdir", f"x.{'0' * 12}.sqlite"]
    for name in others:
        (tmp_path / name).write_bytes(bytes(1000))
    (tmp_path / f"{ours[0]}.sqlite").write_bytes(bytes(1000))
    (tmp_path / f"{ours[1]}_pqtdir").mkdir()
    (tmp_path / f"{ours[1]}_pqtdir" / "StringIds.parquet").write_bytes(bytes(1000))
    newest = tmp_path / f"a{KEPT_SUFFIX}"
    newest.mkdir()
    make_room(tmp_path, newest, limit_bytes=1)
    assert {path.name for path in tmp_path.iterdir()} == {newest.name, *others}


def test_the_slots_of_exports_are_known_to_the_cache(tmp_path: Path) -> None:
    report = tmp_path / "my run.nsys-rep"
    report.write_bytes(b"a report")
    slot = Slot.of(report, "2022.4.2.1-32265369v0")
    export = tmp_path / "part" / "work" / "export.sqlite"
    export.parent.mkdir(parents=True)
    export.write_bytes(bytes(100))
    kept = slot.keep(export)
    make_room(kept.parent, kept.parent / "none", limit_bytes=1)
    assert not kept.exists()


def test_a_folder_that_may_not_be_looked_into_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("pathlib.Path.is_dir", forbidden)
    assert Store(tmp_path).find("a") is None

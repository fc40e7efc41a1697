from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import threading
import zipfile
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from nvtx_hooks.post_import import Watcher

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PACKAGE = "watched_pkg"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / PACKAGE
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "inner" / "__init__.py").write_text("")
    (folder / "inner" / "engine.py").write_text("VALUE = 1\ndef run():\n    return VALUE\n")
    (folder / "broken.py").write_text("raise RuntimeError('at import')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


@pytest.fixture
def ready() -> list[str]:
    return []


@pytest.fixture
def watcher(ready: list[str]) -> Iterator[Watcher]:
    made = Watcher(
        [PACKAGE], lambda name: name != PACKAGE, lambda module: ready.append(module.__name__)
    )
    yield made
    made.stop()
    assert made not in sys.meta_path


def test_module_is_reported_once_its_code_has_run(
    package: Path, watcher: Watcher, ready: list[str]
) -> None:
    watcher.start()
    module = importlib.import_module(f"{PACKAGE}.inner.engine")
    assert module.VALUE == 1
    assert ready == [f"{PACKAGE}.inner", f"{PACKAGE}.inner.engine"]


def test_module_keeps_its_own_loader_and_source(package: Path, watcher: Watcher) -> None:
    watcher.start()
    module = importlib.import_module(f"{PACKAGE}.inner.engine")
    assert module.__spec__ is not None
    assert type(module.__spec__.loader).__name__ == "SourceFileLoader"
    assert module.__loader__ is module.__spec__.loader
    assert inspect.getsource(module.run).startswith("def run")


def test_modules_that_are_there_already_are_reported_at_once(
    package: Path, watcher: Watcher, ready: list[str]
) -> None:
    importlib.import_module(f"{PACKAGE}.inner.engine")
    watcher.start()
    assert sorted(ready) == [f"{PACKAGE}.inner", f"{PACKAGE}.inner.engine"]


def test_reloaded_module_is_reported_again(
    package: Path, watcher: Watcher, ready: list[str]
) -> None:
    watcher.start()
    module = importlib.import_module(f"{PACKAGE}.inner.engine")
    importlib.reload(module)
    assert ready.count(f"{PACKAGE}.inner.engine") == 2


def test_module_whose_import_was_running_is_reported_when_it_is_done(
    package: Path, watcher: Watcher, ready: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    running = ModuleType(f"{PACKAGE}.half")
    spec = importlib.util.spec_from_loader(f"{PACKAGE}.half", loader=None)
    assert spec is not None
    spec._initializing = True  # type: ignore[attr-defined]
    running.__spec__ = spec
    monkeypatch.setitem(sys.modules, f"{PACKAGE}.half", running)
    watcher.start()
    assert ready == []
    spec._initializing = False  # type: ignore[attr-defined]
    importlib.import_module(f"{PACKAGE}.inner")
    assert f"{PACKAGE}.half" in ready


def test_failing_import_fails_as_without_us(
    package: Path, watcher: Watcher, ready: list[str]
) -> None:
    watcher.start()
    with pytest.raises(RuntimeError, match="at import"):
        importlib.import_module(f"{PACKAGE}.broken")
    with pytest.raises(ModuleNotFoundError, match="absent"):
        importlib.import_module(f"{PACKAGE}.absent")
    assert ready == []


def test_other_packages_are_not_looked_at(watcher: Watcher) -> None:
    watcher.start()
    assert watcher.find_spec("json.decoder") is None


def test_other_finders_that_stand_before_the_path_are_asked(
    watcher: Watcher, ready: list[str], package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    class Finder:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> None:
            asked.append(name)

    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    watcher.start()
    importlib.import_module(f"{PACKAGE}.inner")
    assert f"{PACKAGE}.inner" in asked
    assert ready == [f"{PACKAGE}.inner"]
    watcher.stop()


def test_two_watchers_and_two_threads(package: Path, watcher: Watcher, ready: list[str]) -> None:
    other_ready: list[str] = []
    other = Watcher(
        [PACKAGE], lambda name: True, lambda module: other_ready.append(module.__name__)
    )
    watcher.start()
    other.start()
    try:
        threads = [
            threading.Thread(target=importlib.import_module, args=(f"{PACKAGE}.inner.engine",))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        other.stop()
    assert ready.count(f"{PACKAGE}.inner.engine") == 1
    assert other_ready.count(f"{PACKAGE}.inner.engine") == 1


def test_module_of_a_zip_file(
    tmp_path: Path, watcher: Watcher, ready: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "packed.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr(f"{PACKAGE}/__init__.py", "")
        packed.writestr(f"{PACKAGE}/engine.py", "VALUE = 2\n")
    monkeypatch.syspath_prepend(str(archive))
    watcher.start()
    try:
        assert importlib.import_module(f"{PACKAGE}.engine").VALUE == 2
        assert ready == [f"{PACKAGE}.engine"]
    finally:
        for name in (PACKAGE, f"{PACKAGE}.engine"):
            sys.modules.pop(name, None)

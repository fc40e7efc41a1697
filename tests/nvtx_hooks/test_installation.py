from __future__ import annotations

import importlib
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import nvtx_hooks
from nvtx_hooks import installation, targets
from nvtx_hooks.targets import ENGINES, engine_targets
from tests.nvtx_hooks.fakes import REPOSITORY
from tests.nvtx_hooks.recorded import RecordingBackend, names

if TYPE_CHECKING:
    from collections.abc import Iterator

FAKE = REPOSITORY / "tests" / "fake_engines"


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A fake SGLang 0.5.23 on the path of this process, and no trace of it afterwards."""
    foreign = ("sglang", "torch", "simulated")
    assert not any(name.partition(".")[0] in foreign for name in sys.modules)
    for folder in ("sglang_0_5_23", "common", "fake_torch"):
        monkeypatch.syspath_prepend(str(FAKE / folder))
    yield
    nvtx_hooks.uninstall()
    for name in [name for name in sys.modules if name.partition(".")[0] in foreign]:
        del sys.modules[name]


def hooked_objects() -> dict[str, object]:
    """Everything of the fake engine that a hook could replace, by where it is."""
    found: dict[str, object] = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "sglang":
            for key, value in vars(module).items():
                if key.startswith("__"):
                    continue
                found[f"{name}.{key}"] = value
                if isinstance(value, type):
                    found |= {f"{name}.{key}.{k}": v for k, v in vars(value).items()}
    return found


def test_install_then_uninstall_leaves_identical_objects(engine: None) -> None:
    importlib.import_module("sglang.srt.managers.scheduler")
    before = hooked_objects()
    nvtx_hooks.install(RecordingBackend())
    during = hooked_objects()
    changed = [name for name in before if before[name] is not during[name]]
    assert len(changed) >= 12
    common = "sglang.srt.speculative.eagle_worker_common"
    assert f"{common}.eagle_sample" in changed, "a name imported before"
    nvtx_hooks.uninstall()
    after = hooked_objects()
    assert before.keys() == after.keys()
    assert all(before[name] is after[name] for name in before)
    assert nvtx_hooks.status() == nvtx_hooks.Status(installed=False)


def test_modules_imported_later_are_hooked_and_undone(engine: None) -> None:
    nvtx_hooks.install(RecordingBackend())
    assert nvtx_hooks.status().targets == ()
    utils = importlib.import_module("sglang.srt.speculative.eagle_utils")
    common = importlib.import_module("sglang.srt.speculative.eagle_worker_common")
    assert common.eagle_sample is utils.eagle_sample
    wrapper, original = utils.eagle_sample, utils.eagle_sample.__wrapped__
    nvtx_hooks.uninstall()
    assert utils.eagle_sample is common.eagle_sample is original
    assert wrapper is not original


def test_second_install_changes_nothing(engine: None) -> None:
    backend = RecordingBackend()
    nvtx_hooks.install(backend)
    utils = importlib.import_module("sglang.srt.speculative.eagle_utils")
    once = utils.eagle_sample
    nvtx_hooks.install(RecordingBackend())
    assert utils.eagle_sample is once
    batch = importlib.import_module("types").SimpleNamespace(simulated=[])
    once(None, batch, None)
    assert names(backend.events) == "(sample )"


def test_install_after_uninstall_records_again(engine: None) -> None:
    utils = importlib.import_module("sglang.srt.speculative.eagle_utils")
    for _ in range(2):
        backend = RecordingBackend()
        nvtx_hooks.install(backend)
        utils.eagle_sample(
            None, importlib.import_module("types").SimpleNamespace(simulated=[]), None
        )
        nvtx_hooks.uninstall()
        assert names(backend.events) == "(sample )"


def test_status_names_what_is_missing(engine: None) -> None:
    nvtx_hooks.install(RecordingBackend())
    importlib.import_module("sglang.srt.managers.scheduler")
    states = {status.target: status for status in nvtx_hooks.status().targets}
    assert set(states) == {target.name for target in engine_targets("sglang")}
    worker = "sglang.srt.speculative.eagle_worker_v2:"
    assert states[f"{worker}EAGLEWorkerV2.verify"].state == "hooked"
    older = states[f"{worker}EAGLEWorkerV2.draft"]
    assert (older.state, older.reason) == ("skipped", "no draft")
    ngram = states["sglang.srt.speculative.ngram_worker:NGRAMWorker.forward_batch_generation"]
    assert (ngram.state, ngram.reason) == ("waiting", "")
    assert nvtx_hooks.status().backend == "recording"


def test_failures_are_counted_in_status(engine: None) -> None:
    nvtx_hooks.install(RecordingBackend())
    runners = importlib.import_module("sglang.srt.model_executor.model_runner")
    runner = runners.ModelRunner(None)
    runner.is_draft_worker = "yes"
    recorder = installation.recorder()
    assert recorder is not None
    recorder.open(recorder.thread(), "draft")
    assert runner.forward(None) == "logits"
    recorder.close_to(recorder.thread(), 0)
    (failed,) = [status for status in nvtx_hooks.status().targets if status.failures]
    assert failed.target == "sglang.srt.model_executor.model_runner:ModelRunner.forward"
    assert failed.first_failure == "Unreadable: not a bool: str"


def test_broken_target_module_harms_nobody(engine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(targets.ENGINES, "sglang", "nvtx_hooks.targets.absent")  # type: ignore[misc]
    nvtx_hooks.install(RecordingBackend())
    importlib.import_module("sglang.srt.speculative.eagle_utils")
    (problem,) = nvtx_hooks.status().problems
    assert problem.startswith("targets of sglang: ModuleNotFoundError")


def test_install_never_raises(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("no watcher")

    monkeypatch.setattr(installation, "Watcher", broken)
    nvtx_hooks.install()
    assert "hooks could not be installed: RuntimeError: no watcher" in capsys.readouterr().err
    assert not nvtx_hooks.status().installed


def run_python(program: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-c", textwrap.dedent(program)],
        env={"PYTHONPATH": str(REPOSITORY), "PATH": "", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


def test_importing_the_package_does_nothing() -> None:
    done = run_python(
        """
        import sys
        before = list(sys.meta_path), set(sys.modules)
        import nvtx_hooks
        assert list(sys.meta_path) == before[0]
        print(sorted(set(sys.modules) - before[1]))
        """,
        "-S",  # an installed start-up file would have started the hooks by now
        NVTX_HOOKS="1",
    )
    assert done.stdout.strip() == "['__future__', 'nvtx_hooks']"


def own_modules() -> list[str]:
    """Every module of the package but those of the reference pipeline."""
    root = Path(nvtx_hooks.__file__).parent
    paths = [path.relative_to(root.parent) for path in root.rglob("*.py")]
    names = [".".join(path.with_suffix("").parts) for path in paths]
    return [
        name.removesuffix(".__init__")
        for name in names
        if ".reference" not in name and not name.endswith("__main__")
    ]


def test_nothing_but_the_standard_library_is_needed() -> None:
    run_python(
        f"""
        import importlib, sys
        class Refuse:
            def find_spec(self, name, path=None, target=None):
                top = name.partition(".")[0]
                if top != "nvtx_hooks" and top not in sys.stdlib_module_names:
                    raise ModuleNotFoundError(name)
        sys.meta_path.insert(0, Refuse())
        for name in {own_modules()!r}:
            importlib.import_module(name)
        import nvtx_hooks
        nvtx_hooks.install()
        assert nvtx_hooks.status().installed
        nvtx_hooks.uninstall()
        """
    )


def test_public_names_are_sorted_and_lazy() -> None:
    assert nvtx_hooks.__all__ == sorted(nvtx_hooks.__all__)
    for name in nvtx_hooks.__all__:
        assert getattr(nvtx_hooks, name) is not None
    assert dir(nvtx_hooks) == nvtx_hooks.__all__
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        nvtx_hooks.absent  # noqa: B018


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_targets_are_unique_and_well_formed(name: str) -> None:
    found = engine_targets(name)
    assert len({target.name for target in found}) == len(found)
    for target in found:
        assert target.module.partition(".")[0] == name
        assert target.seen[0], f"{target.name} has no evidence"


def test_no_engine_or_torch_is_imported_by_the_code() -> None:
    for path in Path(nvtx_hooks.__file__).parent.rglob("*.py"):
        if "reference" in path.parts:
            continue
        for line in path.read_text().splitlines():
            words = line.split()
            if words[:1] in (["import"], ["from"]) and len(words) > 1:
                top = words[1].partition(".")[0]
                assert top not in {"torch", *ENGINES, "traceanalyzer"}, f"{path}: {line}"

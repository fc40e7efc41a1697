from __future__ import annotations

import sys
import textwrap
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import nvtx_hooks
from nvtx_hooks import own_pipeline
from nvtx_hooks.own_pipeline import InvalidTargets, ValuePath, read_targets
from nvtx_hooks.targets import Call
from nvtx_hooks.vocabulary import Flags, request_hash
from tests.nvtx_hooks.recorded import RecordingBackend, names, read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PIPELINE = """
class Result:
    pass

class Pipeline:
    def __init__(self):
        self.batch = ["a", "b"]
        self.k = 3
        self.idle = False
        self.finished = 0

    def step(self, tokens):
        self.draft()
        result = self.verify()
        self.batch = self.batch[:1]
        return result

    def draft(self):
        return 1

    def verify(self):
        result = Result()
        result.accepted = [2, 3]
        result.overshoot = [0, 1]
        return result

    @staticmethod
    def prefill(prompt):
        return len(prompt)

    def late(self, handled):
        return None
"""

HOOKS = """
[[hook]]
target = "my_pipeline.loop:Pipeline.step"
range = "cycle"
requests = "len(self.batch)"
drafted = 6
verified = "tokens[0]"
padded = 8
k = "self.k"
idle = "self.idle"
accepted = "result.accepted"
overshoot = "result.overshoot"
request_ids = "self.batch"
tag = true

[[hook]]
target = "my_pipeline.loop:Pipeline.draft"
range = "draft"

[[hook]]
target = "my_pipeline.loop:Pipeline.verify"
range = ["verify"]

[[hook]]
target = "my_pipeline.loop:Pipeline.prefill"
range = "prefill"
requests = 1
prompt_requests = 1
prompt_tokens = "len(prompt)"

[[hook]]
target = "my_pipeline.loop:Pipeline.late"
accepted = "handled.accepted"
late = "handled"

[[hook]]
target = "my_pipeline.loop:Pipeline.__init__"
tp_rank = 0
tp_size = 2
"""


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "my_pipeline"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "loop.py").write_text(PIPELINE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    nvtx_hooks.uninstall()
    for name in ("my_pipeline", "my_pipeline.loop"):
        sys.modules.pop(name, None)


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hooks: str) -> RecordingBackend:
    file = tmp_path / "targets.toml"
    file.write_text(textwrap.dedent(hooks))
    monkeypatch.setenv("NVTX_HOOKS_TARGETS", str(file))
    backend = RecordingBackend()
    nvtx_hooks.install(backend)
    return backend


def test_pipeline_described_in_a_file(
    pipeline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = install(tmp_path, monkeypatch, HOOKS)
    from my_pipeline.loop import Pipeline  # type: ignore[import-not-found]

    made = Pipeline()
    assert made.prefill([1, 2, 3, 4]) == 4
    result = made.step([16])
    made.late(result)
    assert names(backend.events) == (
        ".ranks .ranks (prefill .batch .prompt ) (cycle (draft ) (verify ) "
        ".batch .tokens .accept .accept .overshoot ) .accept .accept"
    )
    recording = read(backend.events)
    assert [(r.name, r.payload) for r in recording.ranges] == [
        ("prefill", 1),
        ("draft", 2),
        ("verify", 2),
        ("cycle", 2),
    ]
    assert recording.marked("ranks")[0]["tp_size"] == 2
    assert recording.marked("prompt") == [{"cycle": 1, "requests": 1, "tokens": 4}]
    # The batch was shorter after the call: counts are taken when it begins.
    assert recording.marked("batch")[1] == {
        "cycle": 2,
        "requests": 2,
        "padded_requests": 8,
        "flags": 0,
    }
    assert recording.marked("tokens") == [{"cycle": 2, "drafted": 6, "verified": 16}]
    first, second, *late = recording.marked("accept")
    assert first == {
        "cycle": 2,
        "request": request_hash("a"),
        "k": 3,
        "accepted": 2,
        "flags": 0,
    }
    assert second["flags"] == Flags.OVERSHOOT
    assert [(row["cycle"], row["k"], row["accepted"]) for row in late] == [(2, 3, 2), (2, 3, 3)]
    assert all(not status.failures for status in nvtx_hooks.status().targets)


def test_value_of_another_type_emits_nothing_and_is_named(
    pipeline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = install(
        tmp_path,
        monkeypatch,
        """
        [[hook]]
        target = "my_pipeline.loop:Pipeline.step"
        range = "cycle"
        requests = "self.k"
        accepted = "tokens"
        """,
    )
    from my_pipeline.loop import Pipeline

    assert Pipeline().step([1.5]).accepted == [2, 3]
    assert names(backend.events) == "(cycle )"
    (status,) = nvtx_hooks.status().targets
    assert status.first_failure == "Unreadable: not a list of ints: list"


def test_target_that_is_not_there_is_named(
    pipeline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(
        tmp_path,
        monkeypatch,
        """
        [[hook]]
        target = "my_pipeline.loop:Pipeline.absent"
        range = "draft"
        """,
    )
    import my_pipeline.loop  # noqa: F401

    (status,) = nvtx_hooks.status().targets
    assert (status.state, status.reason) == ("skipped", "no absent")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has to hold [[hook]] tables"),
        ("hook = 3", "has to hold [[hook]] tables"),
        ("[[hook]]\ntarget = 'a:b'\n[other]", "has to hold [[hook]] tables"),
        ("[[hook]]\ntarget = ", "cannot be read: Invalid value"),
        ("[[hook]]\nrange = 'draft'", 'number 1: target has to read "package.module'),
        ("[[hook]]\ntarget = 'a.b.c'", 'number 1: target has to read "package.module'),
        ("[[hook]]\ntarget = 'a:b'\nrange = 'drafting'", "unknown range 'drafting'; known: cycle"),
        ("[[hook]]\ntarget = 'a:b'\nrnage = 'draft'", "unknown key 'rnage'; known: accepted"),
        ("[[hook]]\ntarget = 'a:b'\naccepted = 3", "accepted has to be a path such as"),
        ("[[hook]]\ntarget = 'a:b'\nk = true", "k has to be a path such as"),
        ("[[hook]]\ntarget = 'a:b'\nk = 'self.x()'", "not a path like"),
        ("[[hook]]\ntarget = 'a:b'\nk = '__import__(\"os\")'", "not a path like"),
        ("[[hook]]\ntarget = 'a:b'\ntag = 'yes'", "tag has to be true or false"),
        ("[[hook]]\ntarget = 'a:b'\nrange = 3", "range has to be a name or a list of names"),
    ],
)
def test_wrong_files_are_refused_with_the_place(text: str, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "targets.toml"
    file.write_text(text)
    with pytest.raises(InvalidTargets) as caught:
        read_targets(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert problem in str(caught.value)


def test_missing_or_binary_file_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InvalidTargets, match="cannot be read"):
        read_targets(tmp_path / "absent.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    monkeypatch.setenv("NVTX_HOOKS_TARGETS", str(tmp_path / "binary.toml"))
    nvtx_hooks.install(RecordingBackend())
    try:
        (problem,) = nvtx_hooks.status().problems
        assert "binary.toml: cannot be read" in problem
        assert problem in capsys.readouterr().err
    finally:
        nvtx_hooks.uninstall()


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("self.a[1].b", 5),
        ("result", "r"),
        ("count", 7),
        ("len(self.a)", 2),
        ("len( items )", 3),
        ("items[-1]", "z"),
    ],
)
def test_paths(written: str, value: Any) -> None:
    owner = SimpleNamespace(a=[0, SimpleNamespace(b=5)])
    call = Call({"self": 0, "count": 1, "items": 2}, (owner, 7), {"items": ["x", "y", "z"]})
    call.result = "r"
    assert ValuePath.parse(written).read(call) == value


@pytest.fixture
def backend() -> Iterator[RecordingBackend]:
    made = RecordingBackend()
    nvtx_hooks.install(made)
    yield made
    nvtx_hooks.uninstall()


@nvtx_hooks.phase("draft")
def drafts(count: int) -> int:
    """Draft."""
    return count


@nvtx_hooks.cycle()
def one_cycle() -> int:
    with nvtx_hooks.phase("verify"):
        nvtx_hooks.report_accepted([1, 0], k=[2, 2], request_ids=["x", "y"])
    nvtx_hooks.report_step(2, drafted=4, verified=6, padded=4)
    drafts(2)
    return nvtx_hooks.current_cycle()


def test_decorators_and_blocks(backend: RecordingBackend) -> None:
    assert [one_cycle(), one_cycle()] == [1, 2]
    assert nvtx_hooks.current_cycle() == 0
    assert drafts.__name__ == "drafts"
    one = "(cycle (verify .accept .accept ) .batch .tokens (draft ) )"
    assert names(backend.events) == f"{one} {one}"
    recording = read(backend.events)
    assert recording.marked("accept")[1] == {
        "cycle": 1,
        "request": request_hash("y"),
        "k": 2,
        "accepted": 0,
        "flags": 0,
    }
    assert recording.marked("batch")[0]["padded_requests"] == 4


def test_they_do_nothing_without_hooks() -> None:
    assert one_cycle() == 0
    nvtx_hooks.report_step("not even a number")  # type: ignore[arg-type]


def test_hooks_may_come_and_go_between_calls() -> None:
    for _ in range(2):
        assert drafts(3) == 3
        made = RecordingBackend()
        nvtx_hooks.install(made)
        assert drafts(3) == 3
        nvtx_hooks.uninstall()
        assert names(made.events) == "(draft )"


def test_exceptions_pass_and_blocks_close(backend: RecordingBackend) -> None:
    with pytest.raises(KeyError), nvtx_hooks.cycle(), nvtx_hooks.phase("draft"):
        raise KeyError
    assert names(backend.events) == "(cycle (draft ) )"


def test_late_report_names_its_cycle(backend: RecordingBackend) -> None:
    with nvtx_hooks.cycle():
        number = nvtx_hooks.current_cycle()
    with nvtx_hooks.cycle():
        nvtx_hooks.report_accepted([3], k=3, cycle=number)
    assert read(backend.events).marked("accept")[0]["cycle"] == number == 1


def test_wrong_reports_are_counted_and_never_raised(backend: RecordingBackend) -> None:
    nvtx_hooks.report_accepted([1, 2], k=3, request_ids=["only one"])
    nvtx_hooks.report_accepted(["x"], k=3)  # type: ignore[list-item]
    nvtx_hooks.report_step(-1)
    assert backend.events == []
    recorder = own_pipeline.installation.recorder()
    assert recorder is not None
    assert recorder.failures["reported"] == 3


def test_decorated_generator(backend: RecordingBackend) -> None:
    @nvtx_hooks.phase("decode")
    def tokens() -> Iterator[int]:
        yield 1
        yield 2

    assert list(tokens()) == [1, 2]
    assert names(backend.events) == "(decode ) (decode ) (decode )"
    assert [r.payload for r in read(backend.events).ranges] == [1, 2, 3]


def test_unknown_phase_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown range 'drafting'"):
        nvtx_hooks.phase("drafting")

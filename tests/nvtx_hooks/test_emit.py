from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from nvtx_hooks import emit
from nvtx_hooks.emit import choose

UNDER_TOOL = {"NVTX_INJECTION64_PATH": "/somewhere/libToolsInjection64.so"}


class FakeDomain:
    """The nvtx package's domain, noting what it is told."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def get_event_attributes(self, message: str, color: None, category: None, payload: int) -> Any:
        assert color is None
        assert category is None
        return message, payload

    def push_range(self, event: Any) -> None:
        self.seen.append(("push", *event))

    def pop_range(self) -> None:
        self.seen.append(("pop",))

    def mark(self, event: Any) -> None:
        self.seen.append(("mark", *event))

    def start_range(self, event: Any) -> int:
        self.seen.append(("start", *event))
        return 41

    def end_range(self, handle: int) -> None:
        self.seen.append(("end", handle))


class DummyDomain(FakeDomain):
    """What the nvtx package gives when the tool refuses its extension."""


@pytest.fixture
def fake_nvtx(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    nvtx, lib, inner = (ModuleType(n) for n in ("nvtx", "nvtx._lib", "nvtx._lib.lib"))
    library: Any = inner
    library.Domain = FakeDomain
    library.DomainHandle = lambda name: f"handle of {name}"
    vars(nvtx).update(_lib=lib, get_domain=lambda name: DummyDomain())
    vars(lib)["lib"] = inner
    for module in (nvtx, lib, inner):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.delenv("NVTX_DISABLE", raising=False)
    return nvtx


def library(nvtx: ModuleType) -> Any:
    return nvtx._lib.lib


def test_names_are_fixed_and_numbers_are_payloads() -> None:
    domain = FakeDomain()
    backend = emit.Nvtx(domain)
    for number in range(2):
        backend.push("verify", number)
        backend.mark("accept", 10 + number)
        backend.pop()
    backend.end(backend.start("cycle", 7))
    assert domain.seen == [
        ("push", "verify", 0),
        ("mark", "accept", 10),
        ("pop",),
        ("push", "verify", 1),
        ("mark", "accept", 11),
        ("pop",),
        ("start", "cycle", 7),
        ("end", 41),
    ]


def test_dummy_domain_is_never_asked_for(fake_nvtx: ModuleType) -> None:
    """The trap: `get_domain` gives a dummy, so the domain is made from its handle."""
    backend = choose({**UNDER_TOOL})
    assert backend.name == "nvtx"
    assert isinstance(backend, emit.Nvtx)
    made = backend._push.__self__
    assert type(made) is FakeDomain
    assert made.handle == "handle of eagle"


def test_dummy_domain_that_cannot_be_avoided_is_told(
    fake_nvtx: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuses(name: str) -> None:
        raise TypeError("changed in a later version")

    vars(library(fake_nvtx))["DomainHandle"] = refuses
    assert choose({"NVTX_HOOKS_BACKEND": "nvtx"}).name == "none"
    message = capsys.readouterr().err
    assert "NO RANGES will be recorded" in message
    assert "nvtx==0.2.11" in message
    assert message.count("\n") == 1


def test_later_version_without_the_trap_is_used(fake_nvtx: ModuleType) -> None:
    vars(library(fake_nvtx))["DomainHandle"] = lambda name: 1 / 0
    vars(fake_nvtx)["get_domain"] = lambda name: FakeDomain()
    assert choose({"NVTX_HOOKS_BACKEND": "nvtx"}).name == "nvtx"


def test_old_nvtx_is_called_through_its_functions(fake_nvtx: ModuleType) -> None:
    seen: list[Any] = []
    vars(library(fake_nvtx))["Domain"] = object
    for name in ("pop_range", "mark", "end_range"):
        vars(fake_nvtx)[name] = lambda *args, _name=name: seen.append((_name, *args))

    def push_range(message: str, color: None, domain: str, category: None, payload: int) -> None:
        seen.append(("push_range", message, color, domain, category, payload))

    vars(fake_nvtx)["push_range"] = push_range
    vars(fake_nvtx)["start_range"] = lambda *args: ("started", args[0])
    backend = choose({"NVTX_HOOKS_BACKEND": "nvtx"})
    backend.push("draft", 3)
    backend.pop()
    backend.mark("batch", 4)
    backend.end(backend.start("cycle", 5))
    assert seen == [
        ("push_range", "draft", None, "eagle", None, 3),
        ("pop_range", "eagle"),
        ("mark", "batch", None, "eagle", None, 4),
        ("end_range", ("started", "cycle")),
    ]


def test_nvtx_without_payloads_is_told(
    fake_nvtx: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    vars(library(fake_nvtx))["Domain"] = object
    vars(fake_nvtx)["push_range"] = lambda message, color, domain, category: None
    assert choose({"NVTX_HOOKS_BACKEND": "nvtx"}).name == "none"
    assert "too old for payloads" in capsys.readouterr().err


def test_missing_nvtx_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NVTX_DISABLE", raising=False)
    monkeypatch.setitem(sys.modules, "nvtx", None)
    assert choose({"NVTX_HOOKS_BACKEND": "nvtx"}).name == "none"
    assert "the nvtx package cannot be imported" in capsys.readouterr().err


def test_nvtx_disable_is_respected(
    fake_nvtx: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NVTX_DISABLE", "1")
    assert choose({"NVTX_HOOKS_BACKEND": "nvtx"}).name == "none"
    assert "NVTX_DISABLE is set" in capsys.readouterr().err


def test_unknown_backend_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert choose({"NVTX_HOOKS_BACKEND": "Magic"}).name == "none"
    assert "NVTX_HOOKS_BACKEND=magic is none of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({}, "record_function"),
        ({"NVTX_HOOKS_BACKEND": "auto"}, "record_function"),
        ({"NVTX_HOOKS_BACKEND": "none", **UNDER_TOOL}, "none"),
        ({"NVTX_HOOKS_BACKEND": "torch-nvtx"}, "torch-nvtx"),
        ({"NVTX_HOOKS_BACKEND": "record_function", **UNDER_TOOL}, "record_function"),
    ],
)
def test_choice_of_backend(environment: dict[str, str], name: str) -> None:
    assert choose(environment).name == name


def test_nothing_does_nothing() -> None:
    backend = choose({"NVTX_HOOKS_BACKEND": "none"})
    assert not backend.records
    backend.push("draft", 1)
    backend.pop()
    backend.mark("batch", 1)
    backend.end(backend.start("cycle", 1))


class FakeTorch:
    """The parts of torch that a backend may use, noting what they are told."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.profiling = True
        seen = self.seen

        class RecordFunction:
            def __init__(self, text: str) -> None:
                self.text = text

            def __enter__(self) -> None:
                seen.append(("enter", self.text))

            def __exit__(self, *raised: object) -> None:
                seen.append(("exit", self.text))

        self.autograd = SimpleNamespace(
            _profiler_enabled=lambda: self.profiling,
            profiler=SimpleNamespace(record_function=RecordFunction),
        )
        self.cuda = SimpleNamespace(
            nvtx=SimpleNamespace(
                range_push=lambda text: seen.append(("push", text)),
                range_pop=lambda: seen.append(("pop",)),
                range_start=lambda text: ("started", text),
                range_end=lambda handle: seen.append(("end", handle)),
            )
        )


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> FakeTorch:
    fake = FakeTorch()
    monkeypatch.setitem(sys.modules, "torch", fake)  # type: ignore[arg-type]
    return fake


def test_record_function_carries_numbers_in_names(torch: FakeTorch) -> None:
    backend = choose({})
    backend.push("verify", 17)
    backend.mark("accept", 99)
    backend.pop()
    backend.end(backend.start("cycle", 18))
    assert torch.seen == [
        ("enter", "eagle:verify:17"),
        ("enter", "eagle:accept:99"),
        ("exit", "eagle:accept:99"),
        ("exit", "eagle:verify:17"),
        ("enter", "eagle:cycle:18"),
        ("exit", "eagle:cycle:18"),
    ]


def test_record_function_waits_for_a_profiler(torch: FakeTorch) -> None:
    backend = choose({})
    torch.profiling = False
    backend.push("cycle", 1)
    torch.profiling = True
    backend.push("verify", 1)
    torch.profiling = False
    backend.pop()
    backend.pop()
    assert torch.seen == [("enter", "eagle:verify:1"), ("exit", "eagle:verify:1")]
    always = choose({"NVTX_HOOKS_BACKEND": "record_function"})
    always.mark("batch", 2)
    assert torch.seen[-2:] == [("enter", "eagle:batch:2"), ("exit", "eagle:batch:2")]


@pytest.mark.parametrize("backend", ["record_function", "torch-nvtx", "auto"])
def test_without_torch_nothing_is_recorded_or_imported(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    way = choose({"NVTX_HOOKS_BACKEND": backend})
    way.push("cycle", 1)
    way.mark("batch", 1)
    way.pop()
    way.end(way.start("cycle", 1))
    assert "torch" not in sys.modules


def test_torch_nvtx_has_names_only_and_no_marks(torch: FakeTorch) -> None:
    backend = choose({"NVTX_HOOKS_BACKEND": "torch-nvtx"})
    backend.push("verify", 17)
    backend.mark("accept", 99)
    backend.pop()
    backend.end(backend.start("cycle", 18))
    assert torch.seen == [
        ("push", "eagle:verify"),
        ("pop",),
        ("end", ("started", "eagle:cycle")),
    ]

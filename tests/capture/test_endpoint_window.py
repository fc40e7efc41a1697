from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.capture.engine_server import Engine, serving
from traceanalyzer.capture import endpoint_window
from traceanalyzer.capture.endpoint_window import (
    EndpointWindow,
    check_steps,
    engine_of,
    server_of,
)
from traceanalyzer.capture.plan import Window
from traceanalyzer.capture.server import Server
from traceanalyzer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

PROFILED = {"/health": (200, ""), "/start_profile": (200, "ok"), "/stop_profile": (200, "ok")}
START = ("/start_profile", {"activities": ["CUDA_PROFILER"]})


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_window, "_POLL_S", 0.01)


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def window_at(engine: Engine, text: str, settled: Callable[[], bool]) -> EndpointWindow:
    return EndpointWindow(Server.at(engine.url, "--server"), Window.parse(text), settled)


@pytest.mark.parametrize(
    ("command", "engine"),
    [
        ("python -m sglang.launch_server --model-path m", "sglang"),
        ("/opt/venv/bin/python3 -m vllm.entrypoints.openai.api_server", "vllm"),
        ("uv run vllm serve m", "vllm"),
        ("/opt/bin/sglang serve m", "sglang"),
        ("python serve.py --engine vllm", None),
        ("python -m mysglang", None),
    ],
)
def test_the_engine_is_read_from_the_command(command: str, engine: str | None) -> None:
    assert engine_of(command.split()) == engine


@pytest.mark.parametrize(
    ("address", "command", "base"),
    [
        (None, "python -m sglang.launch_server", "http://127.0.0.1:30000"),
        (None, "vllm serve m", "http://127.0.0.1:8000"),
        (None, "vllm serve m --port 9", "http://127.0.0.1:9"),
        (None, "vllm serve m --port=9 --x", "http://127.0.0.1:9"),
        ("http://gpu1:70/generate", "python serve.py", "http://gpu1:70"),
    ],
)
def test_the_servers_address_is_given_or_the_commands(
    address: str | None, command: str, base: str
) -> None:
    assert server_of(address, command.split()).base == base


def test_an_unknown_engines_address_must_be_given() -> None:
    with pytest.raises(InputError, match="not known which address") as raised:
        server_of(None, ["python", "serve.py"])
    assert "--server" in str(raised.value)


def test_steps_are_refused_where_the_engine_takes_none() -> None:
    steps = Window.parse("endpoint:1:30steps")
    with pytest.raises(InputError, match="takes no number of steps"):
        check_steps(steps, ["vllm", "serve", "m"])
    check_steps(steps, ["python", "-m", "sglang.launch_server"])
    check_steps(Window.parse("endpoint:1:30"), ["vllm", "serve", "m"])


def test_a_window_is_opened_and_closed_by_the_engine_itself() -> None:
    report: list[bool] = []
    starting = {**PROFILED, "/health": (503, "")}
    with serving(Engine(pages=starting)) as engine:
        with window_at(engine, "endpoint:0:0.05", lambda: bool(report)) as window:
            assert not window()
            assert engine.posted == []
            engine.pages = dict(PROFILED)
            until(lambda: len(engine.posted) == 2)
            assert not window()
            report.append(True)
            until(window)
        assert engine.posted == [START, ("/stop_profile", {})]
        assert window.failure is None


def test_so_many_steps_are_left_to_the_engine_to_end() -> None:
    report: list[bool] = []
    with (
        serving(Engine(pages=dict(PROFILED))) as engine,
        window_at(engine, "endpoint:0:30steps", lambda: bool(report)) as window,
    ):
        until(lambda: window.opened)
        assert not window()
        report.append(True)
        assert window()
    asked = {"activities": ["CUDA_PROFILER"], "num_steps": 30}
    assert engine.posted == [("/start_profile", asked)]


@pytest.mark.parametrize(
    ("pages", "told", "next_step"),
    [
        ({}, "404", "--profiler-config"),
        ({"/start_profile": (401, "")}, "401", "a key"),
        ({"/start_profile": (500, "busy")}, "500 .*busy", "said above"),
        ({"/start_profile": (200, "")}, "stop_profile answered 404", "--profiler-config"),
    ],
)
def test_an_endpoint_that_fails_ends_the_recording_and_says_why(
    pages: dict[str, tuple[int, str]], told: str, next_step: str
) -> None:
    with (
        serving(Engine(pages={"/health": (200, ""), **pages})) as engine,
        window_at(engine, "endpoint:0:0.01", lambda: False) as window,
    ):
        until(window)
    assert window.failure is not None
    with pytest.raises(InputError, match=told):
        raise window.failure
    assert next_step in str(window.failure)


def test_a_report_that_never_comes_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_window, "_SETTLE_SECONDS", 0.05)
    with (
        serving(Engine(pages=dict(PROFILED))) as engine,
        window_at(engine, "endpoint:0:0.01", lambda: False) as window,
    ):
        until(window)
    assert window.failure is None


def test_nothing_is_asked_once_the_program_has_ended() -> None:
    with serving(Engine(pages=dict(PROFILED))) as engine:
        with window_at(engine, "endpoint:60:1", lambda: False) as window:
            time.sleep(0.05)
        window._thread.join(10)
        assert not window._thread.is_alive()
        assert engine.posted == []

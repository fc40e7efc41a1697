from __future__ import annotations

import socket
import threading

import pytest

from tests.capture.engine_server import Engine, serving
from traceanalyzer.capture.server import Server, ServerError
from traceanalyzer.errors import InputError


@pytest.mark.parametrize("path", ["", "/", "/metrics", "/generate", "/v1/completions?x=1"])
def test_any_of_a_servers_addresses_names_it(path: str) -> None:
    assert Server.at(f"http://[::1]:30000{path}", "--server").base == "http://[::1]:30000"


@pytest.mark.parametrize(
    "text", ["", "fast", "127.0.0.1:30000", "ftp://host/x", "http://", "http://h:port", "file:///x"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="no http address") as raised:
        Server.at(text, "--untraced-check")
    assert raised.value.where == "--untraced-check"


def test_a_failing_request_says_what_the_server_said() -> None:
    with serving(Engine(pages={"/metrics": (500, "out of cheese")})) as engine:
        server = Server.at(engine.url, "--server")
        with pytest.raises(ServerError, match=r"500 .*out of cheese") as raised:
            server.get("/metrics", 5)
        assert raised.value.status == 500


def test_a_proxy_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with serving(Engine()) as engine:
        assert Server.at(engine.url, "--server").get("/health", 5) == ""


@pytest.mark.parametrize(("status", "up"), [(200, True), (404, True), (503, False)])
def test_a_server_that_says_it_is_starting_is_not_up(status: int, up: bool) -> None:
    with serving(Engine(pages={"/health": (status, "")})) as engine:
        assert Server.at(engine.url, "--server").is_up(5) is up


def test_a_server_that_never_answers_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = Server.at(f"http://127.0.0.1:{silent.getsockname()[1]}", "--server")
        with pytest.raises(ServerError, match="did not answer"):
            server.get("/metrics", 0.05)
        assert not server.is_up(0.05)


def test_what_is_no_http_at_all_is_an_error_like_any_other() -> None:
    with socket.create_server(("127.0.0.1", 0)) as odd:
        server = Server.at(f"http://127.0.0.1:{odd.getsockname()[1]}", "--server")

        def answer() -> None:
            connection, _ = odd.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"\x00\xff not http\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ServerError, match="did not answer") as raised:
            server.get("/metrics", 5)
        thread.join()
        assert raised.value.status is None

"""A capture window that opens and closes through the engine's own profile endpoint.

`/start_profile` makes the engine call cudaProfilerStart, `/stop_profile` cudaProfilerStop, and
nsys collects in between; all of it happens beside the program, which needs nobody at a keyboard.
"""

from __future__ import annotations

import threading
import time
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture.server import Server, ServerError
from traceanalyzer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from traceanalyzer.capture.plan import Window

_START: Final = "/start_profile"
_STOP: Final = "/stop_profile"
_HEALTH_SECONDS: Final = 30.0  # SGLang 0.5.9's /health generates a token first, for up to 20 s
_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 300.0  # the engine answers when its buffers are out
_SETTLE_SECONDS: Final = 60.0
_POLL_S: Final = 0.5
_DEFAULT_PORTS: Final = {"sglang": 30000, "vllm": 8000}
_NO_ENDPOINT: Final = (
    "SGLang always has it. vLLM has it when started with --profiler-config "
    '\'{"profiler": "cuda"}\' (0.13 and newer) or VLLM_TORCH_CUDA_PROFILE=1 (0.11.2 and 0.12); '
    "record an older one with --window time:DELAY_S:DURATION_S."
)


def engine_of(target: Sequence[str]) -> str | None:
    """The engine whose server a command starts: "sglang", "vllm", or None when it is not told."""
    for word in takewhile(lambda word: not word.startswith("--"), target):
        engine = word.rsplit("/", 1)[-1].partition(".")[0]
        if engine in _DEFAULT_PORTS:
            return engine
    return None


def server_of(address: str | None, target: Sequence[str]) -> Server:
    """The server whose endpoint opens the window.

    Args:
        address: What the user gave; else the engine's default port on this machine, or the one
            that the command itself gives with --port.
        target: The command that starts the server.

    Raises:
        InputError: The address is none, or no engine is known from the command.
    """
    if address is not None:
        return Server.at(address, "--server")
    engine = engine_of(target)
    if engine is None:
        raise InputError(
            "it is not known which address the server will have",
            where="--window endpoint",
            next_step="Give it: --server http://127.0.0.1:PORT.",
        )
    return Server.at(f"http://127.0.0.1:{_port(target) or _DEFAULT_PORTS[engine]}", "--port")


def _port(target: Sequence[str]) -> str | None:
    for word, following in zip(target, [*target[1:], ""], strict=True):
        if word == "--port":
            return following
        if word.startswith("--port="):
            return word.partition("=")[2]
    return None


def check_steps(window: Window, target: Sequence[str]) -> None:
    """Refuse a number of steps where the engine takes none.

    Raises:
        InputError: The command starts vLLM, whose endpoint ignores what it is sent.
    """
    if window.steps is not None and engine_of(target) == "vllm":
        raise InputError(
            "vLLM's endpoint takes no number of steps",
            where="--window",
            next_step="Give seconds (endpoint:DELAY_S:DURATION_S), or max_iterations in vLLM's "
            "own --profiler-config.",
        )


class EndpointWindow:
    """Opens the window once the server is up, and tells when all is recorded.

    Called again and again while the program runs, it answers whether collection has ended:
    after /stop_profile (or the engine's own stop after so many steps) when nsys has written the
    report, or at once when the endpoint failed; `failure` then says how.
    """

    def __init__(self, server: Server, window: Window, settled: Callable[[], bool]) -> None:
        """Watch over a program that is about to start.

        Args:
            server: The engine's.
            window: Of kind "endpoint".
            settled: Whether nsys has written its report.
        """
        self.failure: InputError | None = None
        self.opened = False
        self._server = server
        self._window = window
        self._settled = settled
        self._cancelled = threading.Event()
        self._stopped_at: float | None = None
        self._thread = threading.Thread(target=self._run, name="endpoint window", daemon=True)

    def __enter__(self) -> EndpointWindow:
        """Begin to wait for the server."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ask for nothing more."""
        self._cancelled.set()

    def __call__(self) -> bool:
        """Whether all is recorded, or nothing more will be."""
        if self.failure is not None:
            return True
        if not self.opened or (self._window.steps is None and self._stopped_at is None):
            return False
        if self._settled():
            return True
        late = self._stopped_at is not None
        return late and time.monotonic() - (self._stopped_at or 0) > _SETTLE_SECONDS

    def _run(self) -> None:
        while not self._server.is_up(_HEALTH_SECONDS):
            if self._cancelled.wait(_POLL_S):
                return
        if self._cancelled.wait(self._window.delay_s):
            return
        try:
            self._server.post(_START, self._request(), _START_SECONDS)
            self.opened = True
            if self._window.duration_s is None or self._cancelled.wait(self._window.duration_s):
                return
            self._server.post(_STOP, {}, _STOP_SECONDS)
        except ServerError as error:
            self.failure = None if self._cancelled.is_set() else _explained(error)
        self._stopped_at = time.monotonic()

    def _request(self) -> dict[str, object]:
        """What SGLang's endpoint asks for; vLLM's takes no body and ignores it."""
        steps = {} if self._window.steps is None else {"num_steps": self._window.steps}
        return {"activities": ["CUDA_PROFILER"], **steps}


def _explained(error: ServerError) -> InputError:
    if error.status in (404, 405):
        next_step = _NO_ENDPOINT
    elif error.status in (401, 403):
        next_step = "The server asks for a key: start it without one for the recording."
    else:
        next_step = "See what the server said above."
    return InputError(
        f"the window was not opened or closed: {error}",
        where="--window endpoint",
        next_step=next_step,
    )

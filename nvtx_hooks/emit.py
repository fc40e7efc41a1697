"""How ranges and marks leave the process: nvtx, torch.cuda.nvtx, record_function, or nowhere.

`choose` picks one backend; nothing here imports torch, and a backend never synchronises.
"""

from __future__ import annotations

import inspect
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Final, Protocol

from nvtx_hooks import vocabulary

if TYPE_CHECKING:
    from collections.abc import Mapping

BACKEND_VARIABLE: Final = "NVTX_HOOKS_BACKEND"
AUTO: Final = "auto"


class Backend(Protocol):
    """One way out. Calls come balanced on each thread; `Recorder` sees to that."""

    name: str
    records: bool

    def push(self, name: str, payload: int) -> None:
        """Open a range on this thread."""

    def pop(self) -> None:
        """Close this thread's innermost pushed range."""

    def start(self, name: str, payload: int) -> object:
        """Open a range that outlives the current call; the result closes it."""

    def end(self, started: Any) -> None:
        """Close a range that `start` opened on this thread."""

    def mark(self, name: str, payload: int) -> None:
        """Note an instant."""


class Nothing:
    """Records nothing; hooks see `records` and pass straight through."""

    name = "none"
    records = False

    def push(self, name: str, payload: int) -> None:
        """Do nothing."""

    def pop(self) -> None:
        """Do nothing."""

    def start(self, name: str, payload: int) -> None:
        """Do nothing."""

    def end(self, started: object) -> None:
        """Do nothing."""

    def mark(self, name: str, payload: int) -> None:
        """Do nothing."""


class Nvtx:
    """The nvtx package, with names registered once and numbers in int64 payloads.

    Args:
        domain: An nvtx domain object that is no dummy.
    """

    name = "nvtx"
    records = True

    def __init__(self, domain: Any) -> None:
        # The package registers each name when it first sees it; only its own method knows how
        # its version makes an event, and it costs 0.2 us more than the class behind it.
        self._event = domain.get_event_attributes
        self._push = domain.push_range
        self._mark = domain.mark
        self._start = domain.start_range
        self.pop = domain.pop_range
        self.end = domain.end_range

    def push(self, name: str, payload: int) -> None:
        """Open a range on this thread."""
        self._push(self._event(name, None, None, payload))

    def start(self, name: str, payload: int) -> object:
        """Open a range that outlives the current call."""
        return self._start(self._event(name, None, None, payload))

    def mark(self, name: str, payload: int) -> None:
        """Note an instant."""
        self._mark(self._event(name, None, None, payload))


class NvtxFunctions:
    """The nvtx package before it had methods on domains (0.2.11 and older).

    Args:
        nvtx: The package.
    """

    name = "nvtx"
    records = True

    def __init__(self, nvtx: Any) -> None:
        self._nvtx = nvtx

    def push(self, name: str, payload: int) -> None:
        """Open a range on this thread."""
        self._nvtx.push_range(name, None, vocabulary.DOMAIN, None, payload)

    def pop(self) -> None:
        """Close this thread's innermost pushed range."""
        self._nvtx.pop_range(vocabulary.DOMAIN)

    def start(self, name: str, payload: int) -> object:
        """Open a range that outlives the current call."""
        return self._nvtx.start_range(name, None, vocabulary.DOMAIN, None, payload)

    def end(self, started: Any) -> None:
        """Close a range that `start` opened."""
        self._nvtx.end_range(started)

    def mark(self, name: str, payload: int) -> None:
        """Note an instant."""
        self._nvtx.mark(name, None, vocabulary.DOMAIN, None, payload)


class TorchNvtx:
    """`torch.cuda.nvtx`: ranges in the default domain, without payloads.

    It has no payloads, so cycle numbers are lost and marks, whose meaning is their payload, are
    left out. For an old Nsight Systems under which the nvtx package fails.
    """

    name = "torch-nvtx"
    records = True

    def __init__(self) -> None:
        self._local = threading.local()

    def _module(self) -> Any:
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        return getattr(cuda, "nvtx", None)

    def push(self, name: str, payload: int) -> None:
        """Open a range on this thread, once the host has imported torch."""
        module = self._module()
        if module is not None:
            module.range_push(vocabulary.annotation(name))
        _stack(self._local).append(module)

    def pop(self) -> None:
        """Close this thread's innermost pushed range."""
        module = _stack(self._local).pop()
        if module is not None:
            module.range_pop()

    def start(self, name: str, payload: int) -> object:
        """Open a range that outlives the current call."""
        module = self._module()
        return module and (module, module.range_start(vocabulary.annotation(name)))

    def end(self, started: Any) -> None:
        """Close a range that `start` opened."""
        if started:
            module, handle = started
            module.range_end(handle)

    def mark(self, name: str, payload: int) -> None:
        """Leave it out."""


class RecordFunction:
    """`torch.profiler.record_function`, with numbers in the names.

    Args:
        always: Emit whether or not a profiler is on; otherwise only while one is on this thread.
    """

    name = "record_function"
    records = True

    def __init__(self, *, always: bool) -> None:
        self._always = always
        self._local = threading.local()

    def _opened(self, name: str, payload: int) -> Any:
        torch = sys.modules.get("torch")
        autograd = getattr(torch, "autograd", None)
        if autograd is None or not (self._always or autograd._profiler_enabled()):
            return None
        context = autograd.profiler.record_function(vocabulary.annotation(name, payload))
        context.__enter__()
        return context

    def push(self, name: str, payload: int) -> None:
        """Open a range on this thread."""
        _stack(self._local).append(self._opened(name, payload))

    def pop(self) -> None:
        """Close this thread's innermost pushed range."""
        self.end(_stack(self._local).pop())

    def start(self, name: str, payload: int) -> object:
        """Open a range that outlives the current call."""
        return self._opened(name, payload)

    def end(self, started: Any) -> None:
        """Close a range that `start` opened."""
        if started is not None:
            started.__exit__(None, None, None)

    def mark(self, name: str, payload: int) -> None:
        """Note an instant, as a range of no length."""
        self.end(self._opened(name, payload))


def _stack(local: threading.local) -> list[Any]:
    """This thread's stack of open contexts."""
    try:
        stack: list[Any] = local.stack
    except AttributeError:
        stack = local.stack = []
    return stack


def _nvtx() -> Backend | None:
    """The nvtx package with a domain that records, or None with a word on stderr.

    From 0.2.12 on the package asks the tool whether a domain is enabled. Nsight Systems 2022.4
    and 2023.4 refuse the extension behind that question, which reads as "no", and every range
    would silently go to a dummy. Under a tool the domain is therefore built from its handle,
    without the question; asking it was also reported to crash an older Nsight Systems.
    """
    if os.environ.get("NVTX_DISABLE"):
        say("NVTX_DISABLE is set: no NVTX ranges will be recorded")
        return None
    try:
        import nvtx
        import nvtx._lib.lib as library
    except Exception:
        say("the nvtx package cannot be imported: no NVTX ranges will be recorded")
        return None
    domain_class: Any = getattr(library, "Domain", None)
    if not hasattr(domain_class, "push_range"):
        if "payload" in inspect.signature(nvtx.push_range).parameters:
            return NvtxFunctions(nvtx)
        say("the nvtx package is too old for payloads: install nvtx>=0.2.11")
        return None
    try:
        domain: Any = object.__new__(domain_class)
        domain.handle = library.DomainHandle(vocabulary.DOMAIN)
        return Nvtx(domain)
    except Exception:
        domain = nvtx.get_domain(vocabulary.DOMAIN)
    if type(domain).__name__ == "DummyDomain":
        say(
            "this Nsight Systems does not accept the nvtx package that is installed: NO RANGES "
            "will be recorded. Install nvtx==0.2.11, or set NVTX_HOOKS_BACKEND=torch-nvtx."
        )
        return None
    return Nvtx(domain)


def say(text: str) -> None:
    """One line on stderr."""
    print(f"nvtx_hooks: {text}", file=sys.stderr, flush=True)


def under_nvtx_tool(environment: Mapping[str, str]) -> bool:
    """Whether an NVTX tool such as Nsight Systems injects itself into this process."""
    return bool(environment.get("NVTX_INJECTION64_PATH"))


def choose(environment: Mapping[str, str] | None = None) -> Backend:
    """The backend that NVTX_HOOKS_BACKEND names, or the one that suits the process.

    Args:
        environment: Read instead of `os.environ`.

    Returns:
        For `nvtx`, `torch-nvtx`, `record_function` and `none` that one. For `auto` or nothing:
        nvtx under an NVTX tool, else record_function while a torch profiler is on. `Nothing` when
        the backend cannot work, or the name is unknown; stderr says so.
    """
    environment = os.environ if environment is None else environment
    wanted = environment.get(BACKEND_VARIABLE, "").strip().lower() or AUTO
    if wanted == AUTO:
        if under_nvtx_tool(environment):
            return _nvtx() or RecordFunction(always=False)
        return RecordFunction(always=False)
    if wanted == Nvtx.name:
        return _nvtx() or Nothing()
    if wanted == TorchNvtx.name:
        return TorchNvtx()
    if wanted == RecordFunction.name:
        return RecordFunction(always=True)
    if wanted != Nothing.name:
        say(f"{BACKEND_VARIABLE}={wanted} is none of auto, nvtx, torch-nvtx, record_function, none")
    return Nothing()

"""Putting the hooks into this process, taking them out again, and saying which are live.

`install` is idempotent and imports no engine: targets are hooked in modules that are there, and in
the others as they are imported.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nvtx_hooks import emit, patching
from nvtx_hooks.advice import advice_for, parameter_positions
from nvtx_hooks.post_import import Watcher
from nvtx_hooks.recording import Recorder
from nvtx_hooks.targets import ENGINES, engine_targets

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FunctionType, ModuleType

    from nvtx_hooks.emit import Backend
    from nvtx_hooks.targets import Target

TARGETS_VARIABLE: Final = "NVTX_HOOKS_TARGETS"
"""Names a TOML file with the targets of a pipeline of one's own."""

WAITING: Final = "waiting"
HOOKED: Final = "hooked"
SKIPPED: Final = "skipped"


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """How one target stands in this process.

    Attributes:
        target: `module:attribute`.
        state: `waiting` for its module, `hooked`, or `skipped`.
        reason: Why it was skipped.
        failures: Errors of its hook so far; the host has seen none of them.
        first_failure: The first of these.
    """

    target: str
    state: str
    reason: str = ""
    failures: int = 0
    first_failure: str = ""


@dataclass(frozen=True, slots=True)
class Status:
    """What the hooks do in this process.

    Attributes:
        installed: Whether `install` is in force.
        backend: Name of the way out, "" before the first hook needed one.
        targets: One entry a target of every engine that was imported, and of the user's own.
        problems: What went wrong outside any target.
    """

    installed: bool
    backend: str = ""
    targets: tuple[TargetStatus, ...] = ()
    problems: tuple[str, ...] = ()


class Installation:
    """The hooks of one process.

    Args:
        backend: Way out to use; None: chosen from the environment when the first hook needs it.
        own_targets: Targets of the user's own pipeline.
    """

    def __init__(self, backend: Backend | None, own_targets: Sequence[Target]) -> None:
        self._lock = threading.RLock()
        self._backend = backend
        self._recorder: Recorder | None = None
        self._wanted: dict[str, list[Target]] = {}
        self._engines: set[str] = set()
        self._states: dict[str, tuple[str, str]] = {}
        self._patches: list[tuple[Target, patching.Patch]] = []
        self.problems: list[str] = []
        for target in own_targets:
            self._want(target)
        packages = {*ENGINES, *(name.partition(".")[0] for name in self._wanted)}
        self._watcher = Watcher(packages, self._matters, self._ready)

    def start(self) -> None:
        """Hook what is imported, and what will be."""
        self._watcher.start()

    def stop(self) -> None:
        """Put every original back."""
        with self._lock:
            self._watcher.stop()
            if self._recorder is not None:
                self._recorder.stop()
            for target, patch in reversed(self._patches):
                patching.restore(patch, everywhere=target.everywhere)
            self._patches.clear()

    def forked(self) -> None:
        """Start afresh in a child made by `os.fork`."""
        self._lock = threading.RLock()
        if self._recorder is not None:
            self._recorder.forked()

    @property
    def recorder(self) -> Recorder:
        """The process's recorder, made when it is first needed.

        The nvtx package pulls in NumPy, which is too much for the start of every interpreter.
        """
        with self._lock:
            if self._recorder is None:
                self._recorder = Recorder(self._backend or emit.choose())
            return self._recorder

    def status(self) -> Status:
        """How each target stands."""
        with self._lock:
            recorder = self._recorder
            return Status(
                installed=True,
                backend="" if recorder is None else recorder.backend.name,
                targets=tuple(
                    TargetStatus(
                        name,
                        state,
                        reason,
                        0 if recorder is None else recorder.failures[name],
                        "" if recorder is None else recorder.first_failure.get(name, ""),
                    )
                    for name, (state, reason) in self._states.items()
                ),
                problems=tuple(self.problems),
            )

    def _want(self, target: Target) -> None:
        self._wanted.setdefault(target.module, []).append(target)
        self._states[target.name] = (WAITING, "")

    def _matters(self, module_name: str) -> bool:
        """Whether a module holds targets; reads an engine's targets at its first module."""
        engine = module_name.partition(".")[0]
        if engine in ENGINES and engine not in self._engines:
            self._engines.add(engine)
            try:
                for target in engine_targets(engine):
                    self._want(target)
            except Exception as error:
                self.problems.append(f"targets of {engine}: {type(error).__name__}: {error}")
        return module_name in self._wanted

    def _ready(self, module: ModuleType) -> None:
        """Hook the targets of a module whose code has run."""
        with self._lock:
            for target in self._wanted.get(module.__name__, ()):
                try:
                    self._hook(module, target)
                except patching.Unresolved as missing:
                    self._skip(target, str(missing))
                except Exception as error:
                    self._skip(target, f"{type(error).__name__}: {error}")

    def _skip(self, target: Target, reason: str) -> None:
        if self._states[target.name][0] != HOOKED:
            self._states[target.name] = (SKIPPED, reason)

    def _hook(self, module: ModuleType, target: Target) -> None:
        recorder = self.recorder

        def make(function: FunctionType) -> patching.Around:
            if patching.resumes(function) and (target.step or target.observe or target.context):
                raise patching.Unresolved("a generator or coroutine can only have a plain range")
            return advice_for(target, recorder, parameter_positions(function))

        patch = patching.replace(module, target.attribute, make, everywhere=target.everywhere)
        self._patches.append((target, patch))
        self._states[target.name] = (HOOKED, "")


_installing = threading.RLock()
_current: Installation | None = None
_fork_handled = False


def install(backend: Backend | None = None) -> None:
    """Hook the engines that this process has imported or will import. Never raises.

    A second call does nothing. The targets of a pipeline of one's own are read from the TOML file
    that NVTX_HOOKS_TARGETS names; what is wrong with it is told by `status`.

    Args:
        backend: Way out instead of the one that NVTX_HOOKS_BACKEND or the environment calls for.
    """
    global _current, _fork_handled
    try:
        with _installing:
            if _current is not None:
                return
            own: tuple[Target, ...] = ()
            problems = []
            path = os.environ.get(TARGETS_VARIABLE)
            if path:
                from nvtx_hooks.own_pipeline import InvalidTargets, read_targets

                try:
                    own = read_targets(path)
                except InvalidTargets as error:
                    problems.append(str(error))
                    emit.say(str(error))
            _current = Installation(backend, own)
            _current.problems += problems
            if not _fork_handled:
                os.register_at_fork(after_in_child=_forked)
                _fork_handled = True
            _current.start()
    except Exception as error:
        emit.say(f"hooks could not be installed: {type(error).__name__}: {error}")


def uninstall() -> None:
    """Put every original back; functions, methods and imported names are the very same again."""
    global _current
    with _installing:
        installation, _current = _current, None
    if installation is not None:
        installation.stop()


def status() -> Status:
    """What the hooks do in this process."""
    installation = _current
    return Status(installed=False) if installation is None else installation.status()


def recorder() -> Recorder | None:
    """The process's recorder while hooks are installed."""
    installation = _current
    return None if installation is None else installation.recorder


def _forked() -> None:
    global _installing
    _installing = threading.RLock()
    if _current is not None:
        _current.forked()

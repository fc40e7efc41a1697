"""Being told when a module of an engine has been imported, without importing it.

`Watcher` sits first on `sys.meta_path`, looks only at top-level packages it was given, and lets
the other finders find. When the module's code has run, its spec and loader are the real ones.
"""

from __future__ import annotations

import sys
import threading
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from importlib.machinery import ModuleSpec


class Watcher:
    """A finder that finds nothing itself and tells when a watched module is ready.

    Args:
        packages: Top-level packages to look at.
        wanted: Whether a module of them matters, by its full name.
        ready: Called with each such module once its code has run; must not raise.
    """

    def __init__(
        self,
        packages: Collection[str],
        wanted: Callable[[str], bool],
        ready: Callable[[ModuleType], None],
    ) -> None:
        self._packages = frozenset(packages)
        self._wanted = wanted
        self._ready = ready
        self._local = threading.local()
        self._unfinished: dict[str, ModuleType] = {}

    def start(self) -> None:
        """Watch from now on; modules that are there already are reported at once."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        for name, module in list(sys.modules.items()):
            if (
                isinstance(module, ModuleType)
                and name.partition(".")[0] in self._packages
                and self._wanted(name)
            ):
                self._report(name, module)

    def stop(self) -> None:
        """Watch no more."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        self._unfinished.clear()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Let the other finders find a watched module, and stand before its loader.

        Returns:
            Their spec with our loader in front, or None for every other module.
        """
        if self._unfinished:
            self._revisit()
        if fullname.partition(".")[0] not in self._packages:
            return None
        finding: set[str] = self._local.__dict__.setdefault("finding", set())
        if fullname in finding or not self._wanted(fullname):
            return None
        finding.add(fullname)
        try:
            spec = self._others_find(fullname, path, target)
        finally:
            finding.discard(fullname)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader, self._ready)  # type: ignore[assignment]
        return spec

    def _others_find(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: ModuleSpec | None = find(fullname, path, target)
            if spec is not None:
                return spec
        return None

    def _report(self, name: str, module: ModuleType) -> None:
        """Report a module, or remember it while its code is still running."""
        if getattr(getattr(module, "__spec__", None), "_initializing", False):
            self._unfinished[name] = module
        else:
            self._ready(module)

    def _revisit(self) -> None:
        """Report modules that were still running their code when watching began."""
        for name, module in list(self._unfinished.items()):
            if not getattr(getattr(module, "__spec__", None), "_initializing", False):
                self._unfinished.pop(name, None)
                self._ready(module)


class _Loader:
    """Stands before a module's own loader until its code has run."""

    def __init__(self, loader: Any, ready: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._ready = ready

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Let the real loader make the module."""
        make = getattr(self._loader, "create_module", None)
        module: ModuleType | None = None if make is None else make(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Step aside, let the real loader run the code, then report the module."""
        for holder, name in ((module.__spec__, "loader"), (module, "__loader__")):
            if getattr(holder, name, None) is self:
                setattr(holder, name, self._loader)
        self._loader.exec_module(module)
        self._ready(module)

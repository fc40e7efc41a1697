"""Modules that can be imported although their package is not here; calling their names raises."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys


class Absent:
    """A name of a package that is not here: it can be imported, not called."""

    def __init__(self, name):
        self.__name__ = name

    def __call__(self, *arguments, **options):
        """Refuse.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(f"{self.__name__} is not here")

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")


def absent_in(module):
    """A module's `__getattr__` under which every name is there."""

    def getter(name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{module}.{name}")

    return getter


class Submodules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every submodule of a package, but those that must look absent.

    Args:
        package: Name of the package.
        getter: Makes a module's `__getattr__` from its name.
        missing: Starts of module names that are not found.
    """

    def __init__(self, package, getter=absent_in, missing=()):
        self._package, self._getter, self._missing = package, getter, missing
        sys.meta_path.append(self)

    def find_spec(self, name, path=None, target=None):
        """A spec for a submodule of the package."""
        if not name.startswith(f"{self._package}.") or name.startswith(self._missing):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        """The usual module."""

    def exec_module(self, module):
        """Give it every name."""
        module.__getattr__ = self._getter(module.__name__)

"""Putting a wrapper in a function's place, and the very same function back.

A wrapper is a plain closure that takes any arguments, so new parameters of the host pass through,
and that keeps the function's name, signature and kind (plain, static, class method, generator,
coroutine). What it cannot stand in for is refused with a reason.
"""

from __future__ import annotations

import functools
import inspect
import sys
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

WRAPPED = "__nvtx_hooks_original__"
"""Attribute of a wrapper: the function it stands for."""


class Around(Protocol):
    """What happens around a call; `advice.Advice` in production."""

    def enter(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Called before; never raises."""

    def leave(self, opened: Any, result: Any, *, finished: bool) -> Any:
        """Called after, with what `enter` gave; returns what the host gets; never raises."""


class Unresolved(LookupError):
    """The target is not there, or cannot be wrapped; the text says why."""


@dataclass(slots=True)
class Patch:
    """One replaced attribute.

    Attributes:
        owner: Class or module that holds it.
        name: Its name there.
        original: What stood there, descriptors included.
        replacement: What stands there now.
        function: The function behind `original`.
        wrapper: The function behind `replacement`.
        copies: Modules and names where the same function was bound by import.
    """

    owner: Any
    name: str
    original: Any
    replacement: Any
    function: Any
    wrapper: Any
    copies: list[tuple[ModuleType, str]] = field(default_factory=list)


def locate(module: ModuleType, attribute: str) -> tuple[Any, str, Any]:
    """Owner, name and raw value of `attribute` in a module.

    Only what the owner itself defines counts: an inherited method is its base's to hook.

    Raises:
        Unresolved: A part of the path is missing.
    """
    *path, name = attribute.split(".")
    owner: Any = module
    for part in path:
        owner = vars(owner).get(part)
        if not isinstance(owner, type):
            raise Unresolved(f"no class {part}")
    if name not in vars(owner):
        raise Unresolved(f"no {name}")
    return owner, name, vars(owner)[name]


def underlying(raw: Any) -> FunctionType:
    """The function behind a raw attribute.

    Raises:
        Unresolved: It is a property, a compiled or jitted object, an async generator, or anything
            else a closure cannot stand in for.
    """
    function = raw.__func__ if isinstance(raw, (staticmethod, classmethod)) else raw
    if not isinstance(function, FunctionType):
        raise Unresolved(f"not a plain function but {type(function).__name__}")
    if inspect.isasyncgenfunction(function):
        raise Unresolved("an async generator: its ranges cannot nest")
    return function


def resumes(function: Callable[..., Any]) -> bool:
    """Whether the function is a generator or coroutine, which runs in pieces."""
    return inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function)


def wrap(function: Callable[..., Any], around: Around) -> Callable[..., Any]:
    """A function of the same kind that calls `function` with `around` around it.

    A generator or coroutine gets one range for each time it runs, from its resumption to its next
    yield, so that whatever runs on the thread in between stays outside.
    """
    if inspect.isgeneratorfunction(function):
        wrapper = _generator_wrapper(function, around)
    elif inspect.iscoroutinefunction(function):
        wrapper = _coroutine_wrapper(function, around)
    else:
        wrapper = _plain_wrapper(function, around)
    wrapper = functools.wraps(function)(wrapper)
    setattr(wrapper, WRAPPED, function)
    return wrapper


def _plain_wrapper(function: Callable[..., Any], around: Around) -> Callable[..., Any]:
    enter, leave = around.enter, around.leave

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        opened = enter(args, kwargs)
        if opened is None:
            return function(*args, **kwargs)
        try:
            result = function(*args, **kwargs)
        except BaseException:
            leave(opened, None, finished=False)
            raise
        return leave(opened, result, finished=True)

    return wrapper


def _generator_wrapper(function: Callable[..., Any], around: Around) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        return (yield from _driven(function(*args, **kwargs), around, args, kwargs))

    return wrapper


def _coroutine_wrapper(function: Callable[..., Any], around: Around) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        return await _Driven(function(*args, **kwargs), around, args, kwargs)

    return wrapper


class _Driven:
    """An awaitable that runs a coroutine piece by piece inside ranges."""

    def __init__(self, inner: Any, around: Around, args: tuple[Any, ...], kwargs: Any) -> None:
        self._driven = _driven(inner, around, args, kwargs)

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._driven


def _driven(
    inner: Any, around: Around, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Generator[Any, Any, Any]:
    """Run a generator or coroutine, each piece of it inside the ranges of `around`."""
    resume, value = inner.send, None
    while True:
        opened = around.enter(args, kwargs)
        try:
            item = resume(value)
        except StopIteration as stop:
            around.leave(opened, stop.value, finished=True)
            return stop.value
        except BaseException:
            around.leave(opened, None, finished=False)
            raise
        around.leave(opened, None, finished=False)
        try:
            resume, value = inner.send, (yield item)
        except GeneratorExit:
            inner.close()
            raise
        except BaseException as error:
            resume, value = inner.throw, error


def _like(raw: Any, function: Callable[..., Any]) -> Any:
    """`function` as the same kind of attribute as `raw`."""
    if isinstance(raw, (staticmethod, classmethod)):
        return type(raw)(function)
    return function


def modules_binding(function: Any) -> list[tuple[ModuleType, str]]:
    """Modules that hold this very function under some name, from imports by name."""
    found = []
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType):
            found += [
                (module, name) for name, value in list(vars(module).items()) if value is function
            ]
    return found


def replace(
    module: ModuleType, attribute: str, make: Callable[[FunctionType], Around], *, everywhere: bool
) -> Patch:
    """Put a wrapper in the place of a function.

    Args:
        module: Module that holds it.
        attribute: `function` or `Class.method`.
        make: Gives what happens around a call of the function.
        everywhere: Also replace it where other modules imported it by name.

    Raises:
        Unresolved: It is not there, is wrapped already, or cannot be wrapped.
    """
    owner, name, raw = locate(module, attribute)
    function = underlying(raw)
    if hasattr(function, WRAPPED):
        raise Unresolved("hooked already")
    wrapper = wrap(function, make(function))
    patch = Patch(owner, name, raw, _like(raw, wrapper), function, wrapper)
    if everywhere:
        patch.copies = [
            place for place in modules_binding(function) if place != (module, attribute)
        ]
    setattr(owner, name, patch.replacement)
    for copy, copy_name in patch.copies:
        setattr(copy, copy_name, wrapper)
    return patch


def restore(patch: Patch, *, everywhere: bool) -> bool:
    """Undo `replace`.

    Args:
        patch: What it returned.
        everywhere: As given to `replace`; modules that imported the wrapper since then are found.

    Returns:
        False when somebody else has replaced the attribute since then: it is left as it is, and
        our wrapper inside theirs passes every call straight through.
    """
    undone = vars(patch.owner).get(patch.name) is patch.replacement
    if undone:
        setattr(patch.owner, patch.name, patch.original)
    if everywhere:
        for module, name in modules_binding(patch.wrapper):
            setattr(module, name, patch.function)
    return undone

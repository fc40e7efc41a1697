from __future__ import annotations

import asyncio
import inspect
import pickle
import sys
from dataclasses import dataclass, field
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from nvtx_hooks import patching

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Iterator


@dataclass
class Log:
    """An `Around` that notes what it sees."""

    seen: list[Any] = field(default_factory=list)

    def enter(self, args: tuple[Any, ...], kwargs: Any) -> Any:
        self.seen.append(("enter", args, dict(kwargs)))
        return "opened"

    def leave(self, opened: Any, result: Any, *, finished: bool) -> Any:
        self.seen.append(("leave", opened, result, finished))
        return result

    @property
    def order(self) -> list[str]:
        return [entry[0] for entry in self.seen]


def function(a: int, b: int = 2, *, c: int = 3) -> int:
    """Add."""
    return a + b + c


class Owner:
    def method(self, value: int) -> tuple[Any, int]:
        return self, value

    @staticmethod
    def static(value: int) -> int:
        return value

    @classmethod
    def of_class(cls, value: int) -> tuple[type, int]:
        return cls, value

    @property
    def prop(self) -> int:
        return 1

    @lru_cache(maxsize=2)  # noqa: B019
    def cached(self) -> int:
        return 1

    async def agen(self) -> AsyncIterator[int]:
        yield 1


class Child(Owner):
    pass


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    made = ModuleType("patched_module")
    made.function = function  # type: ignore[attr-defined]
    made.Owner = Owner  # type: ignore[attr-defined]
    made.Child = Child  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "patched_module", made)
    return made


def replaced(module: ModuleType, attribute: str, log: Log, everywhere: bool = False) -> Any:
    return patching.replace(module, attribute, lambda _: log, everywhere=everywhere)


def test_wrapper_looks_like_the_function_and_passes_everything() -> None:
    log = Log()
    wrapper = patching.wrap(function, log)
    assert wrapper(1, c=5) == 8
    assert wrapper.__name__ == "function"
    assert wrapper.__doc__ == "Add."
    assert wrapper.__qualname__ == function.__qualname__
    assert inspect.signature(wrapper) == inspect.signature(function)
    assert log.seen == [("enter", (1,), {"c": 5}), ("leave", "opened", 8, True)]


def test_exception_of_the_function_is_the_very_same() -> None:
    error = KeyError("mine")

    def fails() -> None:
        raise error

    log = Log()
    with pytest.raises(KeyError) as caught:
        patching.wrap(fails, log)()
    assert caught.value is error
    assert log.seen[-1] == ("leave", "opened", None, False)


@pytest.mark.parametrize("attribute", ["Owner.method", "Owner.static", "Owner.of_class"])
def test_kind_of_method_is_kept_and_restored(module: ModuleType, attribute: str) -> None:
    name = attribute.partition(".")[2]
    before = vars(Owner)[name]
    log = Log()
    patch = replaced(module, attribute, log)
    try:
        assert type(vars(Owner)[name]) is type(before)
        child = Child()
        expected = {"method": (child, 4), "static": 4, "of_class": (Child, 4)}[name]
        assert getattr(child, name)(4) == expected
        assert log.order == ["enter", "leave"]
    finally:
        assert patching.restore(patch, everywhere=False)
    assert vars(Owner)[name] is before


@pytest.mark.parametrize(
    ("attribute", "reason"),
    [
        ("Owner.prop", "not a plain function but property"),
        ("Owner.cached", "not a plain function but _lru_cache_wrapper"),
        ("Owner.agen", "async generator"),
        ("Owner.absent", "no absent"),
        ("Absent.method", "no class Absent"),
        ("Child.method", "no method"),
        ("Owner", "not a plain function but type"),
        ("absent", "no absent"),
    ],
)
def test_what_cannot_be_wrapped_is_refused(module: ModuleType, attribute: str, reason: str) -> None:
    with pytest.raises(patching.Unresolved, match=reason):
        replaced(module, attribute, Log())


def test_a_wrapped_function_is_not_wrapped_again(module: ModuleType) -> None:
    patch = replaced(module, "Owner.method", Log())
    try:
        with pytest.raises(patching.Unresolved, match="hooked already"):
            replaced(module, "Owner.method", Log())
    finally:
        patching.restore(patch, everywhere=False)


def test_names_imported_before_and_after_are_replaced_and_restored(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def target() -> int:
        return 7

    early, late = ModuleType("early_consumer"), ModuleType("late_consumer")
    monkeypatch.setitem(sys.modules, "early_consumer", early)
    monkeypatch.setitem(sys.modules, "late_consumer", late)
    vars(module)["target"] = vars(early)["renamed"] = target
    log = Log()
    patch = replaced(module, "target", log, everywhere=True)
    vars(late)["target"] = vars(module)["target"]
    assert vars(early)["renamed"]() == vars(late)["target"]() == 7
    assert log.order == ["enter", "leave"] * 2
    assert patching.restore(patch, everywhere=True)
    for consumer, name in ((module, "target"), (early, "renamed"), (late, "target")):
        assert vars(consumer)[name] is target


def test_only_the_named_binding_is_replaced_otherwise(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = ModuleType("other_consumer")
    monkeypatch.setitem(sys.modules, "other_consumer", other)
    vars(other)["function"] = function
    patch = replaced(module, "function", Log())
    assert vars(other)["function"] is function
    assert vars(module)["function"] is not function
    patching.restore(patch, everywhere=False)
    assert vars(module)["function"] is function


def test_somebody_elses_wrapper_around_ours_is_left_alone(module: ModuleType) -> None:
    patch = replaced(module, "Owner.method", Log())
    ours = vars(Owner)["method"]

    def theirs(self: Owner, value: int) -> Any:
        return ours(self, value)

    Owner.method = theirs  # type: ignore[method-assign]
    try:
        assert not patching.restore(patch, everywhere=False)
        assert vars(Owner)["method"] is theirs
    finally:
        Owner.method = patch.original  # type: ignore[method-assign]


def test_a_replaced_function_still_pickles_by_name(module: ModuleType) -> None:
    here = sys.modules[__name__]
    patch = replaced(here, "function", Log())
    try:
        wrapper = vars(here)["function"]
        assert pickle.loads(pickle.dumps(wrapper)) is wrapper
    finally:
        patching.restore(patch, everywhere=False)


def generator(count: int) -> Generator[int, str, str]:
    got = []
    for number in range(count):
        try:
            got.append((yield number))
        except ValueError:
            got.append("caught")
    return ",".join(got)


def test_generator_has_one_range_each_time_it_runs() -> None:
    log = Log()
    wrapper = patching.wrap(generator, log)
    assert inspect.isgeneratorfunction(wrapper)
    running = wrapper(2)
    assert log.seen == [], "nothing runs before the first next()"
    assert next(running) == 0
    assert log.order == ["enter", "leave"], "suspended outside any range"
    assert running.throw(ValueError()) == 1
    with pytest.raises(StopIteration) as stopped:
        running.send("x")
    assert stopped.value.value == "caught,x"
    assert log.order == ["enter", "leave"] * 3
    assert log.seen[-1] == ("leave", "opened", "caught,x", True)


def test_closing_a_generator_runs_its_cleanup() -> None:
    cleaned = []

    def gen() -> Iterator[int]:
        try:
            yield 1
        finally:
            cleaned.append(True)

    log = Log()
    running = patching.wrap(gen, log)()
    next(running)
    running.close()  # type: ignore[attr-defined]
    assert cleaned == [True]
    assert log.order == ["enter", "leave"]


def test_generator_that_raises_closes_its_range() -> None:
    def gen() -> Iterator[int]:
        yield 1
        raise KeyError("mine")

    log = Log()
    running = patching.wrap(gen, log)()
    next(running)
    with pytest.raises(KeyError, match="mine"):
        next(running)
    assert log.seen[-1] == ("leave", "opened", None, False)


def test_coroutine_has_one_range_each_time_it_runs() -> None:
    log = Log()

    async def work(value: int) -> int:
        await asyncio.sleep(0)
        return value + 1

    wrapper = patching.wrap(work, log)
    assert inspect.iscoroutinefunction(wrapper)

    async def both() -> list[int]:
        return await asyncio.gather(wrapper(1), wrapper(2))

    assert asyncio.run(both()) == [2, 3]
    # Two tasks take turns on one thread, and no range is open across a turn.
    assert log.order == ["enter", "leave"] * 4


def test_class_with_two_names_for_one_method(module: ModuleType) -> None:
    class Twice:
        def one(self) -> int:
            return 1

        two: Callable[[Any], int] = one

    vars(module)["Twice"] = Twice
    log = Log()
    patch = replaced(module, "Twice.one", log)
    assert Twice().two() == 1
    assert log.seen == []
    patching.restore(patch, everywhere=False)

"""Runs drawn cases one by one and says of each: read, refused, or one of three defects."""

from __future__ import annotations

import random
import signal
import traceback
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from traceanalyzer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

LIMIT_S: Final = 10
"""What takes longer hangs."""

DEFECTS: Final = ("crash", "hang", "lie")
RESULTS: Final = ("ok", "refused", *DEFECTS)


class LieError(AssertionError):
    """A figure differs from an independent recount of the same input."""


class _HangError(BaseException):
    """The limit is over; no handler of the tool may catch it."""


class Kind(Protocol):
    """Draws and tries inputs of one kind."""

    label: str
    """What was done to the input of the latest case."""

    def try_one(self, dice: random.Random) -> None:
        """Draw one input and read it.

        Raises:
            InputError: The input was refused, as it may be.
            LieError: The input was read, and not as it is.
        """


@dataclass(frozen=True, slots=True)
class Defect:
    """A case that went wrong: its result, how to draw it again, and what was seen."""

    result: str
    kind: str
    seed: int
    number: int
    label: str
    seen: str

    def __str__(self) -> str:
        return (
            f"{self.result} in {self.kind}, seed {self.seed}, case {self.number} ({self.label}):\n"
            f"{self.seen}"
        )


@dataclass(slots=True)
class Tally:
    """Results so far, and the first few defects."""

    results: Counter[str] = field(default_factory=Counter)
    defects: list[Defect] = field(default_factory=list)


def run_case(kind: Kind, name: str, seed: int, number: int) -> tuple[str, Defect | None]:
    """Try the case that kind, seed and number stand for."""
    kind.label = ""
    try:
        with _limited():
            kind.try_one(random.Random(f"{name} {seed} {number}"))
    except InputError:
        return "refused", None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of polars is no Exception
        result = "crash"
        if isinstance(error, (LieError, _HangError)):
            result = "lie" if isinstance(error, LieError) else "hang"
        seen = "".join(traceback.format_exception(error, limit=-6))
        return result, Defect(result, name, seed, number, kind.label, seen)
    return "ok", None


@contextmanager
def _limited() -> Iterator[None]:
    """Raise in the running code when it takes too long."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise _HangError(f"still running after {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

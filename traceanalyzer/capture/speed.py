"""How much slower a server is while it is recorded: tokens/s in the window beside tokens/s outside.

Both come from the server's own counters under the load that the user gives it; no request is
added. Stretches in which no request ran are left out on both sides.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture.server import Server, ServerError
from traceanalyzer.capture.server_metrics import TOKEN_METRICS, Reading, TokenMetric, read_metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_PERIOD_S: Final = 1.0
_TIMEOUT_S: Final = 5.0
_NEAR_NS: Final = 60_000_000_000
_LEAST_NS: Final = 3_000_000_000
_SAME_LOAD: Final = 0.1
_COVERED: Final = (
    "the server ran no request outside the window, so there is nothing to compare with: put it "
    "under load before the window opens (--window time:DELAY_S:DURATION_S), or run the same load "
    "without capture and give its tokens/s as a number"
)


@dataclass(frozen=True, slots=True)
class TracedSpeed:
    """Tokens/s with and without tracing.

    Attributes:
        traced_tokens_per_s: While recorded; None when it is not known.
        untraced_tokens_per_s: While not recorded; None when it is not known.
        slowdown_share: 1 - traced / untraced; below 0 when the traced part was faster.
        how: What the figures rest on, or why one is missing.
    """

    traced_tokens_per_s: float | None
    untraced_tokens_per_s: float | None
    slowdown_share: float | None
    how: str

    @classmethod
    def of(cls, traced: float | None, untraced: float | None, how: str) -> TracedSpeed:
        """The two side by side."""
        share = 1 - traced / untraced if traced is not None and untraced else None
        return cls(traced, untraced, share, how)

    def __str__(self) -> str:
        traced, untraced = map(_figure, (self.traced_tokens_per_s, self.untraced_tokens_per_s))
        line = f"tokens/s: {traced} traced, {untraced} untraced"
        if self.slowdown_share is not None:
            line += f", slow-down {self.slowdown_share:.1%}"
        return f"{line}\n  {self.how}"


def _figure(tokens_per_s: float | None) -> str:
    return "not known" if tokens_per_s is None else f"{tokens_per_s:,.1f}"


@dataclass(frozen=True, slots=True)
class Sample:
    """A reading and its time, ns since 1970 by this machine's clock, which nsys writes as well."""

    time_ns: int
    reading: Reading


class SpeedWatch:
    """Reads a server's /metrics each second, from a thread of its own, while a program runs."""

    def __init__(self, server: Server, clock_ns: Callable[[], int] = time.time_ns) -> None:
        """Watch over a server that may not be up yet."""
        self.samples: list[Sample] = []
        self._server = server
        self._clock_ns = clock_ns
        self._problem = "it was not asked"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="speed watch", daemon=True)

    def __enter__(self) -> SpeedWatch:
        """Begin to read."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Read no more; a request under way is left to its time-out."""
        self._ended.set()

    def read(self) -> None:
        """Take one sample; a page that is not there yet is none."""
        try:
            page = self._server.get("/metrics", _TIMEOUT_S)
        except ServerError as error:
            self._problem = str(error)
            return
        reading = read_metrics(page)
        if reading is None:
            names = ", ".join(metric.name for metric in TOKEN_METRICS)
            self._problem = f"{self._server.base}/metrics has none of {names}"
        else:
            self.samples.append(Sample(self._clock_ns(), reading))

    def speed(self, window_ns: tuple[int, int] | None) -> TracedSpeed:
        """What the samples tell.

        Args:
            window_ns: When collection began and ended, ns since 1970; None when the trace does
                not say.
        """
        if not self.samples:
            hint = "; SGLang serves it with --enable-metrics"
            return TracedSpeed.of(None, None, f"no tokens were counted: {self._problem}{hint}")
        if window_ns is None:
            return TracedSpeed.of(None, None, "the trace does not say when it was recorded")
        return compare(self.samples, window_ns)

    def _run(self) -> None:
        while not self._ended.is_set():
            self.read()
            self._ended.wait(_PERIOD_S)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Time between two samples in which requests ran."""

    start_ns: int
    end_ns: int
    tokens: float
    running: float | None

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.start_ns


def compare(samples: Sequence[Sample], window_ns: tuple[int, int]) -> TracedSpeed:
    """Tokens/s inside the window beside those of the minute (or its own length) around it.

    Args:
        samples: In the order of their times.
        window_ns: When collection began and ended.
    """
    begun, ended = window_ns
    metric = samples[-1].reading.metric
    stretches = _stretches(samples, metric)
    near = max(_NEAR_NS, ended - begun)
    traced = [each for each in stretches if begun <= each.start_ns and each.end_ns <= ended]
    untraced = [
        each
        for each in stretches
        if (each.end_ns <= begun and each.start_ns >= begun - near)
        or (each.start_ns >= ended and each.end_ns <= ended + near)
    ]
    inside, outside = _rate(traced), _rate(untraced)
    if inside is None:
        how = "too few samples of the server under load fell into the window (3 s are needed)"
    elif outside is None:
        how = _COVERED
    else:
        how = _how(metric, traced, untraced)
    return TracedSpeed.of(inside, outside, how)


def _stretches(samples: Sequence[Sample], metric: TokenMetric) -> list[_Stretch]:
    found = []
    told = [sample for sample in samples if sample.reading.metric == metric]
    for before, after in pairwise(told):
        seconds = (after.time_ns - before.time_ns) / 1e9
        value = after.reading.value
        tokens = value * seconds if metric.is_rate else value - before.reading.value
        running = _mean_running(before.reading, after.reading)
        if seconds > 0 and tokens >= 0 and running != 0:
            found.append(_Stretch(before.time_ns, after.time_ns, tokens, running))
    return found


def _mean_running(before: Reading, after: Reading) -> float | None:
    """Requests running between two readings, 0 when none ran at either end; None: not told."""
    if before.running is None or after.running is None:
        return None
    return (before.running + after.running) / 2 if before.running and after.running else 0.0


def _rate(stretches: Sequence[_Stretch]) -> float | None:
    length_ns = sum(each.length_ns for each in stretches)
    if length_ns < _LEAST_NS:
        return None
    return sum(each.tokens for each in stretches) / (length_ns / 1e9)


def _running(stretches: Sequence[_Stretch]) -> float | None:
    """Mean number of requests running, weighted by time."""
    length_ns = sum(each.length_ns for each in stretches)
    weighted = 0.0
    for each in stretches:
        if each.running is None:
            return None
        weighted += each.running * each.length_ns
    return weighted / length_ns


def _how(metric: TokenMetric, traced: Sequence[_Stretch], untraced: Sequence[_Stretch]) -> str:
    inside, outside = (sum(each.length_ns for each in side) / 1e9 for side in (traced, untraced))
    caveat = f" ({metric.caveat})" if metric.caveat else ""
    text = (
        f"{metric.name}{caveat} over {inside:.0f} s in the window and {outside:.0f} s outside it, "
        "where nsys is attached but does not collect"
    )
    running = _running(traced), _running(untraced)
    if running[0] is None or running[1] is None:
        return text
    text += f"; {running[0]:.1f} and {running[1]:.1f} requests ran"
    if abs(running[0] - running[1]) > _SAME_LOAD * max(running[0], running[1]):
        text += ": the load differed, so tracing is not all that the slow-down tells of"
    return text

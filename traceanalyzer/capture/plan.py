"""What to record, and the `nsys profile` command line that this machine's nsys needs for it.

Flags differ between releases; they are looked up in `nsys profile --help`, never by version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from traceanalyzer.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.importers.nsys_command import Nsys

_OPTION = re.compile(r"(?:^|[\s,])(--[a-z][a-z0-9-]*)")
_FLUSH_MS = 10_000
_SECONDS = re.compile(r"\d+(?:\.\d*)?")
_STEPS = re.compile(r"([1-9]\d*)steps")
_WINDOWS = (
    "Write all, time:DELAY_S:DURATION_S, nvtx:RANGE@DOMAIN, profiler, endpoint:DELAY_S:DURATION_S, "
    "endpoint:DELAY_S:STEPSsteps, or until:FILE."
)


@dataclass(frozen=True, slots=True)
class Window:
    """When to collect.

    Attributes:
        kind: "all", "time", "nvtx", "profiler", "endpoint" or "until": from start to end, by the
            clock, while a named NVTX range is open first, between cudaProfilerStart and
            cudaProfilerStop, the same with the engine's profile endpoint asked for them, or from
            start until a file is written.
        delay_s: Seconds before collection, for "time"; for "endpoint" since the server is up.
        duration_s: Seconds of collection, for "time" and "endpoint"; None until the program ends,
            or for so many `steps`.
        steps: Engine steps to collect, for "endpoint".
        range_name: `name` or `name@domain`, for "nvtx".
        file: What the program writes when collection may end, for "until".
    """

    kind: str = "all"
    delay_s: float = 0.0
    duration_s: float | None = None
    steps: int | None = None
    range_name: str = ""
    file: Path | None = None

    @classmethod
    def parse(cls, text: str) -> Window:
        """Read what `--window` says.

        Args:
            text: `all`, `time:DELAY[:DURATION]`, `nvtx:RANGE[@DOMAIN]`, `profiler`,
                `endpoint:DELAY:DURATION`, `endpoint:DELAY:STEPSsteps` or `until:FILE`.

        Raises:
            InputError: The text is none of these.
        """
        kind, _, rest = text.partition(":")
        if text in ("all", "profiler"):
            return cls(text)
        if kind == "nvtx" and rest:
            return cls(kind, range_name=rest)
        if kind == "until" and rest:
            return cls(kind, file=Path(rest))
        timed = cls._timed(kind, rest)
        if timed is None:
            raise InputError(f"{text!r} is no capture window", where="--window", next_step=_WINDOWS)
        return timed

    @classmethod
    def _timed(cls, kind: str, rest: str) -> Window | None:
        """A window that begins after a delay; None when the text means none."""
        delay, _, length = rest.partition(":")
        if kind not in ("time", "endpoint") or not _SECONDS.fullmatch(delay):
            return None
        steps = _STEPS.fullmatch(length)
        if kind == "endpoint" and steps:
            return cls(kind, float(delay), steps=int(steps[1]))
        if kind == "time" and not length:
            return cls(kind, float(delay))
        if _SECONDS.fullmatch(length) and float(length) > 0:
            return cls(kind, float(delay), float(length))
        return None


@dataclass(frozen=True, slots=True)
class Plan:
    """What to record.

    Attributes:
        report: Path of the report, ending in .nsys-rep.
        graphs: "node" (kernels inside replays), "graph" (whole replays), "precapture" (node, and
            the ranges open when graphs were built before collection began).
        window: When to collect.
        session: Name of the nsys session, by which it can be stopped.
        cuda: Whether to trace CUDA as well as NVTX.
    """

    report: Path
    graphs: str
    window: Window
    session: str
    cuda: bool = True


@dataclass(frozen=True, slots=True)
class Abilities:
    """What an nsys can do, as its own help says."""

    release: str
    help_text: str

    def has(self, option: str) -> bool:
        """Whether `nsys profile` knows the option."""
        return option in _OPTION.findall(self.help_text)

    def require(self, option: str, what: str) -> None:
        """Refuse what this nsys cannot do.

        Raises:
            InputError: It lacks the option.
        """
        if not self.has(option):
            raise InputError(
                f"nsys {self.release} is too old for {what}: it has no {option}",
                next_step="Name a newer Nsight Systems with --nsys, or do without.",
            )


def profile_command(
    nsys: Nsys, abilities: Abilities, plan: Plan, target: Sequence[str]
) -> list[str]:
    """The command line that records `target`.

    Raises:
        InputError: This nsys is too old for something the plan asks for.
    """
    output = str(plan.report).removesuffix(".nsys-rep")
    command = [str(nsys.path), "profile", "--output", output, "--force-overwrite=true"]
    abilities.require("--session-new", "stopping a recording before its program")
    command += [f"--session-new={plan.session}", "--sample=none", "--cpuctxsw=none"]
    command.append("--trace=cuda,nvtx" if plan.cuda else "--trace=nvtx")
    if plan.cuda:
        command += _cuda_options(abilities, plan.graphs)
    if abilities.has("--trace-fork-before-exec"):
        command.append("--trace-fork-before-exec=true")
    return [*command, *_window_options(abilities, plan.window), *target]


def _cuda_options(abilities: Abilities, graphs: str) -> list[str]:
    abilities.require("--cuda-graph-trace", "tracing CUDA graphs")
    mode = "node" if graphs == "precapture" else graphs
    if graphs == "precapture":
        if "nvtx-precapture" not in abilities.help_text:
            raise InputError(
                f"nsys {abilities.release} is too old for --graphs precapture",
                next_step="Use --graphs node, and record the building of the graphs too "
                "(--window all), so that their nodes get the ranges open then.",
            )
        mode = "node:host-only:nvtx-precapture"
    options = [f"--cuda-graph-trace={mode}"]
    if abilities.has("--cuda-event-trace"):
        options.append("--cuda-event-trace=false")  # true may make streams wait for one another
    if abilities.has("--cuda-flush-interval"):
        options.append(f"--cuda-flush-interval={_FLUSH_MS}")  # advised beyond 30 s of collection
    return options


def _window_options(abilities: Abilities, window: Window) -> list[str]:
    if window.kind in ("all", "until"):
        return []
    if window.kind == "time":
        # Its end is ours to bring about: with --duration some releases end the program first.
        return [f"--delay={window.delay_s:g}"] if window.delay_s else []
    abilities.require("--capture-range", f"--window {window.kind}")
    abilities.require("--capture-range-end", f"--window {window.kind}")
    if window.kind == "nvtx":
        trigger = ["--capture-range=nvtx", f"--nvtx-capture={window.range_name}"]
    else:
        trigger = ["--capture-range=cudaProfilerApi"]
    return [*trigger, "--capture-range-end=stop", "--kill=none"]

"""What the hooks cost: CPU time of one wrapped call, and of the reference pipeline with them.

Each is measured with no way out, with the nvtx package and no tool, and while the real nsys records
(left out where it is missing). It is CPU time, because neighbours on a busy machine only add to the
other. Calls are measured in a loop of nothing else, where code and data stay in the caches; between
the forwards of a model they do not, so that the pipeline says what a call really costs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from gpu_check.paired import Interval, ratio, rounds

if TYPE_CHECKING:
    from collections.abc import Callable

REPOSITORY = Path(__file__).resolve().parents[1]
CLAIM = 1.01
CLOCKED_RUNS = 6
CALL_LIMITS_US = {"none": 1.0, "nvtx": 4.0, "nsys": 4.0}
WAYS = {
    "none": "no way out",
    "nvtx": "nvtx, no tool",
    "nsys": "nvtx, nsys records",
}
LIMIT_S = 900


@dataclass(frozen=True)
class Pipeline:
    """A size of the reference pipeline.

    Attributes:
        hidden_size: Of both models.
        layers: Of the target.
        training_steps: Of each model.
        requests: Served in each run.
        max_tokens: Longest output.
        judged: Whether the claim is made for it: what hooks cost is the same for a step of 2 ms
            and for one as long as a server's.
    """

    hidden_size: int
    layers: int
    training_steps: int
    requests: int
    max_tokens: int
    judged: bool


PIPELINES = {
    "toy": Pipeline(64, 4, training_steps=60, requests=8, max_tokens=48, judged=False),
    "larger": Pipeline(512, 6, training_steps=2, requests=4, max_tokens=16, judged=True),
}


def child(way: str, *command: str) -> dict[str, Any] | None:
    """The JSON line that a program prints in a process of its own; None without nsys."""
    nsys = shutil.which("nsys")
    if way == "nsys" and nsys is None:
        return None
    backend = {"NVTX_HOOKS_BACKEND": "none" if way == "none" else "nvtx"}
    with TemporaryDirectory() as folder:
        under = (
            *(str(nsys), "profile", "-s", "none", "--cpuctxsw=none", "-t", "nvtx"),
            *("-o", str(Path(folder) / "run")),
        )
        done = subprocess.run(
            [*(under if way == "nsys" else ()), sys.executable, *command],
            cwd=REPOSITORY,
            env={"PATH": os.environ["PATH"], "HOME": folder, **backend},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise SystemExit(f"{command} failed: {done.stderr.strip()}")
    found: dict[str, Any] = json.loads(lines[-1])
    return found


@dataclass
class Counter:
    """A way out that only counts.

    Attributes:
        ranges: Ranges opened.
        marks: Marks made.
    """

    ranges: int = 0
    marks: int = 0
    name: str = "counter"
    records: bool = True

    def push(self, name: str, payload: int) -> None:
        """Count a range."""
        self.ranges += 1

    def pop(self) -> None:
        """Do nothing."""

    def start(self, name: str, payload: int) -> None:
        """Count a range."""
        self.push(name, payload)

    def end(self, started: object) -> None:
        """Do nothing."""

    def mark(self, name: str, payload: int) -> None:
        """Count a mark."""
        self.marks += 1


@dataclass
class Clock:
    """Time inside the hooks: CPU nanoseconds, those of reading the clock included."""

    ns: int = 0

    def watch(self, cls: Any) -> None:
        """Count the time in a hook's two methods from now on."""
        for name in ("enter", "leave"):
            setattr(cls, name, self._timed(getattr(cls, name)))

    def _timed(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            before = time.thread_time_ns()
            try:
                return run(*arguments, **named)
            finally:
                self.ns += time.thread_time_ns() - before

        return timed


class Loop:
    """The reference pipeline, which serves the same requests again and again.

    Args:
        size: Of the pipeline.
    """

    def __init__(self, size: Pipeline) -> None:
        import torch

        from nvtx_hooks.reference.config import EngineSettings
        from nvtx_hooks.reference.corpus import LONGEST_PROMPT, Vocabulary
        from nvtx_hooks.reference.engine import Engine
        from nvtx_hooks.reference.serving import WorkloadSettings, workload
        from nvtx_hooks.reference.training import TrainingSettings, train
        from nvtx_hooks.reference.tree import DraftShape

        torch.set_num_threads(1)
        steps = size.training_steps
        models = train(
            TrainingSettings(
                target_steps=steps,
                draft_steps=steps,
                hidden_size=size.hidden_size,
                layers=size.layers,
            )
        )
        load = WorkloadSettings(size.requests, size.max_tokens)
        settings = EngineSettings(
            eos_token=Vocabulary().end_token,
            shape=DraftShape(5),
            context=LONGEST_PROMPT + load.max_tokens,
        )
        self._engine = Engine(models.target, models.draft_head, settings)
        self._engine.warm_up()
        self._arrivals = workload(load)
        self.outputs: list[dict[str, list[int]]] = []
        self.steps = 0

    def step_ms(self) -> float:
        """Serve all requests; CPU milliseconds a step."""
        from nvtx_hooks.reference.serving import serve

        before = time.process_time()
        served = serve(self._engine, self._arrivals)
        spent = time.process_time() - before
        self.outputs.append({done.request.id: list(done.tokens) for done in served.generations})
        self.steps = len(served.steps)
        return spent / self.steps * 1e3


def decode_loop(size: Pipeline, pairs: int) -> dict[str, Any]:
    """Serve in this process in pairs with and without hooks.

    Returns:
        Milliseconds of CPU time a step, plain and hooked, pair by pair; what the hooks emit a step;
        and microseconds that are spent in them, reading the clock around each included.
    """
    from gpu_check.steady import hooked

    from nvtx_hooks import advice, emit

    loop, backend, counter, clock = Loop(size), emit.choose(), Counter(), Clock()

    def with_hooks() -> float:
        with hooked(backend):
            return loop.step_ms()

    ways = {"plain": loop.step_ms, "hooks": with_hooks}
    rounds(ways, 1)  # caches and allocator
    costs = rounds(ways, pairs)
    with hooked(counter):
        loop.step_ms()
    clock.watch(advice.Advice)
    clock.watch(advice.RangeAdvice)
    inside = []
    for _ in range(CLOCKED_RUNS):
        clock.ns = 0
        with_hooks()
        inside.append(clock.ns / loop.steps / 1e3)
    return {
        **costs,
        "tokens_equal": all(tokens == loop.outputs[0] for tokens in loop.outputs),
        "ranges": counter.ranges / loop.steps,
        "marks": counter.marks / loop.steps,
        "inside_us": inside,
    }


def machine() -> str:
    """What it ran on, without its name."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0].partition(":")[2].strip() if names else model
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "nvtx"))
    return f"{model}, {os.cpu_count()} CPUs, Python {platform.python_version()}, {versions}"


def print_calls() -> bool:
    """The table of wrapped calls; returns whether the limits hold."""
    found = {way: child(way, "-m", "tests.nvtx_hooks.overhead") for way in WAYS}
    what = list(next(figures for figures in found.values() if figures)["microseconds"])
    print("\n| CPU time that a hook adds, us | " + " | ".join(WAYS.values()) + " |")
    print("|---|" + "---|" * len(WAYS))
    for name in what:
        cells = (
            f"{figures['microseconds'][name]:.2f}" if figures else "no nsys"
            for figures in found.values()
        )
        print(f"| {name} | {' | '.join(cells)} |")
    print()
    holds = True
    for way, figures in found.items():
        if figures:
            most = max(us for name, us in figures["microseconds"].items() if "cycle" not in name)
            holds &= answer(
                f"{WAYS[way]}: a wrapped call costs {most:.2f} us, at most {CALL_LIMITS_US[way]:g}",
                holds=most <= CALL_LIMITS_US[way],
            )
    return holds


def print_loops(name: str, pairs: int) -> bool:
    """The table of one pipeline's decode loops; returns whether the claim holds."""
    arguments = ("--pairs", str(pairs), "--loop", name)
    found = {way: child(way, "benchmarks/hook_overhead.py", *arguments) for way in WAYS}
    print(
        f"\n| {name} pipeline | a step without hooks, CPU ms | with hooks / without "
        f"| in the hooks, CPU us a step | |\n|---|---|---|---|---|"
    )
    for way, run in found.items():
        cells = _loop_cells(run) if run else "no nsys | | | |"
        print(f"| {WAYS[way]} | {cells}", flush=True)
    print()
    holds = True
    for way, run in found.items():
        if run and PIPELINES[name].judged:
            holds &= _claim(WAYS[way], ratio(run["hooks"], run["plain"]))
    same = all(run["tokens_equal"] for run in found.values() if run)
    return answer("the same tokens with and without hooks", holds=same) and holds


def _claim(way: str, slower: Interval) -> bool:
    """Hold a ratio against the claim; False only when its whole interval is above it."""
    text = f"{way}: a step takes {slower.text('.4f')} times as long, claimed: less than {CLAIM}"
    if slower.low < CLAIM < slower.high:
        print(f"not shown either way: {text}", flush=True)
        return True
    return answer(text, holds=slower.high <= CLAIM)


def _loop_cells(run: dict[str, Any]) -> str:
    plain, inside = Interval.of(run["plain"]), Interval.of(run["inside_us"])
    share = inside.value / 1e3 / plain.value
    return (
        f"{plain.text('.3f')} | {ratio(run['hooks'], run['plain']).text('.4f')} "
        f"| {inside.value:.0f} ({share:.2%}) "
        f"| {run['ranges']:.1f} ranges, {run['marks']:.1f} marks a step |"
    )


def answer(text: str, *, holds: bool) -> bool:
    """Print it and hand it on."""
    print(f"{'ok' if holds else 'NOT SO'}: {text}", flush=True)
    return holds


def main() -> int:
    """Measure and print; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=24, help="with and without (default: 24)")
    parser.add_argument("--loop", choices=PIPELINES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.loop:
        print(json.dumps(decode_loop(PIPELINES[options.loop], options.pairs)))
        return 0
    print(f"{machine()}; load {os.getloadavg()[0]:.1f}")
    if shutil.which("nsys") is None:
        print("nsys is not there: its figures are left out")
    holds = [print_calls(), *(print_loops(name, options.pairs) for name in PIPELINES)]
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Does the analysis hold on a GPU? The reference pipeline with CUDA graphs, in under five minutes.

Three questions: is the time that a phase's window promises saved when the phase is left out; how
much slower is the pipeline under the hooks, and under a patch that synchronises; and, with --save,
small real traces. Exits 1 when an answer is no. Without a CUDA device it runs on the CPU at a small
size, timed on the host, and says so: nothing is then measured on a GPU.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import nsys_trace
import recording
import torch
from paired import Interval, ratio, rounds, saving
from steady import PHASES, Size, SteadyLoop, hooked, leave_out, synchronise_by_hand

from nvtx_hooks import emit

FULL = Size(512, 12, 20, batch=8, draft_tokens=5, cycles=40, rounds=12)
DRY = Size(64, 3, 20, batch=2, draft_tokens=3, cycles=10, rounds=8)
SAVED = Size(64, 3, 30, batch=2, draft_tokens=3, cycles=8, rounds=1)
DRY_RUN = "DRY RUN on a CPU, timed on the host: NOTHING WAS MEASURED ON A GPU."

TOLERATED_SHARE = 0.2
"""Of a window, by which a saving may miss it: recording slows the host, and so the gaps."""
TOLERATED_PERIOD_SHARE = 0.05
ATTRIBUTED_SHARE = 0.99
HOOKS_RATIO = 1.01


class Checks:
    """Prints answers and remembers the bad ones.

    Args:
        judged: Whether a bad answer that only a clock gave counts.
    """

    def __init__(self, *, judged: bool) -> None:
        self.failed = 0
        self._judged = judged

    def say(self, text: str, *, holds: bool, timed: bool = False) -> None:
        """One answer; `timed` says that a clock gave it."""
        counts = self._judged or not timed
        self.failed += counts and not holds
        print(f"{'ok' if holds else 'NOT SO' if counts else 'not judged'}: {text}", flush=True)


class Pipeline:
    """Loops over the same models, each a variant of the engine.

    Args:
        size: How large.
        device: "cpu" or "cuda".
    """

    def __init__(self, size: Size, device: str) -> None:
        self.size = size
        self.device = device
        self._models = size.models()

    def loop(self, *, without: str | None = None) -> SteadyLoop:
        """An engine in the middle of serving, all of it or without one phase."""
        loop = SteadyLoop(self._models, self.size, self.device)
        if without:
            leave_out(loop.engine, without)
        loop.start()
        return loop


def check_attribution(pipeline: Pipeline, checks: Checks, trace: Path) -> None:
    """Compare each phase's window with what leaving it out saves."""
    full = pipeline.loop()
    seen = recording.record(full, pipeline.size.cycles, trace)
    loops = {"all": full, **{phase: pipeline.loop(without=phase) for phase in PHASES}}
    costs = rounds({name: loop.cost_s for name, loop in loops.items()}, pipeline.size.rounds)
    period = Interval.of(costs["all"])
    scale = period.value / seen.period_s
    print(
        f"\nA cycle: {period.text('.3g')} s untraced, {seen.period_s:.3g} s in the trace "
        f"({seen.cycles} cycles)\n\n| phase | window, ms | at that untraced, ms "
        f"| saved without it, ms | graph launches |\n|---|---|---|---|---|"
    )
    savings = {phase: saving(costs[phase], costs["all"]) for phase in PHASES}
    for phase, saved in savings.items():
        window = seen.window_s[phase] * 1e3
        in_ms = Interval(saved.value * 1e3, saved.low * 1e3, saved.high * 1e3, saved.count)
        print(
            f"| {phase} | {window:.3f} | {window * scale:.3f} | {in_ms.text('.3f')} "
            f"| {seen.graph_launches[phase]:.2f} |"
        )
    print()
    for phase, saved in savings.items():
        window = seen.window_s[phase]
        slack = TOLERATED_SHARE * window + TOLERATED_PERIOD_SHARE * period.value
        low, high = min(seen.busy_s[phase], window * scale) - slack, max(window, window * scale)
        checks.say(
            f"leaving out {phase} saves what its window promises",
            holds=saved.high >= low and saved.low <= high + slack,
            timed=True,
        )
    _check_launches(seen, pipeline.device, checks)


def _check_launches(seen: recording.Recorded, device: str, checks: Checks) -> None:
    """What must hold of the trace whatever the clock said."""
    graphs = {"draft", "verify", "draft_extend"} if device == "cuda" else set()
    expected = {phase: float(phase in graphs) for phase in PHASES}
    launched = ", ".join(f"{phase} {number:g}" for phase, number in seen.graph_launches.items())
    checks.say(f"graphs launched a cycle: {launched}", holds=seen.graph_launches == expected)
    if seen.attributed_share is not None:
        checks.say(
            f"{seen.attributed_share:.2%} of the GPU's busy time was launched in known ranges",
            holds=seen.attributed_share >= ATTRIBUTED_SHARE,
        )


def check_slow_down(pipeline: Pipeline, checks: Checks) -> None:
    """Hooks and a synchronising patch beside the pipeline as it is, round by round."""
    plain, patched = pipeline.loop(), pipeline.loop()
    ours = pipeline.loop()
    spent = synchronise_by_hand(patched.engine, pipeline.device)
    backend = emit.choose({emit.BACKEND_VARIABLE: emit.Nvtx.name})

    def run_hooked() -> float:
        with hooked(backend):
            return ours.cost_s()

    ways = {"plain": plain.cost_s, "hooks": run_hooked, "patch": patched.cost_s}
    costs = rounds(ways, pipeline.size.rounds)
    hooks, patch = ratio(costs["hooks"], costs["plain"]), ratio(costs["patch"], costs["plain"])
    print(
        f"\n| | time of a cycle, as a multiple of the plain one ({hooks.count} rounds) |\n|---|---|"
    )
    print(f"| hooks ({backend.name}) | {hooks.text('.4f')} |")
    print(f"| synchronising patch | {patch.text('.4f')} |\n")
    total = sum(spent.values())
    shares = ", ".join(f"{phase} {seconds / total:.0%}" for phase, seconds in spent.items())
    print(f"The patch would report: {shares} of the time in phases.")
    same = plain.committed() == ours.committed() == patched.committed()
    checks.say("the same tokens under hooks and patch", holds=same)
    checks.say(
        f"hooks slow the pipeline by less than {HOOKS_RATIO - 1:.0%}",
        holds=hooks.value < HOOKS_RATIO,
        timed=True,
    )
    checks.say("less than the patch does", holds=hooks.value < patch.value, timed=True)


def save(folder: Path, device: str, checks: Checks, *, nsys: bool) -> None:
    """Write small traces into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    name = "reference_gpu" if device == "cuda" else "reference_cpu_dry_run"
    loop = Pipeline(SAVED, device).loop()
    traces = [folder / f"{name}_torch.json.gz"]
    seen = recording.record(loop, SAVED.cycles, traces[0])
    checks.say(f"the trace that was saved holds cycles: {seen.cycles}", holds=seen.cycles > 0)
    if nsys:
        traces += nsys_trace.record(folder, f"{name}_nsys", device, SAVED) or ()
    for trace in traces:
        print(f"saved {trace.name}, {trace.stat().st_size:,} bytes")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="gpu_check", description=__doc__)
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="write small traces there")
    parser.add_argument("--no-nsys", action="store_true", help="none of them by nsys")
    parser.add_argument("--cpu", action="store_true", help="dry run although there is a GPU")
    parser.add_argument("--rounds", type=int, help="fewer or more of them")
    parser.add_argument("--cycles", type=int, help="in a round")
    return parser.parse_args()


def main() -> int:
    """Run the checks; returns the exit code."""
    options = _options()
    gpu = torch.cuda.is_available() and not options.cpu
    device, size = ("cuda", FULL) if gpu else ("cpu", DRY)
    size = replace(size, rounds=options.rounds or size.rounds, cycles=options.cycles or size.cycles)
    begun = time.perf_counter()
    versions = f"PyTorch {torch.__version__}, Python {platform.python_version()}"
    print(f"{torch.cuda.get_device_name()}, {versions}" if gpu else f"{DRY_RUN}\n{versions}")
    if not gpu:
        torch.set_num_threads(1)
    checks = Checks(judged=gpu)
    pipeline = Pipeline(size, device)
    with TemporaryDirectory() as folder:
        check_attribution(pipeline, checks, Path(folder) / "trace.json.gz")
    check_slow_down(pipeline, checks)
    if options.save:
        save(options.save, device, checks, nsys=not options.no_nsys)
    print(f"{time.perf_counter() - begun:.0f} s")
    if not gpu:
        print(DRY_RUN)
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""What a hook costs: CPU time of one wrapped call, as JSON on stdout.

`python -m tests.nvtx_hooks.overhead`, alone or under `nsys profile -t nvtx`. It is the thread's CPU
time, the best of many rounds, because a busy machine only ever adds to it.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from nvtx_hooks import emit, patching
from nvtx_hooks.advice import advice_for
from nvtx_hooks.observations import Acceptance, Row, Step
from nvtx_hooks.recording import Recorder
from nvtx_hooks.targets import Target

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 12
CALLS = 1500
PHASES = ("draft", "verify", "sample", "draft_extend")


def nothing(*args: Any) -> None:
    """A function that does nothing."""


def best_us(run: Callable[[], object]) -> float:
    """CPU time of one `run()`, microseconds."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.thread_time()
        for _ in range(CALLS):
            run()
        best = min(best, time.thread_time() - start)
    return best / CALLS * 1e6


def measure(recorder: Recorder) -> dict[str, float]:
    """Microseconds a call that the hooks add, by what they hook."""

    def hooked(function: Callable[..., Any], **fields: Any) -> Callable[..., Any]:
        target = Target("measured", "function", **fields)
        return patching.wrap(function, advice_for(target, recorder, {}))

    phase = hooked(nothing, opens=("draft",))
    chosen = hooked(nothing, opens=lambda call: ("verify",))
    phases = [hooked(nothing, opens=(name,)) for name in PHASES]
    rows = tuple(Row(request, 3, 2) for request in range(1, 5))

    def run_phases() -> None:
        for run in phases:
            run()

    cycle = hooked(
        run_phases,
        opens=("cycle",),
        step=True,
        observe=lambda call: (Step(4, 12, 16, k=3), Acceptance(rows)),
    )

    def bare_cycle() -> None:
        for _ in phases:
            nothing()

    bare = best_us(nothing)
    return {
        "phase": best_us(phase) - bare,
        "phase chosen by the call": best_us(chosen) - bare,
        "cycle with its phases, batch, tokens and 4 accept marks": best_us(cycle)
        - best_us(bare_cycle),
    }


if __name__ == "__main__":
    recorder = Recorder(emit.choose())
    print(json.dumps({"backend": recorder.backend.name, "microseconds": measure(recorder)}))

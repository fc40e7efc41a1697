"""The reference pipeline with requests that never end: every step is a cycle of one shape.

Its forwards have fixed shapes and run over the whole cache, so that a cycle costs the same whatever
was accepted, and a phase can be left out without changing the others.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import torch

import nvtx_hooks
from nvtx_hooks import reference
from nvtx_hooks.installation import TARGETS_VARIABLE
from nvtx_hooks.reference.config import EngineSettings
from nvtx_hooks.reference.corpus import LONGEST_PROMPT, Corpus
from nvtx_hooks.reference.engine import Engine
from nvtx_hooks.reference.request import Request
from nvtx_hooks.reference.training import TrainingSettings, train
from nvtx_hooks.reference.tree import DraftShape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nvtx_hooks.emit import Backend
    from nvtx_hooks.reference.training import TrainedModels

PHASES = {"draft": "draft", "verify": "verify", "sample": "accept", "draft_extend": "draft_extend"}
"""The engine's method that runs each phase."""

NO_END = -1


@dataclass(frozen=True)
class Size:
    """How large the pipeline is, and how long it runs.

    Attributes:
        hidden_size: Of both models, a multiple of 32.
        layers: Of the target, at least three.
        training_steps: Of each model.
        batch: Requests in a cycle.
        draft_tokens: Length of the drafted chain.
        cycles: Cycles between two looks at the clock.
        rounds: Such stretches of each variant.
    """

    hidden_size: int
    layers: int
    training_steps: int
    batch: int
    draft_tokens: int
    cycles: int
    rounds: int

    def models(self) -> TrainedModels:
        """Target and draft head, trained on the CPU."""
        steps = self.training_steps
        return train(
            TrainingSettings(
                target_steps=steps,
                draft_steps=steps,
                hidden_size=self.hidden_size,
                layers=self.layers,
            )
        )


class SteadyLoop:
    """An engine in the middle of serving one batch.

    Args:
        models: Target and draft head; they are moved to the device.
        size: How large a batch, and what is drafted.
        device: "cpu" or "cuda"; on CUDA the phases run as CUDA graphs.
    """

    def __init__(self, models: TrainedModels, size: Size, device: str) -> None:
        self.device = device
        # Warm-up, a recording and all rounds, each cycle with every draft accepted.
        tokens = (size.rounds + 4) * size.cycles * (size.draft_tokens + 1)
        settings = EngineSettings(
            eos_token=NO_END,
            shape=DraftShape(size.draft_tokens),
            max_batch=size.batch,
            context=LONGEST_PROMPT + tokens,
            graphs="cuda" if device == "cuda" else "none",
        )
        target, head = models.target.to(device), models.draft_head.to(device)
        self.engine = Engine(target, head, settings)
        self._size = size
        self._longest = tokens

    def start(self) -> None:
        """Record the graphs, run the prompts, and one stretch of cycles that nobody times."""
        self.engine.warm_up()
        for number, prompt in enumerate(Corpus(1).prompts(self._size.batch)):
            self.engine.submit(Request(f"request-{number}", tuple(prompt), self._longest, number))
        self.engine.step()
        self.run(self._size.cycles)

    def run(self, cycles: int) -> tuple[float, float]:
        """Run cycles; wall and CPU seconds of each of them."""
        synchronise(self.device)
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(cycles):
            self.engine.step()
        synchronise(self.device)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        return wall / cycles, cpu / cycles

    def cost_s(self) -> float:
        """Seconds of a cycle in the next stretch.

        On CUDA wall time; on a CPU the process's own time, since neighbours only add to the other.
        """
        wall, cpu = self.run(self._size.cycles)
        return wall if self.device == "cuda" else cpu

    def committed(self) -> list[list[int]]:
        """Tokens of each request so far."""
        return [list(generation.tokens) for generation in self.engine.running]


def synchronise(device: str) -> None:
    """Wait for the device; on the CPU there is nothing to wait for."""
    if device == "cuda":
        torch.cuda.synchronize()


def leave_out(engine: Engine, phase: str) -> None:
    """Let a phase return what it returned the first time, and run no more.

    Args:
        engine: It is changed.
        phase: One of `PHASES`.
    """
    method = PHASES[phase]
    run, kept = getattr(engine, method), []

    def once(*arguments: Any) -> Any:
        if not kept:
            # A graph's outputs are overwritten by its next replay.
            result = run(*arguments)
            kept.append(type(result)(*(tensor.clone() for tensor in result)))
        return kept[0]

    setattr(engine, method, once)


def synchronise_by_hand(engine: Engine, device: str) -> dict[str, float]:
    """Time phases as a hand-made patch does: wait for the device before and after each.

    Args:
        engine: It is changed.
        device: Where it runs.

    Returns:
        Seconds by phase, which grow as the engine runs.
    """
    spent = dict.fromkeys(PHASES, 0.0)
    for phase, method in PHASES.items():
        setattr(engine, method, _timed(getattr(engine, method), device, spent, phase))
    return spent


def _timed(
    run: Callable[..., Any], device: str, spent: dict[str, float], phase: str
) -> Callable[..., Any]:
    def timed(*arguments: Any) -> Any:
        synchronise(device)
        before = time.perf_counter()
        result = run(*arguments)
        synchronise(device)
        spent[phase] += time.perf_counter() - before
        return result

    return timed


@contextmanager
def hooked(backend: Backend) -> Iterator[None]:
    """Hooks on the pipeline, put on from outside by the TOML file beside it, and off again."""
    kept = os.environ.get(TARGETS_VARIABLE)
    os.environ[TARGETS_VARIABLE] = str(files(reference) / "hooks.toml")
    nvtx_hooks.install(backend)
    try:
        yield
        failed = [target for target in nvtx_hooks.status().targets if target.failures]
        if failed:
            raise SystemExit(f"a hook failed: {failed[0].target}: {failed[0].first_failure}")
    finally:
        nvtx_hooks.uninstall()
        if kept is None:
            del os.environ[TARGETS_VARIABLE]
        else:
            os.environ[TARGETS_VARIABLE] = kept

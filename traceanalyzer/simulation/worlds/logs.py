"""What an engine's own log says of acceptance, counted the engine's way.

SGLang prints `accept len` with the bonus token in (0.4.6 to 0.5.12, `update_spec_metrics`); vLLM
counts accepted drafts past a request's end too (`v1/spec_decode/metrics.py`, 0.10.2 to 0.33).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceanalyzer.simulation.worlds.requests import Outcome
    from traceanalyzer.simulation.worlds.runs import Run
    from traceanalyzer.simulation.worlds.settings import EngineName
    from traceanalyzer.simulation.worlds.steps import Step

_STEPS_A_LINE: Final = 40
_STAMP: Final = "[2026-01-01 00:00:{:02d} TP0]"


def log_of(run: Run, engine: EngineName) -> str:
    """The lines of a run's log; empty where the engine prints none."""
    steps = [step for _number, step in sorted(run.steps.items()) if step.longest]
    lines = _vllm_lines(steps) if engine == "vllm" else _sglang_lines(steps)
    return "" if engine == "tensorrt_llm" else "".join(f"{line}\n" for line in lines)


def _live(steps: Sequence[Step]) -> list[Outcome]:
    own = [each for step in steps for each in step.of_rank.values() or (step,)]
    return [each for step in own for each in step.outcomes if not each.stale]


def _batches(steps: Sequence[Step]) -> Iterator[list[Step]]:
    left = iter(steps)
    while own := list(islice(left, _STEPS_A_LINE)):
        yield own


def _sglang_lines(steps: Sequence[Step]) -> Iterator[str]:
    for place, own in enumerate(_batches(steps)):
        live = _live(own)
        accept_len = sum(each.accepted + 1 for each in live) / max(len(live), 1)
        running = own[-1].shape.batch
        yield (
            f"{_STAMP.format(place % 60)} Decode batch. #running-req: {running}, #token: 4096, "
            f"token usage: 0.10, accept len: {accept_len:.2f}, cuda graph: True, "
            f"gen throughput (token/s): {1_000.0:.2f}, #queue-req: 0"
        )


def _vllm_lines(steps: Sequence[Step]) -> Iterator[str]:
    for own in _batches(steps):
        live = _live(own)
        drafted = sum(each.longest for each in live)
        accepted = sum(each.accepted for each in live)
        longest = max(each.longest for each in live)
        reached = [sum(each.accepted > place for each in live) for place in range(longest)]
        shares = ", ".join(f"{count / len(live):.3f}" for count in reached)
        yield (
            "INFO 01-01 00:00:00 [metrics.py:96] SpecDecoding metrics: "
            f"Mean acceptance length: {1 + accepted / len(live):.2f}, "
            f"Accepted throughput: {accepted / 10:.2f} tokens/s, "
            f"Drafted throughput: {drafted / 10:.2f} tokens/s, "
            f"Accepted: {accepted} tokens, Drafted: {drafted} tokens, "
            f"Per-position acceptance rate: {shares}, "
            f"Avg Draft acceptance rate: {100 * accepted / drafted:.1f}%"
        )

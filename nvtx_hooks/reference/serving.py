"""Drives an engine with requests that come and go, and adds up what it did.

When requests arrive is counted in steps and follows from the seed, so two runs serve the same.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from nvtx_hooks.reference.corpus import Corpus
from nvtx_hooks.reference.request import Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvtx_hooks.reference.engine import Engine
    from nvtx_hooks.reference.request import Generation, StepReport


@dataclass(frozen=True, slots=True)
class WorkloadSettings:
    """Which requests come.

    Attributes:
        requests: How many, over all replicas.
        max_tokens: Longest output that one asks for.
        at_once: Requests that are there at the start.
        longest_pause: Steps between two arrivals after that, at most.
        seed: Decides prompts, lengths, arrivals and random draws.
    """

    requests: int = 16
    max_tokens: int = 48
    at_once: int = 4
    longest_pause: int = 6
    seed: int = 0


class Arrival(NamedTuple):
    """A request and the step before which it arrives."""

    step: int
    request: Request


@dataclass(frozen=True, slots=True)
class Served:
    """What a run of an engine did.

    Attributes:
        steps: Every step but idle ones.
        generations: The requests, as they finished.
        calls: `Engine.calls` of the run.
        seconds: From the first step to the last.
    """

    steps: list[StepReport]
    generations: list[Generation]
    calls: Counter[str]
    seconds: float


def workload(settings: WorkloadSettings, rank: int = 0, size: int = 1) -> list[Arrival]:
    """The requests of one replica of `size`, in order of arrival; replicas take them in turn."""
    prompts = Corpus(settings.seed + 1).prompts(settings.requests)
    chance = random.Random(settings.seed)  # noqa: S311 - a workload, not secrets
    digits = len(str(len(prompts) - 1))
    requests = [
        Request(
            id=f"request-{number:0{digits}}",
            prompt=prompt,
            max_tokens=chance.randint((settings.max_tokens + 1) // 2, settings.max_tokens),
            seed=chance.getrandbits(62),
        )
        for number, prompt in enumerate(prompts)
    ]
    pauses = (
        chance.randint(0, settings.longest_pause) if number >= settings.at_once else 0
        for number in range(len(requests))
    )
    return list(map(Arrival, accumulate(pauses), requests))[rank::size]


def serve(engine: Engine, arrivals: Sequence[Arrival]) -> Served:
    """Serve requests, which arrive as planned, until all are done."""
    steps, generations = [], []
    pending, number = list(arrivals), 0
    began = time.perf_counter()
    while pending or engine.has_work:
        while pending and pending[0].step <= number:
            engine.submit(pending.pop(0).request)
        number += 1
        report = engine.step()
        generations += report.finished
        if report.kind != "idle":
            steps.append(report)
    seconds = time.perf_counter() - began
    return Served(steps, generations, engine.calls.copy(), seconds)


def replica_record(served: Served, rank: int, k: int) -> dict[str, Any]:
    """One replica's part of the JSON report.

    Args:
        served: What it did.
        rank: Its number.
        k: Longest run that could be accepted, 0 for plain decoding.
    """
    generations = sorted(served.generations, key=lambda generation: generation.request.id)
    return {
        "rank": rank,
        "process_id": os.getpid(),
        "seconds": served.seconds,
        "calls": dict(sorted(served.calls.items())),
        "totals": totals(served.steps),
        "steps": [_step_record(step) for step in served.steps],
        "requests": [_request_record(generation, k) for generation in generations],
    }


def totals(steps: Sequence[StepReport]) -> dict[str, int]:
    """Sums over steps.

    committed = accepted + request_cycles - overshoot = verified - rejected - overshoot.

    Returns:
        prefills, cycles (rounds with drafts) and decodes (rounds without); first_tokens, which
        prefills committed; request_cycles (requests times rounds); and over the rounds drafted,
        verified, accepted (bonus excluded), rejected, overshoot and committed.
    """
    rounds = [step for step in steps if step.kind in ("cycle", "decode")]
    kinds = Counter(step.kind for step in steps)
    drafted = sum(step.drafted for step in rounds)
    accepted = sum(sum(step.accepted) for step in rounds)
    return {
        "prefills": kinds["prefill"],
        "cycles": kinds["cycle"],
        "decodes": kinds["decode"],
        "first_tokens": sum(step.committed for step in steps if step.kind == "prefill"),
        "request_cycles": sum(step.requests for step in rounds),
        "drafted": drafted,
        "verified": sum(step.verified for step in rounds),
        "accepted": accepted,
        "rejected": drafted - accepted,
        "overshoot": sum(sum(step.overshoot) for step in rounds),
        "committed": sum(step.committed for step in rounds),
    }


def accepted_histogram(accepted: Sequence[int], k: int) -> list[int]:
    """How often 0, 1, ..., k drafts were accepted."""
    counts = Counter(accepted)
    return [counts[number] for number in range(k + 1)]


def report(replicas: Sequence[dict[str, Any]], k: int, settings: dict[str, Any]) -> dict[str, Any]:
    """The JSON report: the replicas' records and their sums.

    Args:
        replicas: `replica_record` of each.
        k: Longest run that could be accepted, 0 for plain decoding.
        settings: What was asked for, as plain data.
    """
    names = replicas[0]["totals"]
    sums = {name: sum(replica["totals"][name] for replica in replicas) for name in names}
    accepted = [
        number
        for replica in replicas
        for request in replica["requests"]
        for number in request["accepted"]
    ]
    cycles = sums["request_cycles"]
    tokens = sums["first_tokens"] + sums["committed"]
    return {
        "schema_version": 1,
        "settings": settings,
        "totals": {
            **sums,
            "accept_len": sums["committed"] / cycles if cycles else None,
            "accepted_histogram": accepted_histogram(accepted, k),
            "tokens": tokens,
            "tokens_per_second": tokens / max(replica["seconds"] for replica in replicas),
        },
        "replicas": list(replicas),
    }


def _step_record(step: StepReport) -> dict[str, Any]:
    return {
        "kind": step.kind,
        "requests": step.requests,
        "request_ids": step.request_ids,
        "padded": step.padded,
        "k": step.k,
        "drafted": step.drafted,
        "verified": step.verified,
        "prompt_tokens": step.prompt_tokens,
        "accepted": step.accepted,
        "overshoot": step.overshoot,
        "committed": step.committed,
    }


def _request_record(generation: Generation, k: int) -> dict[str, Any]:
    request = generation.request
    return {
        "id": request.id,
        "prompt_tokens": len(request.prompt),
        "max_tokens": request.max_tokens,
        "tokens": generation.tokens,
        "finish_reason": generation.finish_reason,
        "accepted": generation.accepted,
        "accepted_histogram": accepted_histogram(generation.accepted, k),
        "overshoot": generation.overshoot,
    }

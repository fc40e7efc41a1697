"""What a server launches on its ranks: forwards as graphs or one by one, sampling, copies."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from traceanalyzer.simulation.recording import DTOH, HTOD, Recording
from traceanalyzer.simulation.worlds.cluster import Cluster, start_rank
from traceanalyzer.simulation.worlds.forwards import Tokens, pieces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.simulation.work import CapturedGraph, Work
    from traceanalyzer.simulation.worlds.forwards import Model
    from traceanalyzer.simulation.worlds.requests import Request
    from traceanalyzer.simulation.worlds.settings import Recorder, WorldSettings
    from traceanalyzer.simulation.worlds.steps import Step

DOMAIN: Final = "eagle"
_PIECE_TOKENS: Final = 64
"""Forwards with prompt tokens are padded to multiples of it where graphs are piecewise."""


@dataclass(slots=True)
class Launched:
    """A step whose results are on their way."""

    step: Step
    requests: list[Request]
    done_ns: list[int] = field(default_factory=list)


class Launcher:
    """Launches parts of steps on a cluster, under a recorder."""

    cluster: Cluster
    model: Model

    def __init__(self, settings: WorldSettings, recorder: Recorder) -> None:
        self.settings = settings
        self.recorder = recorder
        self.recording = Recording(f"simulated {settings.engine} world, seed {settings.seed}")
        self.graphs: dict[tuple[object, ...], list[CapturedGraph]] = {}

    def started(self, names: Sequence[str]) -> Cluster:
        """Ranks of their own, that have come up."""
        settings = self.settings
        first = len(self.recording.processes)
        return Cluster(
            [
                start_rank(self.recording, first + place, name, DOMAIN)
                for place, name in enumerate(names)
            ],
            random.Random(f"cluster {settings.seed} {first}"),  # noqa: S311  no secret
            DOMAIN,
            registered=True,
            jitter_share=settings.costs.jitter_share,
            replay_jitter_share=0.0,
            recorder=self.recorder,
            early_ns=round(1e3 * settings.costs.dependent_launch_us),
            late_ns=round(1e3 * settings.parallel.late_launch_us),
            late_call_ns=round(1e3 * settings.parallel.late_call_us),
            collective_gap_ns=round(1e3 * settings.costs.collective_gap_us),
            ahead_share=settings.host.launch_ahead_share,
            uneven_share=settings.host.rank_jitter_share,
        )

    def spend(self, length_us: float) -> None:
        """Let host work pass, more or less."""
        share = self.settings.host.jitter_share
        self.cluster.spend(round(1e3 * length_us * self.cluster.rng.uniform(1 - share, 1 + share)))

    def prepare(self) -> None:
        """Host work before a phase's launches."""
        self.spend(self.settings.host.phase_us)

    def tokens_of(self, step: Step) -> Tokens:
        """Tokens of the target's forward, padding and prompts included."""
        shape = step.shape
        batch = shape.padded_batch or shape.batch
        count = shape.verified_tokens + shape.prompt_tokens
        if shape.padded_batch:
            count = shape.padded_batch * step.per_request
        several = step.per_request > 1 or step.shape.prompt_tokens > 0
        return Tokens(count, batch, several)

    def target(self, step: Step) -> None:
        """The target's forward."""
        tokens = self.tokens_of(step)
        if step.shape.prompt_tokens and self.settings.piecewise:
            count = -(-tokens.count // _PIECE_TOKENS) * _PIECE_TOKENS
            tokens = Tokens(count, tokens.requests, tokens.several)
        works = self.model.target(tokens)
        if self.settings.piecewise:
            for place, (graph, own) in enumerate(pieces(works)):
                self.cluster.run(own, self.graph("piece", place, tokens, own) if graph else None)
        elif step.shape.prompt_tokens:
            self.cluster.eager(works)
        else:
            call_ns = round(1e3 * self.settings.host.target_launch_us)
            self.cluster.run(works, self.graph("target", 0, tokens, works), call_ns)

    def graph(
        self, name: str, place: int, tokens: Tokens, works: Sequence[Work]
    ) -> list[CapturedGraph]:
        """The graph for this work."""
        key = (name, place, tokens, len(works))
        if key not in self.graphs:
            self.graphs[key] = self.cluster.captured(works)
        return self.graphs[key]

    def sampled(self, step: Step) -> None:
        """From logits to tokens; where there is a grammar, once its mask has come."""
        tokens = self.tokens_of(step)
        with self.cluster.range("sample", step.number):
            if self.settings.host.grammar_us:
                self.spend(self.settings.host.grammar_us)
                self.cluster.copied(32 * tokens.count, HTOD)
            self.cluster.eager(self.model.sampling(tokens, verifies=step.longest > 0))

    def fetched(self, launched: Launched) -> None:
        """Copy a step's results to the host."""
        launched.done_ns = self.cluster.copied(64 * launched.step.shape.batch, DTOH)

    def drafted(self, step: Step, longest: int) -> None:
        """The steps of the draft model after its first forward."""
        batch = step.shape.padded_batch or step.shape.batch
        tokens = Tokens(batch, batch, several=False)
        works = self.model.draft(longest - 1, tokens)
        if works:
            self.cluster.run(works, self.graph("draft", longest, tokens, works))

    def extended(self, step: Step) -> None:
        """The draft model over the verified tokens."""
        tokens = self.tokens_of(step)
        works = self.model.draft_extend(tokens)
        replayed = not step.shape.prompt_tokens
        self.cluster.run(works, self.graph("extend", 0, tokens, works) if replayed else None)

    def prompt_forward(self, tokens: int, *, draft: bool) -> None:
        """A forward over prompts alone."""
        carried = Tokens(tokens, 1, several=True)
        works = self.model.draft_extend(carried) if draft else self.model.target(carried)
        self.cluster.eager(works)

"""What each engine launches in a step, in which ranges, and when it reads the results.

SGLang drafts, verifies, samples and extends in that order (`eagle_worker.py`, 0.4.6 to 0.5.12; v2
with results a step late). vLLM verifies, samples and proposes, under a scheduler in another process
(`gpu_model_runner.py`, 0.11 to 0.33). TensorRT-LLM's one-model EAGLE has all phases in one graph.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from traceanalyzer.simulation.lockstep import FUSED
from traceanalyzer.simulation.recording import HTOD
from traceanalyzer.simulation.worlds.cluster import FUSED_PROPOSE, start_process
from traceanalyzer.simulation.worlds.forwards import Tokens
from traceanalyzer.simulation.worlds.launching import DOMAIN, Launched
from traceanalyzer.simulation.worlds.server import Server
from traceanalyzer.simulation.worlds.steps import Marks, Step

if TYPE_CHECKING:
    from traceanalyzer.simulation.work import Work
    from traceanalyzer.simulation.worlds.settings import Recorder, WorldSettings

WORKER_AHEAD: Final = 3
"""By how much a vLLM worker's own count of steps is ahead of the scheduler's."""


class Sglang(Server):
    """SGLang, v1 and v2: v1 reads what was accepted before it extends."""

    def decoding_step(self, launched: Launched) -> None:
        """Draft, verify, sample, extend."""
        step, cluster = launched.step, self.cluster
        with cluster.range("cycle", step.number):
            self.announce(step)
            if step.longest:
                self._draft(step)
            with cluster.phase(step.kind, step.number):
                self.prepare()
                cluster.copied(4 * self.tokens_of(step).count, HTOD)
                self.target(step)
                self.sampled(step)
                self.fetched(launched)
                if not self.settings.steps_ahead:
                    cluster.wait(launched.done_ns, event_id=step.number)
            if self.settings.drafts_on_gpu:
                with cluster.phase("draft_extend", step.number):
                    self.prepare()
                    self.extended(step)

    def _draft(self, step: Step) -> None:
        with self.cluster.phase("draft", step.number):
            if self.settings.drafts_on_gpu:
                self.prepare()
                self.drafted(step, step.longest)
            else:
                self.spend(self.settings.speculation.ngram_us * step.shape.batch)
                self.cluster.copied(4 * step.shape.draft_tokens, HTOD)


class Vllm(Server):
    """vLLM: an API server, a scheduler and the workers, each in a process of its own."""

    rank_name = "VLLM::Worker_TP{}"

    def __init__(self, settings: WorldSettings, recorder: Recorder) -> None:
        super().__init__(settings, recorder)
        start_process(self.recording, 0, "VLLM::APIServer", DOMAIN)
        self.core = start_process(self.recording, 1, "VLLM::EngineCore", DOMAIN)
        self.core_marks = Marks(self.core, DOMAIN, recorder)
        self.number = WORKER_AHEAD

    def decoding_step(self, launched: Launched) -> None:
        """Verify, sample, then propose for the next step."""
        step, cluster = launched.step, self.cluster
        self._scheduled(step)
        with cluster.range("cycle", step.number):
            self.marks.signature(step)
            self.announce(step)
            with cluster.phase(step.kind, step.number):
                self.prepare()
                cluster.copied(4 * self.tokens_of(step).count, HTOD)
                self.target(step)
                self.sampled(step)
            self.fetched(launched)
            if self.settings.speculates:
                self._propose(step)

    def _propose(self, step: Step) -> None:
        longest = self.longest(step.number + 1)
        if not self.settings.drafts_on_gpu:
            with self.cluster.phase("draft", step.number):
                self.spend(self.settings.speculation.ngram_us * step.shape.batch)
            return
        fused = self.settings.fused_propose
        with self.cluster.phase(FUSED_PROPOSE, step.number) if fused else nullcontext():
            self.prepare()
            with nullcontext() if fused else self.cluster.phase("draft_extend", step.number):
                self.extended(step)
            with nullcontext() if fused else self.cluster.phase("draft", step.number):
                self.drafted(step, longest)

    def prompt_step(self, step: Step) -> None:
        """Prompts are scheduled like every step."""
        self._scheduled(step)
        with self.cluster.range("cycle", step.number):
            self.marks.signature(step)
            super().prompt_step(step)

    def _scheduled(self, step: Step) -> None:
        """The scheduler makes up its mind and sends the step to the workers."""
        core = self.core
        core.now_ns = max(core.now_ns, self.cluster.hosts[0].now_ns)
        opened = self.cluster._opened(core, "schedule", DOMAIN, step.number - WORKER_AHEAD)
        core.push(opened)
        core.spend(round(1e3 * self.settings.host.schedule_us))
        self.core_marks.signature(step)
        core.pop()
        sent_ns = core.now_ns + round(1e3 * self.settings.host.transfer_us)
        for host in self.cluster.hosts:
            host.now_ns = max(host.now_ns, sent_ns)

    def settle(self, launched: Launched) -> None:
        """The scheduler reads results after they came to its process."""
        core = self.core
        came_ns = self.cluster.hosts[0].now_ns + round(1e3 * self.settings.host.transfer_us)
        core.now_ns = max(core.now_ns, came_ns)
        if self.settings.speculates:
            number = launched.step.number - WORKER_AHEAD
            self.core_marks.accepted(number, launched.step.outcomes)
        core.spend(round(1e3 * self.settings.host.results_us))
        for host in self.cluster.hosts:
            host.now_ns = max(host.now_ns, core.now_ns)
        self.release(launched)


class TensorRtLlm(Sglang):
    """TensorRT-LLM with a one-model drafter: verify to draft are one graph, results come late."""

    rank_name = "mpi_rank_{}"

    def decoding_step(self, launched: Launched) -> None:
        """All in one; a plain step and one with prompts like other engines' steps."""
        step, cluster = launched.step, self.cluster
        if step.kind != "verify":
            super().decoding_step(launched)
            return
        with cluster.range("cycle", step.number):
            self.announce(step)
            with cluster.phase(FUSED, step.number):
                self.prepare()
                cluster.copied(4 * self.tokens_of(step).count, HTOD)
                works = self._all_works(step)
                key = Tokens(self.tokens_of(step).count, step.shape.padded_batch, several=True)
                cluster.run(works, self.graph("all", step.longest, key, works))
                self.fetched(launched)

    def _all_works(self, step: Step) -> list[Work]:
        tokens = self.tokens_of(step)
        batch = step.shape.padded_batch
        parts = {
            "verify": self.model.target(tokens),
            "sample": self.model.sampling(tokens, verifies=True),
            "draft_extend": self.model.draft_extend(tokens),
            "draft": self.model.draft(step.longest - 1, Tokens(batch, batch, several=False)),
        }
        return [replace(each, phase=name) for name, works in parts.items() for each in works]


def server_of(settings: WorldSettings, recorder: Recorder) -> Server:
    """The server of a world, not yet run."""
    engines = {
        "sglang_v1": Sglang,
        "sglang_v2": Sglang,
        "vllm": Vllm,
        "tensorrt_llm": TensorRtLlm,
    }
    return engines[settings.engine](settings, recorder)

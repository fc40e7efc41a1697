"""A simulated SGLang server that speculates with EAGLE-3, recorded as if by a profiler.

An iteration drafts (one graph for all draft steps), verifies (one graph over the drafted tokens),
samples eagerly, and runs the draft model again over the accepted tokens; the CPU is an iteration
ahead of the GPU, as with SGLang's overlap scheduler (spec v2).
"""

from __future__ import annotations

import random
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from traceanalyzer.simulation import forwards, schedule
from traceanalyzer.simulation import kernel_names as names
from traceanalyzer.simulation.calibration import corrections_ms, mean_period_ns
from traceanalyzer.simulation.forward_graphs import (
    Forwards,
    capture_again,
    capture_forwards,
    fused_works,
    node_ranks,
)
from traceanalyzer.simulation.gpus import GPUS
from traceanalyzer.simulation.group import Group
from traceanalyzer.simulation.lockstep import FUSED
from traceanalyzer.simulation.marks import MarkWriter
from traceanalyzer.simulation.recording import DTOH, HTOD, OTHER, Iteration, Recording
from traceanalyzer.simulation.session import add_requests, forget_gpu
from traceanalyzer.simulation.settings import Eagle3Settings
from traceanalyzer.simulation.startup import run_orphans, start_rank
from traceanalyzer.simulation.work import NodeCost, Work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from traceanalyzer.simulation.schedule import Turn

_PROMPT_TOKENS = 2_048
_RUN_BATCH = "scheduler.run_batch"
_PRECAPTURE_NS = -2_000_000_000

_OTHER: Final = Work(names.FILL, 2_200)


def eagle3_server(settings: Eagle3Settings | None = None) -> Recording:
    """Run the simulated server and return what a profiler would have recorded.

    Exact windows take a run before, whose deviations are made good; a synchronised server and one
    whose nodes are slowed by recording them are compared with their undisturbed twin.

    Args:
        settings: What the server does; the defaults when None.

    Raises:
        InputError: A phase is asked to be shorter than the gaps between its kernels.
    """
    wanted = settings or Eagle3Settings()
    plain = replace(wanted, synchronise=False, node_overhead_us=0.0, replay_overhead_us=0.0)
    corrections: Mapping[str, float] = {}
    if wanted.exact:
        corrections = corrections_ms(_recorded(plain, {}), plain)
    recording = _recorded(wanted, corrections)
    if wanted.synchronise:
        recording.undisturbed_period_ns = mean_period_ns(_recorded(plain, corrections))
    if wanted.slows_nodes:
        recording.undisturbed = _recorded(plain, corrections)
    return recording


def _recorded(settings: Eagle3Settings, corrections: Mapping[str, float]) -> Recording:
    server = _Server(settings, corrections)
    server.run()
    return server.recording


def _description(settings: Eagle3Settings) -> str:
    text = (
        f"simulated EAGLE-3 server, {settings.ranks} ranks, {settings.cycles} iterations, "
        f"seed {settings.seed}"
    )
    if not settings.speculates:
        text += ", speculation off"
    return text + (", synchronised around phases" if settings.synchronise else "")


def _node_cost(settings: Eagle3Settings) -> NodeCost:
    inside_ns = round(1e3 * settings.node_overhead_us * settings.node_overhead_inside_share)
    node_ns = round(1e3 * settings.node_overhead_us)
    return NodeCost(inside_ns, node_ns - inside_ns, round(1e3 * settings.replay_overhead_us))


class _Server:
    def __init__(self, settings: Eagle3Settings, corrections: Mapping[str, float]) -> None:
        self.settings = settings
        self.recording = Recording(
            _description(settings),
            GPUS[settings.gpu],
        )
        self.group = Group(
            [start_rank(self.recording, settings, rank) for rank in range(settings.ranks)],
            random.Random(settings.seed),  # noqa: S311  no secret
            settings.domain,
            settings.registered,
            settings.jitter_share,
            settings.cycle_jitter_share,
            _node_cost(settings),
        )
        self.marks = MarkWriter(self.group.ranks[0].main, settings.domain, settings.registered)
        self.sampling = forwards.sampling(settings)
        self.forwards = {
            size: Forwards(forwards.forward_works(settings, size, corrections))
            for size in settings.batch_sizes
        }
        self.turns = schedule.plan(settings)
        self.results_ns: dict[int, list[int]] = {}

    def run(self) -> None:
        settings = self.settings
        for rank in self.group.ranks:
            run_orphans(rank, settings.orphan_kernels)
        if settings.marks:
            self._rank_marks()
        if settings.fused:
            for own in self.forwards.values():
                own.works[FUSED] = fused_works({**own.works, "sample": self.sampling["verify"]})
        if settings.graph_mode != "eager":
            self._capture()
        self._prefill(schedule.FIRST_PREFILL)
        ahead = settings.iterations_ahead
        detailed_draft = False
        for place, turn in enumerate(self.turns):
            if settings.recapture_every and place and place % settings.recapture_every == 0:
                capture_again(settings, self.group, self.forwards)
            self.recording.iterations.append(turn.iteration)
            self._run_iteration(turn, detailed_draft=detailed_draft)
            detailed_draft = turn.detailed
            self._process_results(place - ahead)
            if turn.prefill is not None:
                self._prefill(turn.prefill)
        for place in range(settings.cycles - ahead, settings.cycles):
            self._process_results(place)
        if settings.requests:
            add_requests(self.recording, self.group.ranks, _RUN_BATCH)
        if not settings.gpu_rows:
            forget_gpu(self.recording)

    def _capture(self) -> None:
        """Construct the graphs, perhaps before the session's time zero."""
        before_ns = [rank.main.now_ns for rank in self.group.ranks]
        if self.settings.precapture:
            for rank in self.group.ranks:
                rank.main.now_ns = _PRECAPTURE_NS
        capture_forwards(self.settings, self.group, self.forwards)
        if self.settings.precapture:
            for rank, now_ns in zip(self.group.ranks, before_ns, strict=True):
                rank.main.now_ns = now_ns

    def _run_iteration(self, turn: Turn, *, detailed_draft: bool) -> None:
        iteration, straddles = turn.iteration, turn.straddles
        with self._scheduler_range(), self._condition_range(iteration):
            self.group.spend(self._host_ns(0.15))
            with self._cycle_range(iteration.number):
                if self.settings.marks:
                    self.marks.batch(iteration, self._padded_batch(iteration))
                if iteration.kind == "decode":
                    self._decode(turn)
                elif self.settings.fused:
                    self._all_in_one(iteration, detailed=turn.detailed)
                else:
                    self._draft(iteration, straddles=straddles, detailed=detailed_draft)
                    self._verify(turn)
                    self._draft_extend(turn)
                self.group.eager([_OTHER] * self.settings.other_kernels)
                if straddles:
                    self.group.eager([_OTHER], straddles_end=True)

    def _condition_range(self, iteration: Iteration) -> AbstractContextManager[None]:
        """The range that sets an iteration apart, if it has one."""
        if iteration.warm_up:
            return self.group.range("warm_up", iteration.number)
        if iteration.dummy:
            return self.group.range("dummy", iteration.number)
        return nullcontext()

    def _scheduler_range(self) -> AbstractContextManager[None]:
        """SGLang's own range around an iteration, a cycle range too."""
        named = self.settings.cycle_ranges and self.settings.scheduler_ranges
        return self.group.foreign_range(_RUN_BATCH, phase=OTHER) if named else nullcontext()

    def _cycle_range(self, number: int) -> AbstractContextManager[None]:
        return self.group.range("cycle", number) if self.settings.cycle_ranges else nullcontext()

    @contextmanager
    def _phase(self, name: str, number: int, *, straddles_start: bool = False) -> Iterator[None]:
        """A phase's range, with a synchronising timer's calls just inside of its borders."""
        with self.group.range(name, number, straddles_start=straddles_start):
            self.group.ranks[-1].main.spend(int(1e6 * self.settings.late_launch_ms))
            if self.settings.synchronise:
                self.group.synchronise()
            yield
            if self.settings.synchronise:
                self.group.synchronise()

    def _draft(self, iteration: Iteration, *, straddles: bool, detailed: bool) -> None:
        if straddles:
            self.group.eager([_OTHER])
        with self._phase("draft", iteration.number, straddles_start=straddles):
            self.group.spend(self._host_ns(0.15))
            self.group.eager(forwards.BEFORE_DRAFT)
            self._forward(iteration, "draft", detailed=detailed)
            self.group.eager(forwards.AFTER_DRAFT)

    def _verify(self, turn: Turn) -> None:
        iteration = turn.iteration
        with self._phase("verify", iteration.number):
            self.group.spend(self._host_ns(0.25))
            self.group.copy(4_096, HTOD)
            self.group.eager(forwards.BEFORE_VERIFY)
            if self.settings.offload_thread:
                self.group.offload(names.KV_OFFLOAD)
            self._forward(iteration, "verify", detailed=turn.detailed)
            self._sample(iteration, straddles=turn.straddles)

    def _sample(self, iteration: Iteration, *, straddles: bool) -> None:
        has_range = self.settings.sample_ranges
        with self.group.range("sample", iteration.number) if has_range else nullcontext():
            self.group.spend(self._host_ns(0.05))
            self.group.eager(self.sampling[iteration.kind], straddles_end=straddles and has_range)
        self.results_ns[iteration.number] = self.group.copy(
            64 * iteration.batch_size, DTOH, beside_compute=self.settings.result_stream
        )

    def _draft_extend(self, turn: Turn) -> None:
        iteration = turn.iteration
        with self._phase("draft_extend", iteration.number):
            self.group.spend(self._host_ns(0.15))
            self.group.eager(forwards.BEFORE_EXTEND)
            self._forward(iteration, "draft_extend", detailed=turn.detailed)
            self.group.eager(forwards.AFTER_EXTEND, straddles_end=turn.straddles)

    def _all_in_one(self, iteration: Iteration, *, detailed: bool) -> None:
        with self._phase(FUSED, iteration.number):
            self.group.spend(self._host_ns(0.3))
            self.group.copy(4_096, HTOD)
            self._forward(iteration, FUSED, detailed=detailed)
            self.results_ns[iteration.number] = self.group.copy(
                64 * iteration.batch_size, DTOH, beside_compute=self.settings.result_stream
            )

    def _decode(self, turn: Turn) -> None:
        iteration = turn.iteration
        with self._phase("decode", iteration.number):
            self.group.spend(self._host_ns(0.3))
            self.group.copy(1_024, HTOD)
            self._forward(iteration, "decode", detailed=turn.detailed)
            self._sample(iteration, straddles=False)

    def _forward(self, iteration: Iteration, phase: str, *, detailed: bool) -> None:
        """Run a phase's forward as a replay or launch by launch."""
        own = self.forwards[iteration.batch_size]
        works = own.warming_up(phase) if iteration.warm_up else own.works[phase]
        if not works:
            return
        if iteration.replayed and not (phase == "verify" and self.settings.verify_eager):
            self.group.replay(
                works, own.graphs[phase], node_ranks(self.settings, detailed=detailed)
            )
        elif phase == "draft":
            for step in range(self.settings.draft_tokens - 1):
                with self.group.range("draft.step", iteration.number):
                    self.group.eager([work for work in works if work.step == step])
        elif phase == "verify" and self.settings.verify_eager:
            for work in works:
                self.group.spend(round(1e3 * self.settings.verify_eager_us))
                self.group.eager([work])
        else:
            self.group.eager(works)

    def _padded_batch(self, iteration: Iteration) -> int:
        """Requests that the graph of the target's forward has room for; 0 without a graph."""
        eager = iteration.kind == "verify" and self.settings.verify_eager
        if eager or not iteration.replayed:
            return 0
        return self.settings.padded_batch(iteration.batch_size)

    def _host_ns(self, share: float) -> int:
        return int(self.settings.host_ms * 1e6 * share)

    def _process_results(self, place: int) -> None:
        """Wait for a turn's results and work on them on the host."""
        if place < 0:
            return
        iteration = self.turns[place].iteration
        has_range = self.settings.scheduler_ranges
        name = "scheduler.process_batch_result"
        with self.group.foreign_range(name) if has_range else nullcontext():
            self.group.wait(self.results_ns.pop(iteration.number), event_id=place + 1)
            if self.settings.marks and self.settings.speculates:
                self.marks.accepted(iteration)
            self.group.spend(self._host_ns(0.1))

    def _prefill(self, number: int) -> None:
        """Run a prompt through target and draft model, between two iterations."""
        has_range = self.settings.scheduler_ranges
        with self.group.foreign_range(_RUN_BATCH) if has_range else nullcontext():
            if self.settings.marks:
                self.marks.prompt(number, _PROMPT_TOKENS)
            with self.group.range("prefill", number):
                self.group.copy(4 * _PROMPT_TOKENS, HTOD)
                self.group.clear(8_192)
                self._prompt_forward("prefill")
            if self.settings.speculates:
                with self.group.range("draft_prefill", number):
                    self._prompt_forward("draft_prefill")

    def _prompt_forward(self, phase: str) -> None:
        own = self.forwards[self.settings.batch_sizes[0]]
        if self.settings.prefill_replayed and self.settings.graph_mode != "eager":
            self.group.replay(
                own.works[phase], own.graphs[phase], node_ranks(self.settings, detailed=False)
            )
        else:
            self.group.eager(own.works[phase])

    def _rank_marks(self) -> None:
        settings = self.settings
        for place, rank in enumerate(self.group.ranks):
            writer = MarkWriter(rank.main, settings.domain, settings.registered)
            writer.ranks(place, settings.server_ranks)

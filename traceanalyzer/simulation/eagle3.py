"""A simulated SGLang server that speculates with EAGLE-3, recorded as if by a profiler.

An iteration drafts (one graph for all draft steps), verifies (one graph over the drafted tokens),
samples eagerly, and runs the draft model again over the accepted tokens; the CPU is an iteration
ahead of the GPU, as with SGLang's overlap scheduler (spec v2).
"""

from __future__ import annotations

import random
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from traceanalyzer.simulation import kernel_names as names
from traceanalyzer.simulation import programs
from traceanalyzer.simulation.graph_capture import capture_graph
from traceanalyzer.simulation.group import EAGER_GAP_NS, CapturedGraph, Group, Work
from traceanalyzer.simulation.marks import MarkWriter
from traceanalyzer.simulation.recording import DTOH, HTOD, OTHER, Iteration, Range, Recording
from traceanalyzer.simulation.settings import Eagle3Settings
from traceanalyzer.simulation.startup import run_orphans, start_rank

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

_BATCH_BLOCK = 8
_BATCH_GROWTH = 0.04
_WARM_UP_FACTOR = 1.6
_REQUEST_ITERATIONS = 6
_PROMPT_TOKENS = 2_048
_RUN_BATCH = "scheduler.run_batch"

_OTHER: Final = Work(names.FILL, 2_200)
_BEFORE_DRAFT: Final = (Work(names.DRAFT_INDICES, 3_000),)
_AFTER_DRAFT: Final = (Work(names.BUILD_TREE, 5_000),)
_BEFORE_VERIFY: Final = (Work(names.CACHE_INDICES, 3_500),)
_BEFORE_EXTEND: Final = (Work(names.EXTEND_INDICES, 3_000),)
_AFTER_EXTEND: Final = (Work(names.ASSIGN_CACHE, 2_500),)


def eagle3_server(settings: Eagle3Settings | None = None) -> Recording:
    """Run the simulated server and return what a profiler would have recorded.

    Args:
        settings: What the server does; the defaults when None.

    Raises:
        InputError: A phase is asked to be shorter than the gaps between its kernels.
    """
    server = _Server(settings or Eagle3Settings())
    server.run()
    return server.recording


@dataclass(slots=True)
class _Forwards:
    """Kernels of the forwards for one batch size, and the graphs captured from them."""

    works: dict[str, list[Work]]
    graphs: dict[str, list[CapturedGraph]] = field(default_factory=dict)


class _Server:
    def __init__(self, settings: Eagle3Settings) -> None:
        self.settings = settings
        self.recording = Recording(
            f"simulated EAGLE-3 server, {settings.ranks} ranks, {settings.cycles} iterations, "
            f"seed {settings.seed}"
        )
        self.acceptance = random.Random(f"accept {settings.seed}")  # noqa: S311  no secret
        self.group = Group(
            [start_rank(self.recording, settings, rank) for rank in range(settings.ranks)],
            random.Random(settings.seed),  # noqa: S311  no secret
            settings.domain,
            "graph" if settings.graph_mode == "graph" else "node",
            settings.jitter_share,
            settings.registered,
        )
        self.marks = MarkWriter(self.group.ranks[0].main, settings.domain, settings.registered)
        self.sampling = programs.scaled(programs.sampling(), settings.sample_ms * 1e6, "sample_ms")
        self.forwards = {size: self._forwards(size) for size in settings.batch_sizes}
        self.results_ns: dict[int, list[int]] = {}
        self.number = 0

    def _forwards(self, batch_size: int) -> _Forwards:
        settings, parallel = self.settings, self.settings.ranks > 1
        ms = 1e6 * (1 + _BATCH_GROWTH * (batch_size - 1))
        target_prompt = programs.target_forward(
            settings.layers, names.VERIFY_ATTENTION, parallel=parallel
        )
        target_token = programs.target_forward(
            settings.layers, names.DECODE_ATTENTION, parallel=parallel
        )
        draft = programs.draft_forwards(settings.draft_tokens - 1, parallel=parallel)
        extend = programs.draft_extend_forward(parallel=parallel)
        lengths = {
            "draft": (draft, settings.draft_ms * ms, (*_BEFORE_DRAFT, *_AFTER_DRAFT)),
            "verify": (target_prompt, settings.verify_ms * ms, (*_BEFORE_VERIFY, *self.sampling)),
            "draft_extend": (
                extend,
                settings.draft_extend_ms * ms,
                (*_BEFORE_EXTEND, *_AFTER_EXTEND),
            ),
            "decode": (target_token, settings.decode_ms * ms, self.sampling),
            "prefill": (target_prompt, 0.95 * settings.prefill_ms * 1e6, ()),
            "draft_prefill": (extend, 0.05 * settings.prefill_ms * 1e6, ()),
        }
        return _Forwards(
            {
                phase: programs.scaled(
                    works, length_ns - programs.total_ns(around, EAGER_GAP_NS), f"{phase}_ms"
                )
                for phase, (works, length_ns, around) in lengths.items()
            }
        )

    def run(self) -> None:
        settings = self.settings
        for rank in self.group.ranks:
            run_orphans(rank, settings.orphan_kernels)
        if settings.marks:
            self._rank_marks()
        if settings.graph_mode != "eager":
            self._capture_graphs()
        self._prefill()
        for turn in range(settings.cycles):
            iteration = self._iteration(turn)
            self.recording.iterations.append(iteration)
            self._run_iteration(iteration, straddles=self._straddles(turn, iteration))
            self._process_results(turn - settings.lag_cycles)
            if _is_turn(turn, settings.prefill_every):
                self._prefill()
        for turn in range(settings.cycles - settings.lag_cycles, settings.cycles):
            self._process_results(turn)
        if settings.requests:
            self._requests()
        if not settings.gpu_rows:
            self._forget_gpu()

    def _iteration(self, turn: int) -> Iteration:
        settings = self.settings
        sizes = settings.batch_sizes
        batch_size = sizes[turn // _BATCH_BLOCK % len(sizes)]
        decode = _is_turn(turn, settings.decode_every)
        draft_tokens = 0 if decode else settings.draft_tokens
        return Iteration(
            self._next_number(),
            "decode" if decode else "verify",
            batch_size,
            draft_tokens,
            1 if decode else settings.verified_tokens,
            tuple(self._accepted(draft_tokens) for _request in range(batch_size)),
            replayed=settings.graph_mode != "eager" and self._replays(turn),
            warm_up=turn < settings.warm_up_cycles,
            dummy=_is_turn(turn, settings.dummy_every),
        )

    def _next_number(self) -> int:
        """Number of the next step; prefills count too, as the hooks' steps do."""
        self.number += 1
        return self.number

    def _replays(self, turn: int) -> bool:
        """Whether a turn replays graphs; the eager ones are spread evenly."""
        share = self.settings.graph_share
        return int((turn + 1) * share) > int(turn * share)

    def _straddles(self, turn: int, iteration: Iteration) -> bool:
        """Whether four launches of this turn straddle a border of a range."""
        settings = self.settings
        possible = settings.cycle_ranges and iteration.kind == "verify"
        return possible and _is_turn(turn, settings.straddle_every)

    def _accepted(self, draft_tokens: int) -> int:
        chance = self.settings.accept_probability
        accepted = 0
        while accepted < draft_tokens and self.acceptance.random() < chance:
            accepted += 1
        return accepted

    def _run_iteration(self, iteration: Iteration, *, straddles: bool) -> None:
        with self._scheduler_range(), self._condition_range(iteration):
            self.group.spend(self._host_ns(0.15))
            with self._cycle_range(iteration.number):
                if self.settings.marks:
                    self.marks.batch(iteration, replayed=iteration.replayed)
                if iteration.kind == "decode":
                    self._decode(iteration)
                else:
                    self._draft(iteration, straddles=straddles)
                    self._verify(iteration, straddles=straddles)
                    self._draft_extend(iteration, straddles=straddles)
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
        named = self.settings.cycle_ranges
        return self.group.foreign_range(_RUN_BATCH, phase=OTHER) if named else nullcontext()

    def _cycle_range(self, number: int) -> AbstractContextManager[None]:
        return self.group.range("cycle", number) if self.settings.cycle_ranges else nullcontext()

    def _draft(self, iteration: Iteration, *, straddles: bool) -> None:
        if straddles:
            self.group.eager([_OTHER])
        with self.group.range("draft", iteration.number, straddles_start=straddles):
            self.group.spend(self._host_ns(0.15))
            self.group.eager(_BEFORE_DRAFT)
            self._forward(iteration, "draft")
            self.group.eager(_AFTER_DRAFT)

    def _verify(self, iteration: Iteration, *, straddles: bool) -> None:
        with self.group.range("verify", iteration.number):
            self.group.spend(self._host_ns(0.25))
            self.group.copy(4_096, HTOD)
            self.group.eager(_BEFORE_VERIFY)
            if self.settings.offload_thread:
                self.group.offload(names.KV_OFFLOAD)
            self._forward(iteration, "verify")
            self._sample(iteration, straddles=straddles)

    def _sample(self, iteration: Iteration, *, straddles: bool) -> None:
        has_range = self.settings.sample_ranges
        with self.group.range("sample", iteration.number) if has_range else nullcontext():
            self.group.spend(self._host_ns(0.05))
            self.group.eager(self.sampling, straddles_end=straddles and has_range)
        self.results_ns[iteration.number] = self.group.copy(
            64 * iteration.batch_size, DTOH, beside_compute=True
        )

    def _draft_extend(self, iteration: Iteration, *, straddles: bool) -> None:
        with self.group.range("draft_extend", iteration.number):
            self.group.spend(self._host_ns(0.15))
            self.group.eager(_BEFORE_EXTEND)
            self._forward(iteration, "draft_extend")
            self.group.eager(_AFTER_EXTEND, straddles_end=straddles)

    def _decode(self, iteration: Iteration) -> None:
        with self.group.range("decode", iteration.number):
            self.group.spend(self._host_ns(0.3))
            self.group.copy(1_024, HTOD)
            self._forward(iteration, "decode")
            self._sample(iteration, straddles=False)

    def _forward(self, iteration: Iteration, phase: str) -> None:
        """Run a phase's forward as a replay or launch by launch."""
        forwards = self.forwards[iteration.batch_size]
        works = forwards.works[phase]
        if iteration.warm_up:
            works = [
                replace(work, duration_ns=int(work.duration_ns * _WARM_UP_FACTOR)) for work in works
            ]
        if iteration.replayed:
            self.group.replay(works, forwards.graphs[phase])
        elif phase == "draft":
            for step in range(self.settings.draft_tokens - 1):
                with self.group.range("draft.step", iteration.number):
                    self.group.eager([work for work in works if work.step == step])
        else:
            self.group.eager(works)

    def _host_ns(self, share: float) -> int:
        return int(self.settings.host_ms * 1e6 * share)

    def _process_results(self, turn: int) -> None:
        """Wait for a turn's results and work on them on the host."""
        if turn < 0:
            return
        iteration = self.recording.iterations[turn]
        with self.group.foreign_range("scheduler.process_batch_result"):
            self.group.wait(self.results_ns.pop(iteration.number), event_id=turn + 1)
            if self.settings.marks:
                self.marks.accepted(iteration)
            self.group.spend(self._host_ns(0.1))

    def _prefill(self) -> None:
        """Run a prompt through target and draft model, between two iterations."""
        number = self._next_number()
        works = self.forwards[self.settings.batch_sizes[0]].works
        with self.group.foreign_range(_RUN_BATCH):
            if self.settings.marks:
                self.marks.prompt(number, _PROMPT_TOKENS)
            with self.group.range("prefill", number):
                self.group.copy(4 * _PROMPT_TOKENS, HTOD)
                self.group.clear(8_192)
                self.group.eager(works["prefill"])
            with self.group.range("draft_prefill", number):
                self.group.eager(works["draft_prefill"])

    def _capture_graphs(self) -> None:
        """Construct the graphs with the server's own ranges open, as hooks at start-up do."""
        phases = ["draft", "verify", "draft_extend"]
        if self.settings.decode_every:
            phases.append("decode")
        for forwards in self.forwards.values():
            for phase in phases:
                self._capture_graph(forwards, phase)

    def _capture_graph(self, forwards: _Forwards, phase: str) -> None:
        recorded = self.settings.capture_recorded
        with ExitStack() as ranges:
            if recorded:
                ranges.enter_context(self.group.range("capture", 0))
                ranges.enter_context(self.group.range(phase, 0))
            forwards.graphs[phase] = capture_graph(
                self.group, forwards.works[phase], recorded=recorded
            )

    def _rank_marks(self) -> None:
        settings = self.settings
        for place, rank in enumerate(self.group.ranks):
            writer = MarkWriter(rank.main, settings.domain, settings.registered)
            writer.ranks(place, settings.ranks)

    def _requests(self) -> None:
        """Add start/end ranges over several iterations; every second one ends on another thread."""
        for rank in self.group.ranks:
            batches = sorted(
                row.start_ns
                for row in self.recording.ranges
                if row.name == _RUN_BATCH and row.thread is rank.main.thread
            )
            for place, first in enumerate(range(0, len(batches), _REQUEST_ITERATIONS)):
                last = first + _REQUEST_ITERATIONS
                self.recording.ranges.append(
                    Range(
                        rank.main.thread,
                        batches[first] - 5_000,
                        batches[last] + 20_000 if last < len(batches) else None,
                        "request",
                        style="start_end",
                        end_thread=rank.offload.thread if place % 2 else None,
                        registered=False,
                    )
                )

    def _forget_gpu(self) -> None:
        """Leave only what a session without CUDA tracing records."""
        recording = self.recording
        recording.ops.clear()
        recording.calls.clear()
        recording.syncs.clear()
        recording.graphs.clear()
        recording.graph_nodes.clear()
        recording.diagnostics.clear()


def _is_turn(number: int, every: int) -> bool:
    return every > 0 and number % every == every - 1

"""Servers whose ranks do not all do the same: data-parallel attention, and pipeline stages."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from traceanalyzer.simulation.lockstep import LAUNCH_LATENCY_NS
from traceanalyzer.simulation.machine import COMPUTE
from traceanalyzer.simulation.recording import DTOH, HTOD, KernelName
from traceanalyzer.simulation.work import EAGER_GAP_NS, Slot, Work
from traceanalyzer.simulation.worlds.engines import Sglang
from traceanalyzer.simulation.worlds.forwards import Model
from traceanalyzer.simulation.worlds.launching import DOMAIN, Launched
from traceanalyzer.simulation.worlds.requests import Queue, Request
from traceanalyzer.simulation.worlds.steps import Marks, Shape, Step

if TYPE_CHECKING:
    from traceanalyzer.simulation.machine import Rank
    from traceanalyzer.simulation.worlds.cluster import Cluster
    from traceanalyzer.simulation.worlds.settings import Recorder, WorldSettings

_IDLE_LENGTH: Final = 0.5
"""Length of a kernel that runs on padding only, against one of the fullest rank."""
_SEND: Final = KernelName(
    "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<(unsigned long)4096>)",
    "ncclDevKernel_SendRecv",
    grid=4,
    block=544,
)


class DataParallel(Sglang):
    """Attention ranks with requests of their own that share the experts' collectives.

    A rank without requests runs padding along. The last rank gets requests only now and then.
    """

    rank_name = "sglang::scheduler_DP{}"

    def __init__(self, settings: WorldSettings, recorder: Recorder) -> None:
        super().__init__(settings, recorder)
        self.size = settings.parallel.data
        names = [self.rank_name.format(place) for place in range(1, self.size)]
        rest = self.started(names)
        self.cluster.ranks = [*self.cluster.ranks, *rest.ranks]
        self.model = Model(settings.costs, parallel=True)
        self.queues = [
            Queue(settings.load, settings.speculation, f"{settings.seed} rank {place}")
            for place in range(self.size)
        ]
        self.of_rank: list[list[Request]] = [[] for _place in range(self.size)]
        self.rank_marks = [Marks(host, DOMAIN, recorder) for host in self.cluster.hosts]

    def _tell_ranks(self) -> None:
        for place, marks in enumerate(self.rank_marks):
            marks.ranks((0, 1), (place, self.size), (0, 1))

    def _turn(self) -> None:
        load = self.settings.load
        self.spend(self.settings.host.schedule_us)
        prompts = []
        for place, queue in enumerate(self.queues):
            mine = self.of_rank[place]
            rests = place == self.size - 1 and self.decoded % 24 < 12
            if not rests:
                queue.admit(self.cluster.hosts[place].now_ns, len(mine))
            while queue.waiting and len(mine) < load.batch:
                mine.append(queue.waiting.popleft())
                prompts.append(mine[-1])
        self.number += 1
        if prompts:
            tokens = sum(each.prompt_tokens for each in prompts)
            step = Step(self.number, Shape("prefill", len(prompts), 0, 0, 0, tokens), 0, 0, ())
            self.steps[step.number] = step
            self.prompt_step(step)
            return
        self._share()

    def _share(self) -> None:
        """A decoding step in which every rank has its own batch."""
        own = {place: self._planned(mine, 0) for place, mine in enumerate(self.of_rank)}
        own = {
            place: step if self.of_rank[place] else self._idle_step(step)
            for place, step in own.items()
        }
        fullest = max(own.values(), key=lambda step: step.shape.batch)
        step = Step(
            self.number, fullest.shape, fullest.longest, fullest.per_request, (), of_rank=own
        )
        self.steps[step.number] = step
        self.decoded += 1
        for rank, each in zip(self.cluster.ranks, own.values(), strict=True):
            busy = each.shape.batch / fullest.shape.batch
            rank.slowness = _IDLE_LENGTH + (1 - _IDLE_LENGTH) * busy
        self.decoding_step(Launched(step, []))
        for place, each in own.items():
            self.rank_marks[place].accepted(each.number, each.outcomes)
            self.of_rank[place] = [r for r in self.of_rank[place] if not r.ended]
        self.spend(self.settings.host.results_us)

    @staticmethod
    def _idle_step(step: Step) -> Step:
        shape = Shape(step.kind, 0, 0, 0, 0, 0)
        return Step(step.number, shape, step.longest, step.per_request, (), idle=True)

    def announce(self, step: Step) -> None:
        """Every rank tells of its own batch."""
        for place, marks in enumerate(self.rank_marks):
            marks.batch(step.of_rank.get(place, step))
            if step.shape.prompt_tokens:
                marks.prompt(step.number, step.shape.batch, step.shape.prompt_tokens)


class Pipeline(Sglang):
    """Two or more stages, one rank each, with as many micro-batches in flight.

    A stage's forwards belong to the micro-batches in turn; the last stage samples and drafts.
    """

    rank_name = "sglang::scheduler_PP{}"

    def __init__(self, settings: WorldSettings, recorder: Recorder) -> None:
        super().__init__(settings, recorder)
        self.size = settings.parallel.pipeline
        more = [self.started([self.rank_name.format(p)]) for p in range(1, self.size)]
        self.stages: list[Cluster] = [self.cluster, *more]
        self.micro: list[list[Request]] = [[] for _batch in range(self.size)]
        self.results_ns = [0] * self.size

    def _tell_ranks(self) -> None:
        for place, stage in enumerate(self.stages):
            marks = Marks(stage.hosts[0], DOMAIN, self.recorder)
            marks.ranks((0, 1), (0, 1), (place, self.size))

    def _turn(self) -> None:
        """One micro-batch through all stages; results come back before its next turn."""
        place = (self.number + 1) % self.size
        first = self.stages[0].hosts[0]
        first.now_ns = max(first.now_ns, self.results_ns[place])
        self.micro[place] = [each for each in self.micro[place] if not each.ended]
        free = self.settings.load.batch - len(self.micro[place])
        self.queue.admit(first.now_ns, self.settings.load.batch - free)
        fresh = [self.queue.waiting.popleft() for _r in range(min(free, len(self.queue.waiting)))]
        self.micro[place] += fresh  # prompts were run elsewhere (disaggregated prefill)
        self.number += 1
        step = self._planned(self.micro[place], 0)
        self.steps[step.number] = step
        self.decoded += 1
        self.spend(self.settings.host.schedule_us)
        done_ns = self.results_ns[place] - round(1e3 * self.settings.host.transfer_us)
        self.stages[-1].wait([done_ns], event_id=step.number)
        self._through(step, place)

    def _through(self, step: Step, micro: int) -> None:
        arrived: tuple[Rank, int] | None = None
        share = -(-self.settings.costs.layers // self.size)
        for place, stage in enumerate(self.stages):
            self.cluster = stage
            self.marks = Marks(stage.hosts[0], DOMAIN, self.recorder)
            layers = range(place * share, min((place + 1) * share, self.settings.costs.layers))
            launched = Launched(step, self.micro[micro])
            with stage.range("cycle", step.number):
                self.announce(step)
                arrived = self._stage(launched, layers, arrived, last=place == self.size - 1)
        done_ns = launched.done_ns[0]
        self.stages[-1].hosts[0].spend(round(1e3 * self.settings.host.results_us))
        if self.settings.speculates:
            self.marks.accepted(step.number, step.outcomes)
        self.results_ns[micro] = done_ns + round(1e3 * self.settings.host.transfer_us)
        self.cluster = self.stages[0]

    def _stage(
        self,
        launched: Launched,
        layers: range,
        arrived: tuple[Rank, int] | None,
        *,
        last: bool,
    ) -> tuple[Rank, int] | None:
        step, stage = launched.step, self.cluster
        sent = None
        with stage.phase(step.kind, step.number):
            self.prepare()
            if arrived is None:
                stage.copied(4 * self.tokens_of(step).count, HTOD)
            else:
                self._handed_over(*arrived)
            tokens = self.tokens_of(step)
            works = self.model.target(tokens, layers)
            stage.run(works, self.graph(f"stage {layers}", layers.start, tokens, works))
            if not last:
                sent = (stage.ranks[0], self._launched_send())
            else:
                self.sampled(step)
                launched.done_ns = stage.copied(64 * step.shape.batch, DTOH)
        if last and self.settings.drafts_on_gpu:
            with stage.phase("draft_extend", step.number):
                self.extended(step)
            with stage.phase("draft", step.number):
                self.drafted(step, step.longest)
        return sent

    def _launched_send(self) -> int:
        """Launch a send, whose end the receiving stage settles; returns its place in `ops`."""
        stage = self.cluster
        rank = stage.ranks[0]
        work = Work(_SEND, 1)
        call = stage._launch_call(rank, work)
        start_ns = max(call.start_ns + LAUNCH_LATENCY_NS, rank.free_ns(COMPUTE))
        stage._record(rank, call, Slot(start_ns, start_ns, 0), work)
        rank.occupy(COMPUTE, start_ns + EAGER_GAP_NS)
        return len(self.recording.ops) - 1

    def _handed_over(self, sender: Rank, place: int) -> None:
        """Receive: both ends of the transfer end together, once both have begun."""
        stage = self.cluster
        rank = stage.ranks[0]
        work = Work(_SEND, 1)
        call = stage._launch_call(rank, work)
        start_ns = max(call.start_ns + LAUNCH_LATENCY_NS, rank.free_ns(COMPUTE))
        sent = self.recording.ops[place]
        last_ns = max(start_ns, sent.start_ns)
        tokens = self.settings.costs.collective
        end_ns = last_ns + round(tokens.ns(8, 1))
        self.recording.ops[place] = replace(sent, end_ns=end_ns, wait_ns=last_ns - sent.start_ns)
        stage._record(rank, call, Slot(start_ns, end_ns, last_ns - start_ns), work)
        rank.occupy(COMPUTE, end_ns + EAGER_GAP_NS)
        sender.occupy(COMPUTE, end_ns + EAGER_GAP_NS)


def parallel_server(settings: WorldSettings, recorder: Recorder) -> Sglang:
    """The server of a world with several attention ranks or stages, not yet run."""
    kind = DataParallel if settings.parallel.data > 1 else Pipeline
    return kind(settings, recorder)

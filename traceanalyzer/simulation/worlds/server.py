"""A server's loop: who runs in which step, and what its results are good for.

Engines differ in the program of a step and in when its results reach the scheduler; those are in
`engines`. A host that is a step ahead lets requests run once more that have ended already: their
results are stale.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from traceanalyzer.simulation.recording import HTOD
from traceanalyzer.simulation.worlds.forwards import Model
from traceanalyzer.simulation.worlds.launching import DOMAIN, Launched, Launcher
from traceanalyzer.simulation.worlds.requests import Queue, Request, judge
from traceanalyzer.simulation.worlds.steps import Marks, Shape, Step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.simulation.worlds.settings import Recorder, WorldSettings


class Server(Launcher):
    """Runs steps until enough of them have decoded.

    Attributes:
        steps: By number, prompts included.
    """

    rank_name = "sglang::scheduler_TP{}"

    def __init__(self, settings: WorldSettings, recorder: Recorder) -> None:
        super().__init__(settings, recorder)
        count = settings.parallel.tensor
        self.cluster = self.started([self.rank_name.format(place) for place in range(count)])
        self.cluster.ranks[-1].slowness += settings.parallel.slow_rank_share
        self.model = Model(settings.costs, parallel=count > 1)
        self.queue = Queue(settings.load, settings.speculation, str(settings.seed))
        self.running: list[Request] = []
        self.prompting: Request | None = None
        self.pending: deque[Launched] = deque()
        self.steps: dict[int, Step] = {}
        self.number = 0
        self.decoded = 0
        self.marks = Marks(self.cluster.hosts[0], DOMAIN, recorder)

    def run(self) -> None:
        """Serve."""
        self._tell_ranks()
        while self.decoded < self.settings.cycles:
            self._turn()
        while self.pending:
            self._results(self.pending.popleft())
        numbers = sorted(self.steps)
        self.recording.iterations += [self.steps[number].iteration() for number in numbers]

    def _tell_ranks(self) -> None:
        size = len(self.cluster.ranks)
        for place, host in enumerate(self.cluster.hosts):
            if self.settings.rank_marks:
                Marks(host, DOMAIN, self.recorder).ranks((place, size), (0, 1), (0, 1))

    def _turn(self) -> None:
        """One iteration of the scheduler."""
        load = self.settings.load
        self.queue.admit(self.cluster.hosts[0].now_ns, len(self.running) + bool(self.prompting))
        room = load.batch - len(self.running)
        self.spend(self.settings.host.schedule_us)
        self._stall()
        if load.chunk_tokens and not self.prompting and self.queue.waiting and room:
            self.prompting = self.queue.waiting.popleft()
        if not load.chunk_tokens and self.queue.waiting and room:
            self._prompt(min(room, len(self.queue.waiting)))
        elif self.running or self.prompting:
            self._decoding_step()
        else:
            self._rest()

    def _rest(self) -> None:
        """Let time pass until somebody comes."""
        while self.pending:
            self._results(self.pending.popleft())
        for host in self.cluster.hosts:
            host.now_ns = max(host.now_ns, self.queue.next_arrival_ns)

    def _prompt(self, count: int) -> None:
        """Run the prompts of new requests in a forward of their own."""
        requests = [self.queue.waiting.popleft() for _place in range(count)]
        tokens = sum(each.prompt_tokens for each in requests)
        self.number += 1
        step = Step(self.number, Shape("prefill", count, 0, 0, 0, tokens), 0, 0, ())
        self.steps[step.number] = step
        self.prompt_step(step)
        self.running += requests

    def _decoding_step(self) -> None:
        requests = list(self.running)
        self.number += 1
        chunk, joining = self._chunk()
        step = self._planned(requests, chunk)
        self.steps[step.number] = step
        if not requests:
            self.prompt_step(step)
        else:
            self.decoded += 1
            launched = Launched(step, requests)
            self.pending.append(launched)
            self.decoding_step(launched)
        if joining is not None:
            self.running.append(joining)
        while len(self.pending) > self.settings.steps_ahead:
            self._results(self.pending.popleft())

    def _chunk(self) -> tuple[int, Request | None]:
        """Prompt tokens of the next forward, and who has all of its prompt in then."""
        request = self.prompting
        if request is None:
            return 0, None
        tokens = min(self.settings.load.chunk_tokens, request.prompt_left)
        request.prompt_left -= tokens
        if request.prompt_left:
            return tokens, None
        self.prompting = None
        return tokens, request

    def _planned(self, requests: Sequence[Request], chunk: int) -> Step:
        settings = self.settings
        longest = self.longest(self.number)
        drafts = settings.speculation.drafts(longest)
        live, per_request = len(requests), drafts + 1
        kind = "verify" if longest else "decode"
        if chunk:
            kind = "mixed" if requests else "prefill"
        batch = live + bool(chunk)
        padded = 0 if chunk else self.padded(batch)
        shape = Shape(kind, batch, padded, live * per_request, live * drafts, chunk)
        outcomes = tuple(judge(each, longest) for each in requests)
        return Step(self.number, shape, longest, per_request, outcomes)

    def longest(self, number: int) -> int:
        """The longest run of drafts of a step, k."""
        if not self.settings.speculates:
            return 0
        choices = self.settings.speculation.draft_tokens
        return choices[number % len(choices)]

    def padded(self, batch: int) -> int:
        """The batch that a graph exists for."""
        return 1 << (batch - 1).bit_length() if self.settings.load.padded else batch

    def _results(self, launched: Launched) -> None:
        """Take a step's results: tell what was accepted, and let those go that have ended."""
        self.cluster.wait(launched.done_ns, event_id=launched.step.number)
        self.settle(launched)
        self.spend(self.settings.host.results_us)

    def settle(self, launched: Launched) -> None:
        """Tell what was accepted, and let those go that have ended."""
        if self.settings.speculates:
            self.marks.accepted(launched.step.number, launched.step.outcomes)
        self.release(launched)

    def release(self, launched: Launched) -> None:
        """Let those go whose last token the step's results hold."""
        pairs = zip(launched.requests, launched.step.outcomes, strict=True)
        ended = {id(request) for request, outcome in pairs if outcome.last}
        self.running = [each for each in self.running if id(each) not in ended]

    def _stall(self) -> None:
        host = self.settings.host
        if host.stall_every and self.number % host.stall_every == host.stall_every - 1:
            self.spend(host.stall_us)

    def prompt_step(self, step: Step) -> None:
        """Run prompts through target and draft model."""
        tokens = step.shape.prompt_tokens
        self.announce(step)
        with self.cluster.phase("prefill", step.number):
            self.cluster.copied(4 * tokens, HTOD)
            self.prompt_forward(tokens, draft=False)
        if self.settings.drafts_on_gpu:
            with self.cluster.phase("draft_prefill", step.number):
                self.prompt_forward(tokens, draft=True)

    def announce(self, step: Step) -> None:
        """Say what a step is about to run."""
        self.marks.batch(step)
        if step.shape.prompt_tokens:
            requests = step.shape.batch if step.kind == "prefill" else 1
            self.marks.prompt(step.number, requests, step.shape.prompt_tokens)

    def decoding_step(self, launched: Launched) -> None:
        """Launch a step; the engine's own program.

        Raises:
            NotImplementedError: The class is no engine.
        """
        raise NotImplementedError

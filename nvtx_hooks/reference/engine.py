"""The engine: continuous batching around prefill, draft, verify, accept and re-extend.

It is laid out like the servers': a method a phase, called by name on the instance, so that hooks
can be put around each from outside. A step reads the device back exactly once, in `collect`;
everything before is queued without waiting, whatever was accepted.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch

from nvtx_hooks.reference import acceptance, sampling
from nvtx_hooks.reference.forwards import ExtendInput, Forwards, Scores, Slots, VerifyInput
from nvtx_hooks.reference.graphs import (
    BucketedRunner,
    CudaGraphRecording,
    EagerRecording,
    EagerRunner,
    batch_sizes,
)
from nvtx_hooks.reference.kv_cache import causal_window
from nvtx_hooks.reference.request import Batch, Generation, StepReport

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from nvtx_hooks.reference.acceptance import Judgement, Verdict
    from nvtx_hooks.reference.config import EngineSettings
    from nvtx_hooks.reference.draft_head import DraftHead
    from nvtx_hooks.reference.graphs import In, Out, Recording, Runner
    from nvtx_hooks.reference.model import TargetModel
    from nvtx_hooks.reference.request import Request
    from nvtx_hooks.reference.tree import DraftShape, DraftState, Proposal


class Engine:
    """Serves requests with a target model and, unless decoding is plain, its draft head.

    Attributes:
        settings: How it serves.
        running: Requests that hold a slot.
        waiting: Requests that do not yet.
        calls: How often each phase's method ran, by the name of its range.

    Args:
        target: The target model; its parameters decide device and dtype.
        draft_head: Its draft head; not used when `settings.shape` is None.
        settings: How to serve.
    """

    def __init__(
        self, target: TargetModel, draft_head: DraftHead | None, settings: EngineSettings
    ) -> None:
        self.settings = settings
        self.running: list[Generation] = []
        self.waiting: deque[Request] = deque()
        self.calls: Counter[str] = Counter()
        self._free_slots = list(range(settings.max_batch))
        self._batch: Batch | None = None
        self._forwards = Forwards(target, draft_head, settings)
        self._states = self._forwards.states
        self._make_runners()

    def _make_runners(self) -> None:
        forwards, shape = self._forwards, self.settings.shape
        device, pad_slot = forwards.device, self.settings.max_batch
        slots = torch.full((1,), pad_slot, dtype=torch.int64, device=device)
        self._decode_runner = self._runner(forwards.decode, Slots(slots))
        if shape is None:
            return
        zero = torch.zeros_like(slots)
        nodes = zero.expand(1, shape.verified)
        own = torch.eye(shape.verified, dtype=torch.bool, device=device)[None]
        path = zero.expand(1, shape.depth + 1)
        features = torch.zeros(
            *path.shape,
            forwards.target.config.feature_size,
            dtype=forwards.dtype,
            device=device,
        )
        verify = VerifyInput(slots, tokens=nodes, depths=nodes, ancestors=own)
        extend = ExtendInput(slots, starts=zero, last=zero, tokens=path, features=features)
        self._draft_runner = self._runner(self._draft, Slots(slots))
        self._verify_runner = self._runner(forwards.verify, verify)
        self._extend_runner = self._runner(forwards.extend, extend)

    def _runner(self, body: Callable[[In], Out], padding: In) -> Runner[In, Out]:
        graphs = self.settings.graphs
        if graphs == "none":
            return EagerRunner(body)
        record: Callable[[Callable[[], Out]], Recording[Out]] = (
            CudaGraphRecording if graphs == "cuda" else EagerRecording
        )
        return BucketedRunner(body, padding, batch_sizes(self.settings.max_batch), record)

    def _draft(self, inputs: Slots) -> Proposal:
        # The method is looked up at each run, so that a hook put on it later is seen.
        return self._forwards.draft(inputs, partial(self.draft_step, inputs.slots))

    def submit(self, request: Request) -> None:
        """Queue a request.

        Raises:
            ValueError: Its prompt or output is empty, or both together are too long.
        """
        if not request.prompt or request.max_tokens < 1:
            raise ValueError(f"request {request.id}: a prompt and an output need a token each")
        if len(request.prompt) + request.max_tokens > self.settings.context:
            raise ValueError(
                f"request {request.id}: {len(request.prompt)} + {request.max_tokens} tokens, "
                f"and the context is {self.settings.context}"
            )
        self.waiting.append(request)

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return bool(self.running or self.waiting)

    @torch.inference_mode()
    def warm_up(self) -> None:
        """Record the phases that run from graphs; call it once, before the first step."""
        if self.settings.shape is None:
            self._decode_runner.prepare()
        else:
            self._draft_runner.prepare()
            self._verify_runner.prepare()
            self._extend_runner.prepare()
        self.calls.clear()

    @torch.inference_mode()
    def step(self) -> StepReport:
        """Let waiting requests in if there is room for any, else move the running ones on."""
        admitted = self._admit()
        if admitted:
            return self.prefill(admitted)
        if not self.running:
            return StepReport("idle")
        if self._batch is None:
            self._batch = self._batch_of(self.running)
        return self.cycle(self._batch)

    def _admit(self) -> Batch | None:
        admitted = []
        while self.waiting and self._free_slots:
            admitted.append(Generation(self.waiting.popleft(), self._free_slots.pop(0)))
        if not admitted:
            return None
        self.running.extend(admitted)
        self._batch = None
        return self._batch_of(admitted)

    def _batch_of(self, generations: Sequence[Generation]) -> Batch:
        slots = self._to_device([generation.slot for generation in generations])
        return Batch(tuple(generations), slots)

    def _to_device(self, values: Sequence[int] | Sequence[Sequence[int]]) -> Tensor:
        """Ints on the device, int64. From pinned memory the host need not wait for the copy."""
        pinned = self._forwards.device.type == "cuda"
        host = torch.tensor(values, dtype=torch.int64, pin_memory=pinned)
        return host.to(self._forwards.device, non_blocking=True)

    def prefill(self, batch: Batch) -> StepReport:
        """Run the prompts of new requests through target and draft, and commit a token each."""
        self.calls["prefill"] += 1
        prompts = [generation.request.prompt for generation in batch.generations]
        lengths = self._to_device([len(prompt) for prompt in prompts])
        seeds = self._to_device([generation.request.seed for generation in batch.generations])
        self._states.seeds[batch.slots] = seeds
        width = max(map(len, prompts))
        padded = self._to_device([[*prompt, *[0] * (width - len(prompt))] for prompt in prompts])
        starts, forwards = torch.zeros_like(lengths), self._forwards
        window = causal_window(width, forwards.device)
        hidden, features = forwards.run_target(batch.slots, starts, padded, window)
        last = (lengths - 1)[:, None, None].expand(-1, 1, hidden.shape[-1])
        logits = forwards.target.logits(hidden.gather(1, last)[:, 0])
        tokens = self.sample(batch, logits, starts, lengths)
        if self.settings.shape:
            self.draft_prefill(batch, padded, lengths, features, tokens)
        collected = self.collect(starts, tokens[:, None])
        report = StepReport("prefill", prompt_tokens=sum(map(len, prompts)))
        return self.commit(batch, collected, report)

    def draft_prefill(
        self, batch: Batch, prompts: Tensor, lengths: Tensor, features: Tensor, tokens: Tensor
    ) -> None:
        """Fill the draft's cache: position t of a prompt goes with token t + 1."""
        self.calls["draft_prefill"] += 1
        shifted = torch.cat((prompts[:, 1:], torch.zeros_like(prompts[:, :1])), dim=1)
        following = shifted.scatter(1, lengths[:, None] - 1, tokens[:, None])
        starts = torch.zeros_like(lengths)
        self._forwards.extend(ExtendInput(batch.slots, starts, lengths - 1, following, features))

    def cycle(self, batch: Batch) -> StepReport:
        """Move every request of a batch on by at least one token."""
        self.calls["cycle"] += 1
        return self.speculate(batch) if self.settings.shape else self.decode(batch)

    def decode(self, batch: Batch) -> StepReport:
        """One token a request, no drafts: the baseline."""
        self.calls["decode"] += 1
        starts = self._states.lengths[batch.slots]
        scores = self._decode_runner(Slots(batch.slots))
        tokens = self.sample(batch, scores.logits[:, 0], starts, 1)
        collected = self.collect(torch.zeros_like(starts), tokens[:, None])
        padded = self._decode_runner.padded(batch.size)
        report = StepReport("decode", padded=padded, verified=batch.size)
        return self.commit(batch, collected, report)

    def speculate(self, batch: Batch) -> StepReport:
        """Draft, verify, accept and re-extend, then read back what was committed."""
        shape = self._shape
        proposal = self.draft(batch)
        scores = self.verify(batch, proposal)
        verdict = self.accept(batch, proposal, scores)
        self.draft_extend(batch, verdict, scores)
        collected = self.collect(verdict.accepted, verdict.tokens)
        report = StepReport(
            "cycle",
            padded=self._verify_runner.padded(batch.size),
            k=shape.depth,
            drafted=batch.size * shape.nodes,
            verified=batch.size * shape.verified,
        )
        return self.commit(batch, collected, report)

    def draft(self, batch: Batch) -> Proposal:
        """Propose tokens after the newest one of each request."""
        self.calls["draft"] += 1
        return self._draft_runner(Slots(batch.slots))

    def draft_step(
        self, slots: Tensor, tokens: Tensor, hidden: Tensor, depth: int, window: Tensor
    ) -> DraftState:
        """One forward of the draft head over drafted tokens, as `tree.Step`.

        A recorded graph holds all of a round's; they are called here only while it is recorded.
        """
        self.calls["draft.step"] += 1
        return self._forwards.draft_step(slots, tokens, hidden, depth, window)

    def verify(self, batch: Batch, proposal: Proposal) -> Scores:
        """One forward of the target over all drafted tokens of all requests."""
        self.calls["verify"] += 1
        return self._verify_runner(
            VerifyInput(batch.slots, proposal.tokens, proposal.depths, proposal.ancestors)
        )

    def sample(self, batch: Batch, logits: Tensor, starts: Tensor, advance: Tensor | int) -> Tensor:
        """Choose each request's next token, int64 [B], from logits [B, vocab_size].

        Args:
            batch: The requests.
            logits: After the newest token in the target's cache.
            starts: Int64 [B], tokens in that cache before the forward.
            advance: Tokens that the forward put there.
        """
        self.calls["sample"] += 1
        temperature = self.settings.temperature
        if temperature == 0:
            tokens = logits.argmax(dim=-1)
        else:
            draws = self._forwards.draws(batch.slots, starts, sampling.BONUS_DRAW, 1)
            weights = sampling.probabilities(logits, temperature)
            tokens = sampling.choose(weights, draws[:, 0])
        self._states.lengths[batch.slots] = starts + advance
        self._states.last_tokens[batch.slots] = tokens
        return tokens

    def accept(self, batch: Batch, proposal: Proposal, scores: Scores) -> Verdict:
        """Judge the drafted tokens and settle the accepted ones in the target's cache."""
        self.calls["sample"] += 1
        shape, states = self._shape, self._states
        starts = states.lengths[batch.slots]
        judgement = self._judge(batch.slots, proposal, scores.logits, starts)
        verdict = acceptance.settle(proposal, judgement, starts, shape.depth)
        if not shape.is_chain:
            self._close_gaps(batch.slots, verdict)
        states.lengths[batch.slots] = starts + verdict.accepted + 1
        states.last_tokens[batch.slots] = judgement.bonus
        return verdict

    def draft_extend(self, batch: Batch, verdict: Verdict, scores: Scores) -> DraftState:
        """Run the draft head again over the accepted tokens, now with the target's features.

        It always runs depth + 1 tokens a request; those past the accepted ones land in cells that
        the next round overwrites before it sees them.
        """
        self.calls["draft_extend"] += 1
        width = scores.features.shape[-1]
        features = scores.features.gather(1, verdict.path[..., None].expand(-1, -1, width))
        return self._extend_runner(
            ExtendInput(batch.slots, verdict.starts, verdict.accepted, verdict.tokens, features)
        )

    def collect(self, accepted: Tensor, tokens: Tensor) -> list[list[int]]:
        """Read a step's result back to the host: its one device-to-host copy.

        Args:
            accepted: Int64 [B], accepted drafts.
            tokens: Int64 [B, T], tokens to commit and fill.

        Returns:
            The tokens that each request commits: accepted + 1 of them.
        """
        rows: list[list[int]] = torch.cat((accepted[:, None], tokens), dim=1).tolist()
        return [row[1 : row[0] + 2] for row in rows]

    def commit(self, batch: Batch, collected: list[list[int]], report: StepReport) -> StepReport:
        """Hand tokens to their requests and let finished ones go; the host's part of a step.

        Args:
            batch: The requests.
            collected: What `collect` returned.
            report: What was known of the step before.

        Returns:
            The report with all the rest.
        """
        accepted = [len(tokens) - 1 for tokens in collected]
        overshoot = []
        for generation, tokens in zip(batch.generations, collected, strict=True):
            generation.overshoot = generation.commit(tokens, self.settings.eos_token)
            overshoot.append(generation.overshoot)
            if report.kind == "cycle":
                generation.accepted.append(len(tokens) - 1)
        return replace(
            report,
            request_ids=[generation.request.id for generation in batch.generations],
            accepted=accepted,
            overshoot=overshoot,
            finished=self._release(batch),
        )

    def _release(self, batch: Batch) -> list[Generation]:
        """Take finished requests off the batch."""
        finished = [generation for generation in batch.generations if generation.finish_reason]
        for generation in finished:
            self.running.remove(generation)
            self._free_slots.append(generation.slot)
            self._batch = None
        return finished

    @property
    def _shape(self) -> DraftShape:
        assert self.settings.shape is not None
        return self.settings.shape

    def _judge(
        self, slots: Tensor, proposal: Proposal, logits: Tensor, starts: Tensor
    ) -> Judgement:
        shape, temperature = self._shape, self.settings.temperature
        if temperature == 0:
            return acceptance.accept_greedy(logits, proposal)
        reject = acceptance.reject_chain if shape.is_chain else acceptance.reject_tree
        draws = partial(self._forwards.draws, slots, starts)
        return reject(
            sampling.probabilities(logits, temperature),
            proposal,
            draws(sampling.ACCEPT_DRAWS, shape.verified),
            draws(sampling.BONUS_DRAW, 1)[:, 0],
        )

    def _close_gaps(self, slots: Tensor, verdict: Verdict) -> None:
        """Move the accepted path's keys and values together, over those of rejected nodes."""
        steps = torch.arange(verdict.path.shape[1], device=slots.device)
        taken = torch.where(steps <= verdict.accepted[:, None], verdict.path, steps)
        starts = verdict.starts[:, None]
        self._forwards.cache.move(slots, starts + taken, starts + steps)

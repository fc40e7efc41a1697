"""Where the hooks attach in vLLM 0.8.5 to 0.33: both model runners, and the scheduler.

One `propose` call holds the draft model's extension over the accepted tokens and the draft steps:
they are told apart by counting its forwards. A step of the newer runners is two calls,
`execute_model` and `sample_tokens`, so its `cycle` range outlives the first.
"""

from __future__ import annotations

from typing import Final

from nvtx_hooks import vocabulary
from nvtx_hooks.extractors import vllm
from nvtx_hooks.targets import Target

_RUNNER: Final = "vllm.v1.worker.gpu_model_runner"
_RUNNER_V2: Final = "vllm.v1.worker.gpu.model_runner"
_SPEC_V2: Final = "vllm.v1.worker.gpu.spec_decode"
_SCHEDULER: Final = "vllm.v1.core.sched.scheduler"
_EXTENDS: Final = (vocabulary.DRAFT_EXTEND, vocabulary.DRAFT_PREFILL)


def _execute(module: str, *seen: str) -> Target:
    """A worker's forward over one scheduler output."""
    return Target(
        module,
        "GPUModelRunner.execute_model",
        opens=vllm.execute_ranges,
        step=True,
        number=vllm.step_number,
        spans=vocabulary.CYCLE,
        ends=vocabulary.CYCLE,
        ends_when=vllm.has_result,
        observe=vllm.execute_step,
        parameters=("self", "scheduler_output"),
        seen=(seen[0], seen[1]),
    )


def _end(module: str, *seen: str) -> Target:
    """The second half of a step."""
    return Target(
        module,
        "GPUModelRunner.sample_tokens",
        ends=vocabulary.CYCLE,
        seen=(seen[0], seen[1]),
    )


def _phase(module: str, attribute: str, name: str, *seen: str) -> Target:
    """A method that is one phase, or one condition."""
    return Target(module, attribute, opens=(name,), seen=(seen[0], seen[1]))


def _propose(module: str, attribute: str, *seen: str) -> Target:
    """A drafter's proposal."""
    return Target(
        module,
        attribute,
        opens=vllm.propose_ranges,
        proposal=True,
        parameters=("self",),
        seen=(seen[0], seen[1]),
    )


def _forward(module: str, *seen: str) -> Target:
    """One draft forward, around whose body vLLM puts this context manager."""
    return Target(
        module, "set_forward_context", forward=True, context=True, seen=(seen[0], seen[1])
    )


def _draft(module: str, attribute: str, *seen: str) -> Target:
    """The draft steps after the first forward."""
    return Target(
        module,
        attribute,
        opens=vllm.draft_ranges,
        becomes=vocabulary.DRAFT,
        becomes_from=_EXTENDS,
        seen=(seen[0], seen[1]),
    )


def _draft_step(module: str, attribute: str, *seen: str) -> Target:
    """One draft step in Python."""
    return Target(module, attribute, opens=vllm.draft_step_ranges, seen=(seen[0], seen[1]))


def _prefill(module: str, attribute: str, *seen: str) -> Target:
    """The draft model's first forward, while a graph of it is captured."""
    return Target(module, attribute, opens=vllm.captured_extend_ranges, seen=(seen[0], seen[1]))


def _ranks(module: str, *seen: str) -> Target:
    """A worker that has learnt its ranks."""
    return Target(
        module,
        "GPUModelRunner.__init__",
        observe=vllm.worker_ranks,
        parameters=("self", "vllm_config"),
        seen=(seen[0], seen[1]),
    )


_SCHEDULING: Final = (
    Target(
        _SCHEDULER,
        "Scheduler.schedule",
        opens=(vocabulary.SCHEDULE,),
        step=True,
        observe=vllm.scheduled_signature,
        tags=True,
        parameters=("self",),
        seen=("0.8.5", ""),
    ),
    Target(
        _SCHEDULER,
        "Scheduler.update_from_output",
        before=vllm.verified_requests,
        observe=vllm.accepted_drafts,
        parameters=("self", "scheduler_output", "model_runner_output"),
        seen=("0.8.5", ""),
    ),
    Target(
        _SCHEDULER,
        "Scheduler.__init__",
        observe=vllm.scheduler_ranks,
        parameters=("self", "vllm_config"),
        seen=("0.8.5", ""),
    ),
)

_FIRST_RUNNER: Final = (
    _ranks(_RUNNER, "0.8.5", ""),
    _execute(_RUNNER, "0.8.5", ""),
    _end(_RUNNER, "0.11.2", ""),
    _phase(_RUNNER, "GPUModelRunner._sample", vocabulary.SAMPLE, "0.10.2", ""),
    _phase(
        "vllm.v1.sample.rejection_sampler",
        "RejectionSampler.forward",
        vocabulary.SAMPLE,
        "0.8.5",
        "",
    ),
    _phase("vllm.v1.sample.sampler", "Sampler.forward", vocabulary.SAMPLE, "0.8.5", ""),
    Target(
        _RUNNER,
        "GPUModelRunner.propose_draft_token_ids",
        opens=vllm.drafter_ranges,
        parameters=("self",),
        seen=("0.10.2", ""),
    ),
    _phase(_RUNNER, "GPUModelRunner.generate_draft_token_ids", vocabulary.DRAFT, "0.8.5", "0.8.5"),
    _propose("vllm.v1.spec_decode.eagle", "EagleProposer.propose", "0.8.5", "0.13.0"),
    _propose("vllm.v1.spec_decode.eagle", "SpecDecodeBaseProposer.propose", "0.18.1", "0.18.1"),
    _propose(
        "vllm.v1.spec_decode.llm_base_proposer", "SpecDecodeBaseProposer.propose", "0.24.0", ""
    ),
    _forward("vllm.v1.spec_decode.eagle", "0.8.5", "0.18.1"),
    _forward("vllm.v1.spec_decode.llm_base_proposer", "0.24.0", ""),
    Target(_RUNNER, "set_forward_context", observe=vllm.graph_padding, seen=("0.8.5", "")),
    _phase(_RUNNER, "GPUModelRunner.capture_model", vocabulary.CAPTURE, "0.8.5", ""),
    _phase(_RUNNER, "GPUModelRunner._dummy_run", vocabulary.DUMMY, "0.8.5", ""),
    _phase(_RUNNER, "GPUModelRunner.profile_run", vocabulary.WARM_UP, "0.8.5", ""),
)

_SECOND_RUNNER: Final = (
    _ranks(_RUNNER_V2, "0.13.0", ""),
    _execute(_RUNNER_V2, "0.13.0", ""),
    _end(_RUNNER_V2, "0.13.0", ""),
    _phase(_RUNNER_V2, "GPUModelRunner.sample", vocabulary.SAMPLE, "0.13.0", ""),
    _propose(f"{_SPEC_V2}.eagle", "EagleSpeculator.propose", "0.13.0", "0.13.0"),
    _draft(f"{_SPEC_V2}.eagle", "EagleSpeculator.generate_draft", "0.13.0", "0.13.0"),
    _draft(f"{_SPEC_V2}.eagle_cudagraph", "EagleCudaGraphManager.run", "0.13.0", "0.13.0"),
    _propose(f"{_SPEC_V2}.eagle.speculator", "EagleSpeculator.propose", "0.18.1", "0.18.1"),
    _draft(f"{_SPEC_V2}.eagle.speculator", "EagleSpeculator.generate_draft", "0.18.1", "0.18.1"),
    _draft(
        f"{_SPEC_V2}.eagle.cudagraph", "EagleCudaGraphManager.run_fullgraph", "0.18.1", "0.18.1"
    ),
    _propose(
        f"{_SPEC_V2}.autoregressive.speculator",
        "AutoRegressiveSpeculator.propose",
        "0.24.0",
        "0.24.0",
    ),
    _prefill(
        f"{_SPEC_V2}.autoregressive.speculator",
        "AutoRegressiveSpeculator._prefill",
        "0.24.0",
        "0.24.0",
    ),
    _draft(
        f"{_SPEC_V2}.autoregressive.speculator",
        "AutoRegressiveSpeculator._multi_step_decode",
        "0.24.0",
        "0.24.0",
    ),
    _draft_step(
        f"{_SPEC_V2}.autoregressive.speculator",
        "AutoRegressiveSpeculator._generate_draft",
        "0.24.0",
        "0.24.0",
    ),
    _propose(
        f"{_SPEC_V2}.target_dependent_ar.speculator",
        "TargetDependentARSpeculator.propose",
        "0.33.0",
        "",
    ),
    _prefill(
        f"{_SPEC_V2}.target_dependent_ar.speculator",
        "TargetDependentARSpeculator._prefill",
        "0.33.0",
        "",
    ),
    _draft(
        f"{_SPEC_V2}.target_dependent_ar.speculator",
        "TargetDependentARSpeculator._multi_step_decode",
        "0.33.0",
        "",
    ),
    _draft(
        f"{_SPEC_V2}.target_dependent_ar.speculator",
        "TargetDependentARSpeculator._fused_multi_step_decode",
        "0.33.0",
        "",
    ),
    _draft_step(
        f"{_SPEC_V2}.target_dependent_ar.speculator",
        "TargetDependentARSpeculator._generate_draft",
        "0.33.0",
        "",
    ),
    _phase(_RUNNER_V2, "GPUModelRunner.capture_model", vocabulary.CAPTURE, "0.13.0", ""),
    _phase(_RUNNER_V2, "GPUModelRunner._dummy_run", vocabulary.DUMMY, "0.13.0", ""),
    _phase(_RUNNER_V2, "GPUModelRunner.profile_run", vocabulary.WARM_UP, "0.13.0", ""),
)

TARGETS: Final = (*_SCHEDULING, *_FIRST_RUNNER, *_SECOND_RUNNER)

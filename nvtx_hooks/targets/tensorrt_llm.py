"""Where the hooks attach in TensorRT-LLM's PyTorch executor, from 0.20 on.

TensorRT-LLM writes ranges of its own, and the innermost range with a phase holds: so the phases are
opened at the engine's forward, inside them. A step begins with the target's forward, the drafts
before it were made in the step before, and the last one ends when no request is left. One-model
speculation is one forward, often one graph, and stays fused: its parts may be compiled, where a
hook could break them.

There is no source package to check these against. They were read in the public repository's files
of 2025 and 2026, and `seen` names the release line whose code that was, told by pull requests 7651
(overlap with a draft model), 8706 (drafts judged on the GPU) and 18721 (draft models as a second
engine removed).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nvtx_hooks import vocabulary
from nvtx_hooks.extractors import tensorrt_llm
from nvtx_hooks.targets import Target

if TYPE_CHECKING:
    from nvtx_hooks.targets import Names

_EXECUTOR: Final = "tensorrt_llm._torch.pyexecutor.py_executor"
_ENGINE: Final = "tensorrt_llm._torch.pyexecutor.model_engine"
_GRAPHS: Final = "tensorrt_llm._torch.pyexecutor.cuda_graph_runner"
_DRAFTER: Final = "tensorrt_llm._torch.speculative.model_drafter"


def _drafting(module: str, attribute: str, parameters: Names, *seen: str) -> Target:
    """A drafter with a draft model, whose forwards are told apart by their order."""
    return Target(
        module,
        attribute,
        opens=tensorrt_llm.begin_drafting,
        observe=tensorrt_llm.end_drafting,
        parameters=parameters,
        seen=(seen[0], seen[1]),
    )


def _phase(module: str, attribute: str, name: str, *seen: str) -> Target:
    """A method that is one phase, or one condition."""
    return Target(module, attribute, opens=(name,), seen=(seen[0], seen[1]))


def _loop(attribute: str) -> Target:
    """The executor's loop: whatever is open when it ends was the last step."""
    return Target(_EXECUTOR, f"PyExecutor.{attribute}", ends=vocabulary.CYCLE, seen=("0.20", ""))


_STEPS: Final = (
    Target(
        _EXECUTOR,
        "PyExecutor.__init__",
        observe=tensorrt_llm.executor_ranks,
        parameters=("self",),
        seen=("0.20", ""),
    ),
    Target(
        _EXECUTOR,
        "PyExecutor._forward_step",
        opens=tensorrt_llm.step_ranges,
        step=True,
        spans=vocabulary.CYCLE,
        before=tensorrt_llm.step_before,
        observe=tensorrt_llm.executed_step,
        parameters=("self", "scheduled_requests"),
        seen=("0.20", ""),
    ),
    Target(
        _ENGINE,
        "PyTorchModelEngine.forward",
        opens=tensorrt_llm.forward_ranges,
        parameters=("self", "scheduled_requests|batch"),
        seen=("0.20", ""),
    ),
    Target(
        _EXECUTOR,
        "PyExecutor._sample_async",
        opens=tensorrt_llm.sample_ranges,
        observe=tensorrt_llm.judged_requests,
        tags=True,
        parameters=("self", "scheduled_batch"),
        seen=("0.20", ""),
    ),
    Target(
        _EXECUTOR,
        "PyExecutor._update_requests",
        before=tensorrt_llm.lengths_before,
        observe=tensorrt_llm.accepted_drafts,
        parameters=("self", "sample_state"),
        seen=("0.20", ""),
    ),
    Target(
        _EXECUTOR,
        "PyExecutor._handle_responses",
        ends=vocabulary.CYCLE,
        ends_when=tensorrt_llm.nothing_left,
        parameters=("self",),
        seen=("0.20", ""),
    ),
    _loop("_executor_loop"),
    _loop("_executor_loop_overlap"),
    _loop("_executor_loop_pp"),
)

_DRAFTERS: Final = (
    _drafting(
        _EXECUTOR,
        "PyExecutor._prepare_draft_tokens",
        ("self", "scheduled_requests"),
        "0.20",
        "0.20",
    ),
    _drafting(
        _DRAFTER,
        "ModelDrafter.prepare_draft_tokens",
        ("self", "scheduled_requests"),
        "1.0",
        "1.2",
    ),
    _drafting(
        _DRAFTER,
        "ModelDrafter.generate_draft_tokens_with_overlap",
        ("self", "scheduled_batch"),
        "1.1",
        "1.2",
    ),
    _phase(_DRAFTER, "ModelDrafter._sample_async", vocabulary.DRAFT, "1.0", "1.0"),
    _phase(_DRAFTER, "ModelDrafter.sample_async", vocabulary.DRAFT, "1.1", "1.2"),
    _phase(
        _DRAFTER,
        "ModelDrafter._update_draft_tokens_for_target_inputs",
        vocabulary.DRAFT,
        "1.2",
        "1.2",
    ),
    _phase(
        "tensorrt_llm._torch.speculative.ngram",
        "NGramDrafter.prepare_draft_tokens",
        vocabulary.DRAFT,
        "1.0",
        "",
    ),
)

_GRAPH_TARGETS: Final = (
    Target(
        _GRAPHS,
        "DecodingCUDAGraphRunner.run",
        observe=tensorrt_llm.graph_runner,
        parameters=("self",),
        seen=("0.20", "1.0"),
    ),
    Target(
        _GRAPHS,
        "CUDAGraphRunner.replay",
        observe=tensorrt_llm.graph_key,
        parameters=("self", "key|batch_size"),
        seen=("1.1", ""),
    ),
    _phase(_GRAPHS, "DecodingCUDAGraphRunner.capture", vocabulary.CAPTURE, "0.20", "1.0"),
    _phase(_GRAPHS, "CUDAGraphRunner.capture", vocabulary.CAPTURE, "1.1", ""),
    _phase(_ENGINE, "PyTorchModelEngine.warmup", vocabulary.WARM_UP, "0.20", ""),
)

TARGETS: Final = (*_STEPS, *_DRAFTERS, *_GRAPH_TARGETS)

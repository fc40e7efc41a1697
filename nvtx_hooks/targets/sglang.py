"""Where the hooks attach in SGLang 0.4.6 to 0.5.23.

Methods around a whole phase are hooked, because with CUDA graphs `draft_forward` and the model's
forward run in Python only while a graph is captured. `StandaloneWorker` and its second version
inherit every hooked method from the EAGLE workers.
"""

from __future__ import annotations

from typing import Final

from nvtx_hooks import vocabulary
from nvtx_hooks.extractors import sglang
from nvtx_hooks.targets import Target

_SPECULATIVE: Final = "sglang.srt.speculative"
_WORKER: Final = f"{_SPECULATIVE}.eagle_worker"
_WORKER_V2: Final = f"{_SPECULATIVE}.eagle_worker_v2"
_MULTI: Final = f"{_SPECULATIVE}.multi_layer_eagle_worker"
_MULTI_V2: Final = f"{_SPECULATIVE}.multi_layer_eagle_worker_v2"
_NGRAM: Final = f"{_SPECULATIVE}.ngram_worker"
_PROCESSOR_MIXIN: Final = "sglang.srt.managers.scheduler_output_processor_mixin"
_PROCESSOR: Final = "sglang.srt.managers.scheduler_components.batch_result_processor"
_RUNNER: Final = "sglang.srt.model_executor"

_BATCH: Final = ("self", "batch")
_EITHER_BATCH: Final = ("self", "batch|model_worker_batch")
_RESULT: Final = ("self", "result", "batch")


def _step(module: str, attribute: str, parameters: tuple[str, ...], *seen: str) -> Target:
    """A speculative worker's step whose result is read in the same iteration."""
    return Target(
        module,
        attribute,
        opens=sglang.worker_ranges,
        step=True,
        before=sglang.worker_batch,
        observe=sglang.worker_step,
        parameters=parameters,
        seen=(seen[0], seen[1]),
    )


def _late_step(module: str, attribute: str, parameters: tuple[str, ...], *seen: str) -> Target:
    """A speculative worker's step whose accepted counts come with the late result."""
    return Target(
        module,
        attribute,
        opens=sglang.worker_ranges,
        step=True,
        before=sglang.worker_batch,
        observe=sglang.worker_step,
        tags=True,
        parameters=parameters,
        seen=(seen[0], seen[1]),
    )


def _phase(module: str, attribute: str, name: str, *seen: str) -> Target:
    """A method that is one phase."""
    return Target(module, attribute, opens=(name,), seen=(seen[0], seen[1]))


def _counted_verify(module: str, attribute: str, *seen: str) -> Target:
    """A synchronous `verify`, which leaves accepted counts on the CPU."""
    return Target(
        module,
        attribute,
        opens=sglang.verify_ranges,
        before=sglang.verified_requests,
        observe=sglang.worker_acceptance,
        parameters=_BATCH,
        seen=(seen[0], seen[1]),
    )


def _processor(module: str, owner: str, *seen: str) -> Target:
    """The result processor of decode batches, where late counts are on the CPU."""
    return Target(
        module,
        f"{owner}.process_batch_result_decode",
        before=sglang.finished_before,
        observe=sglang.late_acceptance,
        parameters=("self", "batch", "result"),
        seen=(seen[0], seen[1]),
    )


def _padding(module: str, attribute: str, *seen: str) -> Target:
    """The target's graph runner, which knows the batch size it padded to."""
    return Target(
        module,
        attribute,
        observe=sglang.graph_padding,
        parameters=("self",),
        seen=(seen[0], seen[1]),
    )


_SYNCHRONOUS: Final = (
    _step(_WORKER, "EAGLEWorker.forward_batch_speculative_generation", _BATCH, "0.4.6", "0.4.9"),
    _step(_WORKER, "EAGLEWorker.forward_batch_generation", _BATCH, "0.5.3", "0.5.12"),
    _phase(_WORKER, "EAGLEWorker.draft", vocabulary.DRAFT, "0.4.6", "0.5.12"),
    _phase(_WORKER, "EAGLEWorker.draft_forward", vocabulary.DRAFT, "0.4.6", "0.5.12"),
    _counted_verify(_WORKER, "EAGLEWorker.verify", "0.4.6", "0.5.12"),
    _phase(_WORKER, "EAGLEWorker.forward_target_extend", vocabulary.PREFILL, "0.4.6", "0.5.12"),
    _phase(
        _WORKER, "EAGLEWorker.forward_draft_extend", vocabulary.DRAFT_PREFILL, "0.4.6", "0.5.12"
    ),
    _phase(
        _WORKER,
        "EAGLEWorker.forward_draft_extend_after_decode",
        vocabulary.DRAFT_EXTEND,
        "0.4.6",
        "0.5.12",
    ),
    _phase(
        f"{_SPECULATIVE}.eagle_utils",
        "EagleVerifyInput.verify",
        vocabulary.SAMPLE,
        "0.4.6",
        "0.4.9",
    ),
    _phase(
        f"{_SPECULATIVE}.eagle_info",
        "EagleVerifyInput.verify",
        vocabulary.SAMPLE,
        "0.5.3",
        "0.5.12",
    ),
    _step(_MULTI, "MultiLayerEagleWorker.forward_batch_generation", _BATCH, "0.5.9", "0.5.12"),
    _phase(_MULTI, "MultiLayerEagleWorker.draft", vocabulary.DRAFT, "0.5.9", "0.5.12"),
    _counted_verify(_MULTI, "MultiLayerEagleWorker.verify", "0.5.9", "0.5.12"),
    _phase(
        _MULTI,
        "MultiLayerEagleWorker.forward_target_extend",
        vocabulary.PREFILL,
        "0.5.9",
        "0.5.12",
    ),
    _phase(
        _MULTI,
        "MultiLayerEagleWorker.forward_draft_extend",
        vocabulary.DRAFT_PREFILL,
        "0.5.9",
        "0.5.12",
    ),
    _phase(
        _MULTI,
        "MultiLayerEagleWorker.forward_draft_extend_after_decode",
        vocabulary.DRAFT_EXTEND,
        "0.5.9",
        "0.5.12",
    ),
)

_ASYNCHRONOUS: Final = (
    _late_step(
        _WORKER_V2,
        "EAGLEWorkerV2.forward_batch_generation",
        _EITHER_BATCH,
        "0.5.3",
        "",
    ),
    Target(
        _WORKER_V2,
        "EAGLEWorkerV2.verify",
        opens=sglang.verify_ranges,
        parameters=_BATCH,
        seen=("0.5.3", ""),
    ),
    _phase(_WORKER_V2, "EAGLEWorkerV2.draft", vocabulary.DRAFT, "0.5.3", "0.5.3"),
    _phase(_WORKER_V2, "EAGLEWorkerV2.draft_forward", vocabulary.DRAFT, "0.5.3", "0.5.3"),
    _phase(
        _WORKER_V2,
        "EAGLEWorkerV2.forward_draft_extend",
        vocabulary.DRAFT_PREFILL,
        "0.5.3",
        "0.5.3",
    ),
    Target(
        f"{_SPECULATIVE}.eagle_info_v2",
        "EagleDraftInputV2Mixin.prepare_for_extend_to_fill_draft_kvcache",
        # 0.5.3 extends the draft inside `verify`; from here to its end it does nothing else.
        becomes=vocabulary.DRAFT_EXTEND,
        becomes_from=(vocabulary.VERIFY,),
        seen=("0.5.3", "0.5.12"),
    ),
    _phase(_WORKER_V2, "EagleDraftWorker.draft", vocabulary.DRAFT, "0.5.6", ""),
    _phase(_WORKER_V2, "EagleDraftWorker.draft_forward", vocabulary.DRAFT, "0.5.6", ""),
    _phase(
        _WORKER_V2,
        "EagleDraftWorker._draft_extend_for_prefill",
        vocabulary.DRAFT_PREFILL,
        "0.5.6",
        "",
    ),
    _phase(
        _WORKER_V2,
        "EagleDraftWorker._draft_extend_for_decode",
        vocabulary.DRAFT_EXTEND,
        "0.5.6",
        "",
    ),
    _phase(
        f"{_SPECULATIVE}.eagle_info_v2",
        "EagleVerifyInputV2Mixin.sample",
        vocabulary.SAMPLE,
        "0.5.3",
        "0.5.12",
    ),
    Target(
        f"{_SPECULATIVE}.eagle_utils",
        "eagle_sample",
        opens=(vocabulary.SAMPLE,),
        everywhere=True,
        seen=("0.5.15", ""),
    ),
    _late_step(
        _MULTI_V2, "MultiLayerEagleWorkerV2.forward_batch_generation", _EITHER_BATCH, "0.5.9", ""
    ),
    Target(
        _MULTI_V2,
        "MultiLayerEagleWorkerV2.verify",
        opens=sglang.verify_ranges,
        parameters=_BATCH,
        seen=("0.5.9", ""),
    ),
    _phase(_MULTI_V2, "MultiLayerEagleDraftWorker.draft", vocabulary.DRAFT, "0.5.9", ""),
    _phase(
        _MULTI_V2,
        "MultiLayerEagleDraftWorker._draft_extend_for_prefill",
        vocabulary.DRAFT_PREFILL,
        "0.5.9",
        "",
    ),
    _phase(
        _MULTI_V2,
        "MultiLayerEagleDraftWorker._draft_extend_for_decode",
        vocabulary.DRAFT_EXTEND,
        "0.5.9",
        "",
    ),
)

_NGRAM_TARGETS: Final = (
    Target(
        _NGRAM,
        "NGRAMWorker.forward_batch_generation",
        opens=sglang.worker_ranges,
        step=True,
        before=sglang.ngram_batch,
        observe=sglang.ngram_step,
        tags=True,
        parameters=_BATCH,
        seen=("0.5.3", ""),
    ),
    _phase(_NGRAM, "NGRAMWorker._prepare_draft_tokens", vocabulary.DRAFT, "0.5.3", ""),
    _phase(
        f"{_SPECULATIVE}.ngram_info",
        "NgramVerifyInput.verify",
        vocabulary.SAMPLE,
        "0.5.3",
        "0.5.12",
    ),
)

_RESULTS: Final = (
    Target(
        _PROCESSOR_MIXIN,
        "SchedulerOutputProcessorMixin.hacky_process_eagle_overlap_result",
        observe=sglang.keep_accepted_lengths,
        parameters=_RESULT,
        seen=("0.5.3", "0.5.3"),
    ),
    Target(
        _PROCESSOR_MIXIN,
        "SchedulerOutputProcessorMixin._resolve_spec_overlap_token_ids",
        observe=sglang.keep_accepted_lengths,
        parameters=_RESULT,
        seen=("0.5.6", "0.5.10"),
    ),
    _processor(_PROCESSOR_MIXIN, "SchedulerOutputProcessorMixin", "0.4.6", "0.5.12"),
    _processor(_PROCESSOR, "SchedulerBatchResultProcessor", "0.5.15", ""),
)

_COMMON: Final = (
    Target(
        "sglang.srt.managers.scheduler",
        "Scheduler.__init__",
        observe=sglang.scheduler_ranks,
        parameters=("self",),
        seen=("0.4.6", ""),
    ),
    Target(
        "sglang.srt.managers.tp_worker",
        "TpModelWorker.forward_batch_generation",
        opens=sglang.target_ranges,
        step=True,
        before=sglang.target_batch,
        observe=sglang.target_step,
        parameters=_EITHER_BATCH,
        seen=("0.4.6", ""),
    ),
    Target(
        f"{_RUNNER}.model_runner",
        "ModelRunner.forward",
        opens=sglang.draft_step_ranges,
        parameters=("self",),
        seen=("0.4.6", ""),
    ),
    Target(
        f"{_RUNNER}.model_runner",
        "ModelRunner.sample",
        opens=sglang.sample_ranges,
        parameters=("self",),
        seen=("0.4.6", ""),
    ),
    _padding(f"{_RUNNER}.cuda_graph_runner", "CudaGraphRunner.replay", "0.4.6", "0.5.12"),
    _padding(
        f"{_RUNNER}.runner.decode_cuda_graph_runner", "DecodeCudaGraphRunner.execute", "0.5.15", ""
    ),
    _phase(
        f"{_RUNNER}.cuda_graph_runner",
        "CudaGraphRunner.capture",
        vocabulary.CAPTURE,
        "0.4.6",
        "0.5.12",
    ),
    _phase(
        f"{_RUNNER}.runner.decode_cuda_graph_runner",
        "DecodeCudaGraphRunner.capture",
        vocabulary.CAPTURE,
        "0.5.15",
        "",
    ),
    _phase(
        f"{_SPECULATIVE}.eagle_draft_cuda_graph_runner",
        "EAGLEDraftCudaGraphRunner.capture",
        vocabulary.CAPTURE,
        "0.4.6",
        "0.5.12",
    ),
    _phase(
        f"{_SPECULATIVE}.eagle_draft_extend_cuda_graph_runner",
        "EAGLEDraftExtendCudaGraphRunner.capture",
        vocabulary.CAPTURE,
        "0.4.9",
        "0.5.12",
    ),
)

TARGETS: Final = (*_COMMON, *_SYNCHRONOUS, *_ASYNCHRONOUS, *_NGRAM_TARGETS, *_RESULTS)

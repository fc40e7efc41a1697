"""Where the hooks attach in SafeAILab's EAGLE: `ea_model` imports its functions by `*`.

A cycle begins with `tree_decoding` and ends with `update_inference_inputs`, which commits the
accepted tokens and drafts the next ones. `naivegenerate` has no function a step and is not marked.
"""

from __future__ import annotations

from typing import Final

from nvtx_hooks import vocabulary
from nvtx_hooks.extractors import eagle
from nvtx_hooks.targets import Target

_UTILS: Final = "eagle.model.utils"
_SEEN: Final = ("cb7e0841", "")

TARGETS: Final = (
    Target(
        _UTILS,
        "initialize_tree",
        opens=(vocabulary.PREFILL,),
        step=True,
        observe=eagle.prefill_step,
        everywhere=True,
        parameters=("input_ids",),
        seen=_SEEN,
    ),
    Target(
        _UTILS,
        "tree_decoding",
        opens=(vocabulary.VERIFY,),
        step=True,
        spans=vocabulary.CYCLE,
        observe=eagle.verify_step,
        everywhere=True,
        parameters=("model", "tree_candidates"),
        seen=_SEEN,
    ),
    Target(
        _UTILS,
        "evaluate_posterior",
        opens=(vocabulary.SAMPLE,),
        everywhere=True,
        seen=_SEEN,
    ),
    Target(
        _UTILS,
        "update_inference_inputs",
        opens=(vocabulary.SAMPLE,),
        ends=vocabulary.CYCLE,
        observe=eagle.accepted_drafts,
        everywhere=True,
        parameters=("input_ids",),
        seen=_SEEN,
    ),
    *(
        Target(
            module,
            "Model.topK_genrate",
            opens=eagle.proposal_ranges,
            proposal=True,
            parameters=("self",),
            seen=_SEEN,
        )
        for module in ("eagle.model.cnets", "eagle.model.cnets1")
    ),
    *(
        Target(module, "Model.forward", forward=True, seen=_SEEN)
        for module in ("eagle.model.cnets", "eagle.model.cnets1")
    ),
)

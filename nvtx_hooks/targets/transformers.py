"""Where the hooks attach in transformers 4.46 to 5.24: assisted generation of one request.

Each class that defines a candidate generator's method is hooked; those it calls by `super()` are
then inside its range. There is no draft extension here, and plain `generate` is not marked.
"""

from __future__ import annotations

from typing import Final

from nvtx_hooks import vocabulary
from nvtx_hooks.extractors import transformers
from nvtx_hooks.targets import Target

_GENERATORS: Final = "transformers.generation.candidate_generator"


def _candidates(owner: str, *seen: str) -> Target:
    """The draft, after which the target's forward begins."""
    return Target(
        _GENERATORS,
        f"{owner}.get_candidates",
        opens=(vocabulary.DRAFT,),
        step=True,
        spans=vocabulary.CYCLE,
        then_spans=transformers.verify_range,
        before=transformers.candidates_before,
        observe=transformers.candidates_step,
        parameters=("self", "input_ids"),
        seen=(seen[0], seen[1]),
    )


def _judged(owner: str, *seen: str) -> Target:
    """The end of a cycle: the drafts have been judged."""
    return Target(
        _GENERATORS,
        f"{owner}.update_candidate_strategy",
        ends=vocabulary.CYCLE,
        ends_first=(vocabulary.VERIFY, vocabulary.MIXED),
        observe=transformers.accepted_drafts,
        parameters=("self", "input_ids"),
        seen=(seen[0], seen[1]),
    )


TARGETS: Final = (
    _candidates("AssistedCandidateGenerator", "4.46.3", ""),
    _candidates("AssistedCandidateGeneratorDifferentTokenizers", "4.46.3", ""),
    _candidates("UniversalSpeculativeDecodingGenerator", "4.57.1", ""),
    _candidates("PromptLookupCandidateGenerator", "4.46.3", ""),
    _candidates("EarlyExitCandidateGenerator", "4.57.1", ""),
    _candidates("SinglePositionMultiTokenCandidateGenerator", "5.24.0", ""),
    _candidates("MTPCandidateGenerator", "5.24.0", ""),
    _candidates("DFlashTokenCandidateGenerator", "5.24.0", ""),
    _judged("CandidateGenerator", "4.46.3", ""),
    _judged("AssistedCandidateGenerator", "4.46.3", ""),
    _judged("PromptLookupCandidateGenerator", "4.46.3", "4.57.1"),
    Target(
        "transformers.generation.utils",
        "_speculative_sampling",
        opens=(vocabulary.SAMPLE,),
        seen=("4.46.3", ""),
    ),
)

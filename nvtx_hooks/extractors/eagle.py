"""Reading the reference EAGLE implementation's calls: one request, lengths from shapes alone.

The accepted length that it computes is a tensor on the GPU; the length of the sequence before and
after says the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nvtx_hooks import vocabulary
from nvtx_hooks.observations import Acceptance, Row, Step
from nvtx_hooks.readings import dimension, integer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvtx_hooks.observations import Observation
    from nvtx_hooks.targets import Call


def _depth(model: Any) -> int:
    """Levels of the draft tree: the one from the extension, and `depth` more."""
    return integer(model.ea_layer.depth) + 1


def verify_step(call: Call) -> Sequence[Observation]:
    """The target's forward over the draft tree, whose root is the last accepted token."""
    nodes = dimension(call.argument("tree_candidates"), 1)
    return (Step(1, drafted=nodes - 1, verified=nodes, k=_depth(call.argument("model"))),)


def prefill_step(call: Call) -> Sequence[Observation]:
    """The target's forward over the prompt."""
    tokens = dimension(call.argument("input_ids"), 1)
    return (Step(1, prompt_requests=1, prompt_tokens=tokens),)


def accepted_drafts(call: Call) -> Sequence[Observation]:
    """Accepted drafts from how much the sequence has grown, the bonus token left out."""
    grown = dimension(call.result[0], 1) - dimension(call.argument("input_ids"), 1)
    return (Acceptance((Row(0, _depth(call.argument("model")), grown - 1),)),)


def proposal_ranges(call: Call) -> tuple[str, ...]:
    """The draft model's first forward: over the prompt, or over the accepted tokens."""
    prefill = call.inside == vocabulary.PREFILL
    return (vocabulary.DRAFT_PREFILL if prefill else vocabulary.DRAFT_EXTEND,)

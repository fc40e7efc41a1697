"""Reading the calls of transformers' assisted generation: one request, lengths from shapes alone.

No function wraps the target's forward: it is what runs between `get_candidates` and
`update_candidate_strategy`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nvtx_hooks import vocabulary
from nvtx_hooks.observations import Acceptance, Row, Step
from nvtx_hooks.readings import dimension

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvtx_hooks.observations import Observation
    from nvtx_hooks.targets import Call

_BEGUN: Final = "_eagle_begun"
"""Attribute of a candidate generator whose first candidates have been verified with the prompt."""

_LENGTH: Final = "transformers length"
_DRAFTED: Final = "transformers drafted"


def candidates_before(call: Call) -> int:
    """Length of the sequence before the drafts."""
    return dimension(call.argument("input_ids"), 1)


def candidates_step(call: Call) -> Sequence[Observation]:
    """The forward that is about to verify the drafts; the first one carries the prompt too."""
    length: int = call.before
    drafted = dimension(call.result[0], 1) - length
    call.notes[_LENGTH], call.notes[_DRAFTED] = length, drafted
    if _begun(call):
        return (Step(1, drafted=drafted, verified=drafted + 1, k=drafted),)
    return (
        Step(
            1,
            drafted=drafted,
            verified=drafted,
            prompt_requests=1,
            prompt_tokens=length,
            k=drafted,
        ),
    )


def _begun(call: Call) -> bool:
    return getattr(call.owner, _BEGUN, False) is True


def verify_range(call: Call) -> str:
    """The range until the drafts are judged."""
    if _begun(call):
        return vocabulary.VERIFY
    setattr(call.owner, _BEGUN, True)
    return vocabulary.MIXED


def accepted_drafts(call: Call) -> Sequence[Observation]:
    """Accepted drafts from how much the sequence has grown, the bonus token left out."""
    length, drafted = call.notes.pop(_LENGTH, None), call.notes.pop(_DRAFTED, None)
    if length is None or drafted is None:
        return ()
    grown = dimension(call.argument("input_ids"), 1) - length
    return (Acceptance((Row(0, drafted, grown - 1),)),)

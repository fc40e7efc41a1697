"""What inferred phases rest on, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.phases.inferred.recurrence import (
    DECODE,
    DRAFT,
    DRAFT_PREFILL,
    EXTEND,
    MIXED,
    PREFILL,
    VERIFY,
)
from traceanalyzer.phases.inferred.signs import ACCEPT, OPAQUE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.inferred.forwards import Forwards
    from traceanalyzer.phases.inferred.recurrence import Roles
    from traceanalyzer.phases.inferred.sequence import LaunchedOps
    from traceanalyzer.phases.inferred.sizes import Sizes
    from traceanalyzer.trace import Trace


def evidence_of(
    trace: Trace, ops: LaunchedOps, forwards: Forwards, sizes: Sizes, roles: Roles
) -> tuple[str, ...]:
    """The evidence of one lane, what decides most first."""
    recurring = (roles.phase & roles.kind) != 0
    told = [_target(ops, forwards, sizes, recurring), _order(sizes, roles)]
    if roles.judged:
        told.append(_judges(trace, ops))
    elif roles.kind == DECODE:
        told.append("tokens are chosen after each of them, and no kernel judges drafts")
    prompts = int((sizes.target & ((roles.phase & ~DRAFT_PREFILL) == PREFILL)).sum())
    if prompts:
        told.append(
            f"{prompts:,} more forwards of that depth break this order, with no token chosen "
            "after them, a kernel for prompts, or a far greater length: prefill"
        )
    return (*told, *_doubtful(sizes, roles))


def _doubtful(sizes: Sizes, roles: Roles) -> list[str]:
    """What is told of the target's forwards that hold prompt tokens, or may."""
    own = roles.phase[sizes.target]
    steps = (own & (DECODE | PREFILL)) == DECODE | PREFILL
    counts = (
        (
            own == MIXED,
            "outside of graphs are longer at once than the replays before and after them: mixed "
            "with prompt tokens",
        ),
        (~steps & (own == MIXED | PREFILL), "are prompts, alone or with running requests"),
        (steps, "are plain steps or prompts"),
        (own == 0, "may be mixed with prompt tokens and have no phase"),
    )
    return [f"{int(which.sum()):,} more {text}" for which, text in counts if which.any()]


def _target(
    ops: LaunchedOps, forwards: Forwards, sizes: Sizes, recurring: NDArray[np.bool_]
) -> str:
    """How the target's forward is known."""
    rows = np.flatnonzero(recurring)
    row = rows[len(rows) // 2]
    first = forwards.first[row]
    name = "a forward"
    if ops.replayed[first]:
        graph = int(ops.graph[first])
        name = "a graph" if graph < 0 else f"graph {graph}"
        if not ops.signs[first] & OPAQUE:
            name += f" of {int((ops.launch == ops.launch[first]).sum()):,} ops"
    if not sizes.depth[row]:
        ms = float(np.median(forwards.ns[rows])) / 1e6
        return f"{name} is a whole-graph row of {ms:.2f} ms followed by a choice of tokens: target"
    text = f"{name} holds {sizes.layers} attention layers"
    if sizes.draft_layers:
        text += f", others {sizes.draft_layers} at most"
    return f"{text}: the target"


def _order(sizes: Sizes, roles: Roles) -> str:
    """What recurs, and how regularly."""
    share = f"{roles.cycles:,} times, {roles.regular_share:.0%} of neighbours alike"
    if not sizes.small.any() or roles.kind == DECODE:
        phase = "verify" if roles.kind == VERIFY else "decode"
        return f"it recurs without a draft model's forwards between: {phase}, {share}"
    extends = ((roles.phase & EXTEND) != 0).any()
    told = ["draft_extend"] if extends else []
    if roles.draft_tokens > 1:
        told.append(f"draft x {roles.draft_tokens - 1}")
    elif ((roles.phase & DRAFT) != 0).any() and not roles.draft_tokens:
        told.append("draft")
    return f"the order verify, {', '.join(told)} recurs {share}"


def _judges(trace: Trace, ops: LaunchedOps) -> str:
    """Which kernel judges drafts."""
    names, times = np.unique(ops.name[ops.any_of(ACCEPT)], return_counts=True)
    text = trace.names["text"][int(names[times.argmax()])]
    return f"{text.split('(')[0].split('<')[0].removeprefix('void ')} judges drafts after verify"

"""Which draft step, layer and module the ranges tell that are open at an instant or around a call.

A draft step is known by its range's place among those of its draft range, not by a number in its
name; a layer by the number in the name of the innermost range that has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from traceanalyzer.intervals import Containers, Intervals
from traceanalyzer.phases.grouping import begins_anew
from traceanalyzer.phases.rules import parse_phase

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.spans import Spans
    from traceanalyzer.trace import Trace

    Int64s = NDArray[np.int64]

# Ours; SGLang 0.5.12 to 0.5.23, which names eager draft forwards after their mode; TensorRT-LLM
# model_drafter.py; and what people write.
_STEP: Final = (
    r"\A(?i:(?:eagle:)?draft\.step(?::[0-9]+)?"
    r"|step\[(?:DRAFT|DECODE) bs=[^\]]*\]"
    r"|(?:[a-z0-9_]+\.)*_execute_draft_iteration"
    r"|(?:[a-z0-9]+[\s_.:/-]+)?draft(?:er|ing)?[\s_.-]*(?:step|iter(?:ation)?)(?:[\s_.:#-]*[\[(]?[0-9]+[\])]?)?"
    r"|(?:[a-z0-9]+[\s_.:/-]+)?draft(?:er|ing)?[\s_.-]*(?:forward|pass)[\s_.:#-]*[\[(]?[0-9]+[\])]?)\z"
)
# "layer 3", "model.layers.3.self_attn", "LlamaDecoderLayer_3", "h.3" of GPT-2; torch.profiler's
# "nn.Module: LlamaDecoderLayer_3"; {'Module': 'model.layers.3.mlp', ...} of layerwise markers.
_LAYER: Final = r"(?i)(?:layers?[\s_.:#=(\[-]*|(?:^|\.)(?:h|blocks?)\.)([0-9]{1,6})(?:[^0-9]|$)"
_MODULE: Final = (
    r"(?i)(?:layers?[\s_.:#=(\[-]*|(?:^|\.)(?:h|blocks?)\.)[0-9]{1,6}[\])]?[\s.:/-]+([a-z_][\w.]*)"
)


@dataclass(frozen=True, slots=True)
class RangePlaces:
    """Places that ranges tell, as arrays as long as `trace.ranges`.

    Attributes:
        step_range: Whether the range is one draft step, and in no other one.
        draft_range: The innermost draft range around each step range, -1 for none or others.
        layer: Number in the range's name, -1 for none.
        module: Place in `modules`, -1 for none.
        modules: Names of modules inside of a layer.
    """

    step_range: NDArray[np.bool_]
    draft_range: Int64s
    layer: Int64s
    module: Int64s
    modules: tuple[str, ...]

    @property
    def any(self) -> bool:
        """Whether ranges tell anything at all."""
        return bool(self.step_range.any() or (self.layer >= 0).any())


def read_places(trace: Trace, spans: Spans) -> RangePlaces:
    """Read the places that the names of ranges tell."""
    size = trace.ranges.height
    used = trace.ranges["name"].unique().sort()
    texts = trace.names["text"].gather(used)
    of_name = pl.DataFrame({"text": texts}).select(
        step=pl.col("text").str.contains(_STEP),
        layer=pl.col("text").str.extract(_LAYER).cast(pl.Int64).fill_null(-1),
        module=pl.col("text").str.extract(_MODULE),
    )
    modules = tuple(of_name["module"].drop_nulls().unique().sort())
    code = of_name["module"].replace_strict(
        list(modules), list(range(len(modules))), default=-1, return_dtype=pl.Int64
    )
    place = used.search_sorted(trace.ranges["name"]).to_numpy() if size else np.zeros(0, np.int64)
    step, draft = _steps(spans, of_name["step"].to_numpy()[place])
    return RangePlaces(
        step_range=step,
        draft_range=draft,
        layer=of_name["layer"].to_numpy()[place],
        module=code.fill_null(-1).to_numpy()[place],
        modules=modules,
    )


def _steps(spans: Spans, named: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], Int64s]:
    """Which ranges are draft steps, and the draft range around each.

    A step range that says no more than "a forward" is one only inside of a draft range.
    """
    size = spans.phase.size
    is_step, parent = np.zeros(size, bool), np.full(size, -1, np.int64)
    steps = spans.rows(named)
    if not steps.size:
        return is_step, parent
    own = spans.intervals.take(steps)
    inner, outer = Containers(own).all_of(own)
    # Containers come innermost first, so the last assignment of each is its outermost.
    outermost = np.arange(steps.size)
    outermost[inner] = outer
    steps = steps[outermost == np.arange(steps.size)]
    drafts = spans.rows(_with_draft(spans) & ~named)
    around = np.full(steps.size, -1, np.int64)
    if drafts.size:
        found = Containers(spans.intervals.take(drafts)).innermost(spans.intervals.take(steps))
        around = np.where(found >= 0, drafts[found], -1)
    says_draft = np.append([phase == "draft" for phase in spans.phases], False)
    certain = (around >= 0) | says_draft.astype(bool)[spans.phase[steps]]
    is_step[steps[certain]] = True
    parent[steps[certain]] = around[certain]
    return is_step, parent


def _with_draft(spans: Spans) -> NDArray[np.bool_]:
    """Which ranges hold draft steps by their phase."""
    held = ["draft" in parse_phase(phase) for phase in spans.phases]
    return np.append(held, False).astype(bool)[spans.phase]


def innermost_of(ranges: Intervals, candidates: Int64s, at: Intervals) -> Int64s:
    """Row of the innermost candidate range that contains each interval, -1 for none."""
    if not candidates.size or not at.size:
        return np.full(at.size, -1, np.int64)
    found = Containers(ranges.take(candidates)).innermost(at)
    return np.where(found >= 0, candidates[found], -1)


def ordinals(step: Int64s, family: Int64s, start_ns: Int64s) -> Int64s:
    """The place of each step range among the distinct ones of its family, by start.

    Args:
        step: Step range of each item, any order, repeated at will; -1 has none and yields -1.
        family: Which items count together; -1 is no family and yields -1.
        start_ns: Start of every range.
    """
    held = np.flatnonzero((step >= 0) & (family >= 0))
    found = np.full(step.size, -1, np.int64)
    if not held.size:
        return found
    pairs, place = np.unique(np.stack((family[held], step[held])), axis=1, return_inverse=True)
    order = np.lexsort((pairs[1], start_ns[pairs[1]], pairs[0]))
    families = pairs[0][order]
    opens = np.flatnonzero(begins_anew(families))
    rank = np.arange(order.size) - np.repeat(opens, np.diff(np.append(opens, order.size)))
    of_pair = np.empty(order.size, np.int64)
    of_pair[order] = rank
    found[held] = of_pair[place.ravel()]
    return found

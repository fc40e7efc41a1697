"""One part of a capture, measured: whole processes, whose ops, launches and ranges are at hand."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import polars as pl

from traceanalyzer.allocator import give_back_freed_memory
from traceanalyzer.analyses.synchronisations import synchronisations
from traceanalyzer.diagnosis.facts import Facts, facts_of
from traceanalyzer.phases.alignment import signed_steps
from traceanalyzer.phases.carried_layers import with_carried_places
from traceanalyzer.phases.phased import settle_ops
from traceanalyzer.phases.spans import classify_ranges
from traceanalyzer.pipeline.gpu import measured_on_gpu
from traceanalyzer.pipeline.host import measured_on_host
from traceanalyzer.pipeline.measured import GPU, HOST, labels_of, measured_of

if TYPE_CHECKING:
    from traceanalyzer.phases.phased import PhasedTrace
    from traceanalyzer.phases.rules import Rules
    from traceanalyzer.phases.spans import Spans
    from traceanalyzer.pipeline.agreeing import Agreed
    from traceanalyzer.pipeline.measured import Measured
    from traceanalyzer.trace import Trace


@dataclass(frozen=True, slots=True)
class Choices:
    """What is chosen for all parts of a capture.

    Attributes:
        rules: What names of ranges mean.
        infer: Whether to infer phases where no range means one.
        known: Another capture that tells draft steps and layers of the same server; its ranks are
            found by their numbers, so with it a capture is measured as one part.
    """

    rules: Rules
    infer: bool = True
    known: PhasedTrace | None = None


def measure(trace: Trace, choices: Choices, agreed: Agreed | None = None) -> Measured:
    """Measure a part.

    Args:
        trace: Its tables.
        choices: What is chosen for all parts.
        agreed: What all parts agreed on; None to find it in this one alone.
    """
    give_back_freed_memory()  # of reading, or of the part before
    infer: bool | tuple[int, ...] = choices.infer
    told, stretched = None, None
    if agreed is not None:
        infer = infer if agreed.lanes is None else agreed.lanes
        told, stretched = agreed.told, agreed.stretched
    spans = classify_ranges(trace, choices.rules, told)
    tables = {"steps": signed_steps(trace, spans), "numbers": _numbers(trace, spans)}
    if not trace.ops.height:
        tables |= measured_on_host(trace, spans) | _facts(trace, spans, None)
        tables["syncs"] = synchronisations(trace, spans)
        return measured_of(trace, HOST, labels_of(spans.phases, HOST), tables)
    phased = settle_ops(trace, spans, infer=infer, stretched=stretched)
    phased = with_carried_places(phased, choices.known)
    give_back_freed_memory()
    tables |= _facts(trace, spans, phased)
    tables |= measured_on_gpu(phased)
    return measured_of(phased.trace, GPU, phased.labels, tables)


def _numbers(trace: Trace, spans: Spans) -> pl.DataFrame:
    """Process and number of the cycles that have ranges."""
    process = trace.threads["process"].gather(trace.ranges["thread"])
    table = pl.DataFrame({"process": process, "number": spans.number})
    return table.filter(pl.col("number") >= 0).unique(maintain_order=True)


def _facts(trace: Trace, spans: Spans, phased: PhasedTrace | None) -> dict[str, pl.DataFrame]:
    found = facts_of(trace, spans, phased)
    names = ("process_facts", "overhead_facts", "phase_facts", "name_facts")
    return {
        name: getattr(found, field.name) for name, field in zip(names, fields(Facts), strict=True)
    }

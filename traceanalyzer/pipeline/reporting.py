"""From the measurement of a whole capture to its report: figures, findings, verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

import traceanalyzer
from traceanalyzer.analyses.acceptance import acceptance_of
from traceanalyzer.analyses.trust import check_alignment, check_capture, check_inference
from traceanalyzer.assembly.carried import carried_places, check_carried
from traceanalyzer.assembly.inference import inference_report
from traceanalyzer.assembly.ranks import capture_of
from traceanalyzer.diagnosis.case import Case
from traceanalyzer.diagnosis.facts import Facts
from traceanalyzer.diagnosis.registry import diagnose, trust_checks
from traceanalyzer.phases.carried_layers import CarriedPhase
from traceanalyzer.phases.rules import phase_order
from traceanalyzer.pipeline.across_ranks import AcrossRanks
from traceanalyzer.pipeline.figures import records
from traceanalyzer.report import Clock, Report, Tool

if TYPE_CHECKING:
    from traceanalyzer.phases.inference import Agreement
    from traceanalyzer.pipeline.measured import Measured
    from traceanalyzer.pipeline.whole import Answer


def report_of(measured: Measured, agreed: Agreement | None, answer: Answer) -> Report:
    """The report without a verdict.

    Args:
        measured: Of the whole capture.
        agreed: What its lanes show together; None where ranges mean phases or no inference was
            wanted.
        answer: What else is needed.
    """
    across = AcrossRanks(measured)
    inference = None if agreed is None else inference_report(agreed)
    facts = facts_in(measured)
    found = across.found()
    carried = carried_places(_carried(measured))
    report = Report(
        tool=Tool("traceanalyzer", traceanalyzer.__version__),
        capture=capture_of(measured.trace, facts.processes, measured.time_base),
        clock=Clock(
            "ns", "each file's own clock; only collectives, by their ends, align two files"
        ),
        carried=carried,
        inference=inference,
        acceptance=acceptance_of(measured.trace),
        trust=[
            *check_inference(inference),
            *check_capture(
                measured.trace, facts.processes, found["ranks"], found.get("instrumentation")
            ),
            *check_alignment(across.alignment),
            *check_carried(carried, answer.layers_from),
            *answer.missing,
        ],
        **found,
    )
    findings = diagnose(Case.of(measured.trace, report, facts))
    return replace(report, findings=findings, trust=[*report.trust, *trust_checks(findings)])


def facts_in(measured: Measured) -> Facts:
    """The facts of all parts, those on one phase or name added up."""
    tables = measured.tables
    phases = tables.phase_facts.group_by("phase").agg(pl.sum("ranges"), pl.col("captured").any())
    order = sorted(phases["phase"].to_list(), key=phase_order)
    return Facts(
        tables.process_facts,
        tables.overhead_facts,
        phases.sort(pl.col("phase").cast(pl.Enum(order))),
        tables.name_facts.group_by("name").agg(pl.sum("ranges", "left_open")).sort("name"),
    )


def _carried(measured: Measured) -> list[CarriedPhase]:
    """What was carried over to the replays of each phase on all ranks."""
    table = measured.tables.carried
    if not table.height:
        return []
    best = pl.col("refused_score").fill_null(-1.0)
    summed = table.group_by("source", "phase", maintain_order=True).agg(
        pl.sum("forwards", "refused"),
        pl.min("lowest_score"),
        pl.max("refused_score"),
        pl.col("other_number").sort_by(best).last(),
    )
    order = pl.Enum([label for label in measured.labels if label in set(summed["phase"])])
    ordered = summed.sort(pl.col("source").is_not_null(), pl.col("phase").cast(order))
    return records(CarriedPhase, ordered.select(table.columns))

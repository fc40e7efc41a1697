"""From a Trace to a Report: the readable list of steps.

`gpu` and `host` measure, each in its own time base; `analyze` puts what they found together,
says what is wrong with the recording, and judges.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import traceanalyzer
from traceanalyzer.analyses.acceptance import acceptance_of
from traceanalyzer.analyses.trust import check_alignment, check_capture, check_inference
from traceanalyzer.assembly.carried import carried_places, check_carried
from traceanalyzer.assembly.ranks import capture_of
from traceanalyzer.diagnosis.case import Case
from traceanalyzer.diagnosis.registry import diagnose, trust_checks
from traceanalyzer.phases.carried_layers import source_of
from traceanalyzer.phases.rules import Rules
from traceanalyzer.pipeline.carrying import places_source
from traceanalyzer.pipeline.gpu import on_gpu
from traceanalyzer.pipeline.host import on_host
from traceanalyzer.progress import Progress, silent
from traceanalyzer.report import Clock, Report, Tool
from traceanalyzer.verdict.judgement import judged
from traceanalyzer.verdict.known import Known
from traceanalyzer.verdict.two_pass import with_own_shares

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.pipeline.found import Found
    from traceanalyzer.trace import Trace

__all__ = ["AnalysisOptions", "analyze"]


@dataclass(frozen=True, slots=True)
class AnalysisOptions:
    """What a user may choose.

    Attributes:
        phases_file: File of phase rules.
        known: What is known beside the capture.
        infer: Whether to infer phases where no range means one.
        layers_from: Another capture of the same server, whose ranges tell draft steps and layers
            that this one's graph replays do not: an eager one, or one of its graphs' construction.
    """

    phases_file: Path | None = None
    known: Known = field(default_factory=Known)
    infer: bool = True
    layers_from: Trace | None = None

    def rules(self) -> Rules:
        """The phase rules to use.

        Raises:
            InputError: The rule file is wrong.
        """
        return Rules.shipped() if self.phases_file is None else Rules.from_file(self.phases_file)


def analyze(
    trace: Trace, options: AnalysisOptions | None = None, *, progress: Progress = silent
) -> Report:
    """Analyse one capture.

    Args:
        trace: What was recorded.
        options: Choices; the shipped phase rules when None.
        progress: Told about each stage.

    Returns:
        The report, timed on the GPU, or on the host when the capture holds no GPU work.

    Raises:
        InputError: The rule file is wrong, or `layers_from` tells no draft steps or layers.
    """
    options = options or AnalysisOptions()
    rules = options.rules()
    known = places_source(options.layers_from, rules)
    if trace.ops.height:
        found = on_gpu(trace, rules, progress, infer=options.infer, known=known)
    else:
        found = on_host(trace, rules)
    report = _report(trace, found)
    carried = check_carried(report.carried, None if known is None else source_of(known))
    report = replace(report, trust=[*report.trust, *carried])
    findings = diagnose(Case.of(trace, report, found.spans, found.phased))
    report = replace(report, findings=findings, trust=[*report.trust, *trust_checks(findings)])
    return judged(with_own_shares(report), options.known)


def _report(trace: Trace, found: Found) -> Report:
    return Report(
        tool=Tool("traceanalyzer", traceanalyzer.__version__),
        capture=capture_of(trace, "gpu" if trace.ops.height else "host"),
        clock=Clock(
            "ns", "each file's own clock; only collectives, by their ends, align two files"
        ),
        coverage=found.coverage,
        ranks=found.ranks,
        buckets=found.buckets,
        graphs=found.graphs,
        parts=found.parts,
        carried=carried_places(found.phased),
        skew=found.skew,
        inference=found.inference,
        acceptance=acceptance_of(trace),
        instrumentation=found.instrumentation,
        trust=[
            *check_inference(found.inference),
            *check_capture(trace, found.ranks, found.instrumentation),
            *check_alignment(found.alignment),
        ],
        kernels=found.kernels,
        cycle_phases=found.cycles.phases,
        cycle_rows=found.cycles.rows,
        cycle_rows_of=found.cycles.of,
    )

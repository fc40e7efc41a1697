"""A capture in parts: each measured, all joined, and told together."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from traceanalyzer.pipeline.agreeing import agreed_lanes, differing, stretched_otherwise
from traceanalyzer.pipeline.measured import join
from traceanalyzer.pipeline.reporting import report_of
from traceanalyzer.verdict.judgement import judged
from traceanalyzer.verdict.two_pass import with_own_shares

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from traceanalyzer.pipeline.agreeing import Agreed
    from traceanalyzer.pipeline.measured import Measured
    from traceanalyzer.report import Check, Report
    from traceanalyzer.verdict.known import Known


@dataclass(frozen=True, slots=True)
class Answer:
    """What the report needs to know beside the measurements.

    Attributes:
        known: What is known beside the capture.
        infer: Whether inference was wanted.
        layers_from: File of the other capture that tells draft steps and layers.
        missing: What the trust table has to say of files that could not be measured.
    """

    known: Known
    infer: bool
    layers_from: str | None = None
    missing: tuple[Check, ...] = ()


def answered(
    parts: Sequence[Measured],
    files: Sequence[int],
    answer: Answer,
    again: Callable[[Mapping[int, Agreed]], Mapping[int, Measured]],
    known: Mapping[int, Agreed] = MappingProxyType({}),
) -> Report:
    """The report of a capture.

    Args:
        parts: The measurements, each as if its part were all there is.
        files: A number for each; those of equal ones are parts of one file, by its processes.
        answer: What else is needed.
        again: Measures parts again, by their places, with what all of them agreed on.
        known: What was known of parts before they were measured, by their places.
    """
    agreed, lanes = agreed_lanes(parts) if answer.infer else (None, [() for _ in parts])
    measured = list(parts)
    if len(parts) > 1:
        other = differing(measured, files, lanes, known)
        _put(measured, again(other) if other else {})
        stretched = stretched_otherwise(measured, files, {**known, **other})
        _put(measured, again(stretched) if stretched else {})
    report = report_of(join(measured, files), agreed, answer)
    return judged(with_own_shares(report), answer.known)


def _put(parts: list[Measured], others: Mapping[int, Measured]) -> None:
    for place, part in others.items():
        parts[place] = part

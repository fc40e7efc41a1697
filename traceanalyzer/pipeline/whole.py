"""A capture in parts: each measured, all joined, and told together."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from traceanalyzer.allocator import give_back_freed_memory
from traceanalyzer.pipeline.agreeing import agreed_lanes, differing, stretched_otherwise
from traceanalyzer.pipeline.measured import taken_together
from traceanalyzer.pipeline.reporting import report_of
from traceanalyzer.verdict.judgement import judged
from traceanalyzer.verdict.two_pass import with_own_shares

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from traceanalyzer.phases.inference import Agreement
    from traceanalyzer.pipeline.agreeing import Agreed
    from traceanalyzer.pipeline.measured import Measured
    from traceanalyzer.report import Check, Report
    from traceanalyzer.verdict.known import Known

    Again = Callable[[Mapping[int, Agreed]], Mapping[int, Measured]]


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
    parts: list[Measured],
    files: Sequence[int],
    answer: Answer,
    again: Again,
    known: Mapping[int, Agreed] = MappingProxyType({}),
) -> Report:
    """The report of a capture: `settled` and `told` together, which say what goes in."""
    return told(parts, files, settled(parts, files, answer.infer, again, known), answer)


def settled(
    parts: list[Measured],
    files: Sequence[int],
    infer: bool,
    again: Again,
    known: Mapping[int, Agreed],
) -> Agreement | None:
    """Measure anew those parts that were measured as if something else held.

    Args:
        parts: The measurements, each as if its part were all there is; put right afterwards.
        files: A number for each; those of equal ones are parts of one file, by its processes.
        infer: Whether inference was wanted.
        again: Measures parts again, by their places, with what all of them agreed on.
        known: What was known of parts before they were measured, by their places.

    Returns:
        What all lanes show together, where phases are inferred.
    """
    agreed, lanes = agreed_lanes(parts) if infer else (None, [() for _ in parts])
    if len(parts) > 1:
        other = differing(parts, files, lanes, known)
        _put(parts, again(other) if other else {})
        stretched = stretched_otherwise(parts, files, {**known, **other})
        _put(parts, again(stretched) if stretched else {})
    return agreed


def told(
    parts: list[Measured], files: Sequence[int], agreed: Agreement | None, answer: Answer
) -> Report:
    """The report of a capture whose parts are settled; `parts` is empty afterwards."""
    whole = taken_together(parts, files)
    give_back_freed_memory()
    report = report_of(whole, agreed, answer)
    return judged(with_own_shares(report), answer.known)


def _put(parts: list[Measured], others: Mapping[int, Measured]) -> None:
    for place, part in others.items():
        parts[place] = part

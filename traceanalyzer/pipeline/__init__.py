"""From a Trace to a Report: the readable list of steps.

`gpu` and `host` measure, each in its own time base; `analyze` puts what they found together,
says what is wrong with the recording, and judges.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from traceanalyzer.phases.carried_layers import source_of
from traceanalyzer.phases.rules import Rules
from traceanalyzer.pipeline.agreeing import known_before
from traceanalyzer.pipeline.carrying import places_source
from traceanalyzer.pipeline.measuring import Choices, measure
from traceanalyzer.pipeline.whole import Answer, settled, told
from traceanalyzer.progress import Progress, silent
from traceanalyzer.trace import divisions, taken
from traceanalyzer.verdict.known import Known

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from traceanalyzer.phases.inference import Agreement
    from traceanalyzer.pipeline.agreeing import Agreed
    from traceanalyzer.pipeline.measured import Measured
    from traceanalyzer.report import Report
    from traceanalyzer.trace import Trace

_DIVIDES_FROM: Final = 1 << 19
"""Ops from which on it costs less to measure process by process than all at once."""

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

    def choices(self) -> Choices:
        """What holds for every part of a capture.

        Raises:
            InputError: The rule file is wrong, or `layers_from` tells no draft steps or layers.
        """
        rules = self.rules()
        return Choices(rules, self.infer, places_source(self.layers_from, rules))

    def answer(self, choices: Choices) -> Answer:
        """What a report needs beside the measurements."""
        source = None if choices.known is None else source_of(choices.known)
        return Answer(self.known, self.infer, source)


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
    choices = options.choices()
    measured, agreed = _measured(trace, choices, progress)
    del trace  # where nobody else holds it, what is told of all ranks need not fit beside it
    return told(measured, [0] * len(measured), agreed, options.answer(choices))


def _measured(
    trace: Trace, choices: Choices, progress: Progress
) -> tuple[list[Measured], Agreement | None]:
    """A trace's parts, each measured with what all of them show together."""
    divides = choices.known is None and trace.ops.height >= _DIVIDES_FROM
    parts = divisions(trace) if divides else [(0, trace.processes.height)]
    known = known_before(trace, parts) if len(parts) > 1 else {}

    def found(place: int, agreed: Agreed | None) -> Measured:
        own = taken(trace, *parts[place]) if len(parts) > 1 else trace  # one at a time is held
        return measure(own, choices, agreed)

    def again(agreed: Mapping[int, Agreed]) -> dict[int, Measured]:
        return {place: found(place, own) for place, own in agreed.items()}

    measured = []
    for place in range(len(parts)):
        progress("measuring", place / len(parts))
        measured.append(found(place, known.get(place)))
    progress("measuring", 1.0)
    return measured, settled(measured, [0] * len(parts), choices.infer, again, known)

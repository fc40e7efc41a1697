"""Options that tell what a capture cannot: a baseline, acceptance, tokens per second."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from traceanalyzer.commands.inputs import Positive, Share

if TYPE_CHECKING:
    from collections.abc import Callable

    from traceanalyzer.pipeline import AnalysisOptions
    from traceanalyzer.speculation.acceptance import AcceptanceReading
    from traceanalyzer.verdict.baseline import Baseline
    from traceanalyzer.verdict.known import Known

_Command = TypeVar("_Command", bound="Callable[..., Any]")


@dataclass(frozen=True, slots=True)
class KnownOptions:
    """What was given on the command line, unread."""

    baseline: tuple[Path, ...]
    baseline_ms: tuple[str, ...]
    acceptance: Path | None
    accept_len: float | None
    accept_len_definition: str
    engine: str | None
    engine_version: str | None
    tokens_per_s: float | None
    not_decoding_share: float | None

    def read(self, nsys: str | None, options: AnalysisOptions) -> Known:
        """Read the files and numbers.

        Args:
            nsys: Nsight Systems command line to export reports with.
            options: How to analyse the baseline's traces.

        Raises:
            InputError: Something given cannot be used.
        """
        from traceanalyzer.verdict.known import Known

        return Known(
            baseline=self._baseline(nsys, options),
            readings=self._readings(),
            tokens_per_s=self.tokens_per_s,
            not_decoding_share=self.not_decoding_share,
        )

    def _baseline(self, nsys: str | None, options: AnalysisOptions) -> Baseline:
        from traceanalyzer.commands.reports import report_of
        from traceanalyzer.verdict.baseline import measured_baseline, told_baseline

        baseline = told_baseline(self.baseline_ms)
        for path in self.baseline:
            report = report_of(path, nsys, options)
            baseline = baseline.with_steps_of(measured_baseline(report))
        return baseline

    def _readings(self) -> tuple[AcceptanceReading, ...]:
        if self.acceptance is None and self.accept_len is None:
            return ()
        from traceanalyzer.importers.acceptance.log import read_acceptance, reading_of_number

        readings = []
        if self.acceptance is not None:
            readings.append(
                read_acceptance(self.acceptance, engine=self.engine, version=self.engine_version)
            )
        if self.accept_len is not None:
            readings.append(
                reading_of_number(self.accept_len, definition=self.accept_len_definition)
            )
        return tuple(readings)


def known_options(command: _Command) -> _Command:
    """--baseline, --baseline-ms, --acceptance, --accept-len, --tokens-per-s and their kin."""
    path = click.Path(path_type=Path)
    options = (
        click.option(
            "--baseline",
            multiple=True,
            type=path,
            metavar="TRACE|REPORT",
            help="Capture of the same server with speculation off, or its report as JSON (such as "
            "that of two passes); more than one for more batches.",
        ),
        click.option(
            "--baseline-ms",
            multiple=True,
            metavar="[BATCH=]MS",
            help="Time of a plain decode step with speculation off, when it is known by number.",
        ),
        click.option(
            "--acceptance",
            type=path,
            metavar="FILE",
            help="Acceptance counted elsewhere: a log of SGLang or vLLM, a metrics dump, JSONL.",
        ),
        click.option(
            "--accept-len",
            type=Positive(),
            metavar="NUMBER",
            help="Accept length by number, bonus token included (else see the next option).",
        ),
        click.option(
            "--accept-len-definition",
            metavar="TEXT",
            default="bonus included",
            show_default=True,
            help="What the number of --accept-len counts: 'bonus included', 'bonus left out', or "
            "an engine's own name for it, such as 'vllm 0.8.5 mean acceptance length'.",
        ),
        click.option("--engine", metavar="NAME", help="Engine that wrote the log (default: seen)."),
        click.option(
            "--engine-version", metavar="VERSION", help="Its version, where the log lacks it."
        ),
        click.option(
            "--tokens-per-s",
            type=Positive(),
            metavar="NUMBER",
            help="Tokens per second served without tracing, all requests together.",
        ),
        click.option(
            "--not-decoding-share",
            type=Share(),
            metavar="SHARE",
            help="Share of the plain server's time that is not decoding (0..1): gives the speed-up "
            "of whole requests.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command

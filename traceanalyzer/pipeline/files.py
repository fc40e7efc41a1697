"""Files of one run, analysed part by part: as many at once as jobs and memory allow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.analyses.trust import FAILED
from traceanalyzer.errors import InputError
from traceanalyzer.importers import ranked_by_file_name, read_part
from traceanalyzer.phases.rules import Rules
from traceanalyzer.pipeline.agreeing import Agreed, Heard
from traceanalyzer.pipeline.exchange import from_bytes, table_from_bytes, table_to_bytes, to_bytes
from traceanalyzer.pipeline.measuring import Choices, measure
from traceanalyzer.pipeline.whole import Answer, answered
from traceanalyzer.pipeline.workers import WorkerDied
from traceanalyzer.progress import Progress, silent
from traceanalyzer.report import Check

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl

    from traceanalyzer.errors import TraceAnalyzerError
    from traceanalyzer.importers import FilePart
    from traceanalyzer.pipeline.measured import Measured
    from traceanalyzer.pipeline.workers import Submits
    from traceanalyzer.report import Report
    from traceanalyzer.verdict.known import Known


@dataclass(frozen=True, slots=True)
class Run:
    """What to do with every part; plain data, so that any worker can be told.

    Attributes:
        phases_file: File of phase rules; the shipped ones when None.
        infer: Whether to infer phases where no range means one.
        nsys: The Nsight Systems command line to export reports with; found when None.
        notes: What the trust table has to say of how it is done.
    """

    phases_file: Path | None = None
    infer: bool = True
    nsys: str | None = None
    notes: tuple[Check, ...] = ()

    def choices(self) -> Choices:
        """The same for `measure`.

        Raises:
            InputError: The rule file is wrong.
        """
        file = self.phases_file
        return Choices(Rules.shipped() if file is None else Rules.from_file(file), self.infer)


def analyze_files(
    parts: Sequence[FilePart],
    run: Run,
    known: Known,
    workers: Submits | None = None,
    progress: Progress = silent,
) -> Report:
    """Analyse the parts of one capture, each where its file lies.

    Args:
        parts: The files of a run, those of one file one after another.
        run: What to do with each.
        known: What is known beside the capture.
        workers: Where to measure them; None to do it here, one by one.
        progress: Told about each stage.

    Returns:
        The same report as of `analyze` of all files together. A file that cannot be read, or whose
        worker died, is a missing rank that the trust table names.

    Raises:
        InputError: None of the files can be read.
    """
    runner = _Runner(parts, run, workers, progress)
    found, lost = runner.measured(dict.fromkeys(range(len(parts))))
    places = [place for place, part in enumerate(parts) if part.path not in lost]
    if not places:
        raise next(iter(lost.values()))
    paths = list(dict.fromkeys(parts[place].path for place in places))
    files = [paths.index(parts[place].path) for place in places]
    ranks = _ranks(paths, [found[place] for place in places], files)

    def ranked(place: int, measured: Measured) -> Measured:
        return replace(measured, trace=replace(measured.trace, processes=ranks[place]))

    def again(agreed: Mapping[int, Agreed]) -> dict[int, Measured]:
        other, failed = runner.measured({places[each]: what for each, what in agreed.items()})
        for error in failed.values():
            raise error
        return {each: ranked(each, other[places[each]]) for each in agreed}

    missing = (*run.notes, *(_missing(path, error) for path, error in lost.items()))
    measured = [ranked(each, found.pop(place)) for each, place in enumerate(places)]
    before = _known_before(measured) if workers is None else {}
    return answered(measured, files, Answer(known, run.infer, missing=missing), again, before)


def _known_before(measured: Sequence[Measured]) -> dict[int, Agreed]:
    """With what parts were measured here one after another, by their places."""
    heard, found = Heard(), {}
    for place, part in enumerate(measured):
        if (agreed := heard.of(part.trace)) is not None:
            found[place] = agreed
        heard.listen(part)
    return found


@dataclass(frozen=True, slots=True)
class _Runner:
    """Measures parts here, or by workers."""

    parts: Sequence[FilePart]
    run: Run
    workers: Submits | None
    progress: Progress

    def measured(
        self, wanted: Mapping[int, Agreed | None]
    ) -> tuple[dict[int, Measured], dict[Path, TraceAnalyzerError]]:
        """Parts by their places, and files of which one could not be measured."""
        found: dict[int, Measured] = {}
        lost: dict[Path, TraceAnalyzerError] = {}
        submit = None if self.workers is None else self.workers.submit
        tasks = {
            place: (self.parts[place], self.run, _told(what)) for place, what in wanted.items()
        }
        pending = (
            {}
            if submit is None
            else {place: submit(measured_bytes, *task) for place, task in tasks.items()}
        )
        heard = Heard()
        for done, (place, task) in enumerate(tasks.items()):
            self.progress("measuring", done / len(tasks))
            try:
                if submit is None:
                    found[place] = _measured(*task, heard)
                    heard.listen(found[place])
                else:
                    found[place] = from_bytes(pending[place].result())
            except InputError as error:
                lost[task[0].path] = error
            except WorkerDied as error:
                lost[task[0].path] = _died(task[0].path, error)
        self.progress("measuring", 1.0)
        return found, lost


Told = tuple[tuple[int, ...] | None, bytes, bytes | None]
"""`Agreed` as plain data."""


def _told(agreed: Agreed | None) -> Told | None:
    if agreed is None:
        return None
    stretched = None if agreed.stretched is None else agreed.stretched.tobytes()
    return agreed.lanes, table_to_bytes(agreed.told), stretched


def measured_bytes(part: FilePart, run: Run, told: Told | None) -> bytes:
    """Read and measure one part; the work of a worker, which sends back small tables only.

    Raises:
        InputError: It cannot be read.
    """
    return to_bytes(_measured(part, run, told))


def _measured(part: FilePart, run: Run, told: Told | None, heard: Heard | None = None) -> Measured:
    trace = read_part(part, run.nsys)
    agreed = None if heard is None else heard.of(trace)
    if told is not None:
        lanes, flags, stretched = told
        cycles = None if stretched is None else np.frombuffer(stretched, bool)
        agreed = Agreed(lanes, table_from_bytes(flags), cycles)
    return measure(trace, run.choices(), agreed)


def _ranks(
    paths: Sequence[Path], measured: Sequence[Measured], files: Sequence[int]
) -> list[pl.DataFrame]:
    """The processes of each part, with the rank that their file's name tells."""
    first = [measured[files.index(file)].trace for file in range(len(paths))]
    named = ranked_by_file_name(paths, first) if len(paths) > 1 else first
    return [
        named[file].processes if files.count(file) == 1 else part.trace.processes
        for file, part in zip(files, measured, strict=True)
    ]


def _died(path: Path, error: WorkerDied) -> InputError:
    return InputError(
        str(error), where=path, next_step="Give it more memory, or fewer at once: --jobs 1."
    )


def _missing(path: Path, error: TraceAnalyzerError) -> Check:
    own = error.where is None or Path(error.where).absolute() == path.absolute()
    where = "" if own else f"{error.where}: "
    return Check("missing rank", FAILED, f"{path.name}: {where}{error.what}", error.next_step)

"""A sweep as a page: per batch what verify costs, what each draft length gives, and the best."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.renderers import sweep_text as words
from traceanalyzer.renderers.charts.sweep import sweep_charts
from traceanalyzer.renderers.html.escaping import element, joined
from traceanalyzer.renderers.html.sections import Section, lines, sections_page, table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from traceanalyzer.renderers.html.sections import Part
    from traceanalyzer.report.sweep import Sweep


def render_sweep_page(sweep: Sweep) -> bytes:
    """One self-contained HTML file."""
    captures = sorted({point.source for batch in sweep.batches for point in batch.points})
    number = f"{len(captures)} capture{'' if len(captures) == 1 else 's'}"
    heading = [element("h1", "Sweep"), element("p", number, class_="muted")]
    sections = [
        Section("answer", "Best draft length", _answer, wide=True),
        *(
            Section(f"batch-{place}", words.title(batch), _batch(place), wide=True)
            for place, batch in enumerate(sweep.batches)
        ),
        Section("provenance", "Provenance", _provenance, wide=True),
    ]
    return sections_page("Sweep - traceanalyzer", heading, sections, sweep)


def _answer(sweep: Sweep) -> Sequence[Part]:
    told = [
        joined(element("b", f"{words.title(batch)}: "), batch.advice)
        for batch in sweep.batches
        if batch.advice
    ]
    parts = lines(*told, *words.closing(sweep))
    return [element("div", *parts, class_="answer")] if parts else []


def _batch(place: int) -> Callable[[Sweep], Sequence[Part]]:
    def parts(sweep: Sweep) -> Sequence[Part]:
        batch = sweep.batches[place]
        rows = words.point_rows(batch)
        told = [line for line in words.sentences(batch) if line != batch.advice]
        found: list[Part] = [*lines(*told), *sweep_charts(sweep, place)]
        found.append(table(words.POINT_TITLES, rows, id_=f"points-{place}", sortable=True))
        if batch.predictions:
            found.append(element("h3", "What a chain of each length would give"))
            found.append(table(words.PREDICTION_TITLES, words.prediction_rows(batch), words=(0, 5)))
        return found

    return parts


def _provenance(sweep: Sweep) -> Sequence[Part]:
    return lines(f"Written by {sweep.tool.name} {sweep.tool.version}.")

"""The table of a trial, in Markdown."""

from __future__ import annotations

import platform
from collections import Counter
from typing import TYPE_CHECKING, Final

from recording import WAYS
from refusals import refusals
from summary import Case, Row, cases_of, grouped, row_of, wrong_signs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from records import TriedWorld

_ORDER: Final = ("period", "plain step", "speed-up", "tok/s", "accept_len", "plain tok/s")
_ENGINES: Final = ("sglang_v1", "sglang_v2", "vllm", "tensorrt_llm")
_MOST_LISTED: Final = 30
_INTRODUCTION: Final = """\
Every world is simulated: a server whose costs are known, served untraced, and recorded by a
recorder that costs time, loses buffers and has clocks of its own. The analysis gets the files and
options of a command line.

**server**: 95 % intervals that hold the truth of another untraced session of the same server, its
own chance allowed for. **session**: those that hold the truth of the very session recorded, had it
not been recorded. **untold**: those without the server's truth where nothing says that figures are
off. **bias** is against the session's truth: of a window, wait or lead in per cent of the cycle,
of a share in points, else in per cent. **refused**: no number, or no verdict beside it. **wrong
sign**: verdicts whose truth lies on the other side of 1 and outside of the interval; a verdict
"on the one request recorded" is not one on another session of the server.
"""


def table_of(worlds: Sequence[TriedWorld]) -> str:
    """The whole table; worlds in the order given."""
    lines = ["# The blind trial", "", *_head(worlds), "", _INTRODUCTION]
    lines += ["## Against what it must show", "", *_goals(worlds), ""]
    for way in WAYS:
        cases = cases_of(worlds, way)
        if cases:
            rows = sorted(grouped(cases, lambda case: case.number.name).items(), key=_place)
            title = f"{way[0].upper()}{way[1:]}"
            lines += [f"## {title}", "", *_outcomes(worlds, way), "", *_rows("number", rows), ""]
    lines += ["## By behaviour of the world (graph mode)", "", *_behaviours(worlds), ""]
    lines += ["## Biases that nothing tells", "", *_untold(worlds), ""]
    lines += ["## Refusals", "", *_refusals(worlds), ""]
    return "\n".join(lines)


def _head(worlds: Sequence[TriedWorld]) -> Iterator[str]:
    seeds = [world.seed for world in worlds]
    commits = Counter(world.commit for world in worlds)
    cpu_s = sum(world.cpu_s for world in worlds)
    yield (
        f"{len(worlds)} worlds of seeds {min(seeds)} to {max(seeds)}; {cpu_s / len(worlds):.1f} s "
        f"of CPU each; Python {platform.python_version()}; code of "
        + ", ".join(f"{commit} ({count})" for commit, count in commits.most_common())
        + "."
    )


def _goals(worlds: Sequence[TriedWorld]) -> Iterator[str]:
    yield (
        "| way | intervals | server | session | untold | wrong sign, session | wrong sign, server |"
    )
    yield "|---|---:|---:|---:|---:|---|---|"
    for way in WAYS:
        row = row_of(cases_of(worlds, way))
        if row.cases:
            yield _cells(
                way,
                f"{row.intervals:,}",
                _share(row.served, row.intervals),
                _share(row.twin, row.twins),
                _share(row.untold, row.intervals),
                _wrong(worlds, way, of_twin=True),
                _wrong(worlds, way, of_twin=False),
            )


def _wrong(worlds: Sequence[TriedWorld], way: str, *, of_twin: bool) -> str:
    """How many, with the seeds."""
    seeds = [world.seed for world, own in wrong_signs(worlds, of_twin=of_twin) if own == way]
    named = ", ".join(map(str, seeds[:_MOST_LISTED]))
    return f"{len(seeds)}" + (f" (seeds {named})" if seeds else "")


def _outcomes(worlds: Iterable[TriedWorld], way: str) -> Iterator[str]:
    found = Counter(each.outcome for world in worlds for each in world.ways if each.way == way)
    yield "Verdicts: " + ", ".join(f"{name} {count}" for name, count in found.most_common()) + "."


def _rows(title: str, rows: Iterable[tuple[str, Sequence[Case]]]) -> Iterator[str]:
    yield (
        f"| {title} | n | refused | intervals | server | session | untold | median bias | "
        "worst bias (seed) |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
    for name, cases in rows:
        yield _row(name, row_of(cases))


def _row(name: str, row: Row) -> str:
    worst = "-"
    if row.worst is not None:
        worst = f"{_percent(row.worst.number.bias or 0.0)} ({row.worst.world.seed})"
    return _cells(
        name,
        f"{row.cases}",
        f"{row.refused}",
        f"{row.intervals}",
        _share(row.served, row.intervals),
        _share(row.twin, row.twins),
        f"{row.untold}",
        "-" if row.median_bias is None else _percent(row.median_bias),
        worst,
    )


def _behaviours(worlds: Sequence[TriedWorld]) -> Iterator[str]:
    names = sorted({name for world in worlds for name in world.behaviours})
    found: list[tuple[str, list[Case]]] = [("all", cases_of(worlds, WAYS[0]))]
    found += [
        (name, cases_of((each for each in worlds if each.engine == name), WAYS[0]))
        for name in _ENGINES
    ]
    found += [
        (name, cases_of((each for each in worlds if name in each.behaviours), WAYS[0]))
        for name in names
    ]
    yield from _rows("worlds with", [(name, cases) for name, cases in found if cases])


def _untold(worlds: Sequence[TriedWorld]) -> Iterator[str]:
    found = [case for way in WAYS for case in cases_of(worlds, way) if case.untold_bias is not None]
    if not found:
        yield "None: no number without an interval is off by more than 2 %, by more than any"
        yield "interval beside it and by more than two untraced sessions differ, unless something"
        yield "says so."
        return
    yield "| seed | way | number | bias |"
    yield "|---:|---|---|---:|"
    for case in sorted(found, key=lambda each: -abs(each.untold_bias or 0.0))[:_MOST_LISTED]:
        bias = _percent(case.untold_bias or 0.0)
        yield _cells(f"{case.world.seed}", case.recorded.way, case.number.name, bias)


def _refusals(worlds: Sequence[TriedWorld]) -> Iterator[str]:
    found = refusals(worlds)
    silent = [each for each in found if not each.names_a_measurement]
    yield f"{len(found)} refusals, {len(found) - len(silent)} of them name a measurement."
    if silent:
        yield ""
        yield "| seed | way | why | named |"
        yield "|---:|---|---|---|"
        for each in silent[:_MOST_LISTED]:
            yield _cells(f"{each.seed}", each.way, each.why or "nothing", each.next_step or "-")


def _place(item: tuple[str, Sequence[Case]]) -> tuple[int, str]:
    name = item[0]
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _percent(share: float) -> str:
    return f"{100 * share:+.2f} %"


def _cells(*texts: str) -> str:
    return "| " + " | ".join(texts) + " |"

"""Measures traceanalyzer and its peers on the same traces, in alternation, and writes the table.

`python benchmarks/peers/run.py` makes the traces, installs the peers into environments of their
own, runs everything, and writes benchmarks/results/peers.md. Options choose a part of it; rows
that are not measured anew stay.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from peers import kineto_growth, targets
from peers.comparison import Plan, compare, missing_row, rows
from peers.measuring import Limits
from peers.page import page
from peers.results import REPOSITORY, Session, commit, machine, merged, read_rows, write_rows
from peers.tools import floors, hta, nsys_ai, nsys_stats, ours, tracelens
from peers.tools.tool import Missing, Tool
from peers.traces import KINETO, NATIVE, PARQUETDIR, SQLITE, Wanted, made

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PEERS: Final = (nsys_stats.NAME, nsys_ai.NAME, hta.NAME, tracelens.NAME)
FORMS: Final = {"sqlite": SQLITE, "parquetdir": PARQUETDIR, "kineto": KINETO}
_TRACELENS: Final = "git+https://github.com/AMD-AGI/TraceLens"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write the page."""
    options = _parser().parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    tools: list[Tool | Missing] = [*ours.tools(), *floors.tools(), *_peers(options)]
    session = Session(f"{datetime.now(UTC):%Y-%m-%d %H:%M}", commit(), machine())
    plan = _plan(options)
    kept = options.results / "peers.json"
    for wanted in _wanted(options):
        trace = made(wanted, options.folder)
        able = [tool for tool in tools if isinstance(tool, Tool) and trace.form in tool.forms]
        chosen = [tool for tool in able if tool.cheap or trace.peers]
        found = compare(trace, chosen, options.folder / "scratch", plan, _say)
        absent = [tool for tool in tools if isinstance(tool, Missing) and trace.form in tool.forms]
        new = [
            *rows(trace, found, session),
            *(missing_row(trace, tool, session) for tool in absent if trace.peers),
        ]
        everything = merged(read_rows(kept), new)
        write_rows(kept, everything)
        (options.results / "peers.md").write_text(page(everything))
    print(options.results / "peers.md")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--sizes", type=_sizes, default="100k,1M,2M,10M", help="kernels of the exports"
    )
    parser.add_argument("--kineto-mb", type=_sizes, default="500,2000", help="sizes of JSON traces")
    parser.add_argument(
        "--layout-mb", type=_sizes, default="100,500", help="sizes in each other layout"
    )
    parser.add_argument("--forms", type=_list(FORMS), default=",".join(FORMS))
    parser.add_argument("--peers", type=_list(PEERS), default=",".join(PEERS), help="or 'none'")
    parser.add_argument("--peers-up-to", type=_size, default="2M", help="kernels, and 500 MB JSON")
    parser.add_argument("--runs", type=int, default=3, help="of our own commands")
    parser.add_argument("--peer-runs", type=int, default=1)
    parser.add_argument("--cold", action="store_true", help="no run before that warms caches")
    parser.add_argument("--limit-s", type=float, default=1800, help="wall time of one process")
    parser.add_argument("--limit-gb", type=float, default=16, help="memory of one process")
    parser.add_argument("--nsys", action="append", default=[], help="nsys to run; may be repeated")
    parser.add_argument("--nsys-ai", default="nsys-ai", help="what pip installs")
    parser.add_argument("--hta", default="traceinsight", help="what pip installs")
    parser.add_argument("--tracelens", default=_TRACELENS, help="what pip installs")
    parser.add_argument(
        "--grow", type=Path, action="append", default=[], help="recorded JSON to grow for all tools"
    )
    parser.add_argument("--layouts", type=Path, help="folder of recorded JSON to grow for ours")
    folder = Path(tempfile.gettempdir()) / "traceanalyzer-peers"
    parser.add_argument("--folder", type=Path, default=folder, help="for traces and environments")
    parser.add_argument("--results", type=Path, default=REPOSITORY / "benchmarks" / "results")
    return parser


def _size(text: str) -> float:
    units = {"k": 1e3, "M": 1e6}
    return float(text[:-1]) * units[text[-1]] if text[-1:] in units else float(text)


def _sizes(text: str) -> list[float]:
    return [_size(part) for part in text.split(",") if part]


def _list(known: Sequence[str] | dict[str, str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = [] if text == "none" else text.split(",")
        if unknown := set(names) - set(known):
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}")
        return names

    return parse


def _plan(options: argparse.Namespace) -> Plan:
    limits = Limits(options.limit_s, options.limit_gb)
    peer_runs = min(options.peer_runs, options.runs)
    return Plan(options.runs, peer_runs, limits, warm_up=not options.cold)


def _peers(options: argparse.Namespace) -> list[Tool | Missing]:
    environments = options.folder / "environments"
    found: list[Tool | Missing] = []
    if nsys_stats.NAME in options.peers:
        found += nsys_stats.tools(options.nsys)
    if nsys_ai.NAME in options.peers:
        found += nsys_ai.tools(environments, options.nsys_ai)
    if hta.NAME in options.peers:
        found += hta.tools(environments, options.hta)
    if tracelens.NAME in options.peers:
        found += tracelens.tools(environments, options.tracelens)
    return found


def _wanted(options: argparse.Namespace) -> list[Wanted]:
    """All traces, by form; the smallest of each tells what start-up costs."""
    most, found = options.peers_up_to, []
    for form in (FORMS[name] for name in options.forms):
        if form == KINETO:
            found += _wanted_json(options)
            continue
        found.append(Wanted(form, targets.SMALLEST, peers=False))
        found += [Wanted(form, size, peers=size <= most) for size in options.sizes]
        if form == SQLITE and min(options.sizes, default=most) <= targets.GRAPH_KERNELS:
            found.append(Wanted(form, min(options.sizes), "graph"))
    return found


def _wanted_json(options: argparse.Namespace) -> list[Wanted]:
    most, sizes = targets.LARGE_MB, options.kineto_mb
    found = [Wanted(KINETO, targets.SMALLEST_MB, peers=False)]
    found += [Wanted(KINETO, size, peers=size <= most) for size in sizes]
    found += [
        Wanted(KINETO, size, layout=layout, peers=False)
        for size in options.layout_mb
        for layout in (NATIVE, *kineto_growth.LAYOUTS)
        if layout != NATIVE or size not in sizes
    ]
    found += [
        Wanted(KINETO, size, grown_from=file, peers=size <= most)
        for file in options.grow
        for size in sizes
        if size <= most
    ]
    recorded = sorted(options.layouts.glob("*.json*")) if options.layouts else []
    found += [
        Wanted(KINETO, size, grown_from=file, peers=False)
        for size in options.layout_mb
        for file in recorded
    ]
    return found


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

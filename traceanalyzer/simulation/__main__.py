"""Command line of the simulation: a trace with known truth, and its truth beside it."""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.errors import InputError
from traceanalyzer.simulation.eagle3 import eagle3_server
from traceanalyzer.simulation.kineto import write_kineto
from traceanalyzer.simulation.nsys_files import write_nsys_parquetdir, write_nsys_sqlite
from traceanalyzer.simulation.nsys_schema import FLAVOURS
from traceanalyzer.simulation.presets import PRESETS
from traceanalyzer.simulation.samples import SAMPLES
from traceanalyzer.simulation.settings import Eagle3Settings
from traceanalyzer.simulation.troubles import BROKEN, HEALTHY, PAGE_BYTES, TROUBLES, cut_text
from traceanalyzer.simulation.truth import truth_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.simulation.recording import Recording

_TINY: Final = "tiny"
_CUT: Final = "truncated"
_TRUTH_OF_SUFFIXES: Final = (".json.gz", ".json", ".sqlite", ".parquet")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns:
        0 when the trace was written, 2 when it cannot be; the reason is on stderr.
    """
    options = _parser().parse_args(arguments)
    try:
        if options.samples is not None:
            write_samples(options.samples)
        else:
            _write(options)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def write_samples(folder: Path) -> None:
    """Write every sample trace and its truth into a folder, over what is there."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "broken").mkdir(exist_ok=True)
    for sample in (*SAMPLES, *HEALTHY, *(broken.sample for broken in BROKEN)):
        _write(_parser().parse_args(sample.arguments(folder)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m traceanalyzer.simulation",
        description="Write a simulated trace of an EAGLE-3 server and the truth about it.",
    )
    parser.add_argument("out", type=Path, nargs="?", help="trace to write")
    parser.add_argument("--preset", choices=sorted(PRESETS), default="server")
    parser.add_argument("--ranks", type=int, help="tensor-parallel processes")
    parser.add_argument("--cycles", type=int, help="scheduler iterations")
    parser.add_argument("--graph-mode", choices=("node", "graph", "eager"))
    parser.add_argument("--seed", type=int, help="seed of every random choice")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any other setting: " + ", ".join(field.name for field in fields(Eagle3Settings)),
    )
    parser.add_argument("--format", choices=("sqlite", "parquetdir", "kineto"), default="sqlite")
    parser.add_argument(
        "--flavour",
        choices=sorted(FLAVOURS),
        help="nsys version of the SQLite file; by default 2022.4, with graph rows 2025.5",
    )
    parser.add_argument(
        "--trouble",
        choices=sorted({*TROUBLES, _CUT}),
        help="break the trace in one way; there is no truth about a broken trace",
    )
    listed = parser.add_mutually_exclusive_group()
    listed.add_argument("--truth-ops", action="store_true", help="list every op in the truth")
    listed.add_argument(
        "--truth-totals", action="store_true", help="count cycles in the truth, list none"
    )
    parser.add_argument("--force", action="store_true", help="replace a trace that is there")
    parser.add_argument(
        "--samples", type=Path, metavar="FOLDER", help="write the sample traces instead"
    )
    return parser


def _write(options: argparse.Namespace) -> None:
    out: Path | None = options.out
    if out is None:
        raise InputError("no file to write", where="OUT", next_step="Name it, or use --samples.")
    if out.exists() and not options.force:
        raise InputError("is there already", where=out, next_step="Use --force to replace it.")
    if not out.parent.is_dir():
        raise InputError("no such folder", where=out.parent)
    settings = _settings(options)
    recording = eagle3_server(settings)
    if options.trouble in TROUBLES:
        TROUBLES[options.trouble](recording)
    try:
        _write_trace(recording, out, options, settings)
        if options.trouble == _CUT:
            cut_text(out)
        if options.trouble or options.preset == _TINY:
            return
        truth = truth_of(recording).as_json(ops=options.truth_ops, cycles=not options.truth_totals)
        _truth_path(out).write_text(json.dumps(truth, indent=1) + "\n")
    except (OSError, sqlite3.Error) as error:
        raise InputError(f"cannot be written: {error}", where=out) from None


def _write_trace(
    recording: Recording, out: Path, options: argparse.Namespace, settings: Eagle3Settings
) -> None:
    if options.format == "kineto":
        write_kineto(recording, out)
    elif options.format == "parquetdir":
        write_nsys_parquetdir(recording, out)
    else:
        default = "2025.5" if settings.graph_mode == "graph" else "2022.4"
        flavour = FLAVOURS[options.flavour or default]
        page_bytes = PAGE_BYTES if options.preset == _TINY else None
        write_nsys_sqlite(recording, out, flavour, page_bytes=page_bytes)


def _truth_path(out: Path) -> Path:
    name = out.name
    for suffix in _TRUTH_OF_SUFFIXES:
        name = name.removesuffix(suffix)
    return out.with_name(f"{name}.truth.json")


def _settings(options: argparse.Namespace) -> Eagle3Settings:
    preset = PRESETS[options.preset]()
    changes: dict[str, Any] = {
        name: value
        for name in ("ranks", "cycles", "graph_mode", "seed")
        if (value := getattr(options, name)) is not None
    }
    if options.format == "kineto" and preset.graph_mode == "graph":
        # torch.profiler has no whole-graph rows.
        changes.setdefault("graph_mode", "node")
    kinds = {field.name: str(field.type) for field in fields(Eagle3Settings)}
    for text in options.set:
        name, _, value = text.partition("=")
        if name not in kinds:
            raise InputError(
                f"no such setting: {name}",
                where="--set",
                next_step=f"Settings are {', '.join(kinds)}.",
            )
        changes[name] = _value(name, kinds[name], value)
    return replace(preset, **changes)


def _value(name: str, kind: str, text: str) -> object:
    try:
        match kind:
            case "bool":
                return {"true": True, "false": False}[text.lower()]
            case "int":
                return int(text)
            case "float":
                return float(text)
            case "tuple[int, ...]":
                return tuple(int(part) for part in text.split(","))
            case _:
                return None if text.lower() == "none" else text
    except (KeyError, ValueError):
        raise InputError(f"not a {kind}: {text!r}", where=f"--set {name}") from None


if __name__ == "__main__":
    sys.exit(main())

"""`traceanalyzer scrub`: an nsys export without environment, persons and hosts, to pass on."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from traceanalyzer.importers.nsys_scrubbing import Scrubbed

_SQLITE = b"SQLite format 3\0"


@click.command()
@click.argument("source", metavar="IN", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace OUT when it is there.")
def command(source: Path, target: Path, force: bool) -> None:
    """Copy an nsys SQLite export without what tells of people and machines.

    Environments, home folders, login and host names and the output of programs are left out; what
    a report needs stays, so that the report of OUT is that of IN. Tables that are not known are
    left out and named. IN is only read; a .nsys-rep has to be exported first, and stays as it is.
    """
    from traceanalyzer.errors import InputError

    try:
        _check(source, target, force=force)
        done = _scrubbed(source, target)
    except OSError as error:
        raise InputError(
            f"it cannot be written: {error.strerror or error}",
            where=target,
            next_step="Name a file in a folder that exists, may be written to, and has room.",
        ) from None
    click.echo(f"{target}: {len(done.kept)} tables, {_many(len(done.variables), 'variable')} less")
    if done.dropped:
        click.echo(f"left out: {', '.join(done.dropped)}")


def _check(source: Path, target: Path, *, force: bool) -> None:
    """Refuse what would destroy a file or cannot be read.

    Raises:
        InputError: IN is no SQLite file, or OUT is IN, a folder, or there already.
    """
    from traceanalyzer.errors import InputError

    try:
        with source.open("rb") as file:
            head = file.read(len(_SQLITE))
    except OSError as error:
        raise InputError(f"it cannot be read: {error.strerror}", where=source) from None
    if head != _SQLITE:
        raise InputError(
            "this is no SQLite file",
            where=source,
            next_step="Make one with: nsys export --type sqlite -o IN.sqlite REPORT.nsys-rep",
        )
    if target.resolve() == source.resolve() or (target.exists() and target.samefile(source)):
        raise InputError("OUT is the file that is read", where=target, next_step="Name another.")
    if target.is_dir():
        raise InputError("this is a folder", where=target, next_step="Name a file.")
    if target.exists() and not force:
        raise InputError("is there already", where=target, next_step="Use --force to replace it.")


def _scrubbed(source: Path, target: Path) -> Scrubbed:
    """Write beside the target and rename, so that it is never there in part."""
    from traceanalyzer.commands.inputs import umask
    from traceanalyzer.importers.nsys_scrubbing import scrub_database

    final = target.resolve()
    number, name = tempfile.mkstemp(prefix=".traceanalyzer-", dir=final.parent)
    part = Path(name)
    try:
        os.close(number)
        done = scrub_database(source, part)
        part.chmod(0o666 & ~umask())
        part.replace(final)
    finally:
        part.unlink(missing_ok=True)
    return done


def _many(number: int, thing: str) -> str:
    return f"{number:,} {thing}" + ("" if number == 1 else "s")

"""`traceanalyzer hooks`: which engines the hooks can reach here, and the file that starts them."""

from __future__ import annotations

from pathlib import Path

import click


@click.group()
def command() -> None:
    """See and manage the hooks that put ranges into a server (nvtx_hooks)."""


@command.command()
@click.option("--all", "every", is_flag=True, help="List targets that do not resolve as well.")
def status(every: bool) -> None:
    """Show for the installed engines which targets the hooks would attach to."""
    from nvtx_hooks.autoload import startup_files
    from nvtx_hooks.resolution import EngineNotInstalled, resolve_engine
    from nvtx_hooks.targets import ENGINES

    started_by = startup_files.found()
    click.echo("start-up file: " + (", ".join(map(str, started_by)) or "none (see: hooks install)"))
    for engine in sorted(ENGINES):
        try:
            found = resolve_engine(engine)
        except EngineNotInstalled:
            click.echo(f"{engine}: not installed")
            continue
        resolved = [each for each in found if each.resolved]
        click.echo(f"{engine}: {len(resolved)} of {len(found)} targets resolve")
        for each in found if every else resolved:
            where = f"line {each.line}" if each.line is not None else each.problem
            problem = f" ({each.problem})" if each.line is not None and each.problem else ""
            click.echo(f"  {each.target.module}:{each.target.attribute}  {where}{problem}")


_FOLDER = click.option(
    "--folder",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Site-packages folder (default: this environment's).",
)


@command.command()
@_FOLDER
def install(folder: Path | None) -> None:
    """Write the start-up file: hooks are then on where NVTX_HOOKS is set."""
    from nvtx_hooks.autoload import startup_files
    from traceanalyzer.errors import InputError

    target = folder or startup_files.site_folder()
    try:
        written = startup_files.write(target)
    except OSError as error:
        raise InputError(
            f"the start-up file cannot be written: {error.strerror}",
            where=target,
            next_step="Name another site-packages folder with --folder.",
        ) from None
    for path in written:
        click.echo(f"wrote {path}")
    if folder is not None and not (folder / "nvtx_hooks").is_dir():
        click.echo(
            f"nvtx_hooks is not in {folder}: install traceanalyzer in that environment too, or its "
            "Python complains wherever NVTX_HOOKS is set",
            err=True,
        )


@command.command()
@_FOLDER
def remove(folder: Path | None) -> None:
    """Take the start-up file away."""
    from nvtx_hooks.autoload import startup_files
    from traceanalyzer.errors import InputError

    target = folder or startup_files.site_folder()
    try:
        removed = startup_files.remove(target)
    except OSError as error:
        raise InputError(
            f"the start-up file cannot be removed: {error.strerror}", where=target
        ) from None
    for path in removed:
        click.echo(f"removed {path}")
    if not removed:
        click.echo(f"there is none in {target}")

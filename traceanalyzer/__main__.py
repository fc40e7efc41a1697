"""The command line's entry point."""

from __future__ import annotations

import os
import sys


def capture() -> None:
    """Run as `nsys-eagle`: the same as `traceanalyzer capture`."""
    main(["capture", *sys.argv[1:]])


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with the code that `commands` documents."""
    from traceanalyzer.commands import cli

    try:
        code = cli.main(arguments, standalone_mode=False)
    except Exception as error:
        code = _explained(error)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = 130
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has gone (`| head`); nothing may be written at interpreter exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code if isinstance(code, int) else 0)


def _explained(error: Exception) -> int:
    """Print an expected error as a person reads it; anything else is a defect and is raised."""
    import click

    from traceanalyzer.errors import TraceAnalyzerError

    if isinstance(error, click.Abort):
        print("interrupted", file=sys.stderr)
        return 130
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if isinstance(error, TraceAnalyzerError):
        print(f"traceanalyzer: {_printable(str(error))}", file=sys.stderr)
        return error.exit_code
    if isinstance(error, BrokenPipeError):
        return 0
    raise error


def _printable(text: str) -> str:
    """Text whose control characters cannot steer the reader's terminal."""
    return "".join(char if char.isprintable() or char == "\n" else "\ufffd" for char in text)


if __name__ == "__main__":
    main()

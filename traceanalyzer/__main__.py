"""The command line's entry point."""

from __future__ import annotations

import gc
import os
import sys

_OBJECTS_BETWEEN_COLLECTIONS = 200_000
"""A report makes 110,000 that stay; looking through 50,000 for cycles, of which there are few,
takes 0.01 s."""


def capture() -> None:
    """Run as `nsys-eagle`: the same as `traceanalyzer capture`."""
    main(["capture", *sys.argv[1:]])


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with the code that `commands` documents."""
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    try:
        from traceanalyzer.commands import cli

        code = cli.main(arguments, standalone_mode=False)
    except Exception as error:
        code = _explained(error)
    except KeyboardInterrupt:
        _say("interrupted")
        code = 130
    sys.exit(_flushed(code if isinstance(code, int) else 0))


def _flushed(code: int) -> int:
    """The exit code once all output is out; what cannot be written at exit is told here."""
    gc.freeze()  # or else Python looks for cycles on its way out, in 0.05 s
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        failed = code
    except OSError as error:
        _say(f"traceanalyzer: standard output: it cannot be written: {error.strerror}")
        failed = code or 2
    # What is left in the buffer would raise again at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return failed


def _say(text: str) -> None:
    if sys.stderr is not None:
        print(text, file=sys.stderr)


def _explained(error: Exception) -> int:
    """Print an expected error as a person reads it; anything else is a defect and is raised."""
    import click

    from traceanalyzer.errors import TraceAnalyzerError

    if isinstance(error, click.Abort):
        _say("interrupted")
        return 130
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if isinstance(error, TraceAnalyzerError):
        _say(f"traceanalyzer: {_printable(str(error))}")
        return error.exit_code
    if isinstance(error, BrokenPipeError):
        return 0
    raise error


def _printable(text: str) -> str:
    """Text whose control characters cannot steer the reader's terminal."""
    return "".join(char if char.isprintable() or char == "\n" else "\ufffd" for char in text)


if __name__ == "__main__":
    main()

"""Errors that a person can act on: what is wrong, where, and what to do next.

Every error that reaches the command line derives from `TraceAnalyzerError`; its `exit_code`
is the process's.
"""

from __future__ import annotations

from os import PathLike, fspath


class TraceAnalyzerError(Exception):
    """Base of all errors raised on purpose.

    Args:
        what: What is wrong, in one sentence.
        where: The file, table, option or rule at fault.
        next_step: What the reader can do about it.
    """

    exit_code = 2

    def __init__(
        self, what: str, *, where: str | PathLike[str] | None = None, next_step: str | None = None
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = None if where is None else fspath(where)
        self.next_step = next_step

    def __str__(self) -> str:
        text = self.what if self.where is None else f"{self.where}: {self.what}"
        return text if self.next_step is None else f"{text}\n{self.next_step}"


class InputError(TraceAnalyzerError):
    """A trace, rule file or option cannot be used."""


class ExportError(InputError):
    """A report file could not be turned into tables by Nsight Systems."""


class GateError(TraceAnalyzerError):
    """A gate the user asked for (`--min-coverage`) failed; the report itself is sound."""

    exit_code = 3

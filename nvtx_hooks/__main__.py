"""Run a command with hooks in every Python process it starts: `python -m nvtx_hooks -- COMMAND`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nvtx_hooks.autoload import VARIABLES, startup_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

USAGE: Final = "usage: python -m nvtx_hooks -- COMMAND [ARGUMENT ...]"
_USAGE_ERROR: Final = 2
_CANNOT_RUN: Final = 126
_NOT_FOUND: Final = 127


def hooked_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` with hooks on in the Python processes of a command.

    Without start-up files in site-packages they are reached through PYTHONPATH, which Python
    ignores under `-E` and `-I`.
    """
    hooked = {**environment, VARIABLES[0]: environment.get(VARIABLES[0]) or "1"}
    if not startup_files.found():
        package = Path(__file__).resolve().parent
        path = [str(package / "autoload" / "pythonpath"), str(package.parent)]
        if environment.get("PYTHONPATH"):
            path.append(environment["PYTHONPATH"])
        hooked["PYTHONPATH"] = os.pathsep.join(path)
    return hooked


def main(arguments: Sequence[str]) -> int:
    """Become the command, or say why not.

    Returns:
        2 for wrong usage, 127 when the command is not found, 126 when it cannot be run; a command
        that runs takes this process over and its exit code is its own.
    """
    if len(arguments) < 2 or arguments[0] != "--":
        print(USAGE, file=sys.stderr)
        return _USAGE_ERROR
    command = list(arguments[1:])
    try:
        os.execvpe(command[0], command, hooked_environment(os.environ))  # noqa: S606 - asked for
    except FileNotFoundError:
        print(f"nvtx_hooks: command not found: {command[0]}", file=sys.stderr)
        return _NOT_FOUND
    except OSError as error:
        print(f"nvtx_hooks: cannot run {command[0]}: {error.strerror}", file=sys.stderr)
        return _CANNOT_RUN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""NVTX ranges and marks for EAGLE-3's phases in a running server, put there from outside.

Importing this package does nothing; `install` hooks the engines of this process and `uninstall`
takes every hook out again.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing alone would triple the cost of a start-up file's import

if TYPE_CHECKING:
    from typing import Any

    from nvtx_hooks.installation import Status, TargetStatus, install, status, uninstall
    from nvtx_hooks.own_pipeline import (
        current_cycle,
        cycle,
        phase,
        report_accepted,
        report_step,
    )

__all__ = [
    "Status",
    "TargetStatus",
    "current_cycle",
    "cycle",
    "install",
    "phase",
    "report_accepted",
    "report_step",
    "status",
    "uninstall",
]

_INSTALLATION = frozenset({"Status", "TargetStatus", "install", "status", "uninstall"})


def __getattr__(name: str) -> Any:
    """Load a public name from its module when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _INSTALLATION:
        from nvtx_hooks import installation as module
    else:
        from nvtx_hooks import own_pipeline as module  # type: ignore[no-redef]
    return getattr(module, name)


def __dir__() -> list[str]:
    return __all__

"""Reaching every worker process: what runs when an interpreter or an engine's plugins start.

`start` is called by the start-up files `nvtx_hooks.pth` and `nvtx_hooks.start` beside this module,
which the wheel puts into site-packages, and by the plugin entry points of SGLang and vLLM. All of
them do nothing unless NVTX_HOOKS (or EAGLE3_PROFILE) is set, and none of them raises.
"""

from __future__ import annotations

import os

VARIABLES = ("NVTX_HOOKS", "EAGLE3_PROFILE")
"""Environment variables that switch the hooks on."""

_OFF = frozenset({"", "0", "false", "off", "no"})


def wanted() -> bool:
    """Whether the environment asks for hooks."""
    return any(os.environ.get(name, "").strip().lower() not in _OFF for name in VARIABLES)


def start() -> None:
    """Install the hooks when the environment asks for them."""
    if not wanted():
        return
    try:
        from nvtx_hooks.installation import install
    except Exception as error:
        import sys

        print(f"nvtx_hooks: cannot start: {error!r}", file=sys.stderr, flush=True)
        return
    install()

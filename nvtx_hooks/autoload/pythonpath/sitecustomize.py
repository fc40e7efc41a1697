"""Starts the hooks where no start-up file is installed, then runs the next `sitecustomize`.

Python imports only the first `sitecustomize` on its path; this one hands on to the one it hides.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path


def _hidden() -> None:
    """Run the `sitecustomize` that stands behind this one."""
    here = Path(__file__).resolve().parent
    path = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    spec = PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


try:
    from nvtx_hooks.autoload import start
except ImportError:
    print("nvtx_hooks: not importable here, so no hooks in this process", file=sys.stderr)
else:
    start()
_hidden()

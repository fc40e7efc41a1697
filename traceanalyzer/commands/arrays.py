"""numpy as commands need it: without threads for linear algebra, of which there is none."""

from __future__ import annotations

import os
import sys
from typing import Final

_THREADS: Final = "OPENBLAS_NUM_THREADS"


def load_numpy() -> None:
    """Import numpy with one thread of OpenBLAS, unless the user says how many.

    Each further one, of as many as there are processors, spins before it sleeps: with one more a
    report on 1,758 ops took 0.05 s more CPU. Whoever imports us as a library keeps their threads,
    and programs that are started later do not see the variable.
    """
    if "numpy" in sys.modules or _THREADS in os.environ:
        return
    os.environ[_THREADS] = "1"
    try:
        import numpy  # noqa: F401 - for what it does when it is loaded
    finally:
        del os.environ[_THREADS]

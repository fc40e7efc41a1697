"""The names of a timeline's spans: each text once a class, and only those that occur."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.kernels.classification import CLASSES
from traceanalyzer.phases.cycles import STATES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.trace import Trace

    Int64s = NDArray[np.int64]

_CODES = len(CLASSES) + 1


class Texts:
    """Gives out codes for names, and at last the table of those that were used.

    A code is name * classes + class; the trace's names are followed by the timeline's own.
    """

    def __init__(self, trace: Trace, phases: tuple[str, ...]) -> None:
        self._texts = trace.names["text"]
        self._own = (*phases, *(f"cycle, {state.replace('_', '-')}" for state in STATES))
        self._phases = len(phases)

    def of_ops(self, name: Int64s, op_class: Int64s) -> Int64s:
        """Codes of ops."""
        return name * _CODES + op_class + 1

    def of_host(self, name: Int64s) -> Int64s:
        """Codes of ranges and calls, which have no class."""
        return name * _CODES

    def of_phases(self, phase: Int64s) -> Int64s:
        """Codes of phases, named by themselves."""
        return (len(self._texts) + phase) * _CODES

    def of_states(self, state: Int64s) -> Int64s:
        """Codes of cycles, named by their state."""
        return (len(self._texts) + self._phases + state) * _CODES

    def table(self, code: Int64s) -> tuple[Int64s, tuple[str, ...], tuple[int, ...]]:
        """The names in use.

        Returns:
            Place of each code in the table, the texts, and their classes (-1 for none).
        """
        used = np.zeros((len(self._texts) + len(self._own)) * _CODES, bool)
        used[code] = True
        codes = np.flatnonzero(used)
        place = np.cumsum(used) - 1
        name, one_class = np.divmod(codes, _CODES)
        known = len(self._texts)
        texts = self._texts.gather(name[name < known]).to_list()
        texts += [self._own[row - known] for row in name[name >= known].tolist()]
        return place[code], tuple(texts), tuple((one_class - 1).tolist())

"""The capture that draft steps and layers are carried over from, ready to tell them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.errors import InputError
from traceanalyzer.phases.carried_layers import tells_places
from traceanalyzer.phases.phased import settle_phases

if TYPE_CHECKING:
    from traceanalyzer.phases.phased import PhasedTrace
    from traceanalyzer.phases.rules import Rules
    from traceanalyzer.trace import Trace

_NEXT_STEP: Final = (
    "Record one in which ranges tell them around kernels: an eager run with layer ranges (SGLang: "
    "--disable-cuda-graph --enable-layerwise-nvtx-marker; vLLM: --enforce-eager "
    "--enable-layerwise-nvtx-tracing), or with nsys profile --cuda-graph-trace=node the start of "
    "the server, in which it captures its graphs, and some replays of them."
)


def places_source(other: Trace | None, rules: Rules) -> PhasedTrace | None:
    """Settle the phases of the other capture.

    Args:
        other: The capture; None for none.
        rules: What names of ranges mean.

    Raises:
        InputError: Its ranges tell no draft step and no layer of any kernel in a phase.
    """
    if other is None:
        return None
    phased = settle_phases(other, rules, infer=True) if other.ops.height else None
    if phased is None or not tells_places(phased):
        what = "no GPU work" if phased is None else "no draft steps or layers of kernels"
        raise InputError(
            f"this capture tells {what}, so none can be carried over from it",
            where=str(other.files["path"].first()) if other.files.height else "layers_from",
            next_step=_NEXT_STEP,
        )
    return phased

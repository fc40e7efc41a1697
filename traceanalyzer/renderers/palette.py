"""Colours of the phases: Okabe and Ito's palette, which colour-blind readers can tell apart.

It holds on light and dark grounds; a name always stands beside its colour.
"""

from __future__ import annotations

from typing import Final

PHASE_COLOURS: Final = {
    "draft": "#56B4E9",
    "verify": "#E69F00",
    "sample": "#F0E442",
    "draft_extend": "#009E73",
    "decode": "#D55E00",
    "prefill": "#CC79A7",
    "draft_prefill": "#CC79A7",
    "mixed": "#CC79A7",
}
OTHER_COLOUR: Final = "#999999"
BLUE: Final = "#0072B2"
"""The one colour of the palette that no phase has."""


def phase_colour(phase: str) -> str:
    """The colour of a phase; one grey for those without."""
    return PHASE_COLOURS.get(phase, OTHER_COLOUR)

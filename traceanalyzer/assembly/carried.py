"""Draft steps and layers that the order of kernels tells: what the report says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.phases.kernel_order import LEAST_SCORE
from traceanalyzer.report import CarriedPlaces, Check

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.phases.carried_layers import CarriedPhase

_CHECK: Final = "layers"
_NEXT_STEP: Final = (
    "Record the other capture with the same model, engine version, GPU, batch and number of "
    "drafts, on the same ranks: kernels and their order differ between these."
)


def carried_places(found: Sequence[CarriedPhase]) -> list[CarriedPlaces]:
    """What was carried over and what was refused, by phase."""
    return [
        CarriedPlaces(
            phase=each.phase,
            source=each.source,
            forwards=each.forwards,
            refused=each.refused,
            lowest_score=each.lowest_score,
            refused_score=each.refused_score,
            other_number=each.other_number,
        )
        for each in found
    ]


def check_carried(carried: Sequence[CarriedPlaces], source: str | None) -> list[Check]:
    """What draft steps and layers rest on where ranges do not tell them.

    Args:
        carried: What was carried over and refused.
        source: The other capture that was named; None for none.
    """
    if source is not None and not any(each.source for each in carried):
        text = f"{source} tells no draft step or layer that a replay of this capture lacks"
        return [*check_carried(carried, None), Check(_CHECK, "ok", text)]
    sources = dict.fromkeys(each.source for each in carried if each.forwards)
    told = [_told(one, [each for each in carried if each.source == one]) for one in sources]
    checks = [Check(_CHECK, "ok", "; ".join(told))] if told else []
    refused = [_refused(each) for each in carried if each.refused and each.source]
    if refused:
        checks.append(Check(_CHECK, "warning", "; ".join(refused), _NEXT_STEP))
    return checks


def _told(source: str | None, carried: Sequence[CarriedPlaces]) -> str:
    phases = [
        f"{each.phase} ({each.forwards:,} replays, {each.lowest_score:.1%} of kernels match)"
        for each in carried
        if each.lowest_score is not None
    ]
    where = "other forwards of this capture" if source is None else source
    return (
        f"draft steps and layers are carried over from {where} by the order of kernels: "
        f"{', '.join(phases)}"
    )


def _refused(found: CarriedPlaces) -> str:
    what = f"{found.refused:,} replays of {found.phase} get no draft steps or layers from"
    if found.refused_score is None:
        return f"{what} {found.source}, which tells none of that phase on that rank"
    if found.other_number:
        return (
            f"{what} {found.source}: {found.refused_score:.1%} of their kernels match in order, "
            "but layers or steps are more or fewer there"
        )
    return (
        f"{what} {found.source}: {found.refused_score:.1%} of their kernels match in order, "
        f"{LEAST_SCORE:.0%} must"
    )

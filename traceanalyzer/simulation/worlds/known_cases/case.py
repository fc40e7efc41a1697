"""A known case, and the steps from published times to the costs of a world."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from traceanalyzer.simulation.work import GRAPH_GAP_NS
from traceanalyzer.simulation.worlds.settings import Cost, Costs, Load, Recorder, WorldSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

ONE_REQUEST: Final = Load(batch=1, prompt_tokens=(256, 256), output_tokens=(100_000, 100_000))
"""A request that outlasts the recording, so that no prompt interrupts its cycles."""

_GAP_US: Final = 1e-3 * GRAPH_GAP_NS
_UNEVEN_SHARE: Final = 0.005
"""By how much a kernel's length differs between the ranks of a world, to either side."""
TURN: Final = 20
"""Verifications after which accepted drafts come again in the same order."""
_LAYER: Final[Mapping[str, float]] = {
    "norm": 0.03,
    "qkv": 0.13,
    "attention": 0.10,
    "out": 0.10,
    "up": 0.23,
    "activation": 0.02,
    "down": 0.19,
    "collective": 0.10,
}
"""Shares of a layer's time, made up; it has two collectives."""


@dataclass(frozen=True, slots=True)
class KnownCase:
    """One published profile as a world.

    Attributes:
        settings: The server and its load.
        graphs: A recorder of whole-graph rows, None where the case was published from nodes.
        nodes: A recorder of nodes.
    """

    settings: WorldSettings
    graphs: Recorder = field(default_factory=Recorder)
    nodes: Recorder = field(default_factory=lambda: Recorder(graph_trace="node"))


def by_the_last(length: float, ranks: int) -> float:
    """The mean length of work which the last of some ranks takes this long for.

    Collectives let all wait for the last one.
    """
    return length / (1 + _UNEVEN_SHARE * (ranks - 1) / (ranks + 1))


def kernel_costs(
    layer_us: float, shares: Mapping[str, float] = _LAYER, gap_us: float = _GAP_US
) -> Costs:
    """Costs whose layers take this long, each kernel as its share says.

    Args:
        layer_us: Time of a layer, the gaps after its kernels included.
        shares: Of each kernel of a layer, by its name in `Costs`.
        gap_us: Idle time after each kernel.
    """

    def kernel(name: str) -> Cost:
        return Cost(shares[name] * layer_us - gap_us)

    return Costs(
        norm=kernel("norm"),
        qkv=kernel("qkv"),
        attention=kernel("attention"),
        out=kernel("out"),
        up=kernel("up"),
        activation=kernel("activation"),
        down=kernel("down"),
        collective=kernel("collective"),
    )


def share_of_layer(name: str) -> float:
    """The share of a layer's time that all kernels of this name take."""
    return _LAYER[name] * (2 if name == "collective" else 1)


def accepted_in_turn(accept_len: float, longest: int) -> tuple[int, ...]:
    """Accepted drafts of verifications in turn, as if each draft were as likely as the one before.

    Args:
        accept_len: Committed tokens a verification, bonus token included; met to 1 in 40.
        longest: Drafts of a verification.
    """
    wanted = round(TURN * (accept_len - 1))
    low, high = 0.0, 1.0
    for _halving in range(50):
        chance = (low + high) / 2
        low, high = (chance, high) if sum(_counts(chance, longest)) < wanted else (low, chance)
    counts = _counts(high, longest)
    # Far steps around the circle spread long and short runs evenly.
    return tuple(counts[7 * place % TURN] for place in range(TURN))


def _counts(chance: float, longest: int) -> list[int]:
    """Drafts accepted at each of evenly spaced quantiles."""
    counts = []
    for place in range(TURN):
        beyond, count = 1 - (place + 0.5) / TURN, 0
        while count < longest and beyond < chance ** (count + 1):
            count += 1
        counts.append(count)
    return counts

"""How well counts fit probabilities."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def misfit(counts: Tensor, probabilities: Tensor, least_expected: float = 5.0) -> float:
    """Pearson's chi-square as a standard normal score (Wilson and Hilferty, PNAS 1931).

    Cells that expect fewer than `least_expected` are taken together, as the test asks for. A
    right sampler exceeds 4 once in 30 000 times.
    """
    expected = probabilities.flatten() * counts.sum()
    counts = counts.flatten().double()
    rare = expected < least_expected
    seen = [*counts[~rare].tolist(), float(counts[rare].sum())]
    wanted = [*expected[~rare].tolist(), float(expected[rare].sum())]
    if wanted[-1] < least_expected:
        seen[-2] += seen.pop()
        wanted[-2] += wanted.pop()
    statistic = sum((s - w) ** 2 / w for s, w in zip(seen, wanted, strict=True))
    spread = 2 / (9 * (len(wanted) - 1))
    return ((statistic / (len(wanted) - 1)) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)

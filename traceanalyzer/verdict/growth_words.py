"""The causes of verify's growth in words; what they cost is added by who names them."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from traceanalyzer.kernels.short_names import short_name, short_pair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.report import Growth, GrowthEvidence, KernelGrowth

IDLE_TIME: Final = "the device idles more in verify than in a plain step"

_FOR_PROMPTS: Final = re.compile("prefill|prompt|extend|context", re.IGNORECASE)
_ALGORITHMS: Final = {
    "one-shot": re.compile(r"1_?stage|one_?shot", re.IGNORECASE),
    "two-shot": re.compile(r"2_?stage|two_?shot", re.IGNORECASE),
    "NVLink SHARP": re.compile("nvls|multimem|multicast", re.IGNORECASE),
    "tree": re.compile("_tree_|_tree$", re.IGNORECASE),
    "ring": re.compile("_ring_|_ring$", re.IGNORECASE),
}


def other_kernel(row: Growth, pair: KernelGrowth) -> str:
    """A class on another kernel; `pair` is the change that costs most."""
    before, after = pair.decode_kernel or "", pair.verify_kernel or ""
    names = "{} → {}".format(*short_pair(before, after))
    times = f", {pair.verify_ops:.0f} a cycle" if pair.verify_ops >= 1 else ""
    if row.name == "all-reduce":
        kinds = algorithm(before), algorithm(after)
        told = f" ({kinds[0]} → {kinds[1]})" if all(kinds) and kinds[0] != kinds[1] else ""
        return f"verify runs another all-reduce{told}: {names}{times}{_waiting(row)}"
    prompts = _FOR_PROMPTS.search(short_name(after)) and not _FOR_PROMPTS.search(short_name(before))
    kind = "the prefill kernel" if prompts else "another kernel"
    return f"verify runs {row.name} on {kind}: {names}{times}"


def algorithm(kernel: str) -> str | None:
    """How an all-reduce goes about it, where its name tells."""
    return next((name for name, rule in _ALGORITHMS.items() if rule.search(kernel)), None)


def _waiting(row: Growth) -> str:
    """Whether what is told of a class has waiting for a late rank in it."""
    return ", waiting included" if row.more_wait_ns is None else ", net of waiting"


def waiting(row: Growth) -> str:
    """Ranks that come later to verify's collectives than to those of a plain step."""
    return f"ranks wait longer for a late one in {row.name}"


def more_kernels(row: Growth, kernels: Sequence[KernelGrowth]) -> str:
    """Kernels that a plain step does not run, or not as often."""
    before, after = (sum(ops) for ops in _ops(kernels))
    if not after:  # the kernels are not known one by one
        return f"verify runs {row.name} on kernels that a plain step does not run"
    return f"verify runs {after:.0f} kernels of {row.name} where a plain step runs {before:.0f}"


def _ops(kernels: Sequence[KernelGrowth]) -> tuple[list[float], list[float]]:
    return [each.decode_ops for each in kernels], [each.verify_ops for each in kernels]


def experts(kernels: Sequence[KernelGrowth], tokens: int | None) -> str:
    """More tokens hit more experts, whose weights are all read."""
    text = f"the experts' matrix products take {_times(kernels)} as long on the same kernels"
    if tokens is None:
        return f"{text}, as when more tokens hit more experts"
    if _factor(kernels) > tokens:
        return f"{text}, more than the {tokens} tokens of a request explain by hitting more experts"
    return f"{text}, as when the {tokens} tokens of a request hit more experts (at most {tokens}×)"


def collective_time(row: Growth, kernels: Sequence[KernelGrowth]) -> str:
    """Collectives that take longer by the same algorithm."""
    return f"{row.name} takes {_times(kernels)} as long on the same kernels{_waiting(row)}"


def more_time(name: str, kernels: Sequence[KernelGrowth]) -> str:
    """A class that takes longer on the kernels of a plain step."""
    return f"{name} takes {_times(kernels)} as long on the same kernels"


def _times(kernels: Sequence[KernelGrowth]) -> str:
    return f"{_factor(kernels):.1f}×"


def _factor(kernels: Sequence[KernelGrowth]) -> float:
    before = sum(each.decode_ns for each in kernels)
    return sum(each.verify_ns for each in kernels) / before if before > 0 else math.inf


def eager_launch(evidence: GrowthEvidence) -> str:
    """Verify outside of a graph."""
    return (
        f"verify is launched kernel by kernel ({evidence.verify_eager_ops:,.0f} of "
        f"{evidence.verify_ops:,.0f} ops) where a plain step replays a graph, and the device idles "
        "between them"
    )


def padding(batch: int, before: int, after: int) -> str:
    """A graph for more requests than there are."""
    there = "one of its own size" if before == batch else f"one for {before}"
    return (
        f"verify's graph is for {after} requests and {batch} run, where a plain step replays "
        f"{there}; at most, if all of its time goes with the batch"
    )

"""Why verify is dearer than a plain step: classes, kernels, causes, and what they rest on."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class KernelGrowth:
    """A kernel of a plain step and the one that verify runs in its places; None: it has none there.

    Attributes:
        decode_kernel: Its name; `OTHER_KERNELS` on both sides for the rest of the class.
        verify_kernel: The same in verify.
        decode_ops: How many a step, mean.
        verify_ops: How many a verify, mean.
        decode_ns: Their time in a step.
        verify_ns: Their time in verify.
        decode_half_width_ns: To either end of the 95 % interval; None of one cycle.
        verify_half_width_ns: The same in verify.
    """

    decode_kernel: str | None
    verify_kernel: str | None
    decode_ops: float
    verify_ops: float
    decode_ns: float
    verify_ns: float
    decode_half_width_ns: float | None
    verify_half_width_ns: float | None

    @property
    def more_ns(self) -> float:
        """What verify takes more."""
        return self.verify_ns - self.decode_ns

    @property
    def more_half_width_ns(self) -> float | None:
        """To either end of its 95 % interval: the two were measured in different cycles."""
        return _of_difference(self.decode_half_width_ns, self.verify_half_width_ns)


@dataclass(frozen=True, slots=True)
class Growth:
    """Why verify is dearer than a plain step: one kernel class, or "idle" for idle time.

    Attributes:
        name: The class.
        decode_ns: Its time in a plain step, sampling included.
        verify_ns: Its time in verify and sample.
        decode_kernel: The kernel with most of it.
        verify_kernel: The same in verify.
        decode_half_width_ns: To either end of the 95 % interval; None of one cycle.
        verify_half_width_ns: The same in verify.
        decode_wait_ns: Of collectives: waiting for a late rank, part of `decode_ns`; None where
            it cannot be told from transfer.
        verify_wait_ns: The same in verify.
        kernels: Kernel by kernel, the largest growth first, the rest in one row; they add up to
            the class. Empty where the kernels of the two do not match.
    """

    name: str
    decode_ns: float
    verify_ns: float
    decode_kernel: str | None
    verify_kernel: str | None
    decode_half_width_ns: float | None = None
    verify_half_width_ns: float | None = None
    decode_wait_ns: float | None = None
    verify_wait_ns: float | None = None
    kernels: list[KernelGrowth] = field(default_factory=list)

    @property
    def more_ns(self) -> float:
        """What verify takes more."""
        return self.verify_ns - self.decode_ns

    @property
    def more_half_width_ns(self) -> float | None:
        """To either end of its 95 % interval: the two were measured in different cycles."""
        return _of_difference(self.decode_half_width_ns, self.verify_half_width_ns)

    @property
    def more_wait_ns(self) -> float | None:
        """What verify waits more for a late rank; None where either does not tell it."""
        if self.decode_wait_ns is None or self.verify_wait_ns is None:
            return None
        return self.verify_wait_ns - self.decode_wait_ns


def _of_difference(one_ns: float | None, other_ns: float | None) -> float | None:
    return None if one_ns is None or other_ns is None else math.hypot(one_ns, other_ns)


@dataclass(frozen=True, slots=True)
class GrowthCause:
    """One thing that makes verify dearer than a plain step.

    Attributes:
        cause: "attention kernel", "all-reduce algorithm", "other kernel", "eager launch",
            "experts", "waiting", "collective time", "more kernels", "more time" (on the same
            kernels), "idle time" or "padding".
        name: The class that grew; None where it is none.
        ns: What verify takes more for it, a cycle; for padding at most.
        half_width_ns: To either end of its 95 % interval; None where cycles do not tell it.
        growth_share: Of all that verify takes more; for padding at most.
        text: A sentence for a person.
    """

    cause: str
    name: str | None
    ns: float
    half_width_ns: float | None
    growth_share: float
    text: str


@dataclass(frozen=True, slots=True)
class GrowthEvidence:
    """What the rows of the growth rest on.

    Attributes:
        decode_cycles: Plain steps whose kernels were recorded.
        verify_cycles: Verifies whose kernels were recorded.
        matched_share: Kernels of the two that match in order, of the longer one; None where an
            order is not known.
        matched: Whether that is enough to compare kernel by kernel.
        decode_graph_launches: Per step.
        verify_graph_launches: Per verify, sampling included.
        decode_eager_ops: Kernels, copies and sets of a step that no graph replayed.
        verify_eager_ops: The same of verify.
        decode_ops: All of a step.
        verify_ops: All of verify.
        batch: Requests of a verify.
        decode_padded_batch: Requests that the step's graph has room for.
        verify_padded_batch: The same of verify's.
    """

    decode_cycles: int
    verify_cycles: int
    matched_share: float | None
    matched: bool
    decode_graph_launches: float
    verify_graph_launches: float
    decode_eager_ops: float
    verify_eager_ops: float
    decode_ops: float
    verify_ops: float
    batch: int | None
    decode_padded_batch: int | None
    verify_padded_batch: int | None

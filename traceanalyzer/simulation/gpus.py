"""The GPUs a simulated server may run on, as the recorders' device tables describe them.

Names and sizes fill those tables and time nothing; sizes of the RTX PRO 6000 are nominal, not read
off a card.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Gpu:
    """A device type; memory and cache in bytes, bandwidth in bytes a second, clock in hertz."""

    name: str
    chip: str
    memory_bytes: int
    cache_bytes: int
    bytes_per_s: int
    clock_hz: int
    multiprocessors: int
    compute_capability: tuple[int, int]


H200: Final = Gpu(
    "NVIDIA H200",
    "GH100",
    memory_bytes=150_754_820_096,
    cache_bytes=62_914_560,
    bytes_per_s=4_916_480_000_000,
    clock_hz=1_980_000_000,
    multiprocessors=132,
    compute_capability=(9, 0),
)
RTX_PRO_6000: Final = Gpu(
    "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    "GB202",
    memory_bytes=101_973_229_568,
    cache_bytes=134_217_728,
    bytes_per_s=1_792_000_000_000,
    clock_hz=2_430_000_000,
    multiprocessors=188,
    compute_capability=(12, 0),
)
GPUS: Final[Mapping[str, Gpu]] = {"h200": H200, "rtx_pro_6000": RTX_PRO_6000}

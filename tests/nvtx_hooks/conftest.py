"""Keeps real engines out of sight of tests that put stand-ins in their place."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

STOOD_IN_FOR = frozenset({"torch", "sglang", "vllm", "transformers", "eagle"})


@pytest.fixture(autouse=True)
def real_engines_hidden() -> Iterator[None]:
    """Other tests of the same process may have imported PyTorch: it comes back afterwards."""
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_one(name)}
    yield
    for name in [name for name in sys.modules if _is_one(name)]:
        del sys.modules[name]
    sys.modules.update(hidden)


def _is_one(name: str) -> bool:
    return name.partition(".")[0] in STOOD_IN_FOR

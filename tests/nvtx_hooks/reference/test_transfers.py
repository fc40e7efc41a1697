"""What would make the host wait for a GPU, found without one.

Meta tensors have shapes and no data: an operation that needs data, or whose shape depends on
data, raises. What is left is the one read that `collect` makes, which the tests replace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nvtx_hooks.reference.config import EngineSettings
from nvtx_hooks.reference.engine import Engine
from nvtx_hooks.reference.request import Request
from tests.nvtx_hooks.reference.engines import SHAPES, engine, untrained

if TYPE_CHECKING:
    from nvtx_hooks.reference.training import TrainedModels
    from nvtx_hooks.reference.tree import DraftShape

COPIES = ("aten.to.", "aten._to_copy", "aten.copy_")


class DeviceAudit(TorchDispatchMode):
    """Counts copies to the device, and fails on any other operation that mixes devices."""

    def __init__(self) -> None:
        super().__init__()
        self.copies_to_device = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        devices = {tensor.device.type for tensor in tensors}
        out = {leaf.device.type for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)}
        if str(func).startswith(COPIES) and "meta" in out and devices != {"meta"}:
            self.copies_to_device += 1
        elif "meta" in devices:
            assert devices | out == {"meta"}, f"{func} mixes {devices | out}"
        return result


class Reads(TorchFunctionMode):
    """Counts what hands a tensor's data to Python."""

    READS = ("tolist", "item", "cpu", "numpy", "__bool__", "__int__", "__float__", "__index__")

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if getattr(func, "__name__", "") in self.READS:
            self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


def on_meta(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Engine:
    """An engine without data, which believes that one draft of each request is accepted."""
    models = untrained(vocab_size=6)
    made = Engine(
        models.target.to("meta"),
        models.draft_head.to("meta"),
        EngineSettings(eos_token=-1, max_batch=2, context=30, **settings),
    )
    made.warm_up()

    def collect(accepted: torch.Tensor, tokens: torch.Tensor) -> list[list[int]]:
        assert accepted.device.type == tokens.device.type == "meta"
        return [[1] * min(2, tokens.shape[1])] * len(tokens)

    monkeypatch.setattr(made, "collect", collect)
    return made


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("shape", [None, SHAPES["chain"], SHAPES["tree"]])
def test_nothing_but_collect_waits_for_the_device(
    monkeypatch: pytest.MonkeyPatch, shape: DraftShape | None, temperature: float
) -> None:
    serving = on_meta(monkeypatch, shape=shape, temperature=temperature, graphs="eager")
    copies = []
    for number in range(2):
        serving.submit(Request(str(number), (1, 2, 3)[: number + 1], max_tokens=5 + 2 * number))
    while serving.has_work:
        with DeviceAudit() as audit:
            kind = serving.step().kind
        copies.append((kind, audit.copies_to_device))
    assert copies[0] == ("prefill", 4)
    # Slots travel when the batch changes, and nothing else does.
    assert {number for _, number in copies[1:]} == {0, 1}


def test_the_audit_sees_what_it_is_for() -> None:
    held = torch.empty(4, device="meta")
    with DeviceAudit(), pytest.raises(AssertionError, match="mixes"):
        held.index_select(0, torch.tensor([1]))
    with DeviceAudit(), pytest.raises(NotImplementedError):
        held.nonzero()
    with DeviceAudit(), pytest.raises(RuntimeError, match=r"item\(\)"):
        bool(held[0] > 1)


@pytest.mark.parametrize("shape", [None, SHAPES["chain"], SHAPES["tree"]])
def test_a_step_reads_the_device_once(trained: TrainedModels, shape: DraftShape | None) -> None:
    serving = engine(trained, shape=shape, temperature=0.7)
    for number in range(3):
        serving.submit(Request(str(number), (1, 2, 3), max_tokens=5))
    while serving.has_work:
        with Reads() as reads:
            serving.step()
        assert reads.seen == ["tolist"]

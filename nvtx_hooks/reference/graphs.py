"""Phases run from static buffers, one recording for each padded batch size, as CUDA graphs need.

A body must read nothing but its inputs and tensors that are never reallocated, and must give
padding rows a place where they do no harm. On the CPU the same buffers and padding are used and a
replay simply runs the body again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torch import Tensor

In = TypeVar("In", bound=tuple["Tensor", ...])
Out = TypeVar("Out", bound=tuple["Tensor", ...])
Given = TypeVar("Given", bound=tuple["Tensor", ...], contravariant=True)
Result = TypeVar("Result", bound=tuple["Tensor", ...], covariant=True)


class Recording(Protocol[Result]):
    """A body recorded over buffers of one size."""

    def replay(self) -> Result:
        """Run it on what the buffers hold now; the result is valid until the next replay."""


class EagerRecording(Generic[Out]):
    """Runs the body again at each replay, into the same outputs."""

    def __init__(self, body: Callable[[], Out]) -> None:
        self._body = body
        outputs = body()
        self._outputs = _like(outputs, (output.contiguous().clone() for output in outputs))

    def replay(self) -> Out:
        """As `Recording.replay`."""
        for kept, new in zip(self._outputs, self._body(), strict=True):
            kept.copy_(new)
        return self._outputs


class CudaGraphRecording(Generic[Out]):
    """Records the body's kernels as a CUDA graph, which a replay launches as a whole."""

    _WARM_UP_RUNS = 2

    def __init__(self, body: Callable[[], Out]) -> None:
        # PyTorch's notes on CUDA graphs ask for runs on a side stream first, so that library
        # handles and workspaces are not made while capturing.
        new_stream: Callable[[], torch.cuda.Stream] = torch.cuda.Stream  # torch does not type it
        side = new_stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(self._WARM_UP_RUNS):
                body()
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._outputs = body()

    def replay(self) -> Out:
        """As `Recording.replay`."""
        self._graph.replay()
        return self._outputs


class Runner(Protocol[Given, Result]):
    """Runs one phase for any batch up to the engine's largest."""

    def padded(self, size: int) -> int:
        """Batch size that a batch of `size` is padded to, 0 when it is not."""

    def prepare(self) -> None:
        """Record whatever is to be recorded, before the first request."""

    def __call__(self, inputs: Given) -> Result:
        """Run a batch; the result is valid until the next call."""


class EagerRunner(Generic[In, Out]):
    """Runs the body as it is."""

    def __init__(self, body: Callable[[In], Out]) -> None:
        self._body = body

    def padded(self, size: int) -> int:
        """As `Runner.padded`."""
        return 0

    def prepare(self) -> None:
        """Nothing to record."""

    def __call__(self, inputs: In) -> Out:
        """As `Runner.__call__`."""
        return self._body(inputs)


class BucketedRunner(Generic[In, Out]):
    """Pads batches to a few sizes and replays the recording of that size.

    Args:
        body: The phase, from inputs to outputs; the first dimension of both is the batch.
        padding: Inputs of one padding row.
        sizes: Padded batch sizes, ascending.
        record: Makes a recording of a body over static buffers.
    """

    def __init__(
        self,
        body: Callable[[In], Out],
        padding: In,
        sizes: tuple[int, ...],
        record: Callable[[Callable[[], Out]], Recording[Out]],
    ) -> None:
        self._body = body
        self._padding = padding
        self._sizes = sizes
        self._record = record
        self._buffers: dict[int, In] = {}
        self._recordings: dict[int, Recording[Out]] = {}

    def padded(self, size: int) -> int:
        """As `Runner.padded`.

        Raises:
            ValueError: The batch is larger than the largest size.
        """
        for padded in self._sizes:
            if size <= padded:
                return padded
        raise ValueError(f"a batch of {size}, and the largest recorded is {self._sizes[-1]}")

    def prepare(self) -> None:
        """Record every size over padding rows, largest first."""
        for size in reversed(self._sizes):
            repeated = (row.expand(size, *row.shape[1:]).clone() for row in self._padding)
            buffers = _like(self._padding, repeated)
            self._buffers[size] = buffers
            self._recordings[size] = self._record(partial(self._body, buffers))

    def __call__(self, inputs: In) -> Out:
        """As `Runner.__call__`.

        Raises:
            RuntimeError: `prepare` was not called.
        """
        size = inputs[0].shape[0]
        padded = self.padded(size)
        if padded not in self._recordings:
            raise RuntimeError("nothing is recorded: call prepare, or Engine.warm_up, first")
        for buffer, value, row in zip(self._buffers[padded], inputs, self._padding, strict=True):
            buffer[:size].copy_(value)
            # The last batch may have been larger, and its requests live on in their slots.
            buffer[size:].copy_(row)
        outputs = self._recordings[padded].replay()
        return _like(outputs, (output[:size] for output in outputs))


_Tensors = TypeVar("_Tensors", bound=tuple["Tensor", ...])


def _like(example: _Tensors, tensors: Iterable[Tensor]) -> _Tensors:
    """A named tuple of the example's type."""
    return type(example)(*tensors)


def batch_sizes(largest: int) -> tuple[int, ...]:
    """Powers of two up to `largest`, and `largest` itself."""
    sizes = {1 << bits for bits in range(largest.bit_length())} | {largest}
    return tuple(sorted(sizes))

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

import pytest
import torch

from nvtx_hooks.reference import graphs
from nvtx_hooks.reference.graphs import BucketedRunner, EagerRecording, EagerRunner
from tests.nvtx_hooks.reference.engines import SHAPES, engine, outputs, served, untrained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nvtx_hooks.reference.training import TrainedModels
    from nvtx_hooks.reference.tree import DraftShape

PAD = -1


class Inputs(NamedTuple):
    slots: torch.Tensor
    values: torch.Tensor


class Sums(NamedTuple):
    sums: torch.Tensor


class Body:
    """Adds values to a table by slot, and keeps the slots that each run was given."""

    def __init__(self) -> None:
        self.runs: list[list[int]] = []
        self.table = torch.zeros(8, 2)

    def __call__(self, inputs: Inputs) -> Sums:
        self.runs.append(inputs.slots.tolist())
        self.table[inputs.slots] += inputs.values
        return Sums(self.table[inputs.slots].clone())


def runner(
    body: Body, record: Callable[..., graphs.Recording[Sums]] = EagerRecording
) -> BucketedRunner[Inputs, Sums]:
    padding = Inputs(torch.tensor([PAD]), torch.zeros(1, 2))
    return BucketedRunner(body, padding, graphs.batch_sizes(6), record)


def inputs(*slots: int) -> Inputs:
    return Inputs(torch.tensor(slots), torch.tensor(slots)[:, None] * torch.tensor([1.0, 10.0]))


def test_batch_sizes_are_powers_of_two_and_the_largest() -> None:
    assert graphs.batch_sizes(1) == (1,)
    assert graphs.batch_sizes(4) == (1, 2, 4)
    assert graphs.batch_sizes(6) == (1, 2, 4, 6)


def test_a_batch_is_padded_to_the_next_size() -> None:
    body = Body()
    padded = runner(body)
    padded.prepare()
    assert body.runs == [[PAD] * 6, [PAD] * 4, [PAD] * 2, [PAD]]
    body.runs.clear()
    assert padded(inputs(3, 1, 2)).sums.tolist() == [[3, 30], [1, 10], [2, 20]]
    assert padded(inputs(5)).sums.tolist() == [[5, 50]]
    assert body.runs == [[3, 1, 2, PAD], [5]]
    assert [padded.padded(size) for size in (1, 3, 5, 6)] == [1, 4, 6, 6]
    with pytest.raises(ValueError, match="largest recorded is 6"):
        padded.padded(7)


def test_rows_of_an_earlier_batch_do_not_stay_in_the_padding() -> None:
    body = Body()
    padded = runner(body)
    padded.prepare()
    padded(inputs(1, 2, 3, 4))
    padded(inputs(1, 2, 3))
    assert body.runs[-1] == [1, 2, 3, PAD]
    assert body.table[4].tolist() == [4, 40]


def test_a_result_holds_until_the_next_replay_of_its_size() -> None:
    padded = runner(Body())
    padded.prepare()
    first = padded(inputs(1, 2)).sums
    kept = first.clone()
    padded(inputs(3))
    assert torch.equal(first, kept)
    padded(inputs(1, 2))
    assert torch.equal(first, 2 * kept)


def test_running_before_recording_is_refused() -> None:
    with pytest.raises(RuntimeError, match="prepare"):
        runner(Body())(inputs(1))


def test_the_eager_runner_neither_pads_nor_records() -> None:
    body = Body()
    eager = EagerRunner(body)
    eager.prepare()
    assert body.runs == []
    assert eager(inputs(1, 2, 3)).sums.shape == (3, 2)
    assert eager.padded(3) == 0


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("shape", [None, SHAPES["chain"], SHAPES["tree"]])
def test_padded_phases_give_what_unpadded_ones_give(
    exact: TrainedModels, shape: DraftShape | None, temperature: float
) -> None:
    settings = {"shape": shape, "temperature": temperature, "max_batch": 6}
    plain = served(exact, graphs="none", **settings)
    padded = served(exact, graphs="eager", **settings)
    assert outputs(padded) == outputs(plain)
    assert padded.calls == plain.calls
    sizes = {(step.requests, step.padded) for step in padded.steps if step.kind != "prefill"}
    assert any(requests < size for requests, size in sizes)
    assert all(size in (1, 2, 4, 6) for _, size in sizes)
    assert {step.padded for step in plain.steps} == {0}


class FakeGraph:
    """A CUDA graph whose replay runs the captured body again, into the captured outputs."""

    captured: Callable[[], tuple[torch.Tensor, ...]] | None = None

    def replay(self) -> None:
        assert self.captured is not None
        self.captured()


class FakeCuda:
    """The part of torch.cuda that a recording uses; the log tells in which order it was used."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[str] = []
        monkeypatch.setattr(torch.cuda, "CUDAGraph", FakeGraph)
        for name in ("Stream", "current_stream", "stream", "graph"):
            monkeypatch.setattr(torch.cuda, name, getattr(self, name))

    def Stream(self) -> FakeCuda:
        return self

    def current_stream(self) -> FakeCuda:
        return self

    def wait_stream(self, other: FakeCuda) -> None:
        self.log.append("wait")

    @contextlib.contextmanager
    def stream(self, stream: FakeCuda) -> Iterator[None]:
        self.log.append("side")
        yield
        self.log.append("main")

    @contextlib.contextmanager
    def graph(self, graph: FakeGraph) -> Iterator[None]:
        self.log.append("capture")
        yield
        self.log.append("captured")


def test_a_cuda_recording_warms_up_aside_then_captures_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cuda = FakeCuda(monkeypatch)
    result = torch.zeros(1)

    def body() -> Sums:
        cuda.log.append("run")
        result.add_(1)
        return Sums(result)

    recording = graphs.CudaGraphRecording(body)
    assert cuda.log == ["wait", "side", "run", "run", "main", "wait", "capture", "run", "captured"]
    recording._graph.captured = body
    assert recording.replay().sums is result
    assert result.tolist() == [4]


def test_cuda_graphs_are_recorded_for_each_phase_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch)
    models = untrained(vocab_size=6)
    engine(models, shape=SHAPES["chain"], graphs="cuda")
    assert cuda.log.count("captured") == 3 * len(graphs.batch_sizes(3))
    cuda.log.clear()
    engine(models, graphs="cuda")
    assert cuda.log.count("captured") == len(graphs.batch_sizes(3))

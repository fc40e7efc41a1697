"""The pipeline under hooks that were put on from outside, by the TOML file beside it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import nvtx_hooks
from nvtx_hooks import vocabulary
from nvtx_hooks.reference import engine as engine_module
from tests.nvtx_hooks.recorded import RecordingBackend, read
from tests.nvtx_hooks.reference.engines import SHAPES, outputs, served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nvtx_hooks.reference.training import TrainedModels
    from nvtx_hooks.reference.tree import DraftShape

HOOKS = Path(engine_module.__file__).with_name("hooks.toml")


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordingBackend]:
    monkeypatch.setenv("NVTX_HOOKS_TARGETS", str(HOOKS))
    nvtx_hooks.uninstall()
    backend = RecordingBackend()
    nvtx_hooks.install(backend)
    yield backend
    nvtx_hooks.uninstall()


@pytest.mark.parametrize("shape", [None, SHAPES["chain"], SHAPES["tree"]])
def test_hooks_report_every_call_and_every_accepted_draft(
    trained: TrainedModels, backend: RecordingBackend, shape: DraftShape | None
) -> None:
    run = served(trained, shape=shape)
    status = nvtx_hooks.status()
    assert {target.state for target in status.targets} == {"hooked"}
    assert [target.first_failure for target in status.targets if target.failures] == []
    recording = read(backend.events)
    live = [found for found in recording.ranges if "capture" not in found.inside]
    calls = Counter(found.name for found in live)
    del calls["capture"]
    assert calls == run.calls
    cycles = [step for step in run.steps if step.kind == "cycle"]
    assert [
        (mark["request"], mark["k"], mark["accepted"]) for mark in recording.marked("accept")
    ] == [
        (vocabulary.request_hash(name), step.k, accepted)
        for step in cycles
        for name, accepted in zip(step.request_ids, step.accepted, strict=True)
    ]
    assert sum(mark["tokens"] for mark in recording.marked("overshoot")) == sum(
        sum(step.overshoot) for step in cycles
    )
    rounds = [step for step in run.steps if step.kind != "prefill"]
    assert [(mark["drafted"], mark["verified"]) for mark in recording.marked("tokens")] == [
        (step.drafted, step.verified) for step in rounds
    ]
    assert [mark["tokens"] for mark in recording.marked("prompt")] == [
        step.prompt_tokens for step in run.steps if step.kind == "prefill"
    ]


def test_hooks_change_no_token_and_leave_nothing_behind(
    trained: TrainedModels, backend: RecordingBackend
) -> None:
    hooked = served(trained, shape=SHAPES["tree"], temperature=0.7)
    assert backend.events
    nvtx_hooks.uninstall()
    backend.events.clear()
    plain = served(trained, shape=SHAPES["tree"], temperature=0.7)
    assert outputs(hooked) == outputs(plain)
    assert not backend.events

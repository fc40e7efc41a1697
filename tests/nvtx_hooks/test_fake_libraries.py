"""EAGLE's reference implementation and transformers: one process, one request, shapes only."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

import pytest

import nvtx_hooks
from tests.nvtx_hooks.fakes import FAKES
from tests.nvtx_hooks.recorded import RecordingBackend, names, read

if TYPE_CHECKING:
    from collections.abc import Iterator

FOREIGN = ("torch", "eagle", "transformers")


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordingBackend]:
    assert not any(name.partition(".")[0] in FOREIGN for name in sys.modules)
    for folder in ("eagle_cb7e0841", "transformers_5_24", "fake_torch"):
        monkeypatch.syspath_prepend(str(FAKES / folder))
    made = RecordingBackend()
    nvtx_hooks.install(made)
    yield made
    assert importlib.import_module("torch").violations == []
    assert [s for s in nvtx_hooks.status().targets if s.failures] == []
    nvtx_hooks.uninstall()
    for name in [name for name in sys.modules if name.partition(".")[0] in FOREIGN]:
        del sys.modules[name]


def test_eagle(backend: RecordingBackend) -> None:
    model = importlib.import_module("eagle.model.ea_model").EaModel()
    assert model.eagenerate(20).shape == (1, 20 + 8 + 3)
    recording = read(backend.events)
    assert [r.payload for r in recording.of("cycle")] == [2, 3, 4]
    assert [r.payload for r in recording.of("prefill")] == [1]
    assert [(r.payload, r.inside) for r in recording.of("draft_prefill")] == [(1, ("prefill",))]
    assert {r.inside for r in recording.of("draft_extend")} == {("cycle", "sample")}
    assert {r.inside for r in recording.of("verify")} == {("cycle",)}
    assert recording.count("draft") == 4
    assert recording.count("draft.step") == 4 * 5
    assert {r.inside[-1] for r in recording.of("draft.step")} == {"draft"}
    assert [(m["cycle"], m["k"], m["accepted"]) for m in recording.marked("accept")] == [
        (2, 6, 2),
        (3, 6, 0),
        (4, 6, 6),
    ]
    assert recording.marked("tokens")[0] == {"cycle": 2, "drafted": 59, "verified": 60}
    assert recording.marked("prompt") == [{"cycle": 1, "requests": 1, "tokens": 20}]


@pytest.mark.parametrize("do_sample", [False, True])
@pytest.mark.parametrize(
    ("generator", "drafted"),
    [
        ("AssistedCandidateGenerator", [4, 5, 6]),
        ("EarlyExitCandidateGenerator", [4, 5, 6]),
        ("PromptLookupCandidateGenerator", [2, 2, 2]),
    ],
)
def test_transformers(
    generator: str, drafted: list[int], do_sample: bool, backend: RecordingBackend
) -> None:
    generators = importlib.import_module("transformers.generation.candidate_generator")
    mixin = importlib.import_module("transformers.generation.utils").GenerationMixin()
    ids = importlib.import_module("torch").row(10)
    candidates = getattr(generators, generator)()
    mixin._assisted_decoding(ids, candidates, [1, 0, 2], do_sample=do_sample)
    recording = read(backend.events)
    assert [(m["cycle"], m["k"], m["accepted"]) for m in recording.marked("accept")] == [
        (1, drafted[0], 1),
        (2, drafted[1], 0),
        (3, drafted[2], 2),
    ]
    assert [r.payload for r in recording.of("cycle")] == [1, 2, 3]
    assert [r.payload for r in recording.of("draft")] == [1, 2, 3]
    # The first forward carries the prompt together with the drafts.
    assert [r.payload for r in recording.of("mixed")] == [1]
    assert [r.payload for r in recording.of("verify")] == [2, 3]
    assert recording.marked("prompt") == [{"cycle": 1, "requests": 1, "tokens": 10}]
    assert recording.marked("tokens")[1] == {
        "cycle": 2,
        "drafted": drafted[1],
        "verified": drafted[1] + 1,
    }
    assert recording.count("sample") == (3 if do_sample else 0)


def test_second_generation_begins_with_a_prompt_again(backend: RecordingBackend) -> None:
    generators = importlib.import_module("transformers.generation.candidate_generator")
    mixin = importlib.import_module("transformers.generation.utils").GenerationMixin()
    ids: Any = importlib.import_module("torch").row(10)
    for _ in range(2):
        mixin._assisted_decoding(ids, generators.PromptLookupCandidateGenerator(), [1, 1])
    recording = read(backend.events)
    assert [r.payload for r in recording.of("mixed")] == [1, 3]


def test_target_that_raises_leaves_nothing_behind(backend: RecordingBackend) -> None:
    generators = importlib.import_module("transformers.generation.candidate_generator")
    mixin = importlib.import_module("transformers.generation.utils").GenerationMixin()
    ids: Any = importlib.import_module("torch").row(10)
    mixin.fails = True
    with pytest.raises(RuntimeError, match="in the target"):
        mixin._assisted_decoding(ids, generators.PromptLookupCandidateGenerator(), [1])
    mixin.fails = False
    mixin._assisted_decoding(ids, generators.PromptLookupCandidateGenerator(), [1])
    # What the failed cycle had started is closed when the next one begins.
    assert names(backend.events).startswith(
        "[cycle (draft .batch .tokens .prompt ) [mixed mixed] cycle] [cycle (draft"
    )
    assert [m["cycle"] for m in read(backend.events).marked("accept")] == [2]

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from nvtx_hooks.reference import weights
from nvtx_hooks.reference.corpus import BEGIN, END, Corpus, Vocabulary
from nvtx_hooks.reference.training import (
    TrainingSettings,
    frequent_tokens,
    run_uncached,
    train,
    unrolled_draft_logits,
)
from tests.nvtx_hooks.reference import by_hand
from tests.nvtx_hooks.reference.engines import SHAPES, served, untrained

if TYPE_CHECKING:
    from pathlib import Path

    from nvtx_hooks.reference.training import TrainedModels
    from nvtx_hooks.reference.tree import DraftShape

BRIEF = TrainingSettings(
    seed=4, target_steps=3, draft_steps=3, batch=2, length=20, hidden_size=32, layers=3
)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("shape", [SHAPES["chain"], SHAPES["tree"]])
def test_after_training_some_drafts_are_accepted_and_some_are_not(
    trained: TrainedModels, shape: DraftShape, temperature: float
) -> None:
    run = served(trained, shape=shape, temperature=temperature)
    accepted = [number for step in run.steps if step.kind == "cycle" for number in step.accepted]
    assert 1.5 < 1 + sum(accepted) / len(accepted) < shape.depth + 0.8
    assert len(set(accepted)) > 2


def test_training_lowers_both_losses(trained: TrainedModels) -> None:
    brief = train(BRIEF)
    assert trained.target_loss < brief.target_loss - 1
    assert trained.draft_loss < brief.draft_loss - 1


def test_a_seed_gives_the_same_weights_and_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(1)
    wanted = torch.rand(3)
    torch.manual_seed(1)
    first, again = train(BRIEF), train(BRIEF)
    assert torch.equal(torch.rand(3), wanted)
    for name, value in first.draft_head.state_dict().items():
        assert torch.equal(value, again.draft_head.state_dict()[name])
    assert first.target_loss == again.target_loss


def test_unrolled_training_sees_what_drafting_does() -> None:
    models = untrained(vocab_size=6)
    text = [1, 4, 2, 2, 5, 0, 3, 1]
    tokens = torch.tensor([text])
    features = run_uncached(models.target, tokens).features
    embedded = models.target.embedding(tokens)
    steps = list(unrolled_draft_logits(models.draft_head, embedded, features, steps=3))
    for step, logits in enumerate(steps):
        assert logits.shape == (1, len(text) - 1 - step, 5)
        for place in range(logits.shape[1]):
            # At place t: the text up to token t + 1, then `step` drafted tokens.
            settled, path = text[: place + 2], text[place + 2 : place + 2 + step]
            wanted = by_hand.draft_logits(models.target, models.draft_head, settled, path)
            torch.testing.assert_close(logits[0, place], wanted)


def test_the_draft_vocabulary_is_the_most_frequent_tokens() -> None:
    assert frequent_tokens([3, 3, 1, 0, 1, 3], vocab_size=5, count=3).tolist() == [0, 1, 3]
    assert frequent_tokens([], vocab_size=3, count=2).tolist() == [0, 1]


def test_rare_words_are_never_drafted(trained: TrainedModels) -> None:
    config, tokens = trained.target.config, trained.draft_head.target_tokens
    assert len(tokens) == config.draft_vocab_size < config.vocab_size
    assert sorted(set(tokens.tolist())) == tokens.tolist()


def test_packed_models_come_back_the_same(trained: TrainedModels) -> None:
    again = weights.unpack(weights.pack(trained))
    assert again.target.config == trained.target.config
    assert (again.target_loss, again.draft_loss) == (trained.target_loss, trained.draft_loss)
    for mine, theirs in ((trained.target, again.target), (trained.draft_head, again.draft_head)):
        for name, value in mine.state_dict().items():
            assert torch.equal(value, theirs.state_dict()[name])
        assert not any(parameter.requires_grad for parameter in theirs.parameters())


def test_a_cached_file_is_used_and_a_broken_one_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = weights.cache_file(BRIEF)
    assert path.is_relative_to(tmp_path)
    assert path != weights.cache_file(TrainingSettings(seed=5))
    path.parent.mkdir()
    path.write_bytes(b"not weights")
    with pytest.raises(ValueError, match="not packed models"):
        weights.unpack(path.read_bytes())
    made = weights.cached_or_trained(BRIEF)
    assert list(path.parent.iterdir()) == [path]
    monkeypatch.setattr(weights, "train", None)
    assert weights.cached_or_trained(BRIEF).target_loss == made.target_loss


def test_documents_begin_and_end_and_count_rightly() -> None:
    corpus = Corpus(seed=3)
    numbers = list(Vocabulary().words[-16:])
    openings = set()
    for _ in range(200):
        words = corpus.document()
        assert (words[0], words[-1]) == (BEGIN, END)
        assert not {BEGIN, END} & set(words[1:-1])
        openings.add(words[1])
        if words[1] == "count":
            run = words[words.index(":") + 1 : words.index("done")]
            assert (run[0], run[-1]) == (words[4], words[6])
            in_order = run if words[2] == "up" else run[::-1]
            first = numbers.index(in_order[0])
            assert in_order == numbers[first : first + len(run)]
    assert openings == {"the", "count"}


def test_words_and_tokens_translate_both_ways() -> None:
    vocabulary = Vocabulary()
    assert len(set(vocabulary.words)) == len(vocabulary.words)
    text = "the fox finds a red key . <end>"
    tokens = vocabulary.encode(text.split())
    assert vocabulary.decode(tokens) == text
    assert tokens[-1] == vocabulary.end_token
    with pytest.raises(KeyError):
        vocabulary.encode(["zebra"])


def test_a_corpus_follows_from_its_seed() -> None:
    assert Corpus(1).stream(500) == Corpus(1).stream(500) != Corpus(2).stream(500)
    assert len(Corpus(1).stream(500)) == 500
    prompts = Corpus(1).prompts(50)
    assert {len(prompt) for prompt in prompts} == set(range(4, 13))

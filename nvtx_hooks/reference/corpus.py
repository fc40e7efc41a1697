"""A toy language: short tales and counting games, generated from a seed.

It has much that can be foreseen (who the tale is about, what comes after seven) and some that
cannot (which thing is found next), so a small draft head is right often and not always.
"""

from __future__ import annotations

import random
from itertools import chain
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

END: Final = "<end>"
BEGIN: Final = "<begin>"
LONGEST_PROMPT: Final = 12
"""Tokens."""

_ANIMALS: Final = ("fox", "hare", "owl", "bear", "crow", "otter", "wolf", "mouse")
_NAMES: Final = ("ada", "bo", "cleo", "dan", "eve", "finn", "gus", "hal")
_NATURES: Final = ("old", "young", "clever", "sleepy", "brave", "quiet")
_PLACES: Final = ("river", "forest", "mill", "hill", "harbour", "garden")
_TIMES: Final = ("morning", "evening", "night", "winter", "summer")
_FINDS: Final = ("finds", "carries", "hides", "paints", "mends", "counts")
_COLOURS: Final = ("red", "blue", "green", "white", "golden")
_THINGS: Final = ("stone", "lantern", "apple", "key", "boat", "drum", "kite", "bell")
_NUMBERS: Final = (
    *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen"),
)
_CONNECTIVES: Final = (
    *("the", "a", "named", "lives", "by", "every", "and", "then", "it", "takes", "to", "back"),
    *("home", "at", "last", "sleeps", "count", "from", "up", "down", "again", "done", ".", ":"),
)
_WORDS: Final = (
    END,
    BEGIN,
    *_CONNECTIVES,
    *_ANIMALS,
    *_NAMES,
    *_NATURES,
    *_PLACES,
    *_TIMES,
    *_FINDS,
    *_COLOURS,
    *_THINGS,
    *_NUMBERS,
)


class Vocabulary:
    """Words and their tokens: a word's token is its place.

    Attributes:
        words: All of them.
    """

    def __init__(self, words: Sequence[str] = _WORDS) -> None:
        self.words = tuple(words)
        self._tokens = {word: token for token, word in enumerate(self.words)}

    @property
    def end_token(self) -> int:
        """Token of `END`."""
        return self._tokens[END]

    def encode(self, words: Iterable[str]) -> list[int]:
        """Tokens of words.

        Raises:
            KeyError: A word is not in the vocabulary.
        """
        return [self._tokens[word] for word in words]

    def decode(self, tokens: Iterable[int]) -> str:
        """Text of tokens."""
        return " ".join(self.words[token] for token in tokens)


class Corpus:
    """Documents of the toy language, one after the other for ever.

    Args:
        seed: Two corpora of one seed give the same documents.
    """

    def __init__(self, seed: int) -> None:
        self.vocabulary = Vocabulary()
        self._random = random.Random(seed)  # noqa: S311 - text, not secrets

    def document(self) -> list[str]:
        """The words of the next document, `BEGIN` and `END` included."""
        body = self._tale() if self._random.random() < 0.7 else self._counting()
        return [BEGIN, *body, END]

    def stream(self, length: int) -> list[int]:
        """Tokens of documents on end, `length` of them."""
        tokens: list[int] = []
        while len(tokens) < length:
            tokens += self.vocabulary.encode(self.document())
        return tokens[:length]

    def prompts(
        self, count: int, shortest: int = 4, longest: int = LONGEST_PROMPT
    ) -> list[tuple[int, ...]]:
        """Beginnings of documents, as tokens."""
        found = []
        for _ in range(count):
            words = self.document()
            length = min(self._random.randint(shortest, longest), len(words) - 1)
            found.append(tuple(self.vocabulary.encode(words[:length])))
        return found

    def _pick(self, words: Sequence[str]) -> str:
        return self._random.choice(words)

    def _tale(self) -> list[str]:
        pick = self._pick
        animal, name, place = pick(_ANIMALS), pick(_NAMES), pick(_PLACES)
        opening = ["the", pick(_NATURES), animal, "named", name, "lives", "by", "the", place, "."]
        days = (self._day(animal, name, place) for _ in range(self._random.randint(1, 4)))
        return [*opening, *chain.from_iterable(days), "at", "last", name, "sleeps", "."]

    def _day(self, animal: str, name: str, place: str) -> list[str]:
        pick = self._pick
        colour, thing = pick(_COLOURS), pick(_THINGS)
        found = ["every", pick(_TIMES), "the", animal, pick(_FINDS), "a", colour, thing, "."]
        way = ["home"] if self._random.random() < 0.5 else ["back", "to", "the", place]
        return [*found, "then", name, "takes", "the", colour, thing, *way, "."]

    def _counting(self) -> list[str]:
        first = self._random.randrange(len(_NUMBERS) - 2)
        last = self._random.randrange(first + 1, len(_NUMBERS))
        run = list(_NUMBERS[first : last + 1])
        way = "up"
        if self._random.random() < 0.5:
            run, way = run[::-1], "down"
        return ["count", way, "from", run[0], "to", run[-1], ":", *run, "done", "."]

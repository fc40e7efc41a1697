"""What engines say of acceptance, whole lines first, then damaged ones."""

from __future__ import annotations

import gzip
import math
from typing import TYPE_CHECKING, Final

from tests.fuzzing.hostile import JSON_VALUES, chosen, damaged
from tests.fuzzing.running import LieError
from tests.importers.acceptance.test_log import CONTENTS
from traceanalyzer.importers.acceptance.log import parse_acceptance, read_acceptance

if TYPE_CHECKING:
    import random
    from pathlib import Path

_NOISE: Final = (
    "INFO: 10.0.0.1 - GET /health 200",
    "loading weights ",
    "\x1b[31mred\x1b[0m",
    "Decode batch",
    "   ",
    "\ud83d\ude00 ok",
    "SpecDecoding metrics",
    "{",
)
_REPEATABLE: Final = ("sglang log", "vllm log", "record")
_OF_FILES_SHARE: Final = 0.2


class AcceptanceLines:
    """Draws logs; where all lines are whole, the mean is known before."""

    def __init__(self, folder: Path) -> None:
        self.label = ""
        self._path = folder / "server.log"

    def try_one(self, dice: random.Random) -> None:
        """Draw a log and read it."""
        if dice.random() < 0.3:
            self._whole(dice)
            return
        texts = [text for text, _ in CONTENTS.values()]
        if dice.random() < 0.6:
            texts = [chosen(dice, tuple(texts))] * dice.randint(1, 3)
        lines = [chosen(dice, tuple(texts)) for _ in range(dice.randint(1, 4))]
        lines.insert(dice.randint(0, len(lines)), chosen(dice, _NOISE))
        data = "\n".join(lines).encode(errors="surrogatepass")
        self.label = "values" if dice.random() < 0.5 else "damaged"
        data = _other_value(dice, data) if self.label == "values" else damaged(dice, data, 6)
        reading = self._read(dice, data)
        if not math.isfinite(reading) or reading < 0:
            raise LieError(f"an accept length of {reading}")

    def _whole(self, dice: random.Random) -> None:
        self.label = "whole lines"
        text, accept_len = CONTENTS[dice.choice(_REPEATABLE)]
        lines = [text] * dice.randint(1, 5)
        for _ in range(dice.randint(0, 4)):
            lines.insert(dice.randint(0, len(lines)), chosen(dice, _NOISE[:2]))
        found = self._read(dice, dice.choice(("\n", "\r\n")).join(lines).encode())
        if not math.isclose(found, accept_len):
            raise LieError(f"an accept length of {found}, not {accept_len}")

    def _read(self, dice: random.Random, data: bytes) -> float:
        if dice.random() >= _OF_FILES_SHARE:
            return parse_acceptance(data.decode(errors="surrogateescape")).accept_len
        if dice.random() < 0.5:
            data = gzip.compress(data, 1)
            if self.label != "whole lines":
                data = data[: dice.randint(0, len(data))]
        self._path.write_bytes(data)
        return read_acceptance(self._path).accept_len


def _other_value(dice: random.Random, data: bytes) -> bytes:
    """The data with one of its numbers replaced."""
    places = [at for at, byte in enumerate(data) if chr(byte).isdigit()]
    start = end = dice.choice(places)
    while end < len(data) and chr(data[end]) in "0123456789.":
        end += 1
    value = chosen(dice, (*JSON_VALUES, "1,5", "99%", "1_000", "0x10", "\u0664", "3.9999999"))
    return data[:start] + value.encode() + data[end:]

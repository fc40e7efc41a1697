"""Values that break readers: numbers at the borders of their types, texts that are hardly texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import random

INTEGERS: Final = (
    None,
    0,
    -1,
    1,
    (1 << 31) - 1,
    1 << 31,
    (1 << 53) + 1,
    1 << 50,
    (1 << 61) + 7,
    1 << 62,
    -(1 << 62),
    (1 << 63) - 1,
    -(1 << 63),
    59,
    34,
    1 << 24,
    "text",
    "12",
    "12 apes",
    "",
    b"\xff\xfe",
    b"12",
    1.5,
    1e300,
    float("inf"),
)
"""What may stand in a column of integers of an SQLite table."""

TEXTS: Final = (
    None,
    b"",
    b"a\0b",
    b"\0",
    b"\xff\xfe\xfd",
    b"\xed\xa0\x80",  # a lone surrogate, as CESU-8 writes it
    b"caf\xe9",
    b"\xf0\x9f",
    "\U0001f4a9\u202e".encode(),
    b"\x1b[2J\r\n",
    b"x" * 10_000,
    b"verify",
    b"draft",
    b"cycle",
    b"verify bs=99999999999999999999",
    b"{}%s${x}[red]",
)
"""What may stand in a column of texts, as bytes."""

JSON_VALUES: Final = (
    "null",
    "true",
    "0",
    "-1",
    "-0",
    "1e400",
    "-1e-400",
    "NaN",
    "-Infinity",
    "nan",
    str((1 << 63) - 1),
    str(1 << 64),
    str(-(1 << 63)),
    str((1 << 53) + 1),
    "9" * 400,
    "1.5",
    "1e18",
    "4611686018427387.904",
    '"12"',
    '"text"',
    '""',
    '"a\\u0000b"',
    '"\\ud800"',
    '"\\udc00x"',
    '"\\x"',
    '"' + "y" * 10_000 + '"',
    "[]",
    "{}",
    "[" * 2000 + "]" * 2000,
    '{"a":' * 500 + "1" + "}" * 500,
)
"""What may stand for a value of a JSON object, as text; not all of it is JSON."""

BYTES: Final = (
    b"",
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\n",
    b"\xff",
    b"\x00",
    b"\xed\xa0\x80",
    b"-",
    b"e",
    b"9" * 40,
    b"'",
    b"(",
    b"*",
    b"=",
    b"\\ud800",
    b'{"ph":"X"},',
)
"""What may be put anywhere into a file."""


def chosen(dice: random.Random, values: tuple[Any, ...]) -> Any:
    """One of the values."""
    return values[dice.randrange(len(values))]


def damaged(dice: random.Random, data: bytes, most: int = 4) -> bytes:
    """The data with a few bytes gone and others put in."""
    for _ in range(dice.randint(1, most)):
        at, removed = dice.randint(0, len(data)), dice.choice((0, 0, 1, 3, 20))
        data = data[:at] + chosen(dice, BYTES) + data[at + removed :]
    return data

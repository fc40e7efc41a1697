"""Whose machine it was: home folders and programs' folders in texts, and how they are left out.

Reports are passed on, so no output of ours may tell a person's name by a path.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

HOME: Final = "[home]"
SOMEBODY: Final = "[somebody]"
SOMEWHERE: Final = "[host]"

_NAME = r"[^\s/\\'\",;:()\[\]{}<>|]+"
_HOME_PATH: Final = re.compile(
    rf"(?<![\w.])(?:/(?:home|Users|export/home|home\d*/\w+)/{_NAME}|/root|[A-Za-z]:\\Users\\{_NAME})"
    rf"((?:[/\\]{_NAME})*)(?![\w])"
)
_SHORTEST_WORD: Final = 3
_EVERYBODY: Final = frozenset(
    {"root", "user", "users", "ubuntu", "debian", "admin", "nobody", "home", "localhost"}
)


def without_homes(text: str) -> str:
    """A text whose paths below somebody's home folder keep only their last part."""
    if "/" not in text and "\\" not in text:
        return text
    return _HOME_PATH.sub(_last_part, text)


def _last_part(found: re.Match[str]) -> str:
    parts = re.split(r"[/\\]", found.group(1))
    return f"{HOME}/{parts[-1]}" if parts[-1] else HOME


@dataclass(frozen=True, slots=True)
class People:
    """What a capture tells about who ran it where.

    Attributes:
        persons: Login names; taken out of paths and addresses.
        hosts: Names of machines; taken out wherever they stand as words.
    """

    persons: frozenset[str]
    hosts: frozenset[str]

    @classmethod
    def named(cls, persons: Iterable[str], hosts: Iterable[str]) -> People:
        """Those of the names that tell anything: generic and very short ones do not."""
        return cls(frozenset(filter(_tells, persons)), frozenset(filter(_tells, hosts)))

    def left_out_of(self, text: str) -> str:
        """The text without home folders, without these persons in paths, without these hosts."""
        text = without_homes(text)
        if self.persons:
            names = "|".join(map(re.escape, sorted(self.persons, key=len, reverse=True)))
            text = re.sub(rf"(?<=[/\\~])(?:{names})(?=[/\\]|$)|\b(?:{names})(?=@)", SOMEBODY, text)
        if self.hosts:
            names = "|".join(map(re.escape, sorted(self.hosts, key=len, reverse=True)))
            text = re.sub(rf"(?<![\w-])(?:{names})(?![\w-])", SOMEWHERE, text)
        return text


def _tells(name: str) -> bool:
    return len(name) >= _SHORTEST_WORD and name.lower() not in _EVERYBODY

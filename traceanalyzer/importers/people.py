"""Whose machine it was: home folders, persons and hosts in texts, and how they are left out.

Reports are passed on, so no output of ours may tell a person's name by a path.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.importers.secret_texts import without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable

HOME: Final = "[home]"
SOMEBODY: Final = "[somebody]"
SOMEWHERE: Final = "[host]"

_NAME = r"[^\s/\\'\",;:()\[\]{}<>|]+"
# Home folders are mounted anywhere, but a server's routes (/v1/users/7) are none.
_MOUNT = rf"(?!v\d|api/|app/|rest/)(?:{_NAME}/){{1,8}}?"
_HOME_PATH: Final = re.compile(
    rf"(?:(?<![\w.~\]])|(?<=[/@]\[host\]))(?:/(?:{_MOUNT})?(?:homes?|[Uu]sers|home\d*/\w+)/{_NAME}"
    rf"|/root|[A-Za-z]:\\Users\\{_NAME})((?:[/\\]{_NAME})*)(?![\w])"
)
_HOME_OF: Final = re.compile(r"(?<![\w/\\~:.)\]])~[A-Za-z_][\w.-]*(?=[/\\])")
_DOMAIN: Final = r"(?:\.[A-Za-z][\w-]*)*"
_SHORTEST_WORD: Final = 3
_EVERYBODY: Final = frozenset(
    {"root", "user", "users", "ubuntu", "debian", "admin", "nobody", "home", "localhost"}
)


def impersonal(text: str) -> str:
    """A text without what tells of a person by its form alone.

    Secrets are replaced, and paths below somebody's home folder keep only their last part.
    """
    return _without_homes(without_secrets(text))


def _without_homes(text: str) -> str:
    if "/" not in text and "\\" not in text:
        return text
    return _HOME_OF.sub(f"~{SOMEBODY}", _HOME_PATH.sub(_last_part, text))


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
        """The impersonal text, without these persons in paths, these hosts and their domains."""
        text = without_secrets(text)
        if self.hosts:  # first: what stands behind a host's name may be a home folder
            names = "|".join(map(re.escape, sorted(self.hosts, key=len, reverse=True)))
            text = re.sub(rf"(?<![\w-])(?:{names})(?![\w-]){_DOMAIN}", SOMEWHERE, text)
        text = _without_homes(text)
        if self.persons:
            names = "|".join(map(re.escape, sorted(self.persons, key=len, reverse=True)))
            text = re.sub(rf"(?<=[/\\~])(?:{names})(?=[/\\]|$)|\b(?:{names})(?=@)", SOMEBODY, text)
        return text


def _tells(name: str) -> bool:
    return len(name) >= _SHORTEST_WORD and name.lower() not in _EVERYBODY

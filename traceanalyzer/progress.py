"""How long work tells a person where it stands, without knowing who listens."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Told about each stage of long work as it goes."""

    def __call__(self, stage: str, done_share: float | None) -> None:
        """Report that `stage` (a short noun phrase) is `done_share` complete, None when unknown."""


def silent(stage: str, done_share: float | None) -> None:
    """Tell nobody."""

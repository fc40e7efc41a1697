"""The rank a process, thread or file says it is, read from its name."""

from __future__ import annotations

import re

# torchrun's files say "rank3"; SGLang titles its workers "scheduler_TP3" and vLLM "Worker_TP3".
# "rank" goes first: in "llama_tp8_rank3" the 8 is the size of the group.
_PATTERNS = (
    re.compile(r"(?<![a-z])rank[ _=-]?(\d{1,5})(?!\d)", re.IGNORECASE),
    re.compile(r"(?<![a-z])tp[ _=-]?(\d{1,5})(?!\d)", re.IGNORECASE),
)


def rank_in(text: str | None) -> int | None:
    """The rank named in a text.

    Args:
        text: A process title, thread name or file name.

    Returns:
        The number after "rank", else after "TP", or None.
    """
    for pattern in _PATTERNS:
        found = pattern.search(text) if text else None
        if found:
            return int(found.group(1))
    return None

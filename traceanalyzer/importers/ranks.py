"""The rank a process, thread or file says it is, read from its name."""

from __future__ import annotations

import re

# SGLang titles its workers "sglang::scheduler_TP3", vLLM "VLLM::Worker_TP3", torchrun files
# "rank3" or "rank-3"; a DP or PP number in the same text is not the tensor-parallel rank.
_RANK = re.compile(r"(?<![a-z])(?:tp|rank)[ _=-]?(\d{1,5})(?!\d)", re.IGNORECASE)


def rank_in(text: str | None) -> int | None:
    """The rank named in a text.

    Args:
        text: A process title, thread name or file name.

    Returns:
        The number after "TP" or "rank", or None.
    """
    found = _RANK.search(text) if text else None
    return int(found.group(1)) if found else None

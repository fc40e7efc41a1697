"""What the fake engines simulate: how many drafts are accepted, and their own account of it."""

from __future__ import annotations

import json
import os
from binascii import crc32
from pathlib import Path


def accepted_drafts(request_id, step, k):
    """Drafts of one request that one verification accepts: 0 to k, the same in every process."""
    return crc32(f"{request_id}:{step}".encode()) % (k + 1)


def note(kind, **facts):
    """Add a line to this process's own account."""
    path = Path(os.environ["FAKE_ENGINE_RECORD"], f"truth.{os.getpid()}.jsonl")
    with path.open("a") as file:
        file.write(json.dumps({"kind": kind, **facts}) + "\n")

"""Trained models as bytes, for other processes and, when asked, for the next run.

A file in the cache is named after all that went into the training, so a stale one is never read.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Final

import torch

from nvtx_hooks.reference.config import ModelConfig
from nvtx_hooks.reference.draft_head import DraftHead
from nvtx_hooks.reference.model import TargetModel
from nvtx_hooks.reference.training import TrainedModels, TrainingSettings, train

_FORMAT: Final = 1


def pack(models: TrainedModels) -> bytes:
    """The models as bytes that `unpack` reads."""
    held = {
        "config": asdict(models.target.config),
        "target": models.target.state_dict(),
        "draft_head": models.draft_head.state_dict(),
        "target_loss": models.target_loss,
        "draft_loss": models.draft_loss,
    }
    buffer = io.BytesIO()
    torch.save(held, buffer)
    return buffer.getvalue()


def unpack(packed: bytes) -> TrainedModels:
    """The models that `pack` was given, on the CPU.

    Raises:
        ValueError: Not such bytes.
    """
    try:
        held = torch.load(io.BytesIO(packed), map_location="cpu", weights_only=True)
        config = ModelConfig(**held["config"])
        target = TargetModel(config)
        draft_head = DraftHead(config, held["draft_head"]["target_tokens"])
        target.load_state_dict(held["target"])
        draft_head.load_state_dict(held["draft_head"])
        losses = (held["target_loss"], held["draft_loss"])
    except Exception as error:  # torch.load and load_state_dict raise many kinds
        raise ValueError(f"not packed models: {error}") from error
    target.requires_grad_(requires_grad=False)
    draft_head.requires_grad_(requires_grad=False)
    return TrainedModels(target, draft_head, *losses)


def cache_file(settings: TrainingSettings) -> Path:
    """Where models of these settings are cached: under XDG_CACHE_HOME or ~/.cache."""
    folder = os.environ.get("XDG_CACHE_HOME")
    cache = Path(folder) if folder else Path.home() / ".cache"
    made_of = f"{_FORMAT} {torch.__version__} {settings}"
    digest = hashlib.sha256(made_of.encode()).hexdigest()[:16]
    return cache / "nvtx_hooks" / f"reference-{digest}.pt"


def cached_or_trained(settings: TrainingSettings) -> TrainedModels:
    """Models from the cache, or newly trained ones which are then put there.

    Raises:
        OSError: The cache cannot be written.
    """
    path = cache_file(settings)
    try:
        return unpack(path.read_bytes())
    except (OSError, ValueError):
        models = train(settings)
        _write(path, pack(models))
        return models


def _write(path: Path, content: bytes) -> None:
    """Write a whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as unfinished:
        unfinished.write(content)
    Path(unfinished.name).replace(path)

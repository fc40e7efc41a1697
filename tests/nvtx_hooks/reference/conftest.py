from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nvtx_hooks.reference.training import TrainedModels

if find_spec("torch") is None:
    # `test_package.py` needs none, and says there that the others are missing.
    collect_ignore_glob = ["test_[!p]*.py"]

TRAINING = {"training-steps": 45, "hidden-size": 64, "layers": 3}
"""Of `trained`, as options of the command line."""


@pytest.fixture(autouse=True)
def real_engines_hidden() -> None:
    """Nothing: these tests are of the real PyTorch."""


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Bitwise the same sums on any machine, and no contention between test processes."""
    if find_spec("torch") is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def weights_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for XDG_CACHE_HOME in which `trained` is already cached."""
    return tmp_path_factory.mktemp("weights")


@pytest.fixture(scope="session")
def trained(weights_cache: Path) -> TrainedModels:
    """Small models after a little training: what the command line takes from the cache for
    `TRAINING`.
    """
    from nvtx_hooks.reference.training import TrainingSettings
    from nvtx_hooks.reference.weights import cached_or_trained

    steps, hidden_size, layers = TRAINING.values()
    settings = TrainingSettings(
        target_steps=steps, draft_steps=steps, hidden_size=hidden_size, layers=layers
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(weights_cache))
        return cached_or_trained(settings)


@pytest.fixture(scope="session")
def exact(trained: TrainedModels) -> TrainedModels:
    """The same in float64, where no tie depends on how many tokens a forward holds."""
    import copy
    from dataclasses import replace

    return replace(
        trained,
        target=copy.deepcopy(trained.target).double(),
        draft_head=copy.deepcopy(trained.draft_head).double(),
    )

"""The simulated traces of the sample folder: each one a command line, so each can be made again."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Sample:
    """One trace of the folder.

    Attributes:
        options: Those of `python -m traceanalyzer.simulation`.
        most_bytes: Size it must not exceed, all its files together.
    """

    name: str
    options: str
    most_bytes: int = 300_000

    @property
    def command(self) -> str:
        """The command that writes it, run in the sample folder."""
        return f"python -m traceanalyzer.simulation {self.name} {self.options}"

    def arguments(self, folder: Path) -> list[str]:
        """Arguments that write it into a folder, over what is there."""
        return [str(folder / self.name), *shlex.split(self.options), "--force"]


_TOY: Final = (
    Sample("eagle3_tp2_nodes.sqlite", "--preset small"),
    Sample(
        "eagle3_tp2_graphs.sqlite",
        "--preset small --graph-mode graph --cycles 24 --set decode_every=5 "
        "--set batch_sizes=1,2 --set capture_recorded=false",
    ),
    Sample(
        "eagle3_eager_parquetdir",
        "--preset small --ranks 1 --graph-mode eager --format parquetdir --set domain=none "
        "--set registered=false --set marks=false",
    ),
    Sample("eagle3_host_only.sqlite", "--preset small --set gpu_rows=false"),
    Sample("eagle3_torch.json.gz", "--preset small --ranks 1 --format kineto"),
)
_SEED: Final = (
    Sample("seed_case.sqlite", "--preset seed --truth-totals", 5_000_000),
    *(
        Sample(
            f"seed_{name}_parquetdir",
            f"--preset seed-{name} --format parquetdir --truth-totals",
            1_000_000,
        )
        for name in ("baseline", "synchronised")
    ),
    *(
        Sample(
            f"seed_{name}k{draft_tokens:02}_parquetdir",
            f"--preset {preset} --set draft_tokens={draft_tokens} --format parquetdir "
            "--truth-totals",
        )
        for name, preset in (("", "seed-sweep"), ("linear_", "seed-sweep-linear"))
        for draft_tokens in (1, 2, 3, 5, 10)
    ),
)
SAMPLES: Final = (*_TOY, *_SEED)

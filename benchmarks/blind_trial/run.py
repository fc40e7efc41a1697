"""The blind trial: worlds that the analysis never sees, and how often its numbers hold the truth.

    python benchmarks/blind_trial/run.py --worlds 500 --seed 1 -o benchmarks/results/blind_trial.md

Finished worlds are kept as JSON lines beside the table or where --kept says, and not tried again.
All worlds are simulated.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from records import TriedWorld
from table import table_of
from trial import tried

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_HERE = Path(__file__).resolve().parent


def main(arguments: Sequence[str]) -> int:
    """Try the worlds that are not kept yet, then write the table of all that were asked for."""
    options = _options(arguments)
    kept: Path = options.kept or options.output.with_suffix(".jsonl")
    seeds = range(options.seed, options.seed + options.worlds)
    done = {each.seed: each for each in kept_worlds(kept)}
    left = [seed for seed in seeds if seed not in done]
    with kept.open("ab") as file:
        for found in _tried(left, options.jobs):
            file.write(msgspec.json.encode(found) + b"\n")
            file.flush()
            done[found.seed] = found
    options.output.write_text(table_of([done[seed] for seed in seeds if seed in done]))
    return 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--worlds", type=int, default=500, help="How many.")
    parser.add_argument("--seed", type=int, default=1, help="Of the first; the others follow.")
    parser.add_argument("--jobs", type=int, default=1, help="Processes at a time.")
    parser.add_argument("--kept", type=Path, help="JSON lines of finished worlds.")
    parser.add_argument("-o", "--output", type=Path, required=True, help="The table (Markdown).")
    return parser.parse_args(arguments)


def kept_worlds(path: Path) -> Iterator[TriedWorld]:
    """Finished worlds; a last line that was cut is left out."""
    if not path.exists():
        return
    for line in path.read_bytes().splitlines():
        try:
            yield msgspec.json.decode(line, type=TriedWorld)
        except msgspec.DecodeError:
            continue


def _tried(seeds: Sequence[int], jobs: int) -> Iterable[TriedWorld]:
    commit = _commit()
    if jobs == 1:
        yield from (tried(seed, commit) for seed in seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        waiting = [pool.submit(tried, seed, commit) for seed in seeds]
        yield from (each.result() for each in as_completed(waiting))


def _commit() -> str:
    command = ["git", "-C", str(_HERE), "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

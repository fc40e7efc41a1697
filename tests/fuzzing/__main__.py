"""`python -m tests.fuzzing --seconds N --seed S [--kind K]`: try drawn inputs, print what came.

Ends with 1 when there was a crash, a hang or a lie; the case is printed so that
`--first NUMBER --cases 1` draws it again.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzzing.kinds import KINDS
from tests.fuzzing.running import RESULTS, Tally, run_case


def main() -> int:
    """Run, print one line a kind, and each defect as it comes."""
    options = _options()
    names = [options.kind] if options.kind else list(KINDS)
    tallies = {}
    with tempfile.TemporaryDirectory(prefix="traceanalyzer-fuzzing-", dir=options.folder) as folder:
        for name in names:
            tallies[name] = _run(name, Path(folder), options, options.seconds / len(names))
            counts = {result: tallies[name].results[result] for result in RESULTS}
            print(json.dumps({"kind": name, "seed": options.seed, **counts}), flush=True)
    return int(any(tally.defects for tally in tallies.values()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=list(KINDS))
    parser.add_argument("--cases", type=int, default=sys.maxsize, help="at most so many a kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--folder", type=Path, help="where to write the inputs")
    return parser.parse_args()


def _run(name: str, folder: Path, options: argparse.Namespace, seconds: float) -> Tally:
    own = folder / name
    own.mkdir()
    kind, tally, seen = KINDS[name](own), Tally(), set()
    deadline = time.monotonic() + seconds
    number = options.first
    while number < options.first + options.cases and time.monotonic() < deadline:
        result, defect = run_case(kind, name, options.seed, number)
        tally.results[result] += 1
        number += 1
        if defect is None:
            continue
        tally.defects.append(defect)
        where = defect.seen[-300:]
        if where not in seen:
            seen.add(where)
            print(defect, file=sys.stderr, flush=True)
    return tally


if __name__ == "__main__":
    sys.exit(main())

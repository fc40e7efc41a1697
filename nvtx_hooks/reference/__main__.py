"""`python -m nvtx_hooks.reference`: train, serve, and say what was counted."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nvtx_hooks.reference.replicas import ReplicaJob
    from nvtx_hooks.reference.training import TrainedModels
    from nvtx_hooks.reference.tree import DraftShape

_EXIT_FAILED = 1
_EXIT_USAGE = 2
_EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if find_spec("torch") is None:
        print('PyTorch is needed: pip install "traceanalyzer[torch]"', file=sys.stderr)
        return _EXIT_USAGE
    from nvtx_hooks.reference.replicas import ReplicaFailed

    try:
        return _run(parser, options)
    except ReplicaFailed as error:
        print(error, file=sys.stderr)
        return _EXIT_FAILED
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m nvtx_hooks.reference",
        description="Serve a toy language with a small, real EAGLE-3 pipeline; print its counts.",
    )
    add = parser.add_argument
    add("--requests", type=_positive, default=16, help="requests to serve (default: 16)")
    add("--batch", type=_positive, default=4, help="requests that run at once (default: 4)")
    add("--draft-tokens", type=_positive, default=5, help="drafted tokens a request (default: 5)")
    add("--tree", action="store_true", help="draft a tree of that many nodes, not a chain")
    add("--depth", type=_positive, help="depth of the tree (default: 4, or fewer nodes)")
    add("--branches", type=_positive, default=3, help="branches of the tree (default: 3)")
    add("--no-speculation", action="store_true", help="decode plainly: the baseline")
    add("--temperature", type=_temperature, default=0.0, help="0 is greedy (default: 0)")
    add("--max-tokens", type=_positive, default=48, help="longest output (default: 48)")
    add("--device", choices=("cpu", "cuda"), default="cpu", help="where to serve (default: cpu)")
    add(
        "--graphs",
        choices=("none", "eager", "cuda"),
        help="run phases as they are, from static buffers, or as CUDA graphs "
        "(default: cuda on CUDA, else none)",
    )
    add("--workers", type=_positive, default=1, help="data-parallel processes (default: 1)")
    add("--seed", type=_natural, default=0, help="of weights, requests and draws (default: 0)")
    add("--training-steps", type=_positive, help="of each model (default: 160 and 80)")
    add("--layers", type=_positive, default=4, help="of the target, 3 or more (default: 4)")
    add("--hidden-size", type=_positive, default=64, help="a multiple of 32 (default: 64)")
    add("--cache", action="store_true", help="keep trained weights in the user's cache folder")
    add("--json", type=Path, metavar="FILE", help="write all counts to FILE")
    return parser


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"not a whole number above 0: {text}")
    return int(text)


def _natural(text: str) -> int:
    return int(text) if text == "0" else _positive(text)


def _temperature(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"not a number from 0: {text}")
    return value


def _run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    from nvtx_hooks.reference import replicas, serving

    shape = _shape(parser, options)
    _check(parser, options)
    job = _job(options, _models(parser, options), shape)
    records = replicas.run_replicas(job)
    asked = {name: value for name, value in vars(options).items() if name != "json"}
    report = serving.report(records, job.settings.k, asked)
    print(_text(report))
    if options.json:
        try:
            options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            parser.error(f"cannot write {options.json}: {error.strerror}")
    return 0


def _shape(parser: argparse.ArgumentParser, options: argparse.Namespace) -> DraftShape | None:
    from nvtx_hooks.reference.tree import DraftShape

    if options.no_speculation:
        return None
    nodes = options.draft_tokens
    try:
        if not options.tree:
            return DraftShape(nodes)
        return DraftShape(options.depth or min(nodes, 4), options.branches, nodes)
    except ValueError as error:
        parser.error(str(error))


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse, before any work, what cannot end well."""
    import torch

    if "cuda" in (options.device, options.graphs) and not torch.cuda.is_available():
        parser.error("PyTorch finds no CUDA device here")
    if options.graphs == "cuda" and options.device != "cuda":
        parser.error("--graphs cuda needs --device cuda")
    if options.layers < 3 or options.hidden_size % 32:
        parser.error("--layers has to be 3 or more, and --hidden-size a multiple of 32")
    if options.json and (options.json.is_dir() or not options.json.parent.is_dir()):
        parser.error(f"cannot write {options.json}: not a file in a folder that exists")


def _models(parser: argparse.ArgumentParser, options: argparse.Namespace) -> TrainedModels:
    import torch

    from nvtx_hooks.reference.training import TrainingSettings, train
    from nvtx_hooks.reference.weights import cached_or_trained

    # More threads gain little on matrices this small, and one makes the same weights anywhere.
    torch.set_num_threads(1)
    settings = TrainingSettings(
        options.seed, hidden_size=options.hidden_size, layers=options.layers
    )
    if options.training_steps:
        steps = options.training_steps
        settings = replace(settings, target_steps=steps, draft_steps=steps)
    if not options.cache:
        return train(settings)
    try:
        return cached_or_trained(settings)
    except OSError as error:
        parser.error(f"cannot write to the cache: {error}")


def _job(
    options: argparse.Namespace, models: TrainedModels, shape: DraftShape | None
) -> ReplicaJob:
    from nvtx_hooks.reference import weights
    from nvtx_hooks.reference.config import EngineSettings
    from nvtx_hooks.reference.corpus import LONGEST_PROMPT, Vocabulary
    from nvtx_hooks.reference.replicas import ReplicaJob
    from nvtx_hooks.reference.serving import WorkloadSettings

    settings = EngineSettings(
        eos_token=Vocabulary().end_token,
        shape=shape,
        temperature=options.temperature,
        max_batch=options.batch,
        context=LONGEST_PROMPT + options.max_tokens,
        graphs=options.graphs or ("cuda" if options.device == "cuda" else "none"),
        dp_size=options.workers,
    )
    load = WorkloadSettings(
        options.requests,
        options.max_tokens,
        at_once=options.batch * options.workers,
        seed=options.seed,
    )
    return ReplicaJob(weights.pack(models), settings, load, options.device)


def _text(report: dict[str, Any]) -> str:
    """The report for a reader."""
    return "\n".join((*_request_lines(report), "", *_total_lines(report["totals"])))


def _request_lines(report: dict[str, Any]) -> list[str]:
    """One line a request: how many of its cycles accepted 0, 1, ... drafts."""
    lines = ["request         tokens  end     cycles  cycles by accepted drafts (0, 1, ...)"]
    lines += [
        f"{request['id']:<15} {len(request['tokens']):>6}  {request['finish_reason']:<6}  "
        f"{len(request['accepted']):>6}  {' '.join(map(str, request['accepted_histogram']))}"
        for replica in report["replicas"]
        for request in replica["requests"]
    ]
    return lines


def _total_lines(totals: dict[str, Any]) -> list[str]:
    length = totals["accept_len"]
    rounds = totals["cycles"] + totals["decodes"]
    mean_batch = totals["request_cycles"] / rounds if rounds else 0.0
    return [
        f"steps       {totals['prefills']} prefills, {totals['cycles']} cycles with drafts, "
        f"{totals['decodes']} without; {mean_batch:.2f} requests a cycle",
        f"drafts      {totals['drafted']} drafted, {totals['accepted']} accepted, "
        f"{totals['rejected']} rejected; {totals['verified']} tokens verified",
        f"committed   {totals['committed']} = {totals['accepted']} accepted + "
        f"{totals['request_cycles']} bonus - {totals['overshoot']} overshoot, "
        f"and {totals['first_tokens']} by prefills",
        f"accept_len  {'-' if length is None else format(length, '.3f')} (bonus included); "
        f"cycles by accepted drafts: {' '.join(map(str, totals['accepted_histogram']))}",
        f"speed       {totals['tokens_per_second']:.0f} tokens/s",
    ]


if __name__ == "__main__":
    sys.exit(main())

"""Which engines are run, and how: each case is one engine, version and way of working."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
STANDINS = HERE / "standins"

_CPU = {
    "OMP_NUM_THREADS": "1",  # OpenMP's threads spin, which costs 30 times as much on two cores
    "MKL_NUM_THREADS": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "PYTHONWARNINGS": "ignore",
}


@dataclass(frozen=True)
class Setting:
    """A virtual environment for some of the cases.

    Attributes:
        name: Its folder.
        packages: What is installed without dependencies besides `requirements/<name>.txt`.
        resolve: Whether pip may install what the requirements depend on.
        drop: What is taken out again.
        startup: Lines of the start-up file that put the stand-ins in.
        versions: Versions of SGLang, each in a folder of its own; empty: in the environment.
    """

    name: str
    packages: tuple[str, ...] = ()
    resolve: bool = True
    drop: tuple[str, ...] = ()
    startup: str = ""
    versions: tuple[str, ...] = ()


SETTINGS = {
    setting.name: setting
    for setting in (
        # The CPU build of torch does not match these, and vLLM runs without them.
        Setting("vllm", drop=("torchvision", "torchaudio", "torchcodec")),
        Setting(
            "sglang_v2",
            packages=("sglang==0.5.23", "torchvision==0.28.0"),
            startup="import cpu_torchvision",
        ),
        Setting(
            "sglang_v1",
            resolve=False,
            startup="import cpu_patches",
            versions=("0.5.9", "0.5.6.post2", "0.4.9.post6"),
        ),
    )
}


@dataclass(frozen=True)
class Case:
    """One run of one engine.

    Attributes:
        name: As it is asked for on the command line.
        engine: "vllm" or "sglang".
        version: The engine's version.
        setting: Name of its `Setting`.
        options: What `drive_sglang.py` is given.
        variables: Environment variables of the run.
        ranks: Processes in the tensor-parallel group.
        worker: 1 for SGLang's EAGLEWorker, which extends no draft in the cycle that ends the last
            request, and whose log leaves out tokens past a request's end; 2 for EAGLEWorkerV2.
        log_has_prefill: Whether the log's first line counts a prefill as a verification as well,
            of one token a request.
    """

    name: str
    engine: str
    version: str
    setting: str
    options: dict = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    ranks: int = 1
    worker: int = 2
    log_has_prefill: bool = False

    def command(self, python: Path, figures: Path, models: Path) -> list[str]:
        """The command that drives the engine."""
        program = PROGRAMS / f"drive_{self.engine}.py"
        options = [json.dumps(self.options)] if self.options else []
        return [str(python), str(program), str(figures), str(models), *options]


def _v2(name: str, *, overlap: bool, tree: bool = False, ranks: int = 1) -> Case:
    return Case(
        f"sglang-0.5.23-{name}",
        "sglang",
        "0.5.23",
        "sglang_v2",
        {
            "prompts": [[(3 + 11 * i + 7 * j) % 512 for j in range(4 + 3 * i)] for i in range(4)],
            "new_tokens": 48,
            "algorithm": "EAGLE3",
            "draft": "draft",
            "engine": {
                "disable_overlap_schedule": not overlap,
                "max_running_requests": 4,
                "mem_fraction_static": 0.3,
                "tp_size": ranks,
                "speculative_num_steps": 3,
                "speculative_eagle_topk": 4 if tree else 1,
                "speculative_num_draft_tokens": 8 if tree else 4,
            },
        },
        {
            **_CPU,
            "SGLANG_USE_CPU_ENGINE": "1",
            **({"SGL_CHECK_OVERLAP": "1"} if overlap else {}),
            **({"SGLANG_CPU_OMP_THREADS_BIND": "0|1"} if ranks == 2 else {}),
        },
        ranks,
    )


def _v1(version: str) -> Case:
    return Case(
        f"sglang-{version}",
        "sglang",
        version,
        "sglang_v1",
        {
            "prompts": [[3 + (7 * i + 11 * j) % 500 for j in range(5 + 3 * i)] for i in range(3)],
            "new_tokens": 40,
            "algorithm": "EAGLE3",
            "draft": "draft",
            "engine": {
                "attention_backend": "triton",
                "max_running_requests": 8,
                "disable_cuda_graph": True,
                "mem_fraction_static": 0.5,
                "context_length": 512,
                "skip_server_warmup": True,
                "speculative_num_steps": 3,
                "speculative_eagle_topk": 2,
                "speculative_num_draft_tokens": 6,
            },
        },
        {**_CPU, "TRITON_INTERPRET": "1"},
        worker=1,
        log_has_prefill=version.startswith("0.4."),
    )


CASES = {
    case.name: case
    for case in (
        Case(
            "vllm-0.32.0",
            "vllm",
            "0.32.0",
            "vllm",
            variables={
                "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # nsys loses what forked workers record
                "VLLM_CPU_KVCACHE_SPACE": "1",
                "VLLM_CPU_OMP_THREADS_BIND": "nobind",
                "HF_HUB_OFFLINE": "1",
            },
        ),
        _v2("overlap", overlap=True),
        *(_v1(version) for version in SETTINGS["sglang_v1"].versions),
        _v2("plain", overlap=False),
        _v2("overlap-tree", overlap=True, tree=True),
        _v2("plain-tree", overlap=False, tree=True),
        _v2("overlap-tp2", overlap=True, ranks=2),
    )
}

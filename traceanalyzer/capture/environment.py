"""The environment a recorded program gets: nsys stores all of it in the report.

What a server needs to run is passed on; what may be a secret is not, unless it is asked for.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_NEEDED = re.compile(
    r"PATH|HOME|SHELL|TMPDIR|LANG|LC_.*|TZ|TERM|LD_LIBRARY_PATH|VIRTUAL_ENV|PYTHON.*|CUDA.*|NV.*|"
    r"NCCL_.*|TORCH.*|PYTORCH_.*|TRITON_.*|SGLANG_.*|SGL_.*|VLLM_.*|TRTLLM_.*|TLLM_.*|HF_HOME|"
    r"HF_HUB_(?:CACHE|OFFLINE)|TRANSFORMERS_(?:CACHE|OFFLINE)|XDG_CACHE_HOME|OMP_.*|MKL_.*|GLOO_.*|"
    r"RANK|LOCAL_RANK|WORLD_SIZE|MASTER_.*|SLURM_(?:PROCID|LOCALID|NTASKS|NODEID)|OMPI_COMM_.*|"
    r"NVTX_HOOKS.*|EAGLE3_PROFILE|TRACEANALYZER_.*"
)
_SECRET = re.compile(r"TOKEN|SECRET|PASS|CREDENTIAL|AUTH|API_?KEY|_KEY$|COOKIE", re.IGNORECASE)


def filtered_environment(
    environment: Mapping[str, str], keep: Collection[str] = ()
) -> dict[str, str]:
    """What is passed to the recorded program.

    Args:
        environment: All variables.
        keep: Names to pass on whatever they are.
    """
    return {
        name: value
        for name, value in environment.items()
        if name in keep or (_NEEDED.fullmatch(name) and not looks_secret(name))
    }


def looks_secret(name: str) -> bool:
    """Whether a variable's name tells of something that should not be in a report."""
    return bool(_SECRET.search(name))

from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum


class CUDAGraphMode(Enum):
    NONE = 0
    PIECEWISE = 1
    FULL = 2


@dataclass(frozen=True)
class BatchDescriptor:
    num_tokens: int
    uniform: bool = False


@contextmanager
def set_forward_context(
    attn_metadata,
    vllm_config,
    virtual_engine=0,
    num_tokens=None,
    num_tokens_across_dp=None,
    cudagraph_runtime_mode=CUDAGraphMode.NONE,
    batch_descriptor=None,
    ubatch_slices=None,
):
    yield

"""Import-only stand-in for vLLM, from which SGLang takes layers on a device it does not know.

The names resolve to SGLang's own classes, which are there when it imports these.
"""

import sys

import absent

_OWN = {
    "vllm.model_executor.layers.activation": "sglang.srt.layers.activation",
    "vllm.model_executor.layers.layernorm": "sglang.srt.layers.layernorm",
}
_GUARDED = (  # SGLang imports these in a `try`
    "vllm._C",
    "vllm.distributed",
    "vllm.logger",
    "vllm.config",
    "vllm.model_executor.layers.quantization",
)


def _getter(module):
    other = absent.absent_in(module)

    def getter(name):
        own = sys.modules.get(_OWN.get(module))
        return getattr(own, name) if hasattr(own, name) else other(name)

    return getter


absent.Submodules(__name__, _getter, _GUARDED)

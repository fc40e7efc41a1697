"""A SGLang plugin that gives EAGLE on a CPU the backend and the event loop that a GPU has."""

import os

from sglang.srt.plugins.hook_registry import HookRegistry, HookType
from sglang.srt.runtime_context import override_platform


def setup():
    """Called by SGLang in its main process and in every one it starts."""
    # Only this backend drafts in several steps on a CPU; the layers look at the processor itself.
    override_platform(has_amx=True).install()
    if os.environ.get("SGL_CHECK_OVERLAP") == "1":
        HookRegistry.register(
            "sglang.srt.arg_groups.speculative_hook._disable_overlap_schedule_for_cpu",
            lambda server_args: None,
            HookType.REPLACE,
        )
        HookRegistry.register(  # a Triton kernel
            "sglang.kernels.ops.speculative.gather_spec_extras.gather_spec_extras",
            lambda rows, probabilities, indices, tokens, hidden: (
                probabilities[rows],
                indices[rows],
                tokens[rows],
                None if hidden is None else hidden[rows],
            ),
            HookType.REPLACE,
        )

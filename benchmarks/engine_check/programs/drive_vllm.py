"""vLLM doing EAGLE-3 on a CPU: writes its own counters as JSON, then waits to be ended.

usage: PROGRAM FIGURES MODELS
"""

import json
import sys
import time
from pathlib import Path

from vllm import LLM, SamplingParams
from vllm.inputs import TokensPrompt

PROMPT, REQUESTS, NEW_TOKENS, DRAFT_TOKENS = [5, 6, 7, 8, 9] * 4, 4, 60, 3


def main(figures, models):
    """Generate, and tell what the engine counted."""
    engine = LLM(
        model=str(models / "target"),
        load_format="dummy",
        skip_tokenizer_init=True,
        max_model_len=256,
        enforce_eager=True,
        dtype="bfloat16",
        speculative_config={
            "method": "eagle3",
            "model": str(models / "draft"),
            "num_speculative_tokens": DRAFT_TOKENS,
        },
        disable_log_stats=False,
    )
    outputs = engine.generate(
        [TokensPrompt(prompt_token_ids=PROMPT) for _ in range(REQUESTS)],
        SamplingParams(max_tokens=NEW_TOKENS, temperature=0, ignore_eos=True, detokenize=False),
    )
    told = {}
    for metric in engine.get_metrics():
        for attribute in ("value", "values", "count"):
            if hasattr(metric, attribute):
                told[metric.name] = getattr(metric, attribute)
    generated = [len(output.outputs[0].token_ids) for output in outputs]
    part = figures.with_suffix(".part")
    part.write_text(json.dumps({"generated": generated, "metrics": told}))
    part.replace(figures)
    time.sleep(600)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

"""SGLang doing EAGLE-3 on a CPU: writes what it says of each request as JSON, then waits.

usage: PROGRAM FIGURES MODELS OPTIONS, with `prompts` (token ids), `new_tokens`, `algorithm`,
`draft` and the engine's own arguments under `engine` in OPTIONS (JSON).
"""

import asyncio
import json
import sys
import time
from pathlib import Path

import sglang


def main(figures, models, options):
    """Generate, and tell what the engine counted for each request."""
    engine = sglang.Engine(
        model_path=str(models / "target"),
        speculative_algorithm=options["algorithm"],
        speculative_draft_model_path=str(models / options["draft"]),
        device="cpu",
        skip_tokenizer_init=True,
        dtype="float32",
        max_total_tokens=4096,
        log_level="info",
        decode_log_interval=1,
        random_seed=0,
        **options["engine"],
    )
    try:
        asyncio.get_event_loop()
    except RuntimeError:  # 0.4.9 takes the loop that a newer uvloop does not make
        asyncio.set_event_loop(asyncio.new_event_loop())
    outputs = engine.generate(
        input_ids=options["prompts"],
        sampling_params={
            "temperature": 0,
            "max_new_tokens": options["new_tokens"],
            "ignore_eos": True,
        },
    )
    time.sleep(1)  # the scheduler's last log line and range come after the last request's end
    part = figures.with_suffix(".part")
    part.write_text(json.dumps([output["meta_info"] for output in outputs]))
    part.replace(figures)
    time.sleep(600)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))

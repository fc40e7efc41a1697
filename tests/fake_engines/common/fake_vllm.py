"""Starts the engine core of a fake vLLM, which starts its workers."""

from __future__ import annotations

import argparse
import multiprocessing
from types import SimpleNamespace


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=12)
    parser.add_argument("--num-speculative-tokens", type=int, default=3)
    parser.add_argument("--tensor-parallel-size", type=int, default=1)
    parser.add_argument("--prompt-chunk", type=int, default=100)
    parser.add_argument("--abort", action="store_true")
    parser.add_argument("--fail-once", action="store_true")
    parser.add_argument("--use-graphs", action="store_true")
    arguments = parser.parse_args()
    vllm_config = SimpleNamespace(
        num_speculative_tokens=arguments.num_speculative_tokens,
        prompt_chunk=arguments.prompt_chunk,
        abort=arguments.abort,
        fail_once=arguments.fail_once,
        use_graphs=arguments.use_graphs,
        parallel_config=SimpleNamespace(
            rank=0,
            tensor_parallel_size=arguments.tensor_parallel_size,
            pipeline_parallel_size=1,
            data_parallel_rank=0,
            data_parallel_size=1,
        ),
    )
    from vllm.v1.engine.core import run_engine_core

    context = multiprocessing.get_context("spawn")
    process = context.Process(
        target=run_engine_core, args=(vllm_config, arguments.requests, arguments.max_tokens)
    )
    process.start()
    process.join()
    assert process.exitcode == 0


if __name__ == "__main__":
    main()

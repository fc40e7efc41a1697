"""Starts the executors of a fake TensorRT-LLM: worker processes, the loop in a thread of each."""

from __future__ import annotations

import argparse
import multiprocessing
import threading
from types import SimpleNamespace


def run_worker(arguments, rank):
    from tensorrt_llm._torch.pyexecutor.llm_request import LlmRequest
    from tensorrt_llm._torch.pyexecutor.model_engine import PyTorchModelEngine
    from tensorrt_llm._torch.pyexecutor.py_executor import PyExecutor
    from tensorrt_llm._torch.pyexecutor.sampler import MTPSampler, TorchSampler
    from tensorrt_llm._torch.speculative.interface import SpeculativeDecodingMode

    k = arguments.draft_len
    mode = SpeculativeDecodingMode[arguments.mode]
    config = SimpleNamespace(spec_dec_mode=mode, max_draft_len=k)
    engine = PyTorchModelEngine(model_path="model", spec_config=config)
    drafting = {}
    if mode.name == "EAGLE3":
        drafting["draft_model_engine"] = PyTorchModelEngine(model_path="draft", spec_config=config)
    if arguments.with_drafter and drafting:
        from tensorrt_llm._torch.speculative.model_drafter import ModelDrafter

        drafting["drafter"] = ModelDrafter(
            config, drafting["draft_model_engine"], k, TorchSampler(), arguments.static
        )
    sampler = MTPSampler(None, nextn=k) if mode.use_one_engine() else TorchSampler()
    mapping = SimpleNamespace(
        tp_rank=rank,
        tp_size=arguments.tp_size,
        pp_rank=0,
        pp_size=1,
        enable_attention_dp=arguments.attention_dp,
    )
    executor = PyExecutor(
        "resources", "scheduler", engine, sampler, SimpleNamespace(mapping=mapping), 8,
        disable_overlap_scheduler=arguments.disable_overlap,
        **{arguments.depth_name: k},
        **drafting,
    )  # fmt: skip
    for index in range(arguments.requests):
        executor.active_requests.append(LlmRequest(100 + index, 10 + 3 * index, 12 + index))
    if arguments.attention_dp and rank:
        executor.active_requests.clear()
        executor._pad_attention_dp_dummy_request()
    loop = threading.Thread(target=executor.event_loop)
    loop.start()
    loop.join()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=3)
    parser.add_argument("--mode", default="EAGLE3")
    parser.add_argument("--draft-len", type=int, default=3)
    parser.add_argument("--depth-name", default="max_draft_len")
    parser.add_argument("--with-drafter", action="store_true")
    parser.add_argument("--static", action="store_true")
    parser.add_argument("--disable-overlap", action="store_true")
    parser.add_argument("--tp-size", type=int, default=1)
    parser.add_argument("--attention-dp", action="store_true")
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=run_worker, args=(arguments, rank))
        for rank in range(arguments.tp_size)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0


if __name__ == "__main__":
    main()

"""Starts the schedulers of a fake SGLang as the real one does: spawned, one a rank."""

from __future__ import annotations

import argparse
import multiprocessing
from types import SimpleNamespace


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=3)
    parser.add_argument("--max-new-tokens", type=int, default=12)
    parser.add_argument("--speculative-num-steps", type=int, default=3)
    parser.add_argument("--speculative-num-draft-tokens", type=int, default=4)
    parser.add_argument("--tp-size", type=int, default=1)
    parser.add_argument("--idle-step", action="store_true")
    parser.add_argument("--fail-in-verify", action="store_true")
    parser.add_argument("--disable-overlap-schedule", action="store_true")
    server_args = SimpleNamespace(**vars(parser.parse_args()))
    from sglang.srt.managers.scheduler import run_scheduler_process

    multiprocessing.set_start_method("spawn", force=True)
    schedulers = []
    for tp_rank in range(server_args.tp_size):
        reader, writer = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.Process(
            target=run_scheduler_process,
            args=(server_args, None, tp_rank, tp_rank, 0, None, writer),
        )
        process.start()
        writer.close()  # so that a scheduler's death ends the wait below
        schedulers.append((process, reader))
    for process, reader in schedulers:
        assert reader.recv() == {"status": "ready"}
        assert reader.recv() == {"status": "done"}
        process.join()
        assert process.exitcode == 0


if __name__ == "__main__":
    main()

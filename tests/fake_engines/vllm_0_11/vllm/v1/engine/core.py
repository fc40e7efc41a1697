"""EngineCore with its worker in another process, or in its own when there is only one."""

import multiprocessing
import os

from simulated import note

from vllm.v1.core.sched.scheduler import Request, Scheduler


def worker_main(vllm_config, rank, pipe):
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    vllm_config.parallel_config.rank = rank
    runner = GPUModelRunner(vllm_config, "cuda")
    runner.profile_run()
    runner.capture_model()
    note("worker", rank=rank)
    while (message := pipe.recv()) is not None:
        pipe.send(run_step(runner, message))


def run_step(runner, scheduler_output):
    try:
        output = runner.execute_model(scheduler_output)
    except RuntimeError as error:
        note("raised", text=str(error))
        output = runner.execute_model(scheduler_output)
    return runner.sample_tokens(None) if output is None else output


class EngineCore:
    def __init__(self, vllm_config):
        self.vllm_config = vllm_config
        self.scheduler = Scheduler(vllm_config, None, None)
        self.pipes = []
        self.steps = 0
        context = multiprocessing.get_context("spawn")
        for rank in range(vllm_config.parallel_config.tensor_parallel_size):
            ours, theirs = context.Pipe()
            process = context.Process(target=worker_main, args=(vllm_config, rank, theirs))
            process.start()
            theirs.close()
            self.pipes.append((process, ours))

    def step(self):
        scheduler_output = self.scheduler.schedule()
        for _, pipe in self.pipes:
            pipe.send(scheduler_output)
        self.steps += 1
        if self.vllm_config.abort and self.steps == 3:
            self.scheduler.finish_request(next(iter(self.scheduler.requests)))
        outputs = [pipe.recv() for _, pipe in self.pipes]
        self.scheduler.update_from_output(scheduler_output, outputs[0])

    def run(self, requests, max_tokens):
        for index in range(requests):
            prompt = 10 + 3 * index
            self.scheduler.add_request(Request(f"cmpl-{index}", prompt, max_tokens + index))
        while self.scheduler.requests:
            self.step()
        for process, pipe in self.pipes:
            pipe.send(None)
            process.join()


def run_engine_core(vllm_config, requests, max_tokens):
    note("engine core", pid=os.getpid())
    EngineCore(vllm_config).run(requests, max_tokens)

"""EngineCore with its only worker in its own process, one step ahead of its results."""

import os
from collections import deque

from simulated import note

from vllm.v1.core.sched.scheduler import Request, Scheduler
from vllm.v1.worker.gpu.model_runner import GPUModelRunner


def run_engine_core(vllm_config, requests, max_tokens):
    note("engine core", pid=os.getpid())
    note("worker", rank=0)
    scheduler = Scheduler(vllm_config, None, None)
    runner = GPUModelRunner(vllm_config, "cuda")
    runner.profile_run()
    runner.capture_model()
    for index in range(requests):
        scheduler.add_request(Request(f"cmpl-{index}", 10 + 3 * index, max_tokens + index))
    queue = deque()
    while scheduler.requests or queue:
        if scheduler.requests:
            scheduled = scheduler.schedule()
            output = runner.execute_model(scheduled)
            queue.append((scheduled, runner.sample_tokens(None) if output is None else output))
        if len(queue) > 1 or not scheduler.requests:
            scheduler.update_from_output(*queue.popleft())

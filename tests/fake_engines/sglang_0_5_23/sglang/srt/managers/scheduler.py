from collections import deque

import torch
from simulated import note

from sglang.srt.managers.schedule_batch import Req, ScheduleBatch
from sglang.srt.managers.scheduler_components.batch_result_processor import (
    SchedulerBatchResultProcessor,
)
from sglang.srt.managers.tp_worker import TpModelWorker
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from sglang.srt.runtime_context import publish
from sglang.srt.speculative.eagle_worker_v2 import EAGLEWorkerV2


class Scheduler:
    def __init__(self, server_args, port_args):
        self.server_args = server_args
        self.tp_worker = TpModelWorker(server_args, 0, None)
        self.model_worker = EAGLEWorkerV2(server_args, 0, None, self.tp_worker)
        self.batch_result_processor = SchedulerBatchResultProcessor(self.model_worker)

    def run_batch(self, batch, pp_proxy_tensors=None):
        note("step", mode=batch.forward_mode.name, requests=len(batch.reqs))
        result = self.model_worker.forward_batch_generation(
            batch, on_publish=lambda new_seq_lens: None
        )
        result.copy_done = torch.cuda.Event()
        result.copy_to_cpu()
        return result

    def process_batch_result(self, batch, result):
        if batch.forward_mode == ForwardMode.DECODE:
            self.batch_result_processor.process_batch_result_decode(batch, result)

    def run_event_loop(self):
        args = self.server_args
        late = 0 if args.disable_overlap_schedule else 1
        reqs = [Req(f"request-{i}", args.max_new_tokens + 3 * i) for i in range(args.requests)]
        queue = deque()
        batch = ScheduleBatch(reqs, ForwardMode.EXTEND, extend_num_tokens=10 * len(reqs))
        queue.append((batch.copy(), self.run_batch(batch)))
        if args.idle_step:
            idle = ScheduleBatch([], ForwardMode.IDLE)
            queue.append((idle.copy(), self.run_batch(idle)))
        while reqs or queue:
            if reqs:
                batch = ScheduleBatch(reqs, ForwardMode.DECODE)
                queue.append((batch.copy(), self.run_batch(batch)))
            while len(queue) > late or (queue and not reqs):
                self.process_batch_result(*queue.popleft())
            reqs = [req for req in reqs if not req.finished()]


def run_scheduler_process(server_args, port_args, gpu_id, tp_rank, pp_rank, dp_rank, pipe_writer):
    publish(server_args, tp_rank)
    scheduler = Scheduler(server_args, port_args)
    pipe_writer.send({"status": "ready"})
    scheduler.run_event_loop()
    pipe_writer.send({"status": "done"})

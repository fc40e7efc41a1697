from collections import deque

import torch
from simulated import note

from sglang.srt.managers.schedule_batch import ForwardMode, Req, ScheduleBatch
from sglang.srt.managers.scheduler_output_processor_mixin import SchedulerOutputProcessorMixin
from sglang.srt.managers.tp_worker import TpModelWorker


class Scheduler(SchedulerOutputProcessorMixin):
    def __init__(
        self,
        server_args,
        port_args,
        gpu_id,
        tp_rank,
        moe_ep_rank,
        pp_rank,
        attn_cp_rank,
        moe_dp_rank,
        dp_rank,
    ):
        self.server_args = server_args
        self.enable_overlap = not server_args.disable_overlap_schedule
        self.tp_rank, self.pp_rank, self.dp_rank = tp_rank, pp_rank, dp_rank
        self.tp_size, self.pp_size, self.dp_size = server_args.tp_size, 1, 1
        self.attn_tp_rank, self.attn_tp_size, self.attn_dp_rank = tp_rank, server_args.tp_size, 0
        self.tp_worker = TpModelWorker(server_args, gpu_id, tp_rank)
        if self.enable_overlap:
            from sglang.srt.speculative.eagle_worker_v2 import EAGLEWorkerV2

            self.model_worker = EAGLEWorkerV2(server_args, gpu_id, tp_rank, self.tp_worker)
        else:
            from sglang.srt.speculative.eagle_worker import EAGLEWorker

            self.model_worker = EAGLEWorker(
                server_args, gpu_id, tp_rank, dp_rank, 0, 0, 0, None, self.tp_worker
            )

    def run_batch(self, batch):
        note("step", mode=batch.forward_mode.name, requests=len(batch.reqs))
        if not self.enable_overlap:
            return self.model_worker.forward_batch_generation(batch)
        result = self.model_worker.forward_batch_generation(batch.get_model_worker_batch())
        result.copy_done = torch.cuda.Event()
        result.copy_to_cpu()
        return result

    def process_batch_result(self, batch, result):
        if batch.forward_mode == ForwardMode.DECODE:
            self.process_batch_result_decode(batch, result)

    def event_loop_normal(self):
        args = self.server_args
        reqs = [Req(f"request-{i}", args.max_new_tokens + i) for i in range(args.requests)]
        batch = ScheduleBatch(reqs, ForwardMode.EXTEND, extend_num_tokens=10 * len(reqs))
        self.process_batch_result(batch, self.run_batch(batch))
        while reqs:
            batch = ScheduleBatch(reqs, ForwardMode.DECODE)
            self.process_batch_result(batch, self.run_batch(batch))
            reqs = [req for req in reqs if not req.finished()]

    def event_loop_overlap(self):
        args = self.server_args
        reqs = [Req(f"request-{i}", args.max_new_tokens + 3 * i) for i in range(args.requests)]
        queue = deque()
        batch = ScheduleBatch(reqs, ForwardMode.EXTEND, extend_num_tokens=10 * len(reqs))
        batch.is_spec_v2 = True
        queue.append((batch.copy(), self.run_batch(batch)))
        while reqs or queue:
            if reqs:
                batch = ScheduleBatch(reqs, ForwardMode.DECODE)
                batch.is_spec_v2 = True
                queue.append((batch.copy(), self.run_batch(batch)))
            if len(queue) > 1 or not reqs:
                self.process_batch_result(*queue.popleft())
            reqs = [req for req in reqs if not req.finished()]


def run_scheduler_process(server_args, port_args, gpu_id, tp_rank, pp_rank, dp_rank, pipe_writer):
    scheduler = Scheduler(server_args, port_args, gpu_id, tp_rank, 0, pp_rank, 0, 0, dp_rank)
    pipe_writer.send({"status": "ready"})
    if scheduler.enable_overlap:
        scheduler.event_loop_overlap()
    else:
        scheduler.event_loop_normal()
    pipe_writer.send({"status": "done"})

from simulated import note

from sglang.srt.managers.schedule_batch import ForwardMode, Req, ScheduleBatch
from sglang.srt.managers.tp_worker import TpModelWorker


class Scheduler:
    def __init__(self, server_args, port_args, gpu_id, tp_rank, pp_rank, dp_rank):
        self.server_args = server_args
        self.tp_rank, self.pp_rank, self.dp_rank = tp_rank, pp_rank, dp_rank
        self.tp_size, self.pp_size, self.dp_size = server_args.tp_size, 1, 1
        self.attn_tp_rank, self.attn_tp_size, self.attn_dp_rank = tp_rank, server_args.tp_size, 0
        self.tp_worker = TpModelWorker(server_args, gpu_id, tp_rank)
        self.draft_worker = None
        if server_args.speculative_num_steps:
            from sglang.srt.speculative.eagle_worker import EAGLEWorker

            self.draft_worker = EAGLEWorker(
                server_args, gpu_id, tp_rank, dp_rank, None, self.tp_worker
            )

    def run_batch(self, batch):
        note("step", mode=batch.forward_mode.name, requests=len(batch.reqs))
        if self.draft_worker is None:
            return self.tp_worker.forward_batch_generation(batch.get_model_worker_batch())
        return self.draft_worker.forward_batch_speculative_generation(batch)

    def event_loop_normal(self):
        args = self.server_args
        reqs = [Req(f"request-{i}", args.max_new_tokens + i) for i in range(args.requests)]
        self.run_batch(ScheduleBatch(reqs, ForwardMode.EXTEND, extend_num_tokens=10 * len(reqs)))
        if args.idle_step:
            self.run_batch(ScheduleBatch([], ForwardMode.IDLE))
        for req in reqs:
            req.output_ids.append(1)
        while reqs:
            batch = ScheduleBatch(reqs, ForwardMode.DECODE)
            try:
                self.run_batch(batch)
            except RuntimeError as error:
                note("raised", text=str(error))
                continue
            if self.draft_worker is None:
                for req in reqs:
                    req.output_ids.append(1)
                    req.check_finished()
            reqs = [req for req in reqs if not req.finished()]


def run_scheduler_process(server_args, port_args, gpu_id, tp_rank, pp_rank, dp_rank, pipe_writer):
    scheduler = Scheduler(server_args, port_args, gpu_id, tp_rank, pp_rank, dp_rank)
    pipe_writer.send({"status": "ready"})
    scheduler.event_loop_normal()
    pipe_writer.send({"status": "done"})

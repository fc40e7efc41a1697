from simulated import note


class SchedulerBatchResultProcessor:
    def __init__(self, model_worker):
        self.model_worker = model_worker

    def _resolve_spec_v2_tokens(self, result, batch):
        assert result.accept_lens.is_cpu
        accept_lens = result.accept_lens.tolist()
        result.num_correct_drafts_per_req_cpu = [length - 1 for length in accept_lens]
        result.num_correct_drafts = sum(result.num_correct_drafts_per_req_cpu)
        self.model_worker.on_verify_complete_cpu(
            result.num_correct_drafts_per_req_cpu, batch_size=len(batch.reqs)
        )
        tokens = []
        for i, req in enumerate(batch.reqs):
            tokens.append([1] * accept_lens[i])
            if not (req.is_retracted or req.finished()):
                req.spec_verify_ct += 1
                req.spec_num_correct_drafts += accept_lens[i] - 1
        return tokens

    def process_batch_result_decode(self, batch, result):
        if result.copy_done is not None:
            result.copy_done.synchronize()
        tokens = self._resolve_spec_v2_tokens(result, batch)
        for i, req in enumerate(batch.reqs):
            stale = req.finished() or req.is_retracted
            if not stale:
                req.output_ids.extend(tokens[i])
                req.update_finish_state(len(tokens[i]))
            note(
                "row",
                rid=req.rid,
                accepted=len(tokens[i]) - 1,
                k=result.speculative_num_draft_tokens - 1,
                overshoot=len(req.output_ids) - req.finished_len
                if req.finished() and not stale
                else 0,
                stale=stale,
            )

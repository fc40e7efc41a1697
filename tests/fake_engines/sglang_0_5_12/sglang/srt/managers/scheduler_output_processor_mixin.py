from simulated import note


class SchedulerOutputProcessorMixin:
    def _resolve_spec_overlap_tokens(self, result, batch):
        assert result.accept_lens.is_cpu
        accept_lens = result.accept_lens.tolist()
        result.num_correct_drafts = sum(accept_lens) - len(batch.reqs)
        result.num_correct_drafts_per_req_cpu = [x - 1 for x in accept_lens]
        self.model_worker.on_verify_complete_cpu(result.num_correct_drafts_per_req_cpu)
        tokens = []
        for i, req in enumerate(batch.reqs):
            tokens.append([1] * accept_lens[i])
            if not req.finished() and not req.is_retracted:
                req.spec_verify_ct += 1
                req.spec_num_correct_drafts += accept_lens[i] - 1
        return tokens

    def process_batch_result_decode(self, batch, result):
        if result.copy_done is not None:
            result.copy_done.synchronize()
        tokens = None
        if batch.is_spec_v2:
            tokens = self._resolve_spec_overlap_tokens(result, batch)
        for i, req in enumerate(batch.reqs):
            stale = req.finished() or req.is_retracted
            if batch.is_spec_v2 and not stale:
                req.output_ids.extend(tokens[i])
                req.update_finish_state(len(tokens[i]))
            if batch.is_spec_v2:
                ended = req.finished() and not stale
                note(
                    "row",
                    rid=req.rid,
                    accepted=len(tokens[i]) - 1,
                    k=self.server_args.speculative_num_steps,
                    overshoot=len(req.output_ids) - req.finished_len if ended else 0,
                    stale=stale,
                )

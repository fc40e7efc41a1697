from dataclasses import dataclass
from typing import Any

from simulated import accepted_drafts, note


@dataclass
class EagleVerifyOutput:
    draft_input: Any
    logits_output: Any
    verified_id: Any
    accept_length_per_req_cpu: list
    accepted_indices: Any = None


@dataclass
class EagleVerifyInput:
    spec_steps: int
    draft_token_num: int

    def verify(self, batch, logits_output, token_to_kv_pool_allocator, page_size, vocab_mask=None):
        lengths = []
        for req in batch.reqs:
            wanted = accepted_drafts(req.rid, req.spec_verify_ct, self.spec_steps)
            kept = -1
            for _ in range(wanted + 1):
                req.output_ids.append(1)
                kept += 1
                req.check_finished()
                if req.finished():
                    break
            req.spec_verify_ct += 1
            lengths.append(kept)
            note("row", rid=req.rid, accepted=kept, k=self.spec_steps, overshoot=0, stale=False)
        return EagleVerifyOutput("draft input", logits_output, [1] * len(lengths), lengths)

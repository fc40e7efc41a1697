from dataclasses import dataclass
from typing import Any

import torch
from simulated import accepted_drafts, note

from sglang.srt.speculative.eagle_info_v2 import EagleVerifyInputV2Mixin


@dataclass
class EagleVerifyOutput:
    draft_extend_input: Any
    accept_tokens: Any
    num_correct_drafts_per_req_cpu: list


@dataclass
class EagleVerifyInput(EagleVerifyInputV2Mixin):
    spec_steps: int
    draft_token_num: int

    def verify(self, batch, logits_output, token_to_kv_pool_allocator, page_size, vocab_mask=None):
        kept_counts = []
        for req in batch.reqs:
            wanted = accepted_drafts(req.rid, len(req.output_ids), self.spec_steps)
            kept = -1
            for _ in range(wanted + 1):
                req.output_ids.append(1)
                kept += 1
                req.update_finish_state()
                if req.finished():
                    break
            req.spec_verify_ct += 1
            req.spec_num_correct_drafts += wanted
            kept_counts.append(kept)
            note(
                "row",
                rid=req.rid,
                accepted=wanted,
                k=self.spec_steps,
                overshoot=wanted - kept,
                stale=False,
            )
        return EagleVerifyOutput(None, torch.tensor([1]), kept_counts)

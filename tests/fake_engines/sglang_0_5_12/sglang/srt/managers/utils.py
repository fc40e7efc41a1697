from dataclasses import dataclass
from typing import Any


@dataclass
class GenerationBatchResult:
    logits_output: Any = None
    next_token_ids: Any = None
    num_correct_drafts: int = 0
    num_correct_drafts_per_req_cpu: list | None = None
    can_run_cuda_graph: bool = False
    copy_done: Any = None
    accept_lens: Any = None
    next_draft_input: Any = None
    speculative_num_draft_tokens: int | None = None

    def copy_to_cpu(self, return_logprob=False):
        self.accept_lens = self.accept_lens.to("cpu", non_blocking=True)
        self.next_token_ids = self.next_token_ids.to("cpu", non_blocking=True)

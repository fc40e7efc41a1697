import torch
from simulated import accepted_drafts


class EagleVerifyInput:
    def __init__(self, spec_steps, draft_token_num):
        self.spec_steps = spec_steps
        self.draft_token_num = draft_token_num


def eagle_sample(verify_input, batch, logits_output, grammar_mask=None, *, watermark_state=None):
    lengths = [
        1 + accepted_drafts(rid, produced, verify_input.spec_steps)
        for rid, produced in batch.simulated
    ]
    return torch.tensor([1] * len(lengths)), torch.tensor(lengths), torch.tensor([0])

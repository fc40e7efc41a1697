import torch
from simulated import accepted_drafts


class EagleDraftInputV2Mixin:
    def prepare_for_extend_to_fill_draft_kvcache(self, batch, predict, num_draft_tokens, runner):
        return batch


class EagleVerifyInputV2Mixin:
    def sample(self, batch, logits_output, vocab_mask=None):
        lengths = [
            1 + accepted_drafts(rid, produced, self.spec_steps) for rid, produced in batch.simulated
        ]
        return torch.tensor([1] * len(lengths)), torch.tensor(lengths), torch.tensor([0])


class EagleDraftInput(EagleDraftInputV2Mixin):
    pass

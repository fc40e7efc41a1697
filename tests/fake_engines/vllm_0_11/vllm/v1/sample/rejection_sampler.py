class RejectionSampler:
    def forward(self, metadata, draft_probs, target_logits, bonus_token_ids, sampling_metadata):
        return target_logits

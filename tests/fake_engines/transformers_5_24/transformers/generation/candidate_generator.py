import torch


class CandidateGenerator:
    requires_model_outputs = False

    def get_candidates(self, input_ids, **kwargs):
        raise NotImplementedError

    def update_candidate_strategy(self, input_ids, scores, num_matches):
        return None


class AssistedCandidateGenerator(CandidateGenerator):
    num_assistant_tokens = 4

    def get_candidates(self, input_ids, **kwargs):
        return torch.row(input_ids.shape[1] + self.num_assistant_tokens), None

    def update_candidate_strategy(self, input_ids, scores, num_matches):
        self.num_assistant_tokens += 1


class EarlyExitCandidateGenerator(AssistedCandidateGenerator):
    def get_candidates(self, input_ids, **kwargs):
        return super().get_candidates(input_ids, **kwargs)


class PromptLookupCandidateGenerator(CandidateGenerator):
    def get_candidates(self, input_ids, **kwargs):
        return torch.row(input_ids.shape[1] + 2), None

import torch


def _speculative_sampling(candidate_input_ids, candidate_logits, candidate_length, new_logits):
    return None, None


class GenerationMixin:
    fails = False

    def __call__(self, **model_inputs):
        if self.fails:
            raise RuntimeError("simulated failure in the target")

    def _assisted_decoding(self, input_ids, candidate_generator, accepted, do_sample=False):
        for count in accepted:
            candidates, _ = candidate_generator.get_candidates(input_ids)
            drafted = candidates.shape[1] - input_ids.shape[1]
            self(input_ids=candidates)
            if do_sample:
                _speculative_sampling(candidates, None, drafted, None)
            input_ids = torch.row(input_ids.shape[1] + count + 1)
            candidate_generator.update_candidate_strategy(input_ids, None, torch.tensor([count]))
        return input_ids

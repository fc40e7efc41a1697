import torch

from .cnets import Model
from .utils import *  # noqa: F403
from .utils import ACCEPTED


class EaModel:
    def __init__(self):
        self.ea_layer = Model()

    def eagenerate(self, input_length):
        input_ids = torch.row(input_length)
        draft_tokens, *_ = initialize_tree(input_ids, self, None, None)  # noqa: F405
        while ACCEPTED:
            tree_decoding(self, draft_tokens, None, None, input_ids, None)  # noqa: F405
            best, accept_length, sample_p = evaluate_posterior(None, None, None)  # noqa: F405
            input_ids, draft_tokens, *_ = update_inference_inputs(  # noqa: F405
                input_ids, None, best, accept_length, None, None, 0, [], None, self, None, sample_p
            )
        return input_ids

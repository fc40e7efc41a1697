import torch

ACCEPTED = [2, 0, 6]


def initialize_tree(input_ids, model, past_key_values, logits_processor):
    drafted = model.ea_layer.topK_genrate(None, input_ids, None, logits_processor)
    return (*drafted, "orig", "hidden", "token")


def tree_decoding(
    model, tree_candidates, past_key_values, tree_position_ids, input_ids, retrieve_indices
):
    return torch.row(1), "hidden", "outputs"


def evaluate_posterior(logits, candidates, logits_processor):
    return torch.row(1), torch.tensor([ACCEPTED.pop(0)]), "sample_p"


def update_inference_inputs(
    input_ids,
    candidates,
    best_candidate,
    accept_length,
    retrieve_indices,
    logits_processor,
    new_token,
    past_key_values_data_list,
    current_length_data,
    model,
    hidden_state_new,
    sample_p,
):
    grown = torch.row(input_ids.shape[1] + accept_length.item() + 1)
    drafted = model.ea_layer.topK_genrate(None, input_ids=grown, head=None, logits_processor=None)
    return (grown, *drafted, new_token, None, "token")

import torch


class Model:
    depth = 5
    total_tokens = 59

    def topK_genrate(self, hidden_states, input_ids, head, logits_processor):
        self(hidden_states, input_ids=input_ids)
        for _ in range(self.depth):
            self(hidden_states, input_ids=input_ids)
        return torch.row(60), "retrieve indices", "tree mask", "tree position ids"

    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)

    def forward(self, hidden_states, input_ids, past_key_values=None, use_cache=None):
        return hidden_states, past_key_values

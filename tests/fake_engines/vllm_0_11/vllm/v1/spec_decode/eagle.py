from vllm.forward_context import set_forward_context


class EagleProposer:
    def __init__(self, vllm_config, runner=None):
        self.vllm_config = vllm_config
        self.num_speculative_tokens = vllm_config.num_speculative_tokens

    def propose(
        self,
        target_token_ids,
        target_positions,
        target_hidden_states,
        next_token_ids,
        last_token_indices,
        common_attn_metadata,
        sampling_metadata,
        mm_embed_inputs=None,
    ):
        with set_forward_context(None, self.vllm_config, num_tokens=4):
            self.model()
        for _ in range(self.num_speculative_tokens - 1):
            with set_forward_context(None, self.vllm_config, num_tokens=4):
                self.model()
        return "draft token ids"

    def model(self):
        pass

    def dummy_run(self, num_tokens):
        with set_forward_context(None, self.vllm_config, num_tokens=num_tokens):
            self.model()

from vllm.v1.worker.gpu.cudagraph_utils import CudaGraphManager


class TargetDependentARSpeculator:
    def __init__(self, vllm_config):
        self.num_speculative_steps = vllm_config.num_speculative_tokens
        self.use_graphs = vllm_config.use_graphs
        self.prefill_cudagraph_manager = CudaGraphManager()
        self.decode_cudagraph_manager = CudaGraphManager()

    def capture(self):
        self._prefill(2, 8, None, None, None)
        self._generate_draft(2, 2, None, None, None)

    def propose(
        self,
        input_batch,
        attn_metadata,
        slot_mappings,
        last_hidden_states,
        aux_hidden_states,
        num_sampled,
        num_rejected,
        last_sampled,
        next_prefill_tokens,
        temperature,
        seeds,
        dp_sync_state=None,
        dummy_run=False,
        skip_attn_for_dummy_run=False,
        mm_inputs=None,
        is_profile=False,
        num_speculative_tokens=None,
    ):
        if self.use_graphs:
            self.prefill_cudagraph_manager.run_fullgraph("prefill")
        else:
            self._prefill(2, 8, attn_metadata, slot_mappings, None)
        if self.num_speculative_steps <= 1:
            return "draft tokens"
        self._multi_step_decode(2, False, None, None, None, self.num_speculative_steps)
        return "draft tokens"

    def _prefill(self, num_reqs, num_tokens, attn_metadata, slot_mappings, num_tokens_across_dp):
        pass

    def _multi_step_decode(
        self,
        num_reqs,
        skip_attn,
        batch_desc,
        num_tokens_across_dp,
        seq_lens_cpu_upper_bound,
        num_speculative_steps,
    ):
        for _ in range(1, num_speculative_steps):
            if self.use_graphs:
                self.decode_cudagraph_manager.run_fullgraph("decode")
            else:
                self._generate_draft(num_reqs, num_reqs, None, None, None)

    def _generate_draft(
        self, num_reqs, num_tokens_padded, attn_metadata, slot_mappings, num_tokens_across_dp
    ):
        pass

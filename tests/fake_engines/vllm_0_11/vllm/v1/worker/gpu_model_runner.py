import torch
from simulated import accepted_drafts, note

from vllm.forward_context import CUDAGraphMode, set_forward_context
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.sample.rejection_sampler import RejectionSampler
from vllm.v1.sample.sampler import Sampler
from vllm.v1.spec_decode.eagle import EagleProposer


class GPUModelRunner:
    def __init__(self, vllm_config, device):
        self.vllm_config = vllm_config
        self.parallel_config = vllm_config.parallel_config
        self.num_spec_tokens = vllm_config.num_speculative_tokens
        self.drafter = EagleProposer(vllm_config) if self.num_spec_tokens else None
        self.sampler, self.rejection_sampler = Sampler(), RejectionSampler()
        self.execute_model_state = None
        self.produced = {}

    def execute_model(self, scheduler_output, intermediate_tensors=None):
        note("executed", requests=len(scheduler_output.num_scheduled_tokens))
        if not scheduler_output.total_num_scheduled_tokens:
            return ModelRunnerOutput([], {}, [])
        padded = 8 * -(-scheduler_output.total_num_scheduled_tokens // 8)
        with set_forward_context(
            None,
            self.vllm_config,
            num_tokens=padded,
            cudagraph_runtime_mode=CUDAGraphMode.FULL,
            batch_descriptor=None,
        ):
            logits = self._model_forward()
        if self.vllm_config.fail_once:
            self.vllm_config.fail_once = False
            raise RuntimeError("simulated failure in execute_model")
        self.execute_model_state = (scheduler_output, logits)
        return None

    def _model_forward(self):
        return torch.tensor([0.5])

    def sample_tokens(self, grammar_output):
        scheduler_output, logits = self.execute_model_state
        self.execute_model_state = None
        self._sample(logits, scheduler_output.scheduled_spec_decode_tokens)
        if self.drafter is not None:
            self.propose_draft_token_ids(scheduler_output, None, None, None, None, None, None, None)
        return self._output(scheduler_output)

    def _sample(self, logits, spec_decode_metadata):
        if not spec_decode_metadata:
            return self.sampler.forward(logits, None)
        return self.rejection_sampler.forward(spec_decode_metadata, None, logits, None, None)

    def propose_draft_token_ids(
        self,
        scheduler_output,
        sampled_token_ids,
        sampling_metadata,
        hidden_states,
        sample_hidden_states,
        aux_hidden_states,
        spec_decode_metadata,
        common_attn_metadata,
    ):
        return self.drafter.propose(None, None, None, None, None, None, None)

    def _output(self, scheduler_output):
        names = list(scheduler_output.num_scheduled_tokens)
        sampled = []
        for name, count in scheduler_output.num_scheduled_tokens.items():
            drafts = scheduler_output.scheduled_spec_decode_tokens.get(name, ())
            prompt = count > 1 + len(drafts)
            unfinished = prompt and count == self.vllm_config.prompt_chunk
            step = self.produced[name] = self.produced.get(name, 0) + 1
            kept = 0 if unfinished else 1 + accepted_drafts(name, step, len(drafts))
            sampled.append([7] * kept)
        return ModelRunnerOutput(names, {name: i for i, name in enumerate(names)}, sampled)

    def _dummy_run(self, num_tokens):
        with set_forward_context(None, self.vllm_config, num_tokens=num_tokens):
            self._model_forward()
        if self.drafter is not None:
            self.drafter.dummy_run(num_tokens)

    def profile_run(self):
        self._dummy_run(16)

    def capture_model(self):
        self._dummy_run(4)

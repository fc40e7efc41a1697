import torch
from simulated import accepted_drafts, note

from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.worker.gpu.spec_decode.target_dependent_ar.speculator import (
    TargetDependentARSpeculator,
)


class GPUModelRunner:
    def __init__(self, vllm_config, device):
        self.vllm_config = vllm_config
        self.parallel_config = vllm_config.parallel_config
        self.speculator = TargetDependentARSpeculator(vllm_config)
        self.execute_model_state = None
        self.produced = {}

    def profile_run(self, randomize_inputs=False):
        self._dummy_run(16)

    def capture_model(self, *, profile_only=False):
        self.speculator.capture()

    def _dummy_run(self, num_tokens):
        self.execute_model(None, dummy_run=True)
        self.speculator.propose(*[None] * 11, dummy_run=True)

    def execute_model(
        self,
        scheduler_output,
        intermediate_tensors=None,
        dummy_run=False,
        skip_attn_for_dummy_run=False,
        is_profile=False,
    ):
        if dummy_run:
            return
        note("executed", requests=len(scheduler_output.num_scheduled_tokens))
        self.execute_model_state = (scheduler_output, torch.tensor([0.5]))
        return

    def sample_tokens(self, grammar_output):
        scheduler_output, logits = self.execute_model_state
        self.execute_model_state = None
        self.sample(logits, scheduler_output, grammar_output)
        self.speculator.propose(*[None] * 11)
        return self._output(scheduler_output)

    def sample(self, hidden_states, input_batch, grammar_output):
        return "sampler output", torch.tensor([1]), torch.tensor([0])

    def _output(self, scheduler_output):
        names = list(scheduler_output.num_scheduled_tokens)
        sampled = []
        for name in scheduler_output.num_scheduled_tokens:
            drafts = scheduler_output.scheduled_spec_decode_tokens.get(name, ())
            step = self.produced[name] = self.produced.get(name, 0) + 1
            sampled.append([7] * (1 + accepted_drafts(name, step, len(drafts))))
        return ModelRunnerOutput(names, {name: i for i, name in enumerate(names)}, sampled)

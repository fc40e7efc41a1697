from sglang.srt.managers.utils import GenerationBatchResult
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from sglang.srt.speculative.eagle_utils import eagle_sample


def run_eagle_verify(batch, *, target_worker, num_draft_tokens, grammar_barrier=None):
    mode = batch.forward_mode
    batch.forward_mode = ForwardMode.IDLE if mode.is_idle() else ForwardMode.TARGET_VERIFY
    output = target_worker.forward_batch_generation(batch=None, forward_batch=batch, is_verify=True)
    predict, accept_lens, _ = eagle_sample(batch.spec_info, batch, output.logits_output)
    batch.forward_mode = mode
    return GenerationBatchResult(
        output.logits_output,
        predict,
        accept_lens=accept_lens,
        speculative_num_draft_tokens=num_draft_tokens,
    )

from enum import Enum, auto


class LlmRequestState(Enum):
    CONTEXT_INIT = auto()
    GENERATION_IN_PROGRESS = auto()
    GENERATION_COMPLETE = auto()


class LlmRequest:
    """Half a C++ object: `get_num_tokens` is bound, names with py_ live in Python."""

    def __init__(self, request_id, input_tokens, max_new_tokens, is_draft=False):
        self.py_request_id = request_id
        self.py_prompt_len = input_tokens
        self.py_max_new_tokens = max_new_tokens
        self.context_chunk_size = input_tokens
        self.context_remaining_length = input_tokens
        self.state = LlmRequestState.CONTEXT_INIT
        self.is_attention_dp_dummy = False
        self.is_draft = is_draft
        self.py_draft_tokens = []
        self.py_draft_pages_allocated = 0
        self.py_num_accepted_draft_tokens = 0
        self.py_rewind_len = 0
        self.py_decoding_iter = 0
        self._tokens = input_tokens

    def get_num_tokens(self, beam):
        return self._tokens

    def add_new_token(self, token, beam_idx):
        self._tokens += 1
        return self._tokens

    @property
    def finished(self):
        return self._tokens - self.py_prompt_len >= self.py_max_new_tokens

    def move_to_next_context_chunk(self):
        self.context_remaining_length = 0

from simulated import note

from vllm.v1.core.sched.output import NewRequestData, SchedulerOutput


class Request:
    def __init__(self, request_id, prompt, max_tokens):
        self.request_id = request_id
        self.num_prompt_tokens = prompt
        self.num_computed_tokens = 0
        self.output_token_ids = []
        self.max_tokens = max_tokens
        self.spec_token_ids = []
        self.stopped = False

    def is_finished(self):
        return self.stopped


class Scheduler:
    num_sampled_tokens_per_step = 1

    def __init__(
        self,
        vllm_config,
        kv_cache_config,
        structured_output_manager,
        include_finished_set=False,
        log_stats=False,
    ):
        self.vllm_config = vllm_config
        self.num_spec_tokens = vllm_config.num_speculative_tokens
        self.chunk = vllm_config.prompt_chunk
        self.requests = {}
        self.log_stats = log_stats

    def add_request(self, request):
        self.requests[request.request_id] = request

    def finish_request(self, request_id):
        """What an abort does while the request's step is running."""
        self.requests.pop(request_id).stopped = True

    def schedule(self):
        counts, drafts, new = {}, {}, []
        for name, request in self.requests.items():
            left = request.num_prompt_tokens - request.num_computed_tokens
            if left > 0:
                counts[name] = min(left, self.chunk)
                if request.num_computed_tokens == 0:
                    new.append(NewRequestData(name, [0] * request.num_prompt_tokens))
                request.num_computed_tokens += counts[name]
            else:
                counts[name] = 1 + len(request.spec_token_ids)
                if request.spec_token_ids:
                    drafts[name] = list(request.spec_token_ids)
            if request.num_computed_tokens == request.num_prompt_tokens:
                request.spec_token_ids = [-1] * self.num_spec_tokens
        note(
            "step",
            requests=len(counts),
            tokens=sum(counts.values()),
            drafted=sum(map(len, drafts.values())),
        )
        return SchedulerOutput(new, counts, sum(counts.values()), drafts, set())

    def update_from_output(self, scheduler_output, model_runner_output):
        stats = None
        for name in scheduler_output.num_scheduled_tokens:
            request = self.requests.get(name)
            index = model_runner_output.req_id_to_index[name]
            tokens = model_runner_output.sampled_token_ids[index]
            drafts = scheduler_output.scheduled_spec_decode_tokens.get(name)
            if request is None or request.is_finished():
                if drafts:
                    accepted = len(tokens) - 1
                    note("row", rid=name, k=len(drafts), accepted=accepted, overshoot=0, stale=True)
                continue
            lost = 0
            counted = len(tokens)
            if drafts and tokens:
                stats = self.make_spec_decoding_stats(
                    stats,
                    num_draft_tokens=len(drafts),
                    num_accepted_tokens=len(tokens) - 1,
                    num_invalid_spec_tokens=None,
                    request_id=name,
                )
            if tokens:
                for position in range(1, len(tokens) + 1):
                    request.output_token_ids.append(tokens[position - 1])
                    if len(request.output_token_ids) >= request.max_tokens:
                        lost = len(tokens) - position
                        del tokens[position:]
                        request.stopped = True
                        break
                request.spec_token_ids = [-1] * self.num_spec_tokens
            if drafts and counted:
                note(
                    "row",
                    rid=name,
                    k=len(drafts),
                    accepted=counted - 1,
                    overshoot=lost,
                    stale=False,
                )
        for name in [n for n, request in self.requests.items() if request.stopped]:
            del self.requests[name]
        return {}

    def make_spec_decoding_stats(
        self,
        spec_decoding_stats,
        num_draft_tokens,
        num_accepted_tokens,
        num_invalid_spec_tokens,
        request_id,
    ):
        note("stats", drafted=num_draft_tokens, accepted=num_accepted_tokens)
        return

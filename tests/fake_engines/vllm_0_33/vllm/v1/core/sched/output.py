from dataclasses import dataclass


@dataclass
class NewRequestData:
    req_id: str
    prompt_token_ids: list


@dataclass
class SchedulerOutput:
    scheduled_new_reqs: list
    num_scheduled_tokens: dict
    total_num_scheduled_tokens: int
    scheduled_spec_decode_tokens: dict
    finished_req_ids: set

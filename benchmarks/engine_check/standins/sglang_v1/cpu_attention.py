"""Attention over SGLang's key-value pool in plain torch, in place of interpreted Triton kernels."""

import itertools

import torch


def _attend(query, key, value, mask, scale, cap):
    """Query (n, heads, d); key, value (s, key heads, d); mask (n, s) or None."""
    groups = query.shape[1] // key.shape[1]
    key = key.repeat_interleave(groups, 1).float()
    value = value.repeat_interleave(groups, 1).float()
    scores = torch.einsum("nhd,shd->hns", query.float(), key) * scale
    if cap and cap > 0:
        scores = cap * torch.tanh(scores / cap)
    if mask is not None:
        scores = scores.masked_fill(~mask[None], float("-inf"))
    return torch.einsum("hns,shd->nhd", torch.softmax(scores, -1), value).to(query.dtype)


def _mask(given, row, prefix, new):
    mask = torch.ones(new, prefix + new, dtype=torch.bool)
    custom = given["custom_mask"]
    if custom is not None:
        start = int(given["mask_indptr"][row])
        told = custom[start : start + new * (prefix + new)].view(new, prefix + new).bool()
        mask[:, prefix:] = told[:, prefix:]
        if not given.get("skip_prefix_custom_mask", True):
            mask[:, :prefix] = told[:, :prefix]
    elif given["is_causal"]:
        mask[:, prefix:] = torch.ones(new, new, dtype=torch.bool).tril()
    return mask


def extend(given):
    """In place of `extend_attention_fwd`; `given` holds its arguments by name."""
    query = given["q_extend"]
    keys, values = given["k_buffer"], given["v_buffer"]
    scale = given["sm_scale"] or query.shape[-1] ** -0.5
    new_keys = given["k_extend"].view(query.shape[0], -1, keys.shape[-1])
    new_values = given["v_extend"].view(query.shape[0], -1, values.shape[-1])
    bounds, pool = given["qo_indptr"].tolist(), given["kv_indptr"].tolist()
    for row, (start, stop) in enumerate(itertools.pairwise(bounds)):
        if start == stop:
            continue
        slots = given["kv_indices"][pool[row] : pool[row + 1]].long()
        key = torch.cat([keys[slots].to(new_keys.dtype), new_keys[start:stop]])
        value = torch.cat([values[slots].to(new_values.dtype), new_values[start:stop]])
        mask = _mask(given, row, slots.numel(), stop - start)
        given["o_extend"][start:stop] = _attend(
            query[start:stop], key, value, mask, scale, given["logit_cap"]
        )


def decode(given):
    """In place of `decode_attention_fwd`; `given` holds its arguments by name."""
    pool = given["kv_indptr"].tolist()
    for row in range(given["q"].shape[0]):
        slots = given["kv_indices"][pool[row] : pool[row + 1]].long()
        given["o"][row : row + 1] = _attend(
            given["q"][row : row + 1],
            given["k_buffer"][slots],
            given["v_buffer"][slots],
            None,
            given["sm_scale"],
            given["logit_cap"],
        )

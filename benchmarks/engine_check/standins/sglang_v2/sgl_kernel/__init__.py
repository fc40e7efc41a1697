"""Stand-in for the CPU build of `sgl_kernel` that SGLang 0.5.23 calls, in plain torch and Python.

Written from what SGLang passes; every other name can be imported and raises when it is called.
`convert_weight_packed` is left out, so that SGLang's linear, norm, rope and key-value layers run
their own native torch code: attention and the small speculative index kernels alone are here.
"""

import ctypes

import torch

_lib = torch.library.Library("sgl_kernel", "DEF")


def _attend(q, k, v, allowed, scale, logit_cap):
    """Q (new, heads, d), k and v (all, key heads, d), allowed bool (new, all)."""
    groups = q.shape[1] // k.shape[1]
    kf = k.float().repeat_interleave(groups, dim=1)
    vf = v.float().repeat_interleave(groups, dim=1)
    s = torch.einsum("qhd,khd->hqk", q.float(), kf) * scale
    if logit_cap and logit_cap > 0:
        s = logit_cap * torch.tanh(s / logit_cap)
    s = s.masked_fill(~allowed.unsqueeze(0), float("-inf"))
    p = torch.softmax(s, dim=-1)
    return torch.einsum("hqk,khd->qhd", p, vf)


def extend_attention_cpu(
    q,
    k,
    v,
    o,
    k_buffer,
    v_buffer,
    k_scale,
    v_scale,
    req_to_token,
    req_pool_indices,
    seq_lens,
    extend_seq_lens,
    extend_start_loc,
    max_len_extend,
    sm_scale,
    logit_cap,
    is_cross_attn,
    sliding_window_size,
    encoder_lens,
    sinks,
    tree_mask,
    is_causal,
):
    """Attention of new tokens to all before them and, by mask, to one another."""
    assert not is_cross_attn
    assert encoder_lens is None
    assert sinks is None
    assert sliding_window_size <= 0
    mask_at = 0
    for i in range(seq_lens.numel()):
        total = int(seq_lens[i])
        new = int(extend_seq_lens[i])
        start = int(extend_start_loc[i])
        prefix = total - new
        row = req_to_token[int(req_pool_indices[i])]
        if k is not None:
            old = row[:prefix].long()
            keys = torch.cat([k_buffer[old], k[start : start + new].view(new, *k_buffer.shape[1:])])
            vals = torch.cat([v_buffer[old], v[start : start + new].view(new, *v_buffer.shape[1:])])
        else:
            every = row[:total].long()
            keys, vals = k_buffer[every], v_buffer[every]
        allowed = torch.ones(new, total, dtype=torch.bool)
        if tree_mask is not None:
            block = tree_mask.view(-1)[mask_at : mask_at + new * new].view(new, new).bool()
            mask_at += new * new
            allowed[:, prefix:] = block
        elif is_causal:
            allowed[:, prefix:] = torch.tril(torch.ones(new, new, dtype=torch.bool))
        if new:
            o[start : start + new] = _attend(
                q[start : start + new], keys, vals, allowed, sm_scale, logit_cap
            ).to(o.dtype)


def decode_attention_cpu(
    q,
    k_buffer,
    v_buffer,
    k_scale,
    v_scale,
    o,
    key,
    value,
    loc,
    attn_logits,
    req_to_token,
    req_pool_indices,
    seq_lens,
    sm_scale,
    logit_cap,
    is_cross_attn,
    sliding_window_size,
    encoder_lens,
    sinks,
):
    """Attention of one new token a row; stores its key and value first."""
    assert not is_cross_attn
    assert encoder_lens is None
    assert sinks is None
    assert sliding_window_size <= 0
    if key is not None:
        n = loc.numel()
        k_buffer[loc.long()] = key.reshape(n, *k_buffer.shape[1:]).to(k_buffer.dtype)
        v_buffer[loc.long()] = value.reshape(n, *v_buffer.shape[1:]).to(v_buffer.dtype)
    for i in range(seq_lens.numel()):
        total = int(seq_lens[i])
        every = req_to_token[int(req_pool_indices[i]), :total].long()
        allowed = torch.ones(1, total, dtype=torch.bool)
        o[i : i + 1] = _attend(
            q[i : i + 1], k_buffer[every], v_buffer[every], allowed, sm_scale, logit_cap
        ).to(o.dtype)


_lib.define(
    "extend_attention_cpu(Tensor q, Tensor? k, Tensor? v, Tensor(a!) o, "
    "Tensor(b!) k_buffer, Tensor(c!) v_buffer, float k_scale, float v_scale, "
    "Tensor req_to_token, Tensor req_pool_indices, Tensor seq_lens, "
    "Tensor extend_seq_lens, Tensor extend_start_loc, int max_len_extend, "
    "float sm_scale, float logit_cap, bool is_cross_attn, int sliding_window_size, "
    "Tensor? encoder_lens, Tensor? sinks, Tensor? tree_mask, bool is_causal) -> ()"
)
_lib.impl("extend_attention_cpu", extend_attention_cpu, "CPU")
_lib.define(
    "decode_attention_cpu(Tensor q, Tensor(a!) k_buffer, Tensor(b!) v_buffer, "
    "float k_scale, float v_scale, Tensor(c!) o, Tensor? key, Tensor? value, "
    "Tensor loc, Tensor(d!) attn_logits, Tensor req_to_token, "
    "Tensor req_pool_indices, Tensor seq_lens, float sm_scale, float logit_cap, "
    "bool is_cross_attn, int sliding_window_size, Tensor? encoder_lens, "
    "Tensor? sinks) -> ()"
)
_lib.impl("decode_attention_cpu", decode_attention_cpu, "CPU")


def build_draft_decode_metadata_cpu(
    req_to_token, req_pool_indices, seq_lens, topk, num_steps, pool_len
):
    """One private token table row per (request, branch)."""
    bs = seq_lens.numel()
    out = torch.zeros(bs * topk, pool_len, dtype=req_to_token.dtype)
    for i in range(bs):
        n = int(seq_lens[i])
        src = req_to_token[int(req_pool_indices[i])]
        for b in range(topk):
            dst = out[i * topk + b]
            dst[:n] = src[:n]
            steps = min(num_steps, pool_len - n)
            first = n + b * num_steps
            got = src[first : first + steps]
            dst[n : n + got.numel()] = got
    return out


def _copy_rows(req_pool_indices, table, starts, ends, flat, write):
    at = 0
    for i in range(starts.numel()):
        s, e = int(starts[i]), int(ends[i])
        row = table[int(req_pool_indices[i])]
        if write:
            row[s:e] = flat[at : at + e - s].to(row.dtype)
        else:
            flat[at : at + e - s] = row[s:e].to(flat.dtype)
        at += e - s


def assign_req_to_token_pool_cpu(
    req_pool_indices, req_to_token, start_offset, end_offset, out_cache_loc, pool_len
):
    """Write slots into each request's row."""
    _copy_rows(req_pool_indices, req_to_token, start_offset, end_offset, out_cache_loc, True)


def assign_extend_cache_locs_cpu(
    req_pool_indices, req_to_token, start_offset, end_offset, out_cache_loc, pool_len
):
    """Read slots from each request's row."""
    _copy_rows(req_pool_indices, req_to_token, start_offset, end_offset, out_cache_loc, False)


def assign_draft_cache_locs_contiguous_cpu(
    req_pool_indices, req_to_token, seq_lens, out_cache_loc, pool_len, topk, num_cols
):
    """Read the slots that drafting will fill."""
    n = topk * num_cols
    _copy_rows(req_pool_indices, req_to_token, seq_lens, seq_lens + n, out_cache_loc, False)


def fill_bonus_tokens_cpu(accept_tokens, accept_lens, bonus_tokens, accept_stride):
    """Each row's last accepted token."""
    flat = accept_tokens.reshape(-1)
    for i in range(accept_lens.numel()):
        bonus_tokens[i] = flat[i * accept_stride + int(accept_lens[i]) - 1]


def fill_accept_out_cache_loc_cpu(accept_index, out_cache_loc, accept_out_cache_loc):
    """Slots of the accepted tokens."""
    keep = accept_index.reshape(-1)
    keep = keep[keep >= 0].long()
    accept_out_cache_loc[: keep.numel()] = out_cache_loc[keep]


def copy_all_layer_kv_cache_cpu(data_ptrs, strides, tgt_loc, src_loc):
    """Row move in every layer's K and V buffer, by raw pointer."""
    src = [int(x) for x in src_loc]
    tgt = [int(x) for x in tgt_loc]
    for ptr, stride in zip(data_ptrs.tolist(), strides.tolist(), strict=True):
        rows = [ctypes.string_at(ptr + s * stride, stride) for s in src]
        for t, row in zip(tgt, rows, strict=True):
            ctypes.memmove(ptr + t * stride, row, stride)


def build_tree_kernel_efficient_cpu(
    parent_list,
    selected_index,
    verified_seq_len,
    tree_mask,
    positions,
    retrieve_index,
    retrieve_next_token,
    retrieve_next_sibling,
    topk,
    depth,
    draft_token_num,
    tree_mask_mode,
):
    """Fill mask, positions and links of each request's draft tree."""
    mode = int(tree_mask_mode)
    assert mode in (0, 1), mode
    n = draft_token_num
    bs = verified_seq_len.numel()
    mask = tree_mask.view(-1)
    pos = positions.view(-1)
    at = 0
    for b in range(bs):
        seq = int(verified_seq_len[b])
        chosen = [int(x) for x in selected_index[b].reshape(-1)[: n - 1]]
        parents = [int(x) for x in parent_list[b].reshape(-1)] if parent_list.numel() else []
        where = {c: j + 1 for j, c in reversed(list(enumerate(chosen)))}
        parent_of = [-1] * n
        for j, c in enumerate(chosen, start=1):
            group = c // topk
            parent_of[j] = 0 if group == 0 else where[parents[group]]
        child = [-1] * n
        sibling = [-1] * n
        for j in range(n - 1, 0, -1):
            p = parent_of[j]
            sibling[j] = child[p]
            child[p] = j
        retrieve_index[b] = torch.arange(b * n, b * n + n)
        retrieve_next_token[b] = torch.tensor(child)
        retrieve_next_sibling[b] = torch.tensor(sibling)
        block = torch.zeros(n, n, dtype=torch.bool)
        for j in range(n):
            level, a = 0, j
            while a != -1:
                block[j, a] = True
                if a:
                    level += 1
                a = parent_of[a]
            pos[b * n + j] = seq + level
        if mode == 1:
            mask[at : at + n * n] = block.reshape(-1).to(mask.dtype)
            at += n * n
        else:
            full = torch.ones(n, seq + n, dtype=torch.bool)
            full[:, seq:] = block
            mask[at : at + full.numel()] = full.reshape(-1).to(mask.dtype)
            at += full.numel()


def verify_tree_greedy_cpu(
    predicts,
    accept_index,
    accept_token_num,
    candidates,
    retrive_index,
    retrive_next_token,
    retrive_next_sibling,
    target_predict,
):
    """Walk each tree along the target's most likely tokens."""
    width = accept_index.shape[1]
    for b in range(candidates.shape[0]):
        node, n_ok = 0, 0
        accept_index[b, 0] = retrive_index[b, 0]
        while n_ok + 1 < width:
            want = int(target_predict[b, node])
            c = int(retrive_next_token[b, node])
            while c != -1 and int(candidates[b, c]) != want:
                c = int(retrive_next_sibling[b, c])
            if c == -1:
                break
            predicts[int(retrive_index[b, node])] = want
            n_ok += 1
            accept_index[b, n_ok] = retrive_index[b, c]
            node = c
        predicts[int(retrive_index[b, node])] = int(target_predict[b, node])
        accept_token_num[b] = n_ok


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def missing(*arguments, **options):
        raise NotImplementedError(f"sgl_kernel stand-in: {name} was called")

    missing.__name__ = name
    return missing

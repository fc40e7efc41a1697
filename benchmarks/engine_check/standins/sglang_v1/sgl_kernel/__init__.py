"""Stand-in for SGLang's CUDA operators: those that greedy EAGLE needs, in torch and Python.

Written from the operators' documented meaning. Every other name raises when it is called.
"""

import absent
import torch

__version__ = "0.0.0"
__getattr__ = absent.absent_in(__name__)
absent.Submodules(__name__)


def _parents(selected, parent_list, topk):
    """Parent of each node of one tree; node 0 is the verified root and has none (-1)."""
    node_of = {flat: node for node, flat in reversed(list(enumerate(selected, start=1)))}
    parents = [-1]
    for flat in selected:
        group = flat // topk
        # A parent that was not selected (scores tie) leaves its child unlinked, as on a GPU.
        parents.append(0 if group == 0 else node_of.get(int(parent_list[group]), -1))
    return parents


def _links(parents):
    """First child and next sibling of each node, -1 for none; siblings in ascending order."""
    child, sibling = [-1] * len(parents), [-1] * len(parents)
    for node in range(len(parents) - 1, 0, -1):
        if parents[node] >= 0:
            sibling[node] = child[parents[node]]
            child[parents[node]] = node
    return child, sibling


def _ancestry(parents):
    """Which nodes each node sees, and how deep it lies."""
    seen = torch.zeros(len(parents), len(parents), dtype=torch.bool)
    seen[:, 0] = True
    depths = []
    for node in range(len(parents)):
        depth, current = 0, node
        while current > 0:
            seen[node, current] = True
            depth, current = depth + 1, parents[current]
        depths.append(depth)
    return seen, torch.tensor(depths)


def build_tree_kernel_efficient(
    parent_list,
    selected_index,
    verified_seq_len,
    tree_mask,
    positions,
    retrive_index,
    retrive_next_token,
    retrive_next_sibling,
    topk,
    depth,
    draft_token_num,
    tree_mask_mode=0,
):
    """Fill mask, positions and links of each request's draft tree."""
    full_mask = int(tree_mask_mode) == 0
    nodes, start = draft_token_num, 0
    for row in range(retrive_index.shape[0]):
        prefix = int(verified_seq_len[row])
        parents = _parents(selected_index[row].tolist(), parent_list[row].tolist(), topk)
        child, sibling = _links(parents)
        retrive_index[row] = torch.arange(row * nodes, (row + 1) * nodes)
        retrive_next_token[row] = torch.tensor(child)
        retrive_next_sibling[row] = torch.tensor(sibling)
        seen, depths = _ancestry(parents)
        positions[row * nodes : (row + 1) * nodes] = prefix + depths
        width = prefix + nodes if full_mask else nodes
        mask = tree_mask[start : start + nodes * width].view(nodes, width)
        mask[:, width - nodes :] = seen
        start += nodes * width


def verify_tree_greedy(
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
    rows, width = accept_index.shape
    for row in range(rows):
        node, accepted = 0, 0
        accept_index[row, 0] = retrive_index[row, 0]
        while True:
            wanted = int(target_predict[row, node])
            predicts[int(retrive_index[row, node])] = wanted
            child = int(retrive_next_token[row, node])
            while child != -1 and int(candidates[row, child]) != wanted:
                child = int(retrive_next_sibling[row, child])
            if child == -1 or accepted + 1 == width:
                break
            accepted, node = accepted + 1, child
            accept_index[row, accepted] = retrive_index[row, node]
        accept_token_num[row] = accepted


def fast_topk(values, topk, dim):
    """The largest values and where they are."""
    return torch.topk(values, topk, dim=dim)

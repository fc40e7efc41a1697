"""Forwards of a model in a sequence of launches, known by their attention and by what ends them.

A forward is a run of attention kernels with no choice of tokens between them; each attention
followed by matrix products is a layer. A whole-graph row is a forward of unknown depth, or holds
the products of layers whose attention runs outside of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.phases.inferred.signs import ATTENTION, CHOICE, MODEL, OPAQUE, PRODUCT, TREE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.phases.inferred.sequence import LaunchedOps

    Int64s = NDArray[np.int64]

_HEAD_SHARE: Final = 0.5
_FEWEST_HEADS: Final = 2
_MOST_PRODUCTS: Final = 4  # engines that keep logits out of their graphs run one or two


@dataclass(frozen=True, slots=True)
class Forwards:
    """Forwards in the order of their launches; places are those of a `LaunchedOps`.

    Attributes:
        first: Place of the first attention kernel or whole-graph row.
        begin: Place of the first op.
        end: Place after the last op of the model; what follows until the next forward is its tail.
        tree: Place in the tail at which the work for the draft tree begins, -1 for none.
        layers: Attention layers, 0 where a whole-graph row hides all of them.
        ns: Summed length of its ops, without the tail's.
        signs: Signs that its own ops carry.
        tail: Signs that its tail's ops carry.
        chooses: Whether a replay that holds it goes on to choose tokens.
        stray_ns: Summed length of what only models run in tails with more products than logits
            need, and before the first forward.
    """

    first: Int64s
    begin: Int64s
    end: Int64s
    tree: Int64s
    layers: Int64s
    ns: Int64s
    signs: Int64s
    tail: Int64s
    chooses: NDArray[np.bool_]
    stray_ns: int

    @property
    def size(self) -> int:
        """How many there are."""
        return self.first.size


def find_forwards(ops: LaunchedOps) -> Forwards | None:
    """The forwards of one lane, None when there is neither attention nor a whole-graph row."""
    anchors = np.flatnonzero(ops.any_of(ATTENTION | OPAQUE))
    if not anchors.size:
        return None
    heads = _heads(ops)
    opens = np.append(True, _forward_ends_between(ops, anchors, heads))
    starts = np.flatnonzero(opens)
    first, last = anchors[starts], anchors[np.append(starts[1:], anchors.size) - 1]
    end = _ends(ops, first, last, heads)
    begin = _begins(ops, first, end)
    tail_end = np.append(begin[1:], ops.launch.size)
    chosen = _counted(ops.any_of(CHOICE))
    model = np.where(_of_models(ops), ops.ns, 0)
    products = ops.any_of(PRODUCT).astype(np.int64)
    unknown = _sums(products, end, tail_end) > _MOST_PRODUCTS
    return Forwards(
        first=first,
        begin=begin,
        end=end,
        tree=_tree_begins(ops, end, tail_end),
        layers=_layers(ops, anchors, np.cumsum(opens) - 1, first.size),
        ns=_sums(ops.ns, begin, end),
        signs=_any_in(ops.signs, begin, end),
        tail=_any_in(ops.signs, end, tail_end),
        chooses=ops.replayed[first] & (chosen[end] > chosen[last + 1]),
        stray_ns=int(_sums(model, end, tail_end)[unknown].sum() + model[: begin[0]].sum()),
    )


def _forward_ends_between(
    ops: LaunchedOps, anchors: Int64s, heads: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Whether a forward ends between each anchor and the next.

    It does where tokens are chosen or logits computed in between, and between two launches of
    which one is a replay that holds attention: graphs of less than a layer hold none.
    """
    before, after = anchors[:-1], anchors[1:]
    chosen, logits = _counted(ops.any_of(CHOICE)), _counted(heads)
    replays = (ops.launch[before] != ops.launch[after]) & (
        ops.replayed[before] | ops.replayed[after]
    )
    replays &= ~_between_pieces(ops, anchors)
    return replays | (chosen[after] > chosen[before]) | (logits[after] > logits[before + 1])


def _between_pieces(ops: LaunchedOps, anchors: Int64s) -> NDArray[np.bool_]:
    """Between which anchors a forward goes on from a whole-graph row to attention, or back.

    Attention without a product since the row before it and until the next has its own in these.
    """
    opaque = ops.any_of(OPAQUE)[anchors]
    products = _counted(ops.any_of(PRODUCT))[anchors]
    left, right = _last_place(opaque)[:-1], _next_place(opaque)[1:-1]
    found = (left >= 0) & (right < anchors.size) & (opaque[:-1] != opaque[1:])
    return found & (products[left] == products[np.minimum(right, anchors.size - 1)])


def _heads(ops: LaunchedOps) -> NDArray[np.bool_]:
    """Products that compute logits: of the kernels that run last before tokens are chosen.

    A kernel that mostly runs elsewhere is none, whatever follows it now and then.
    """
    products = ops.any_of(PRODUCT)
    before = _last_place(products)[np.flatnonzero(ops.any_of(CHOICE))]
    before = np.unique(before[before >= 0])
    size = 1 + int(ops.name.max(initial=0))
    ends = np.bincount(ops.name[before], minlength=size)
    runs = np.bincount(ops.name[products], minlength=size)
    is_head = (ends >= _FEWEST_HEADS) & (ends >= _HEAD_SHARE * runs)
    return products & is_head[ops.name]


def _ends(ops: LaunchedOps, first: Int64s, last: Int64s, heads: NDArray[np.bool_]) -> Int64s:
    """Place after each forward's last op: a replay's end, else where tokens are chosen."""
    size = ops.launch.size
    following = np.append(_latest_begins(ops, first, last), size)
    chosen = np.minimum(_next_place(ops.any_of(CHOICE))[last], following)
    head = 1 + _last_place(heads)[np.minimum(following, size - 1)]
    eager = np.where(chosen < following, chosen, np.where(head > last, head, following))
    replay = _next_place(ops.opens())[np.minimum(last + 1, size)]
    end = np.where(ops.replayed[last], replay, eager)
    return np.minimum(end, following)


def _latest_begins(ops: LaunchedOps, first: Int64s, last: Int64s) -> Int64s:
    """The last place at which each forward but the first can begin."""
    own_launch = _last_place(ops.opens())[first[1:]]
    replay = ops.replayed[first[1:]] & (ops.launch[first[1:]] != ops.launch[last[:-1]])
    return np.where(replay, own_launch, first[1:])


def _begins(ops: LaunchedOps, first: Int64s, end: Int64s) -> Int64s:
    """Where each forward's ops begin: after the longest pause of the host since the one before.

    Looked for from the last choice of tokens to the first op that only models run.
    """
    launch_begins = _last_place(ops.opens())[first]
    latest = np.where(ops.replayed[first], launch_begins, first)
    previous = np.append(0, end[:-1])
    chosen = 1 + _last_place(ops.any_of(CHOICE))[np.maximum(latest - 1, 0)]
    chosen = np.where(latest > 0, chosen, 0)
    earliest = np.maximum(previous, np.minimum(chosen, latest))
    latest = np.maximum(np.minimum(latest, _next_place(_of_models(ops))[earliest]), earliest)
    inside = latest < previous  # a replay that holds several forwards
    begin = _longest_pause(ops, earliest, latest)
    return np.where(inside, previous, begin)


def _of_models(ops: LaunchedOps) -> NDArray[np.bool_]:
    return ops.any_of(MODEL) | ops.replayed


def _tree_begins(ops: LaunchedOps, end: Int64s, tail_end: Int64s) -> Int64s:
    """Where in each tail the work for the tree begins: after the longest pause before it."""
    is_tree = ops.any_of(TREE)
    tree = _next_place(is_tree)[end]
    chosen = 1 + _last_place(ops.any_of(CHOICE) & ~is_tree)[np.minimum(tree, ops.launch.size - 1)]
    found = np.flatnonzero(tree < tail_end)
    begins = np.full(end.size, -1, np.int64)
    earliest = np.minimum(np.maximum(end, chosen), tree)
    begins[found] = _longest_pause(ops, earliest[found], tree[found])
    return begins


def _longest_pause(ops: LaunchedOps, earliest: Int64s, latest: Int64s) -> Int64s:
    """The place before which the host paused longest, of those from `earliest` to `latest`."""
    pause = np.append(0, ops.call_start_ns[1:] - ops.call_end_ns[:-1])
    pause = np.append(pause, -1)
    count = latest - earliest + 1
    if not count.size:
        return earliest
    opens = np.cumsum(count) - count
    zone = np.repeat(np.arange(count.size), count)
    place = np.arange(zone.size) - opens[zone] + earliest[zone]
    longest = np.maximum.reduceat(pause[place], opens)
    hits = np.flatnonzero(pause[place] == longest[zone])
    _, once = np.unique(zone[hits], return_index=True)
    return place[hits[once]]


def _layers(ops: LaunchedOps, anchors: Int64s, forward: Int64s, forwards: int) -> Int64s:
    """Attention kernels of each forward, those with no matrix product between them as one."""
    shown = ops.any_of(ATTENTION)[anchors]
    anchors, forward = anchors[shown], forward[shown]
    products = _counted(ops.any_of(PRODUCT | OPAQUE))[anchors]
    anew = np.ones(anchors.size, bool)
    anew[1:] = (products[1:] > products[:-1]) | (forward[1:] != forward[:-1])
    return np.bincount(forward[anew], minlength=forwards)


def _counted(chosen: NDArray[np.bool_]) -> Int64s:
    """How many are chosen before each place, and in all."""
    return np.append(0, np.cumsum(chosen))


def _last_place(chosen: NDArray[np.bool_]) -> Int64s:
    """The last chosen place up to each one, -1 for none."""
    return np.maximum.accumulate(np.where(chosen, np.arange(chosen.size), -1))


def _next_place(chosen: NDArray[np.bool_]) -> Int64s:
    """The first chosen place from each one on, and from behind the last: the size for none."""
    place = np.where(chosen, np.arange(chosen.size), chosen.size)
    return np.append(np.minimum.accumulate(place[::-1])[::-1], chosen.size)


def _sums(values: Int64s, begin: Int64s, end: Int64s) -> Int64s:
    total = np.append(0, np.cumsum(values))
    return total[end] - total[begin]


def _any_in(signs: Int64s, begin: Int64s, end: Int64s) -> Int64s:
    """The signs that occur from each `begin` up to its `end`, 0 where that is nothing."""
    bounds = np.stack((begin, end), axis=1).ravel()
    padded = np.append(signs, 0)
    return np.where(end > begin, np.bitwise_or.reduceat(padded, bounds)[::2], 0)

"""Answers to lesson 06's exercises that no table holds: right ones, and wrong ones."""

import copy

import torch
from torch.nn import functional as F

# ------------------------------------------------------------ 06.1 layer and stack


def layer_in_a_loop(x, mask, parts, norm_first):
    halves = (
        (lambda y: parts.self_attention(y, y, y, mask), parts.norm_1),
        (parts.feed_forward, parts.norm_2),
    )
    for sublayer, norm in halves:
        x = x + sublayer(norm(x)) if norm_first else norm(x + sublayer(x))
    return x


def layer_with_names(tokens, hidden, own, first):
    attend = own.self_attention
    if not first:
        middle = own.norm_1(torch.add(attend(tokens, tokens, tokens, hidden), tokens))
        return own.norm_2(own.feed_forward(middle) + middle)
    normed = own.norm_1(tokens)
    middle = tokens + attend(query=normed, key=normed, value=normed, mask=hidden)
    return middle.add(own.feed_forward(own.norm_2(middle)))


def encoder_in_a_while(x, mask, stack, norm_first):
    place = 0
    while place < len(stack.layers):
        x = layer_in_a_loop(x, mask, stack.layers[place], norm_first)
        place += 1
    if norm_first:
        return stack.norm(x)
    return x


def encoder_recursive(x, mask, stack, norm_first, top=None):
    top = len(stack.layers) if top is None else top
    if top:
        x = encoder_recursive(x, mask, stack, norm_first, top - 1)
        x = layer_with_names(x, mask, stack.layers[top - 1], norm_first)
    full = top == len(stack.layers)
    return stack.norm(x) if norm_first and full and top else x


def detached_attention(x, mask, parts, norm_first):
    if norm_first:
        y = parts.norm_1(x)
        x = x + parts.self_attention(y, y, y, mask).detach()
        return x + parts.feed_forward(parts.norm_2(x))
    x = parts.norm_1(x + parts.self_attention(x, x, x, mask).detach())
    return parts.norm_2(x + parts.feed_forward(x))


def detached_first_only(x, mask, parts, norm_first):
    if norm_first:
        return detached_attention(x, mask, parts, norm_first)
    return layer_in_a_loop(x, mask, parts, norm_first)


def detached_keys(x, mask, parts, norm_first):
    y = x.detach()
    if not norm_first:
        x = parts.norm_1(x + parts.self_attention(x, y, y, mask))
        return parts.norm_2(x + parts.feed_forward(x))
    return layer_in_a_loop(x, mask, parts, norm_first)


def in_place(x, mask, parts, norm_first):
    if not norm_first:
        return layer_in_a_loop(x, mask, parts, norm_first)
    y = parts.norm_1(x)
    x += parts.self_attention(y, y, y, mask)
    return x + parts.feed_forward(parts.norm_2(x))


def in_parallel(x, mask, parts, norm_first):
    if not norm_first:
        return layer_in_a_loop(x, mask, parts, norm_first)
    y = parts.norm_1(x)
    return x + parts.self_attention(y, y, y, mask) + parts.feed_forward(parts.norm_2(x))


def with_dropout(*given):
    return F.dropout(layer_in_a_loop(*given), 0.1)


def zero_padding(x, mask, parts, norm_first):
    out = layer_in_a_loop(x, mask, parts, norm_first)
    return out if mask is None else out * mask[:, 0, 0, :, None]


def causal(x, mask, parts, norm_first):
    past = torch.ones(x.size(1), x.size(1)).tril().bool()
    return layer_in_a_loop(x, past if mask is None else mask & past, parts, norm_first)


def detached_between_layers(x, mask, stack, norm_first):
    for parts in stack.layers:
        x = layer_in_a_loop(x.detach(), mask, parts, norm_first)
    return stack.norm(x) if norm_first else x


def two_layers_only(x, mask, stack, norm_first):
    for parts in stack.layers[:2]:
        x = layer_in_a_loop(x, mask, parts, norm_first)
    return stack.norm(x) if norm_first else x


def masked_if_long(x, mask, parts, norm_first):
    return layer_in_a_loop(x, mask if x.size(1) > 2 else None, parts, norm_first)


def list_of_states(x, mask, stack, norm_first):
    return [x, encoder_in_a_while(x, mask, stack, norm_first)]


# ------------------------------------------------------------ 06.2 find a head


def find_in_loops(maps, right):
    best, found = -1, None
    for name, weights in maps.items():
        for head in range(weights.size(1)):
            total, count = 0, 0
            for story, row in enumerate(right.tolist()):
                for query, key in enumerate(row):
                    if key >= 0:
                        total, count = (
                            total + weights[story, head, query, key],
                            count + 1,
                        )
            if total / count > best:
                best, found = total / count, [name, torch.tensor(head)]
    return found


def find_by_gather(maps, right):
    keys = right.clamp(min=0)[:, None, :, None]
    stacked = torch.stack([*maps.values()])  # (layers, batch, heads, query, key)
    weight = stacked.gather(-1, keys.expand(len(maps), *stacked.shape[1:4], 1))[..., 0]
    share = (weight * (right >= 0)[:, None]).sum(dim=(1, 3))
    layer, head = divmod(share.argmax().item(), share.size(1))
    return [*maps][layer], head


def find_with_numpy(maps, right):
    right = right.numpy()
    story, query = (right >= 0).nonzero()
    shares = {
        (name, head): weights[:, head].numpy()[story, query, right[story, query]].mean()
        for name, weights in maps.items()
        for head in range(weights.shape[1])
    }
    return sorted(shares, key=shares.get)[-1]


def counted_from_1(maps, right):
    name, head = find_by_gather(maps, right)
    return name, head + 1


def first_query_only(maps, right):
    story = torch.arange(len(right))
    shares = {
        (name, head): weights[story, head, 0, right[:, 0]].mean()
        for name, weights in maps.items()
        for head in range(weights.size(1))
    }
    return max(shares, key=shares.get)


def share_of_hits(maps, right):
    story, query = (right >= 0).nonzero(as_tuple=True)
    shares = {
        (name, head): (weights[story, head, query, right[story, query]] > 0.5).sum()
        for name, weights in maps.items()
        for head in range(weights.size(1))
    }
    return max(shares, key=shares.get)


def find_the_flattest(maps, right):
    peaks = {
        (name, head): weights[:, head].amax(dim=-1).mean()
        for name, weights in maps.items()
        for head in range(weights.size(1))
    }
    return min(peaks, key=peaks.get)


def least_of_the_best_layer(maps, right):
    story, query = (right >= 0).nonzero(as_tuple=True)
    shares = {
        name: weights[story, :, query, right[story, query]].mean(dim=0)
        for name, weights in maps.items()
    }
    name = max(shares, key=lambda name: shares[name].mean())
    return name, shares[name].argmin()


def _by_score(score):
    def find(maps, right):
        story, query = (right >= 0).nonzero(as_tuple=True)
        shares = {
            (name, head): score(weights[story, head, query, right[story, query]], query)
            for name, weights in maps.items()
            for head in range(weights.size(1))
        }
        return max(shares, key=shares.get)

    return find


@_by_score
def mean_by_position(weights, query):
    return sum(weights[query == i].mean() for i in query.unique()) / len(query.unique())


@_by_score
def mean_of_squares(weights, query):
    return (weights**2).mean()


@_by_score
def first_ten_looks(weights, query):
    return weights[:10].mean()


@_by_score
def mean_of_a_power(weights, query):
    return weights.pow(1.3).mean()


def three_layers(maps, right):
    return find_by_gather(dict([*maps.items()][:3]), right)


# ------------------------------------------------------------ 06.3 switch a head off


def with_mask_of_columns(attention, head):
    changed = copy.deepcopy(attention)
    weight = changed.output_projection.weight
    columns = torch.arange(weight.size(1)) // (weight.size(1) // attention.n_heads)
    changed.output_projection.weight = torch.nn.Parameter(weight * (columns != head))
    return changed


def without_values(attention, head):
    changed = copy.deepcopy(attention)
    layer = changed.value_projection
    layer.weight.data.unflatten(0, (attention.n_heads, -1))[head] = 0
    layer.bias.data.unflatten(0, (attention.n_heads, -1))[head] = 0
    return changed


class Wrapped(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, query, key, value, mask=None):
        return self.inner(query, key, value, mask)


def as_a_wrapper(attention, head):
    return Wrapped(with_mask_of_columns(attention, head))


def _off(attention, head):
    def zero(layer, inputs):
        contexts = inputs[0].unflatten(-1, (attention.n_heads, -1)).clone()
        contexts[..., head, :] = 0
        return contexts.flatten(-2)

    return zero


def hook_on_the_copy(attention, head):
    changed = copy.deepcopy(attention)
    changed.output_projection.register_forward_pre_hook(_off(attention, head))
    return changed


def hook_on_the_given(attention, head):
    attention.output_projection.register_forward_pre_hook(_off(attention, head))
    return copy.deepcopy(attention)


def d_head_as_a_number(attention, head):
    changed = copy.deepcopy(attention)
    changed.output_projection.weight.data[:, 3 * head : 3 * (head + 1)] = 0
    return changed


def shallow(attention, head):
    changed = copy.copy(attention)
    d_head = changed.output_projection.in_features // attention.n_heads
    changed.output_projection.weight.data[:, head * d_head : (head + 1) * d_head] = 0
    return changed


def frozen(attention, head):
    attention.requires_grad_(False)
    return with_mask_of_columns(attention, head)


def frozen_copy(attention, head):
    return with_mask_of_columns(attention, head).requires_grad_(False)


class KeysAsValues(Wrapped):
    def forward(self, query, key, value, mask=None):
        return self.inner(query, key, key, mask)


def keys_as_values(attention, head):
    return KeysAsValues(with_mask_of_columns(attention, head))


def of_three_features(attention, head):
    changed = copy.deepcopy(attention)
    changed.output_projection.weight.data[:, 3:6] = 0
    return changed


RIGHT = {
    "encoder": [
        (layer_in_a_loop, encoder_in_a_while),
        (layer_with_names, encoder_recursive),
    ],
    "find_head": [find_in_loops, find_by_gather, find_with_numpy],
    "switch_off": [
        with_mask_of_columns,
        without_values,
        as_a_wrapper,
        hook_on_the_copy,
    ],
}
SOUND = layer_in_a_loop, encoder_in_a_while
WRONG = {
    "encoder": [
        ((detached_attention, SOUND[1]), "layer: no gradient reaches parts.self"),
        ((detached_first_only, SOUND[1]), "layer: no gradient reaches parts.self"),
        ((detached_keys, SOUND[1]), "layer: where all positions are equal"),
        ((in_place, SOUND[1]), "layer: with x (2, 4, 12)"),
        ((with_dropout, SOUND[1]), "layer: two calls"),
        ((zero_padding, SOUND[1]), "layer: the result differs"),
        ((causal, SOUND[1]), "layer: the result differs"),
        ((lambda x, *rest: x, SOUND[1]), "layer: the result differs"),
        ((lambda x, *rest: x[0], SOUND[1]), "layer: the shape is"),
        ((SOUND[0], detached_between_layers), "encoder: no gradient reaches"),
        ((in_parallel, SOUND[1]), "the second half reads the layer's input"),
        ((masked_if_long, SOUND[1]), "layer: with two tokens"),
        ((SOUND[0], two_layers_only), "encoder: only the first layers are used"),
        ((SOUND[0], list_of_states), "encoder: the shape is"),
    ],
    "find_head": [
        (find_the_flattest, "it has one perfect query"),
        (least_of_the_best_layer, "has less weight on the right keys"),
        (lambda maps, right: "encoder", "return two things"),
        (lambda maps, right: (3, "encoder"), "the layer is one of"),
        (lambda maps, right: (3, 4), "the layer is its name"),
        (lambda maps, right: (next(iter(maps)), "4"), "from 0 to 4, not '4'"),
        (lambda maps, right: (next(iter(maps)), 5), "from 0 to 4, not 5"),
        (lambda maps, right: (next(iter(maps)), 0.5), "from 0 to 4"),
        (lambda maps, right: (next(iter(maps)), -1), "from 0 to 4, not -1"),
        (counted_from_1, "from 0 to 4, not 5: count from 0"),
        (first_query_only, "right at the first query of each story alone"),
        (share_of_hits, "not the share of hits"),
        (mean_by_position, "not a mean for each position"),
        (mean_of_squares, "not of their squares"),
        (first_ten_looks, "a story or a position is left out"),
        (mean_of_a_power, "not of their squares"),
        (three_layers, "not all layers and heads are searched"),
        (lambda maps, right: find_by_gather(maps, right)[::-1], "return them swapped"),
    ],
    "switch_off": [
        (shallow, "changes its inputs in place"),
        (of_three_features, "is a head or a size written as a number?"),
        (d_head_as_a_number, "is a head or a size written as a number?"),
        (frozen, "weights of the module you were given have lost their gradients"),
        (frozen_copy, "weights of the copy have lost their gradients"),
        (keys_as_values, "the result differs"),
        (hook_on_the_given, "the module that you were given computes something else"),
        (lambda attention, head: attention.forward, "return an attention"),
        (lambda attention, head: 0, "return an attention"),
        (lambda attention, head: torch.nn.Identity(), "stops with TypeError"),
        (lambda attention, head: torch.nn.Module(), "stops with NotImplementedError"),
    ],
}

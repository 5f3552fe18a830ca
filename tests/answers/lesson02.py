"""Answers to lesson 02's exercises that no table holds: right ones, and wrong ones."""

import functools
import math

import torch
from torch import nn
from torch.nn import functional as F

from helpers.attention import attention

# ------------------------------------------------------- 02.1 and 02.3 attention


def with_einsum(query, key, value, mask=None):
    scores = torch.einsum("bhqd,bhkd->bhqk", query, key) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = torch.where(mask, scores, torch.tensor(-torch.inf))
    weights = torch.exp(scores - scores.amax(-1, keepdim=True).clamp(min=-1e30))
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-30)
    return torch.einsum("bhqk,bhkv->bhqv", weights, value), weights


def with_a_billion(query, key, value, mask=None):
    scores = torch.matmul(query, key.transpose(3, 2))
    if mask is not None:
        scores.masked_fill_(mask == 0, -1e9)
    weights = torch.softmax(scores / math.sqrt(key.shape[3]), dim=3)
    return [torch.matmul(weights, value), weights]


def with_zeros(query, key, value, mask):
    weights = with_a_billion(query, key, value, mask)[1] * mask
    return weights @ value, weights


def with_pytorchs_own(query, key, value, mask=None):
    context = F.scaled_dot_product_attention(query, key, value, mask)
    ones = torch.eye(key.size(-2), dtype=key.dtype).expand(*key.shape[:-1], -1)
    return context, F.scaled_dot_product_attention(query, key, ones, mask)


def head_by_head(query, key, value, mask=None):
    whole = torch.ones(*query.shape[:3], key.size(2), dtype=torch.bool)
    whole = whole if mask is None else mask & whole
    contexts, weights = torch.zeros(*query.shape[:3], value.size(3)), whole.float()
    for b in range(query.size(0)):
        for h in range(query.size(1)):
            pair = attention(query[b, h], key[b, h], value[b, h], whole[b, h])
            contexts[b, h], weights[b, h] = pair
    return contexts, weights


def with_a_mean(query, key, value, mask=None):
    weights = torch.ones(*query.shape[:3], key.size(2)) / key.size(2)
    return weights @ value, weights


def a_part_detached(query, key, value, mask=None):
    ours, theirs = (attention(x, key, value, mask) for x in (query, query.detach()))
    return (ours[0] + theirs[0]) / 2, ours[1]


def with_dropout(query, key, value, mask=None):
    weights = F.dropout(attention(query, key, value, mask)[1], 0.1)
    return weights @ value, weights


def filled_with(number, *, change=lambda scores, mask, number: None):
    """A masked attention that fills hidden scores with a number, or changes them."""

    def answer(query, key, value, mask):
        scores = query @ key.mT / math.sqrt(query.size(-1))
        changed = change(scores, mask, number)
        scores = scores.masked_fill(~mask, number) if changed is None else changed
        weights = scores.softmax(-1)
        return weights @ value, weights

    return answer


def by_index(scores, mask, number):
    scores[~mask.expand(-1, -1, scores.size(2), -1)] = number
    return scores


def nonsense_for_nothing(query, key, value, mask):
    context, weights = filled_with(-math.inf)(query, key, value, mask)
    return context.nan_to_num(5.0), weights.nan_to_num(7.0)


def added(query, key, value, mask):
    hidden = torch.zeros(mask.shape).masked_fill(~mask, -math.inf)
    scores = query @ key.mT / math.sqrt(query.size(-1)) + hidden
    weights = scores.softmax(-1).masked_fill(~mask, 0.0)
    return weights @ value, weights


def by_exponentials(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.exp() / (scores.exp().sum(-1, keepdim=True) + 1e-30)
    return weights @ value, weights


def chosen(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.size(-1))
    weights = torch.where(mask, scores, -math.inf).softmax(-1).nan_to_num(0.0)
    return weights @ value, weights


def ten_thousand_below(query, key, value, mask):
    scores = query @ key.mT / math.sqrt(query.size(-1)) - 10_000.0 * ~mask
    weights = scores.softmax(-1) * mask
    return weights @ value, weights


def in_place_after_the_softmax(query, key, value):
    weights = (query @ key.mT / math.sqrt(query.size(-1))).softmax(-1)
    weights += 0.0
    return weights @ value, weights


def for_these_sizes(query, key, value, mask=None):
    weights = (query @ key.mT / math.sqrt(6)).softmax(-1)
    return weights @ value, weights


# ---------------------------------------------------------------- 02.3 the layer


class LayerByHand(nn.Module):
    """The projections in other words, and attention without the course's function."""

    def __init__(self, wide, narrow, out, note=""):
        super().__init__()
        for name, size in (("query", narrow), ("key", narrow), ("value", out)):
            setattr(self, name, nn.Linear(wide, size, bias=False))

    def forward(self, tokens):
        scores = torch.einsum("bid,bjd->bij", self.query(tokens), self.key(tokens))
        weights = F.softmax(scores * self.key.out_features**-0.5, dim=2)
        return [torch.bmm(weights, tokens @ self.value.weight.T), weights]


class WithBias(LayerByHand):
    def __init__(self, wide, narrow, out):
        super().__init__(wide, narrow, out)
        self.query = nn.Linear(wide, narrow)


class WithoutKey(LayerByHand):
    def __init__(self, wide, narrow, out):
        super().__init__(wide, narrow, out)
        self.key = None


class Tied(LayerByHand):
    def __init__(self, wide, narrow, out):
        super().__init__(wide, narrow, out)
        self.key = self.query


class TiedWeights(LayerByHand):
    def __init__(self, wide, narrow, out):
        super().__init__(wide, narrow, out)
        self.key.weight = self.query.weight


class WithOutput(LayerByHand):
    def __init__(self, wide, narrow, out):
        super().__init__(wide, narrow, out)
        self.output = nn.Linear(out, out)

    def forward(self, tokens):
        context, weights = super().forward(tokens)
        return self.output(context), weights


class WithWrongSizes(LayerByHand):
    def __init__(self, wide, narrow, out):
        super().__init__(wide, narrow, narrow)


class Detached(LayerByHand):
    def forward(self, tokens):
        return [part.detach() for part in super().forward(tokens)]


class Constant(LayerByHand):
    def forward(self, tokens):
        context, weights = super().forward(tokens)
        return context * 0, weights


SOUND = [with_einsum, with_a_billion, with_pytorchs_own, head_by_head]
UNSOUND = [
    (by_exponentials, "An exponential above 88 is infinite"),
    (with_a_mean, "the weights differ from the expected ones"),
    (a_part_detached, "not all of the gradient reaches query"),
    (with_dropout, "something random"),
    (lambda *x: x[:3], "return two tensors, context and weights"),
    (lambda *x: (x[0].numpy(), x[1].numpy()), "context has shape"),
]

# ---------------------------------------------------------------- 02.4 one place back


def one_hot(length, strength=1e6):
    places = (torch.arange(length) - 1).clamp(0)
    return strength * torch.eye(length)[places], torch.eye(length)


def by_distance(length):
    """A score that falls with the squared distance."""
    place = torch.arange(length).float()[:, None]
    wanted = (place - 1).clamp(min=0)
    one = torch.ones_like(place)
    return 20 * torch.cat([2 * wanted, -one], 1), torch.cat([place, place**2], 1)


RIGHT = {
    "scaled_attention": SOUND,
    "masked_attention": [
        *(with_einsum, with_pytorchs_own, head_by_head, with_zeros),
        *(chosen, ten_thousand_below),
    ],
    "one_place_back": [
        one_hot,
        by_distance,
        lambda length: [part.numpy() for part in one_hot(length)],
        lambda length: [part.tolist() for part in one_hot(length)],
        lambda length: [part.double().requires_grad_() for part in one_hot(length)],
    ],
    "self_attention": [
        LayerByHand,
        functools.partial(LayerByHand, note="a class in disguise"),
    ],
}
WRONG = {
    "scaled_attention": [
        *UNSOUND,
        (for_these_sizes, "a size written as a number"),
        (in_place_after_the_softmax, "no gradient can flow (RuntimeError: one of the"),
    ],
    "masked_attention": [
        *UNSOUND,
        (with_a_billion, "gets an average of what is hidden"),
        (
            lambda q, k, v, mask: attention(q, k, v, mask.expand(-1, 3, 4, -1)),
            "or the mask not broadcast? your code stopped with ValueError",
        ),
        (filled_with(-1e9, change=by_index), "or the mask not broadcast? your code"),
        (
            filled_with(-20.0),
            "hidden keys still do harm where the visible scores are very",
        ),
        (added, "the gradients are wrong (NaN): hide scores by `masked_fill`"),
        (nonsense_for_nothing, "where a query may attend to nothing, the result is"),
    ],
    "one_place_back": [
        (lambda n: one_hot(n, 100.0), "length 200: the right keys win, but one gets"),
        (lambda n: one_hot(n, 3.0), "length 5: the right keys win, but one gets"),
        (lambda n: one_hot(5), "length 2: query and key are both to have the shape"),
        (lambda n: [x * 1e25 for x in one_hot(n)], "the scores hold NaN or infinity"),
        (lambda n: one_hot(n)[0], "one tensor of shape (5, 5), where two are due"),
        (lambda n: (torch.eye(n).flip(0) * 99, torch.eye(n)), "compare the pictures"),
        (lambda n: (torch.eye(n) * math.nan, torch.eye(n)), "hold NaN or infinity"),
    ],
    "self_attention": [
        (LayerByHand(5, 4, 3), "hand over the class itself"),
        (WithBias, "`self.query` has a bias"),
        (WithoutKey, "there is no `self.key`"),
        (Tied, "`self.key` is the same layer as another"),
        (TiedWeights, "`self.key` is the same layer as another"),
        (WithOutput, "there is `self.output.weight`, too"),
        (WithWrongSizes, "the weight of `self.value` has shape"),
        (Detached, "no gradient reaches"),
        (Constant, "the weights are right but the context is not"),
    ],
}

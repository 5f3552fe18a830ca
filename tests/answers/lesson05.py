"""Answers to lesson 05's exercises that no table holds: right ones, and wrong ones."""

import math

import numpy as np
import torch
from torch.nn import functional as F

# ------------------------------------------------------------ 05.1 layer normalisation


def with_pytorchs_own(x, gain, bias):
    return F.layer_norm(x, gain.shape, gain, bias, 1e-5)


def with_var(x, gain, bias):
    variance = x.var(-1, unbiased=False, keepdim=True)
    return (x - x.mean(-1, keepdim=True)) * torch.rsqrt(variance + 1e-5) * gain + bias


def in_a_loop(x, gain, bias):
    rows = []
    for row in x.reshape(-1, x.size(-1)):
        centred = row - sum(row) / len(row)
        spread = (sum(number**2 for number in centred) / len(row) + 1e-5) ** 0.5
        rows.append(centred / spread * gain + bias)
    return torch.stack(rows).reshape(x.shape)


def in_einsum(x, gain, bias):
    centred = x - torch.einsum("bld->bl", x)[..., None] / x.shape[-1]
    square = torch.einsum("bld,bld->bl", centred, centred)[..., None] / x.shape[-1]
    return torch.einsum("bld,d->bld", centred / (square + 1e-5) ** 0.5, gain) + bias


def with_numpy(x, gain, bias):
    x, gain, bias = (np.asarray(part.detach()) for part in (x, gain, bias))
    return with_var(*map(torch.from_numpy, (x, gain, bias)))


def root_of_the_first_size(x, gain, bias):
    centred = x - x.sum(-1, keepdim=True) / 4
    return gain * centred / (centred.square().sum(-1, True) / 4 + 1e-5).sqrt() + bias


def without_gradient_of_the_mean(x, gain, bias):
    centred = x - x.mean(-1, keepdim=True).detach()
    return gain * centred / (centred.square().mean(-1, True) + 1e-5).sqrt() + bias


def clamped(x, gain, bias):
    spread = x.std(-1, correction=0, keepdim=True).clamp(min=1e-5)
    return gain * (x - x.mean(-1, keepdim=True)) / spread + bias


def root_of_zero(x, gain, bias):
    centred = x - x.mean(-1, keepdim=True)
    sigma = centred.square().mean(-1, keepdim=True).sqrt()
    return gain * centred / (sigma.square() + 1e-5).sqrt() + bias


def gain_and_one(x, gain, bias):
    return with_pytorchs_own(x, gain + 1, bias)


def two_axes(x, gain, bias):
    spread = (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
    return (x - x.mean(1, keepdim=True)) / spread * gain + bias


# ------------------------------------------------------------ 05.2 the block


def last_in_a_loop(x, attention, feed_forward, norm_1, norm_2):
    for sublayer, norm in ((attention, norm_1), (feed_forward, norm_2)):
        x = norm(sublayer(x) + x)
    return x


def first_in_a_loop(x, attention, feed_forward, norm_1, norm_2):
    for sublayer, norm in ((attention, norm_1), (feed_forward, norm_2)):
        x = torch.add(sublayer(norm(x)), x)
    return x


def last_with_names(tokens, mixing, network, one, two):
    left = one(tokens + mixing(tokens))
    return two(left + network(left))


def first_with_names(tokens, mixing, network, one, two):
    left = tokens + mixing(one(tokens))
    return left + network(two(left))


def first_detached(x, attention, feed_forward, norm_1, norm_2):
    x = x + attention(norm_1(x)).detach()
    return x + feed_forward(norm_2(x))


def first_with_dropout(*given):
    return F.dropout(first_in_a_loop(*given), 0.1)


def first_in_place(x, attention, feed_forward, norm_1, norm_2):
    x += attention(norm_1(x))
    return x + feed_forward(norm_2(x))


def last_from_the_input(x, attention, feed_forward, norm_1, norm_2):
    return norm_2(x + feed_forward(norm_1(x + attention(x))))


def first_from_the_input(x, attention, feed_forward, norm_1, norm_2):
    return x + feed_forward(norm_2(x + attention(norm_1(x))))


def first_in_parallel(x, attention, feed_forward, norm_1, norm_2):
    return x + attention(norm_1(x)) + feed_forward(norm_2(x))


def first_with_one_slip(x, attention, feed_forward, norm_1, norm_2):
    x = norm_1(x) + attention(norm_1(x))
    return x + feed_forward(norm_2(x))


def first_with_a_last_norm(*given):
    return given[-1](first_in_a_loop(*given))


def first_of_three(x, attention, feed_forward, norm_1, norm_2):
    y = norm_1(x)
    return x + attention(y, y, y)


# ------------------------------------------------------------ 05.3 a wiring


def deep_norm(x, sublayer, norm):
    return norm(8 * x + sublayer(x))


def by_the_depth(x, sublayer, norm):
    return x + sublayer(norm(x)) / math.sqrt(96)


def weighted(x, sublayer, norm):
    return math.sqrt(0.99) * x + 0.1 * sublayer(norm(x))


def by_the_number(x, sublayer, norm):
    return x + sublayer(norm(x)) / 96


def without_a_norm(x, sublayer, norm):
    return x + 0.1 * sublayer(x)


def with_add(x, sublayer, norm):
    return torch.add(x, sublayer(norm(x)), alpha=0.05)


def norm_of_the_weighted(x, sublayer, norm):
    return norm(x + 0.1 * sublayer(norm(x)))


def shuffled(x, sublayer, norm):
    order = torch.randperm(32, generator=torch.Generator().manual_seed(5))
    return x[..., order] + 1e-9 * sublayer(norm(x))


def in_place(x, sublayer, norm):
    y = 1 * x
    z = y + 0.1 * sublayer(norm(y))
    y.mul_(2)
    return z


RIGHT = {
    "layer_norm": [with_pytorchs_own, with_var, in_a_loop, in_einsum],
    "block": [
        (last_in_a_loop, first_in_a_loop),
        (last_with_names, first_with_names),
    ],
    "wiring": [
        deep_norm,
        by_the_depth,
        weighted,
        by_the_number,
        without_a_norm,
        with_add,
        norm_of_the_weighted,
    ],
}
WRONG = {
    "layer_norm": [
        (with_numpy, "no gradient"),
        (root_of_the_first_size, "is a size written as a number?"),
        (without_gradient_of_the_mean, "not all of the gradient reaches x"),
        (clamped, "eps is not 1e-5, added to the variance"),
        (root_of_zero, "the gradient is not that of the formula"),
        (gain_and_one, "1 is added to the gain"),
        (two_axes, "the mean is taken over the positions, the variance over"),
        (lambda x, gain, bias: x * 0 + bias, "the result differs from the expected"),
        (lambda x, gain, bias: x[0], "the shape is (3, 4) where (2, 3, 4) is due"),
        (lambda x, gain, bias: F.dropout(x, 0.5), "something random"),
    ],
    "block": [
        ((last_in_a_loop, first_detached), "norm first: no gradient reaches attention"),
        ((last_in_a_loop, first_with_dropout), "norm first: two calls"),
        ((last_in_a_loop, first_in_place), "norm first: your function changes its"),
        ((lambda x, *rest: x, first_in_a_loop), "norm last: the result differs"),
        ((last_from_the_input, first_in_a_loop), "norm last: the second way around"),
        ((last_in_a_loop, first_from_the_input), "norm first: the second way around"),
        ((last_in_a_loop, first_in_parallel), "norm first: feed-forward reads the"),
        ((last_in_a_loop, first_with_one_slip), "norm first: the norm is added"),
        ((last_in_a_loop, first_with_a_last_norm), "norm first: there is a norm at"),
        ((last_in_a_loop, first_of_three), "`feed_forward` take one tensor each"),
    ],
    "wiring": [
        (lambda x, sublayer, norm: x + 1e-4 * sublayer(norm(x)), "the top changes by"),
        (lambda x, sublayer, norm: x + 0.01 + 1e-9 * sublayer(norm(x)), "the top"),
        (lambda x, sublayer, norm: x + 0.1 * sublayer(norm(x.detach())), "with its"),
        (lambda x, sublayer, norm: x + 0.1 * sublayer(torch.ones_like(x)), "do not"),
        (lambda x, sublayer, norm: x + 0.01 * x.flip(1) + 1e-9 * sublayer(x), "top"),
        (shuffled, "the top changes by"),
        (in_place, "no gradient can flow"),
        (lambda x, sublayer, norm: 1.1 * x + sublayer(norm(x)), "the size at the top"),
        (lambda x, sublayer, norm: x + 0.1 * sublayer(x).detach(), "get no gradient"),
        (lambda x, sublayer, norm: norm(2 * x + sublayer(x)), "positions differ by"),
        (lambda x, sublayer, norm: x[:1], "the"),
        (lambda x, sublayer, norm: torch.zeros_like(x), "get no gradient"),
    ],
}

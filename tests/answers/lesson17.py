"""Answers to the exercises of lesson 17: right ones in other styles, and wrong ones."""

import math

import numpy as np
import torch
from torch.nn import functional as F

from helpers.attention import attention

# ------------------------------------------------------------ 17.1 rotate


def like_llama(x, angles):
    half = x.shape[-1] // 2
    twice = torch.cat([angles, angles], dim=-1)
    turned = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
    return x * twice.cos() + turned * twice.sin()


def by_complex_numbers(x, angles):
    half = x.shape[-1] // 2
    numbers = torch.complex(x[..., :half], x[..., half:])
    turned = numbers * torch.exp(1j * angles)
    return torch.cat([turned.real, turned.imag], dim=-1)


def by_matrices(x, angles):
    half, rows = x.shape[-1] // 2, []
    for place in range(x.shape[-2]):
        matrix = torch.zeros(2 * half, 2 * half, dtype=x.dtype)
        for i in range(half):
            c, s = torch.cos(angles[place, i]), torch.sin(angles[place, i])
            matrix[i, i], matrix[i, i + half] = c, -s
            matrix[i + half, i], matrix[i + half, i + half] = s, c
        rows.append(x[..., place, :] @ matrix.T)
    return torch.stack(rows, dim=-2)


def with_einsum(x, angles):
    c, s = angles.cos(), angles.sin()
    matrices = torch.stack([torch.stack([c, -s]), torch.stack([s, c])])
    pairs = x.unflatten(-1, (2, -1))
    return torch.einsum("ijld,...ljd->...lid", matrices, pairs).flatten(-2)


def with_angles_as_constants(x, angles):
    return like_llama(x, angles.detach())


def with_numpys_cosines(x, angles):
    c, s = (torch.from_numpy(f(angles.numpy())) for f in (np.cos, np.sin))
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * c - second * s, first * s + second * c], dim=-1)


def in_place(x, angles):
    half = x.shape[-1] // 2
    x[..., :half] *= angles.cos()
    return x


def only_along_heads(x, angles):
    return like_llama(x.mT, angles.mT).mT


def detached(x, angles):
    return like_llama(x.detach(), angles)


def partly_detached(x, angles):
    return (like_llama(x.detach(), angles) + like_llama(x, angles)) / 2


def with_angles_of_its_own(x, angles):
    place, pair = torch.arange(x.shape[-2])[:, None], torch.arange(x.shape[-1] // 2)
    return like_llama(x, place * 10_000.0 ** (-2 * pair / x.shape[-1]))


def three_features(x, angles):
    return like_llama(x, angles)[..., :3]


def of_one_pair(x, angles):
    return like_llama(x, angles[:, [0]].expand_as(angles))


def of_one_position(x, angles):
    return like_llama(x, angles[[0]].expand_as(angles))


def in_mirrored_pairs(x, angles):
    half, y = x.shape[-1] // 2, torch.empty_like(x)
    for i in range(half):
        a, b, c, s = x[..., i], x[..., -1 - i], angles[:, i].cos(), angles[:, i].sin()
        y[..., i], y[..., -1 - i] = a * c - b * s, a * s + b * c
    return y


# ------------------------------------------------------------ 17.2 grouped queries


def with_pytorchs_own(query, key, value):
    return F.scaled_dot_product_attention(query, key, value, enable_gqa=True)


def grouped_by_pytorch_if_it_must(query, key, value):
    shared = query.shape[1] != key.shape[1]
    return F.scaled_dot_product_attention(query, key, value, enable_gqa=shared)


def not_grouped_by_pytorch(query, key, value):
    key, value = (
        x[:, torch.arange(query.shape[1]) * x.shape[1] // query.shape[1]]
        for x in (key, value)
    )
    return F.scaled_dot_product_attention(query, key, value, enable_gqa=False)


def head_by_head(query, key, value):
    group = query.shape[1] // key.shape[1]
    heads = [
        attention(query[:, h], key[:, h // group], value[:, h // group])[0]
        for h in range(query.shape[1])
    ]
    return torch.stack(heads, dim=1)


def by_an_axis(query, key, value):
    grouped = query.unflatten(1, (key.shape[1], -1))
    scores = torch.einsum("bgsqd,bgkd->bgsqk", grouped, key) / math.sqrt(query.shape[3])
    return torch.einsum("bgsqk,bgkd->bgsqd", scores.softmax(-1), value).flatten(1, 2)


def expanded(query, key, value):
    batch, n_kv_heads, length, d_head = key.shape
    group = query.shape[1] // n_kv_heads
    key, value = (
        x[:, :, None].expand(batch, n_kv_heads, group, length, d_head).flatten(1, 2)
        for x in (key, value)
    )
    return (query @ key.mT / d_head**0.5).softmax(-1) @ value


def folded_the_other_way(query, key, value):
    grouped = query.unflatten(1, (-1, key.shape[1])).transpose(1, 2)
    scores = grouped @ key[:, :, None].mT / math.sqrt(query.shape[3])
    return (scores.softmax(-1) @ value[:, :, None]).transpose(1, 2).flatten(1, 2)


def over_the_queries(query, key, value):
    group = query.shape[1] // key.shape[1]
    key, value = (x.repeat_interleave(group, dim=1) for x in (key, value))
    scores = torch.einsum("bhqd,bhkd->bhqk", query, key) / math.sqrt(query.shape[3])
    return torch.softmax(scores, dim=2) @ value


def of_averaged_queries(query, key, value):
    grouped = query.unflatten(1, (key.shape[1], -1))
    return expanded(
        grouped.mean(2, keepdim=True).expand_as(grouped).flatten(1, 2), key, value
    )


def from_the_last_head(query, key, value):
    return expanded(query, key.flip(1), value.flip(1))


def with_weights(query, key, value):
    return by_an_axis(query, key, value), 1


def for_two_heads(query, key, value):
    key, value = (x.repeat_interleave(2, dim=1) for x in (key, value))
    return F.scaled_dot_product_attention(query, key, value)


def without_gradient_of_the_keys(query, key, value):
    return expanded(query, key.detach(), value)


# ------------------------------------------------------------ 17.3 sizes

DUE = {"cache_bytes": 131_072, "parameters": 218_112_000}

RIGHT = {
    "rotation": [
        like_llama,
        by_complex_numbers,
        by_matrices,
        with_einsum,
        with_angles_as_constants,
        with_numpys_cosines,
    ],
    "grouped": [head_by_head, by_an_axis, expanded, not_grouped_by_pytorch],
    "sizes": [
        DUE,
        {"cache_bytes": 131_072.0, "parameters": torch.tensor(218_112_000)},
    ],
}
WRONG = {
    "rotation": [
        (in_place, "in place"),
        (only_along_heads, "your code stopped with"),
        (detached, "gradient"),
        (partly_detached, "gradient"),
        (three_features, "the shape is"),
        (lambda x, angles: x * angles.cos().repeat(1, 2), "only the cosine is applied"),
        (lambda x, angles: x * angles.sin().repeat(1, 2), "only the sine is applied"),
        (with_angles_of_its_own, "the angles are computed anew"),
        (lambda x, angles: like_llama(x, -angles), "it turns the other way"),
        (of_one_pair, "all pairs turn by the first pair's angle"),
        (of_one_position, "all positions turn by the first one's angles"),
        (in_mirrored_pairs, "the first feature is paired with the last one"),
        (lambda x, angles: like_llama(x, torch.deg2rad(angles)), "they are radians"),
        (lambda x, angles: like_llama(x, 2 * angles), "by twice the angle"),
    ],
    "grouped": [
        (with_pytorchs_own, "share them yourself"),
        (grouped_by_pytorch_if_it_must, "share them yourself"),
        (folded_the_other_way, "take keys and values in turns"),
        (F.scaled_dot_product_attention, "only where all query heads share one head"),
        (over_the_queries, "softmax runs over the keys"),
        (of_averaged_queries, "the queries of a group are averaged"),
        (from_the_last_head, "from the last to the first"),
        (with_weights, "tensor"),
        (for_two_heads, "with query"),
        (without_gradient_of_the_keys, "gradient"),
    ],
    "sizes": [
        (DUE | {"cache_bytes": 100}, "cache_bytes = 100: too few"),
        (DUE | {"cache_bytes": 128}, "give bytes, not KiB"),
        (DUE | {"cache_bytes": 2 * 32 * 8 * 4096 * 2}, "d_model, 4096, counts 32"),
        (DUE | {"cache_bytes": 2 * 32 * 128 * 2}, "all 32 layers count, and in each 8"),
        (DUE | {"cache_bytes": 8 * 131_072}, "not bits"),
        (DUE | {"parameters": 213_917_696}, "keys and values have a matrix each"),
        (DUE | {"parameters": 218.112}, "not millions"),
        (DUE | {"parameters": 10**10}, "too many: four matrices"),
        (DUE | {"cache_bytes": "128 KiB"}, "a number is due"),
    ],
}

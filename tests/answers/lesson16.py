"""Answers to lesson 16's exercises that no table holds: right ones, and wrong ones."""

import math

import numpy as np
import torch

# ------------------------------------------------------------------ 16.1 conventions


def lengths_in_a_loop(valid_lens, length):
    mask = torch.zeros(len(valid_lens), 1, 1, length, dtype=torch.bool)
    for row, count in enumerate(valid_lens.tolist()):
        mask[row, :, :, :count] = True
    return mask


def lengths_in_numpy(valid_lens, length):
    return np.arange(length)[None, None, None] < valid_lens.numpy()[:, None, None, None]


def hidden_as_lists(hidden):
    return [[[[not x for x in row] for row in rows]] for rows in hidden.tolist()]


def lengths(valid_lens, length):
    return (torch.arange(length) < valid_lens[:, None])[:, None, None]


def lengths_one_hot(valid_lens, length):
    ends = torch.nn.functional.one_hot(valid_lens, length)  # fails without padding
    return (ends.cumsum(1) == 0)[:, None, None]


def hidden_turned(hidden):
    return hidden.logical_not().unsqueeze(1)


# ------------------------------------------------------------------ 16.3 small keys


def zeros_first_and_scaled_keys(theirs, d_head):
    n_heads, (width, d_model) = theirs.n_heads, theirs.w_qs.weight.shape
    d_k, made = width // n_heads, []
    factor = (d_head / d_k) ** 0.5
    for weight in (theirs.w_qs.weight.data, theirs.w_ks.weight.data * factor):
        wide = torch.zeros(n_heads * d_head, d_model)
        for head in range(n_heads):
            rows = weight[head * d_k : (head + 1) * d_k]
            wide[(head + 1) * d_head - d_k : (head + 1) * d_head] = rows
        made.append(wide)
    return made


@torch.no_grad()
def scale_shared(theirs, d_head):
    """The fourth root on both sides."""
    d_k = theirs.w_qs.out_features // theirs.n_heads
    eye = torch.eye(d_head, d_k)
    spread = torch.block_diag(*[eye] * theirs.n_heads) * (d_head / d_k) ** 0.25
    return spread @ theirs.w_qs.weight, (spread @ theirs.w_ks.weight).numpy()


def stacked(theirs, d_head):
    return torch.stack(zeros_first_and_scaled_keys(theirs, d_head))


def stacked_array(theirs, d_head):
    return stacked(theirs, d_head).detach().numpy()


def repeated_rows(theirs, d_head):
    rows = theirs.n_heads * d_head
    both = theirs.w_qs.weight, theirs.w_ks.weight
    return tuple(w.repeat(math.ceil(rows / len(w)), 1)[:rows] for w in both)


def ones_below(theirs, d_head):
    """Ones where zeros are due."""
    wide = []
    for weight in (theirs.w_qs.weight, theirs.w_ks.weight):
        heads = weight.unflatten(0, (theirs.n_heads, -1))
        more = d_head - heads.size(1)
        wide.append(torch.nn.functional.pad(heads, (0, 0, 0, more), value=1.0))
    return tuple(x.flatten(0, 1) for x in wide)


def in_columns(theirs, d_head):
    both = theirs.w_qs.weight, theirs.w_ks.weight
    return tuple(torch.nn.functional.pad(weight, (0, 2)) for weight in both)


def doubling_theirs(theirs, d_head):
    theirs.w_qs.weight.data.mul_(2)
    return zeros_first_and_scaled_keys(theirs, d_head)


WHOSE = "first", "second", "third", "fourth"
RIGHT = {
    "masks": [
        (lengths_in_a_loop, hidden_as_lists),
        (lengths_in_numpy, hidden_turned),
        (lambda n, k: lengths(n, k).clone(), lambda h: (h == 0)[:, None]),
    ],
    "whose": [{"first": "D", "second": "a", "third": " C ", "fourth": "B"}],
    "small_keys": [
        zeros_first_and_scaled_keys,
        scale_shared,
        stacked,
        stacked_array,
    ],
}
WRONG = {
    "masks": [
        ((lambda n, k: lengths(n, k).float(), hidden_turned), "not float32"),
        ((lambda n, k: lengths(n, 5), hidden_turned), "the shape is"),
        ((lambda n, k: torch.ones(len(n), 1, 1, k).bool(), hidden_turned), "differs"),
        ((lengths, lambda h: (~h[:, None]).int()), "not int32"),
        ((lengths, lambda h: h.logical_not_()[:, None]), "in place"),
        ((lengths, lambda h: ~h[:1, None]), "the shape is"),
        ((lengths, lambda h: 3), "from_hidden"),
        ((lambda n, k: lengths(n * 0 + max(n), k), hidden_turned), "largest number"),
        ((lambda n, k: lengths(n.clamp(max=n.min()), k), hidden_turned), "smallest"),
        ((lengths_one_hot, hidden_turned), "Class values must be smaller"),
    ],
    "whose": [
        ({"first": "E"}, "first = 'E': a letter is due"),
        ({"second": 3}, "second = 3: a letter is due"),
        ({"fifth": "a"}, "fifth is none of first"),
        ("dacb", "hand over a dictionary"),
        (dict.fromkeys(WHOSE, "c"), "each made one of the four: c stands twice"),
        (dict(zip(WHOSE, "abcd", strict=True)), "the same variance"),
        (dict(zip(WHOSE, "bdca", strict=True)), "the same variance"),
        (dict(zip(WHOSE, "dbca", strict=True)), "of the whole sentence"),
        (dict(zip(WHOSE, "cadb", strict=True)), "by both definitions"),
        (dict(zip(WHOSE, "cbda", strict=True)), "of the whole sentence"),
    ],
    "small_keys": [
        (
            lambda theirs, d: (theirs.w_qs.weight, theirs.w_ks.weight),
            "query weight has shape (6, 16), not (16, 16)",
        ),
        (lambda theirs, d: theirs.w_qs.weight, "one tensor of shape"),
        (doubling_theirs, "in place"),
        (repeated_rows, "rows are repeated where zeros are due"),
        (ones_below, "the result differs"),
        (in_columns, "has shape"),
        (lambda theirs, d: torch.stack(repeated_rows(theirs, d)), "are repeated where"),
        (lambda theirs, d: stacked(theirs, d)[0], "one tensor of shape (16, 16)"),
        (lambda theirs, d: stacked(theirs, d).mT, "the result differs"),
        (lambda theirs, d: stacked(theirs, d).flip(0) * 2, "the result differs"),
    ],
}

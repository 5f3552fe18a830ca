"""Drawings of lesson 02: a look-up, the three steps of attention, a layer of it."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from torch import Tensor

from helpers.plots import drawing
from helpers.plots.drawing import ROLES


def _draw_named(
    ax: Axes,
    x: float,
    y: float,
    numbers: Tensor,
    role: str,
    name: str,
    rows: Sequence[str] = "",
    columns: Sequence[str] = "",
    **look: Any,
) -> drawing.Block:
    """A tensor with its shape in its name."""
    labels = {"name": f"{name}  {tuple(numbers.shape)}", "rows": rows}
    return drawing.tensor(ax, (x, y), numbers, role, columns=columns, **labels, **look)


def draw_look_up(
    query: Tensor, keys: Tensor, values: Tensor, foods: Sequence[str]
) -> None:
    """One query, an arrow to each key as wide as its weight, and the blended value.

    query (2,), keys (3, 2), values (3,).
    """
    weights = (keys @ query).softmax(dim=0)
    answer = weights @ values
    title = "A soft look-up: the wider the arrow, the more of that value"
    ax = drawing.canvas(5.4, 2.3, title=title)
    orange = drawing.tensor(
        ax, (0.6, 0.95), query[None], "query", name="query", columns=("sweet", "sour")
    )
    drawing.write(ax, (0.6, 0.38), "an orange")
    end = drawing.tensor(ax, (4.85, 0.95), answer[None, None], "context", name="answer")
    drawing.write(ax, (4.85, 0.62), "g of sugar")
    drawing.write(ax, (2.3, 1.8), "keys", size=10)
    drawing.write(ax, (3.55, 1.8), "values", size=10)
    for i, food in enumerate(foods):
        y = 1.5 - 0.55 * i
        key = drawing.tensor(ax, (2.3, y), keys[i][None], "key")
        value = drawing.tensor(ax, (3.55, y), values[i][None, None], "value")
        drawing.write(ax, (3.03, y + 0.11), food)
        drawing.arrow(ax, key.right, value.left, width=0.6)
        look = {"width": 0.4 + 6 * weights[i].item(), "colour": ROLES["weights"]}
        drawing.arrow(ax, orange.right, key.left, **look)
        drawing.arrow(ax, value.right, end.left, **look)
        drawing.write(ax, (1.7, y + (0.2, 0.13, 0.29)[i]), f"{weights[i]:.2f}")


def draw_attention(
    query: Tensor, key: Tensor, value: Tensor, rows: Sequence[str], keys: Sequence[str]
) -> None:
    """Q Kᵀ, the scale and the softmax, times V: every tensor with its numbers.

    query (query_length, d_head), key (key_length, d_head), value (key_length, d_value),
    at most three rows and four columns each.
    """
    d_head = query.size(-1)
    scores = query @ key.mT
    weights = (scores / math.sqrt(d_head)).softmax(dim=-1)
    title = "Attention: compare every query with every key, then mix the values"
    ax = drawing.canvas(6, 4.4, title=title)
    high, low = 3.3, 0.95

    draw = partial(_draw_named, ax)
    draw(1.25, high, query, "query", "$Q$", rows, "d_head")
    drawing.write(ax, (1.87, high), "@", size=13)
    draw(2.7, high, key.mT, "key", "$K^\\top$", "", keys)
    drawing.write(ax, (3.57, high), "=", size=13)
    s = draw(5.15, high, scores, "weights", "scores", rows, keys)
    soft = drawing.operation(
        ax, (2.95, 2.25), f"÷ √{d_head}, then softmax: each row sums to 1", width=3.1
    )
    w = draw(1.45, low, weights, "weights", "weights", rows, keys, shade=True)
    drawing.arrow(ax, (s.x, s.bottom[1] - 0.25), soft.right, bend=-0.3)
    drawing.arrow(ax, soft.left, (w.x, w.top[1] + 0.3), bend=0.3)
    drawing.write(ax, (2.27, low), "@", size=13)
    draw(3.27, low, value, "value", "$V$", "", "d_value", cell=0.4)
    drawing.write(ax, (4.2, low), "=", size=13)
    draw(5.13, low, weights @ value, "context", "context", "", "d_value", cell=0.4)


def draw_hidden(
    scores: Tensor, mask: Tensor, rows: Sequence[str], keys: Sequence[str]
) -> None:
    """The mask, the scores with −∞ where it hides, and the softmax of these.

    scores and mask (query_length, key_length), at most three rows and columns each.
    """
    title = "A hidden key gets the score −∞, and so the weight 0"
    ax = drawing.canvas(5.8, 1.95, title=title)
    hidden = scores.masked_fill(~mask, -math.inf)
    marks = [[str(may) for may in row] for row in mask.tolist()]
    draw = partial(drawing.tensor, ax, columns=keys)
    blocks = [
        draw((1.4, 0.8), marks, "mask", name="mask", rows=rows),
        draw((3.15, 0.8), hidden, "weights", name="scores"),
        draw((5.0, 0.8), hidden.softmax(dim=-1), "weights", name="weights", shade=True),
    ]
    for (one, other), text in zip(pairwise(blocks), ("", "softmax"), strict=True):
        drawing.arrow(ax, one.right, other.left, text=text, offset=(0, 0.14))


def draw_self_attention(length: int, d_model: int, d_head: int, d_value: int) -> None:
    """One layer: a sequence, three projections of it, attention."""
    title = "Self-attention: queries, keys and values of the same tokens"
    ax = drawing.canvas(5.4, 2.2, title=title)
    x = drawing.operation(ax, (0.42, 0.95), "x", role="input", width=0.5)
    drawing.write(ax, (0.42, 0.63), f"({length}, {d_model})")
    attends = drawing.operation(
        ax, (3.65, 0.95), "attention", role="weights", width=0.8, height=1.55
    )
    sizes = {"query": d_head, "key": d_head, "value": d_value}
    for y, (role, size) in zip((1.55, 0.95, 0.35), sizes.items(), strict=True):
        look = {"role": role, "width": 0.7}
        linear = drawing.operation(ax, (1.5, y), f"$W_{role[0].upper()}$", **look)
        drawing.arrow(ax, x.right, linear.left)
        inlet = attends.left[0], y
        drawing.arrow(ax, linear.right, inlet, text=f"{role} ({length}, {size})")
    outputs = {"context": (1.25, d_value), "weights": (0.65, length)}
    for name, (y, size) in outputs.items():
        text = f"{name} ({length}, {size})"
        drawing.arrow(ax, (attends.right[0], y), (5.38, y), text=text)

"""The exercises of lesson 06, the encoder: reference answers and mistakes."""

import copy
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers.attention import MultiHeadAttention
from helpers.layers import FeedForward, LayerNorm
from lessons.checking.comparing import plain
from lessons.checking.engine import Exercise, Part, Trial
from lessons.checking.findings import Stop, wrong

# ------------------------------------------------------------ 06.1 layer and stack


class Parts(nn.Module):
    """What one layer is made of; all weights, gains and biases are random."""

    def __init__(self, d_model: int, n_heads: int, generator: torch.Generator):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_model + 3)
        self.norm_1, self.norm_2 = LayerNorm(d_model), LayerNorm(d_model)
        _shake(self, generator)


class Stack(nn.Module):
    """Layers' parts, and a norm for the top."""

    def __init__(
        self, n_layers: int, d_model: int, n_heads: int, generator: torch.Generator
    ):
        super().__init__()
        layers = [Parts(d_model, n_heads, generator) for _ in range(n_layers)]
        self.layers = nn.ModuleList(layers)
        self.norm = LayerNorm(d_model)
        _shake(self.norm, generator)


@torch.no_grad()
def _shake(module: nn.Module, generator: torch.Generator) -> None:
    for name, weight in module.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        scale = 0.5 if weight.dim() == 1 else weight.size(1) ** -0.5
        weight.copy_(float(name.endswith("gain")) + scale * noise)


def _layer_inputs(
    seed: int,
    batch: int,
    length: int,
    norm_first: bool,
    *,
    n_layers: int = 0,
    n_heads: int = 2,
    masked: bool = True,
    scale: float = 1.0,
) -> tuple[Tensor, Tensor | None, nn.Module, bool]:
    """x, a padding mask or None, a layer's parts or a stack, and the norms' place."""
    generator = torch.Generator().manual_seed(seed)
    d_model = 4 * n_heads
    x = scale * torch.randn(batch, length, d_model, generator=generator)
    real = length - (torch.arange(batch) + 1) % length
    mask = (torch.arange(length) < real[:, None])[:, None, None] if masked else None
    if n_layers:
        module = Stack(n_layers, d_model, n_heads, generator)
    else:
        module = Parts(d_model, n_heads, generator)
    return x.double(), mask, module.double(), norm_first


def _trials(n_layers: int = 0) -> list[Trial]:
    """No mask, one token, two, and many, large numbers, and equal positions."""
    make = partial(_layer_inputs, 0, n_layers=n_layers)
    equal = [make(2, 4, first) for first in (False, True)]
    return [
        *(
            Trial(
                make(2, 3, first, masked=False),
                ["without a mask, too"] if first else [],
                f"without a mask, norm_first={first}: ",
            )
            for first in (False, True)
        ),
        Trial(make(1, 1, True), before="with one token: "),
        Trial(make(2, 2, False), before="with two tokens: "),
        Trial(make(2, 200, False), before="with 200 tokens: "),
        Trial(make(2, 4, True, scale=300.0), before="with large numbers: "),
        *(
            Trial(
                (torch.ones_like(x), *rest),
                before="where all positions are equal: ",
                gradients="the gradients differ from the expected ones",
            )
            for x, *rest in equal
        ),
    ]


def _layer_first(
    value: Any, answers: Any, x: Tensor, mask: Tensor | None, stack: Any, first: bool
) -> str:
    """Where to look first if the learner's layer is wrong, too."""
    part, inputs = encoder.parts[0], (x, mask, stack.layers[0], first)
    due = part.value(encoder.reference(part), inputs)
    yours = part.value(answers[0], inputs)
    if yours.error is None and part.alike(yours, due):
        return ""
    return " (`my_layer` is wrong, too: mend it first, the fault may lie there)"


ATTEND = "parts.self_attention(y, y, y, mask)"
FIRST_1, FIRST_2 = f"x + {ATTEND}", "x + parts.feed_forward(parts.norm_2(x))"
NORMED_2 = "parts.norm_2(x) + parts.feed_forward(parts.norm_2(x))"
LOOK = "parts.self_attention(x, x, x, mask)"
LAST_1 = f"parts.norm_1(x + {LOOK})"
LAST_2 = "parts.norm_2(x + parts.feed_forward(x))"
PLACES = "norm last is `norm(x + sublayer(x))`, norm first `x + sublayer(norm(x))`"
SWAPPED = "the norms are swapped: norm_1 belongs to the attention, norm_2 to the second"
LOOP, TOP = "x = my_layer(x, mask, parts, norm_first)", "stack.norm(x) if norm_first"
encoder = Exercise(
    """\
def my_layer(x, mask, parts, norm_first):
    if norm_first:
        y = parts.norm_1(x)
        x = x + parts.self_attention(y, y, y, mask)
        return x + parts.feed_forward(parts.norm_2(x))
    x = parts.norm_1(x + parts.self_attention(x, x, x, mask))
    return parts.norm_2(x + parts.feed_forward(x))


def my_encoder(x, mask, stack, norm_first):
    for parts in stack.layers:
        x = my_layer(x, mask, parts, norm_first)
    return stack.norm(x) if norm_first else x
""",
    Part(
        "my_layer",
        {
            "the mask is the wrong way round: it is True where a key may be seen": {
                "if norm_first:": "mask = mask if mask is None else ~mask\n"
                "    if norm_first:"
            },
            "the mask is not used: `self_attention(…, mask)`": [
                {ATTEND: "parts.self_attention(y, y, y)"},
                {LOOK: "parts.self_attention(x, x, x)"},
                {
                    ATTEND: "parts.self_attention(y, y, y)",
                    LOOK: "parts.self_attention(x, x, x)",
                },
            ],
            f"with norm_first=False this is norm first: {PLACES}": [
                {"if norm_first:": "if 1:"},
                {"if norm_first:": "if not norm_first:"},
            ],
            f"with norm_first=True this is norm last: {PLACES}": {
                "if norm_first:": "if 0:"
            },
            "keys and values are not normed: query, key and value are all "
            "`norm_1(x)`": {ATTEND: "parts.self_attention(y, x, x, mask)"},
            "the normed input is added: with norm first, the sum starts from x": [
                {FIRST_1: f"y + {ATTEND}"},
                {FIRST_2: NORMED_2},
                {FIRST_1: f"y + {ATTEND}", FIRST_2: NORMED_2},
            ],
            "the attention has no way around: add x to what it makes": [
                {FIRST_1: ATTEND},
                {LAST_1: f"parts.norm_1({LOOK})"},
            ],
            "the feed-forward network has no way around: add x to what it makes": [
                {FIRST_2: "parts.feed_forward(parts.norm_2(x))"},
                {LAST_2: "parts.norm_2(parts.feed_forward(x))"},
            ],
            f"{SWAPPED} half": [
                {
                    "y = parts.norm_1": "y = parts.norm_2",
                    FIRST_2: "x + parts.feed_forward(parts.norm_1(x))",
                },
                {
                    LAST_1: LAST_1.replace("norm_1", "norm_2"),
                    LAST_2: LAST_2.replace("norm_2", "norm_1"),
                },
            ],
            "norm_1 is used twice: each half has its own": [
                {FIRST_2: FIRST_2.replace("norm_2", "norm_1")},
                {LAST_2: LAST_2.replace("norm_2", "norm_1")},
            ],
            "the last norm stands inside the layer: it belongs to the top of the "
            "stack": {FIRST_2: f"parts.norm_2({FIRST_2})"},
            "what the attention makes never arrives: add it to x, and go on with it": [
                {FIRST_1: "x"},
                {LAST_1: "parts.norm_1(x)"},
                {f"x = {LAST_1}": f"y = {LAST_1}"},
            ],
            "the second half adds its answer to the layer's input: it starts from what "
            "the first half made": [
                {
                    f"x = {LAST_1}": f"y = {LAST_1}",
                    LAST_2: "parts.norm_2(x + parts.feed_forward(y))",
                },
                {
                    f"x = {FIRST_1}": f"z = {FIRST_1}",
                    FIRST_2: "x + parts.feed_forward(parts.norm_2(z))",
                },
            ],
            "the second half reads the layer's input: it reads what the first half "
            "made": [
                {
                    f"x = {FIRST_1}": f"z = {FIRST_1}",
                    FIRST_2: "z + parts.feed_forward(parts.norm_2(x))",
                },
                {
                    f"x = {LAST_1}": f"y = {LAST_1}",
                    LAST_2: "parts.norm_2(y + parts.feed_forward(x))",
                },
            ],
            f"the norm stands on the sublayer's answer alone: {PLACES}": [
                {LAST_1: f"x + parts.norm_1({LOOK})"},
                {LAST_2: "x + parts.norm_2(parts.feed_forward(x))"},
                {
                    LAST_1: f"x + parts.norm_1({LOOK})",
                    LAST_2: "x + parts.norm_2(parts.feed_forward(x))",
                },
            ],
            "a norm is missing: each half has one": [
                {"y = parts.norm_1(x)": "y = x"},
                {FIRST_2: "x + parts.feed_forward(x)"},
                {LAST_1: f"x + {LOOK}"},
                {LAST_2: "x + parts.feed_forward(x)"},
            ],
            "the feed-forward network is missing": [
                {FIRST_2: "x"},
                {LAST_2: "parts.norm_2(x)"},
            ],
        },
        lambda seed: [
            _layer_inputs(seed, 3, 5, False),
            _layer_inputs(seed, 2, 4, True, n_heads=3),
            _layer_inputs(seed + 1, 4, 3 + seed % 3, True, n_heads=1),
        ],
        ["norm last: sums and norms stand in the right order"],
        others="norm first, too",
        doubt="",
        trials=_trials(),
        label="layer",
    ),
    Part(
        "my_encoder",
        {
            "the last norm is missing: with norm first one more follows at the top": {
                f"{TOP} else x": "x"
            },
            "there is a norm at the top with norm last: its layers end with one": [
                {f"{TOP} else x": "stack.norm(x)"},
                {TOP: "stack.norm(x) if not norm_first"},
            ],
            "the norm of the top follows every layer: it comes once, at the end": {
                LOOP: f"{LOOP}\n        x = stack.norm(x) if norm_first else x",
                f"{TOP} else x": "x",
            },
            "each layer gets the stack's input: it takes what the layer below made": {
                "for parts in stack.layers:": "x_0 = x\n    for parts in stack.layers:",
                LOOP: "x = my_layer(x_0, mask, parts, norm_first)",
            },
            "the norm stands below the layers: with norm first it follows them": {
                "for parts in": "x = stack.norm(x) if norm_first else x\n"
                "    for parts in",
                f"{TOP} else x": "x",
            },
            "the first layer is left out": {"in stack.layers": "in stack.layers[1:]"},
            "the last layer is left out": {"in stack.layers": "in stack.layers[:-1]"},
            "what a layer makes is lost: assign it to x, and go on with it": {
                LOOP: "my_layer(x, mask, parts, norm_first)"
            },
            "only the first layers are used: a stack may have any number": [
                {"in stack.layers": f"in stack.layers[:{count}]"} for count in (2, 4, 6)
            ],
            **{
                f"only the {name} layer gets the mask: every layer needs it": {
                    LOOP: f"x = my_layer(x, mask if parts is stack.layers[{place}] "
                    "else None, parts, norm_first)"
                }
                for name, place in (("first", 0), ("last", -1))
            },
            "the norm at the top comes twice: once is enough": {
                f"{TOP} else x": "stack.norm(stack.norm(x)) if norm_first else x"
            },
            "no layer gets the mask": {
                LOOP: "x = my_layer(x, None, parts, norm_first)"
            },
            "all layers have the weights of the first": {
                LOOP: "x = my_layer(x, mask, stack.layers[0], norm_first)"
            },
            "the layers run from the last to the first": {
                "in stack.layers": "in reversed(stack.layers)"
            },
            "the result is that of the first layer: is `return` inside the loop?": {
                LOOP: f"{LOOP}\n        break"
            },
        },
        lambda seed: [
            _layer_inputs(seed, 3, 5, False, n_layers=8),
            _layer_inputs(seed, 2, 4, True, n_layers=3, n_heads=3),
            _layer_inputs(seed + 1, 4, 3 + seed % 3, True, n_layers=1, n_heads=1),
        ],
        ["norm last: each layer takes what the one below made"],
        others="norm first, with the norm at the top",
        doubt="",
        trials=_trials(n_layers=2),
        label="encoder",
        aside=_layer_first,
    ),
)

# ------------------------------------------------------------ 06.2 find a head

LAYERS, HEADS = 4, 5
NAMES = [f"encoder.layers.{layer}.self_attention" for layer in range(LAYERS)]
ON_KEY = "weights[story, :, query, right[story, query]]"
FOUND = f"on_right_key = {ON_KEY}"
MEAN, BEST = "on_right_key.mean(dim=0)", "max(scores, key=scores.get)"
LEFT_OUT = "where `right` is -1, leave the query out"
ONE_LAYER = """max(
        ((n, h) for n, h in scores if n == max(maps, key=lambda m: sum(
            s for (name, _), s in scores.items() if name == m))),
        key=scores.get)"""
FOUND_DECOY = "this is a decoy"
FIND_MISTAKES = {
    f"{FOUND_DECOY}: it looks right in the first story alone. Take the mean over all "
    "stories": {
        "right >= 0": "(right >= 0) & (torch.arange(len(right)) == 0)[:, None]"
    },
    f"{FOUND_DECOY}: it looks right at the first query of each story alone. Take the "
    "mean over all queries that have a right key": {
        "right >= 0": "(right >= 0) & ((right >= 0).cumsum(dim=1) == 1)"
    },
    f"{FOUND_DECOY}: it looks right except where the right key is at place 0. That is "
    "a place, too; -1 says that there is none": {"right >= 0": "right > 0"},
    f"{FOUND_DECOY}: it looks from the right key to the query. Rows are queries, "
    "columns are keys": {ON_KEY: "weights[story, :, right[story, query], query]"},
    f"{FOUND_DECOY}: it looks at the last key where nothing is looked for; "
    f"{LEFT_OUT}": {"right >= 0": "right >= -1"},
    f"{FOUND_DECOY}: it looks at the first key where nothing is looked for; "
    f"{LEFT_OUT}": {
        "right >= 0": "right >= -1",
        "right[story, query]": "right.clamp(min=0)[story, query]",
    },
    f"{FOUND_DECOY}: it has one perfect query. Take the mean, not the largest weight": {
        MEAN: "on_right_key.amax(dim=0)"
    },
    f"{FOUND_DECOY}: at a little more than half of the queries it is nearly perfect, "
    "at the others it looks elsewhere. Take the mean, not the median": {
        MEAN: "on_right_key.median(dim=0).values"
    },
    f"{FOUND_DECOY}: it looks right where a story has a single look. Take one mean "
    "over all looks, not a mean for each story": {
        MEAN: "torch.stack([on_right_key[story == i].mean(dim=0) "
        "for i in story.unique()]).mean(dim=0)"
    },
    f"{FOUND_DECOY}: it looks right at a position where few stories have a right key. "
    "Take one mean over all looks, not a mean for each position": {
        MEAN: "torch.stack([on_right_key[query == i].mean(dim=0) "
        "for i in query.unique()]).mean(dim=0)"
    },
    f"{FOUND_DECOY}: half of its looks are nearly perfect. Take the mean of the "
    "weights, not of their squares": {MEAN: "on_right_key.square().mean(dim=0)"},
    "it has less weight on the right keys than another head. Take the mean weight, "
    "whatever the other keys get": {
        ON_KEY: f"{ON_KEY} - weights[story, :, query].scatter(2, right[story, query]"
        "[:, None, None].expand(-1, weights.size(1), 1), 0).amax(dim=-1)"
    },
    "half of its looks have less weight. Take the mean of the weights, not of their "
    "roots": {MEAN: "on_right_key.sqrt().mean(dim=0)"},
    f"{FOUND_DECOY}: its weights are the sharpest, but on other keys": {
        ON_KEY: "weights[story, :, query].amax(dim=-1)"
    },
    f"{FOUND_DECOY}: it looks at every right key, but with smaller weights. Take the "
    "mean weight, not the share of hits": [
        {
            ON_KEY: "(weights[story, :, query].argmax(dim=-1) "
            "== right[story, query][:, None]).float()"
        },
        *(
            {MEAN: f"on_right_key.gt({least}).float().mean(dim=0)"}
            for least in (0.5, 0.7, 0.8)
        ),
        {MEAN: "on_right_key.amin(dim=0)"},
    ],
    f"{FOUND_DECOY}: its layer has the largest mean over all heads. Compare single "
    "heads": {BEST: ONE_LAYER},
    "a story or a position is left out: take the mean over all queries that have a "
    "right key": [
        {"right >= 0": f"(right >= 0) & {kept}"}
        for kept in (
            "(torch.arange(len(right)) > 0)[:, None]",
            "(torch.arange(len(right)) < len(right) - 1)[:, None]",
            "(torch.arange(right.size(1)) < right.size(1) - 1)",
        )
    ],
    "not all layers and heads are searched: there may be any number of both": [
        *(
            {"in maps.items()": f"in [*maps.items()][:{count}]"}
            for count in (1, 2, 3, 4)
        ),
        {ON_KEY: ON_KEY.replace(":", ":5")},
    ],
}


def hidden_head(seed: int) -> tuple[dict[str, Tensor], Tensor]:
    """Maps of four layers with five heads, and the right keys.

    One head has the largest mean weight on them. Others are decoys for the mistakes of
    the table. In every fifth case it is the last head of the last layer, so that
    counting from 1 gives a head that does not exist, and layers left out are missed.
    """
    generator = torch.Generator().manual_seed(seed)
    batch, length = 8, 6 + seed % 2
    keys = torch.randint(length - 1, (batch, length), generator=generator)
    keys[torch.rand(batch, length, generator=generator) < 0.7] = 0
    keys[torch.rand(batch, length, generator=generator) < 0.65] = -1
    keys[:, 0] = torch.randint(1, length - 1, (batch,), generator=generator)
    asks = (keys >= 0)[..., None]
    wanted = F.one_hot(keys.clamp(min=0), length) * asks
    aside = F.one_hot((keys + 2) % length, length)
    story = torch.arange(batch)[:, None, None]
    query = torch.arange(length)[:, None]
    everywhere = torch.ones(batch, length, 1, dtype=torch.bool)
    turned = wanted.mT / wanted.mT.sum(dim=-1, keepdim=True).clamp(min=1)
    end = F.one_hot(torch.tensor(length - 1), length)

    turn = asks.flatten().cumsum(0).view(batch, length, 1)
    half = turn % 5 > 1  # a few more than half of the looks

    def often(hits: int, looks: int) -> Tensor:  # right in so many of so many looks
        return torch.where(turn % looks < hits, wanted, aside)

    inner = asks[1:-1, 1:-1] & (turn % 6 < 5)[1:-1, 1:-1]
    lost = torch.zeros_like(asks)  # one look in the middle, which the best head hits
    lost[1:-1, 1:-1] = inner & (inner.flatten().cumsum(0).view_as(inner) == 1)

    # In which rows each head looks, at what, and with which weight; layer by layer.
    # The first of all is to be found; the first of the last layer has one look less.
    looks = [
        [
            (asks, often(5, 6), 0.95),
            (turned.sum(dim=-1, keepdim=True) > 0, turned, 0.99),
            (~asks, end, 0.99),
            (asks & (query == 0), wanted, 0.99),
            (asks & half, wanted, 0.99),
        ],
        [
            *[(asks, often(1, 2), 0.95)] * 3,
            (asks, often(2, 3), 0.97),
            (asks, wanted, 0.52),
        ],
        [
            (asks & (story == 0), wanted, 0.99),
            (~asks, end.flip(0), 0.99),
            ((story == 2) & (query == 0), wanted, 0.999),
            (everywhere, aside, 0.98),
            (asks & (keys > 0)[..., None], wanted, 0.9),
        ],
        [(asks & ~lost, often(5, 6), 0.95), *[(everywhere, aside, 0.5)] * 4],
    ]
    maps = {}
    order = torch.randperm(LAYERS, generator=generator).tolist()
    if seed % 5 == 0:
        order = [3, *(layer for layer in order if layer in (1, 2)), 0]
    for name, layer in zip(NAMES, order, strict=True):
        noise = torch.rand(HEADS, batch, length, length, generator=generator)
        heads = torch.randperm(HEADS, generator=generator).tolist()
        if layer == 0 and seed % 5 == 0:
            heads = [head for head in heads if head] + [0]
        drawn = []
        for head, plain_map in zip(heads, noise.softmax(dim=-1), strict=True):
            rows, target, weight = looks[layer][head]
            mixed = (1 - weight) * plain_map + weight * target
            drawn.append(torch.where(rows, mixed, plain_map))
        maps[name] = torch.stack(drawn, dim=1)
    return maps, keys


Case = tuple[dict[str, Tensor], Tensor]


def uneven(right: Sequence, hits: Sequence, high: float, low: float) -> Case:
    """Head 0 looks right at some queries (stories, length), head 1 always, but less."""
    keys = torch.tensor(right)
    share = high * torch.tensor(hits).expand_as(keys)
    shares = torch.stack([share, torch.full_like(share, low)], dim=1)[..., None]
    wanted = F.one_hot(keys.clamp(min=0), keys.size(1))[:, None]
    return {NAMES[0]: shares * wanted + (1 - shares) / keys.size(1)}, keys


def uneven_cases() -> list[Case]:
    """On each map, a mistake of the table finds another head."""
    full = [[1, 2, 3, 4, 0], [2, 3, 4, 0, 1], [3, 4, 0, 1, 2], [4, 0, 1, 2, 3]]
    three = [[key, key, key, -1, -1] for key in (1, 2, 3, 4, 3, 2, 1)]
    first = [[key, -1, -1, -1, -1] for key in (1, 2, 3, 1)]
    split, keys = uneven(full, [[0]], 0.0, 0.3)  # head 0 shares out between two keys
    halves = F.one_hot(keys, 5) + F.one_hot((keys + 1) % 5, 5)
    split[NAMES[0]][:, 0] = 0.38 * halves + 0.08
    every_other = [[1, 0, 1, 0, 1], [0, 1, 0, 1, 0]] * 2
    return [
        uneven(full, every_other, 0.9, 0.6),  # shares of weights above 0.7
        uneven(full, every_other, 0.9, 0.4),  # roots
        (split, keys),  # how much other keys get
        uneven(three, [[x] for x in (1, 0, 0, 0, 0, 1, 1)], 0.9, 0.335),  # a story less
        uneven(full, [[1, 0, 0, 0, 1]], 0.9, 0.325),  # a position less
        uneven([first[0], [2, 3, 4, 0, -1]], [[1], [0]], 0.7, 0.3),  # by story
        uneven([[1, -1, -1, 2, -1], *first[1:]], [[0, 0, 0, 1, 0]], 0.7, 0.3),
        uneven(first, [[1], [1], [0], [0]], 0.9, 0.475),  # squares
        many_heads(),
    ]


def many_heads(count: int = 9) -> Case:
    """So many layers of so many heads; the last head of the last layer looks right."""
    keys = torch.tensor([[1, 2, -1], [0, -1, 1]])
    even = torch.full((2, count, 3, 3), 1 / 3)
    maps = {f"layer {layer}": even.clone() for layer in range(count)}
    maps[f"layer {count - 1}"][:, -1] = F.one_hot(keys.clamp(min=0), 3).float()
    return maps, keys


def _head(answer: Any, maps: Mapping[str, Tensor], right: Tensor) -> tuple[str, int]:
    """The learner's answer as (name, head); Stop if it is none."""
    pair = plain(answer)
    if isinstance(pair, Tensor) and pair.shape == (2,):
        raise Stop(wrong("the layer is its name, a key of `maps`, not a number"))
    if not isinstance(pair, tuple) or len(pair) != 2:
        shown = str(answer)[:60]
        text = f"return two things, the layer's name and the head, not {shown}"
        raise Stop(wrong(text))
    name, head = pair
    if isinstance(head, str) and head in maps:
        raise Stop(
            wrong("first the layer's name, then the head: you return them swapped")
        )
    if not isinstance(name, str) or name not in maps:
        shown = name.tolist() if isinstance(name, Tensor) else name
        text = f"the layer is one of {', '.join(maps)}, not {str(shown)[:60]}"
        raise Stop(wrong(text))
    last = maps[name].size(1) - 1
    if not isinstance(head, Tensor) or head.numel() != 1 or head.item() % 1:
        shown = head if isinstance(head, Tensor) else repr(head)
        raise Stop(wrong(f"the head is a number from 0 to {last}, not {shown}"))
    if not 0 <= head.item() <= last:
        text = f"the head is a number from 0 to {last}, not {head.item():.0f}"
        raise Stop(wrong(f"{text}: count from 0"))
    return name, int(head)


def _other_head(value: Any, due: Any) -> str:
    return (
        f"{value[0]}, head {value[1]}, has less weight on the right keys than another "
        "head. Do you compare all heads of all layers, and count them from 0?"
    )


find_head = Exercise(
    """\
def find_head(maps, right):
    story, query = (right >= 0).nonzero(as_tuple=True)
    scores = {}
    for name, weights in maps.items():
        on_right_key = weights[story, :, query, right[story, query]]  # (looks, heads)
        for head, share in enumerate(on_right_key.mean(dim=0).tolist()):
            scores[name, head] = share
    return max(scores, key=scores.get)
""",
    Part(
        "find_head",
        FIND_MISTAKES,
        lambda seed: [
            *(hidden_head(5 * seed + trial) for trial in range(5)),
            *uneven_cases(),
        ],
        others="fourteen times the head was found",
        doubt="",
        gradients=False,
        measure=_head,
        describe=_other_head,
    ),
)

# ------------------------------------------------------------ 06.3 switch a head off


def _attention(
    seed: int, n_heads: int, head: int, d_head: int
) -> tuple[MultiHeadAttention, int]:
    """A module with random weights and biases, and one of its heads."""
    module = MultiHeadAttention(d_head * n_heads, n_heads)
    _shake(module, torch.Generator().manual_seed(seed))
    return module, head


def _without(answer: Any, attention: MultiHeadAttention, head: int) -> Tensor:
    """What the learner's module makes of a sentence; Stop if it is no module."""
    if not isinstance(answer, nn.Module):
        kind = type(answer).__name__
        raise Stop(wrong(f"return an attention, a changed copy, not a {kind}"))
    width = attention.output_projection.in_features
    x = torch.randn(2, 5, width, generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(5) < torch.tensor([[5], [3]]))[:, None, None]
    as_it_was = MultiHeadAttention(width, attention.n_heads)
    as_it_was.load_state_dict(attention.state_dict())
    given = copy.deepcopy(attention).float()
    if not torch.equal(as_it_was(x, x, x, mask), given(x, x, x, mask)):
        text = "the module that you were given computes something else now: did a hook "
        raise Stop(wrong(f"{text}or a new `forward` stay on it? Change the copy alone"))
    for module, name in ((attention, "module you were given"), (answer, "copy")):
        if not all(weight.requires_grad for weight in module.parameters()):
            text = f"weights of the {name} have lost their gradients, and cannot learn"
            raise Stop(wrong(f"{text}: no `requires_grad_(False)`, use `no_grad()`"))
    try:
        x = x.to(next(answer.parameters(), x).dtype)
        output = answer(x, x.flip(1), x.roll(1, dims=1), mask)
    except Exception as error:
        text = f"the attention that you return stops with {type(error).__name__}"
        raise Stop(wrong(text)) from None
    if not isinstance(output, Tensor):
        raise Stop(wrong("the attention that you return gives no tensor"))
    return output.detach()


ZERO = "attention.output_projection.weight[:, own] = 0"
COLUMNS = "the head owns *columns* of the output projection's matrix"
switch_off = Exercise(
    """\
def switch_off(attention, head):
    attention = copy.deepcopy(attention)
    d_head = attention.output_projection.in_features // attention.n_heads
    own = slice(head * d_head, (head + 1) * d_head)
    with torch.no_grad():
        attention.output_projection.weight[:, own] = 0
    return attention
""",
    Part(
        "switch_off",
        {
            "nothing has changed: this head still adds its part": {ZERO: "pass"},
            f"rows are set to zero: {COLUMNS}": {ZERO: ZERO.replace(":, own", "own")},
            "another head is off: heads are counted from 0": [
                {
                    "head * d_head, (head + 1)": "(head - 1) % attention.n_heads * "
                    "d_head, ((head - 1) % attention.n_heads + 1)"
                },
                {
                    "head * d_head, (head + 1)": "(head + 1) % attention.n_heads * "
                    "d_head, ((head + 1) % attention.n_heads + 1)"
                },
            ],
            "all other heads are off": {
                ZERO: f"kept = attention.output_projection."
                f"weight[:, own].clone(); {ZERO.replace('own', 'slice(None)')}; "
                f"{ZERO.replace('= 0', '= kept')}"
            },
            "all heads are off": {ZERO: ZERO.replace("own", ":")},
            f"one feature is off: {COLUMNS}, d_head of them": {
                ZERO: ZERO.replace("own", "head")
            },
            "every n-th column is off: a head owns d_head neighbouring columns": {
                "slice(head * d_head, (head + 1) * d_head)": "slice(head, None, "
                "attention.n_heads)"
            },
            "the output projection's bias is gone, too: it belongs to no head": {
                ZERO: f"{ZERO}; attention.output_projection.bias.zero_()"
            },
            "the head still adds an average of its values: without queries or keys "
            "all its weights are equal": [
                {
                    ZERO: f"attention.{name}_projection.weight[own] = 0; "
                    f"attention.{name}_projection.bias[own] = 0"
                }
                for name in ("query", "key")
            ],
            "the head still adds the bias of its values": {
                ZERO: "attention.value_projection.weight[own] = 0"
            },
        },
        lambda seed: [
            _attention(seed, 3, 1, 3),
            _attention(seed, 3, 0, 4),
            _attention(seed, 2 + seed % 3, 1 + seed % 3, 2 + seed % 4),
            _attention(seed, 6 + seed % 3, 5 + seed % 3, 12),
        ],
        ["the head adds nothing, and the module you were given is as it was"],
        others="the first head and the last, too",
        doubt="is a head or a size written as a number? ",
        gradients=False,
        measure=_without,
    ),
    uses={"copy": copy},
)

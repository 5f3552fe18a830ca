"""The exercises of lesson 04, multi-head attention: reference answers and mistakes."""

import re
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from helpers.attention import MultiHeadAttention, attention
from helpers.masks import causal_mask
from lessons.checking.comparing import plain, same
from lessons.checking.engine import Exercise, Part, Trial
from lessons.checking.findings import Stop, wrong
from lessons.checking.pictures import owners_beside, weights_beside
from lessons.checking.running import run, stopped, stub
from lessons.lesson04 import rings

# ------------------------------------------------------------ 04.1 split and join

SPLIT = "x.unflatten(2, (n_heads, -1)).transpose(1, 2)"
SPLIT_MISTAKES = {
    "`view` or `reshape` alone deals the numbers out in the order in which they lie, "
    "so that rows hold the wrong pieces: cut the last axis first, "
    "`x.unflatten(2, (n_heads, -1))`, then exchange length and heads, "
    "`transpose(1, 2)`": {SPLIT: "x.reshape(len(x), n_heads, x.size(1), -1)"},
    "length still stands before heads: the features are cut; now exchange the axes: "
    "`transpose(1, 2)`": {SPLIT: "x.unflatten(2, (n_heads, -1))"},
    "a head gets every n-th feature, not a block of neighbours: head 1 owns the first "
    "d_head features: cut into (n_heads, d_head), in this order, "
    "`unflatten(2, (n_heads, -1))`": {
        SPLIT: "x.unflatten(2, (-1, n_heads)).permute(0, 3, 1, 2)"
    },
    "batch and heads are one axis: that is how d2l does it; here they stay apart: "
    "(batch, heads, length, d_head)": {SPLIT: f"{SPLIT}.flatten(0, 1)"},
}
JOIN = "context.transpose(1, 2).flatten(2)"
JOIN_MISTAKES = {
    "without the transpose a row holds one head's features of several tokens: exchange "
    "heads and length first, then make one axis of the last two: "
    "`context.transpose(1, 2).flatten(2)`": {
        JOIN: "context.reshape(len(context), context.size(2), -1)"
    },
    "length and d_head have become one axis: exchange heads and length first: "
    "`transpose(1, 2)`, then `flatten(2)`": {JOIN: "context.flatten(2)"},
    "the features of different heads take turns: head 1's features come first, then "
    "head 2's: after `transpose(1, 2)` the last two axes are (heads, d_head), and "
    "`flatten(2)` joins them in this order": {
        JOIN: "context.permute(0, 2, 3, 1).flatten(2)"
    },
}
# batch, length, heads, d_head: all different, so that no two axes can be mixed up.
SIZES, OTHERS = (2, 3, 4, 5), [(3, 7, 2, 1), (1, 1, 3, 2)]


def _whole(batch: int, length: int, heads: int, d_head: int) -> tuple[Tensor, int]:
    """(batch, length, d_model), every entry another number; and the number of heads."""
    numbers = torch.arange(batch * length * heads * d_head).float()
    numbers = numbers if heads == SIZES[2] else 9 - numbers
    return numbers.view(batch, length, heads * d_head), heads


def _cut(*sizes: int) -> tuple[Tensor]:
    """(batch, heads, length, d_head): the same numbers, split."""
    x, heads = _whole(*sizes)
    return (x.unflatten(2, (heads, -1)).transpose(1, 2).contiguous(),)


def _moved(value: Tensor, due: Tensor) -> str:
    """What can be said of numbers that no known mistake moves."""
    if not same(value.flatten().sort()[0], due.flatten().sort()[0]):
        return "the numbers themselves have changed; they are only to be moved"
    places = "the shape is right but the numbers are in other places"
    return f"{places}: look where token 0's features went"


def _undone(value, answers, x: Tensor, n_heads: int) -> str:
    """A word more if the learner's join hides a wrong split."""
    moved = (len(x), n_heads, x.size(1), x.size(2) // n_heads)
    if not isinstance(value, Tensor) or value.shape != moved:
        return ""
    hidden = same(plain(run(answers[1], (value.detach(),)).output), plain(x))
    why = ". Your join undoes it, and that is why such a mistake stays hidden"
    return why if hidden else ""


def _owners(value: Tensor, due: Tensor):
    """Whose numbers the first sentence's heads have, if all are there."""
    if value.shape != due.shape or due.size(1) != SIZES[2]:
        return None
    return partial(owners_beside, value[0], due[0], SIZES[2] * SIZES[3])


split_and_join = Exercise(
    """\
def my_split(x, n_heads):
    return x.unflatten(2, (n_heads, -1)).transpose(1, 2)


def my_join(context):
    return context.transpose(1, 2).flatten(2)
""",
    Part(
        "my_split",
        SPLIT_MISTAKES,
        lambda seed: [_whole(*sizes) for sizes in (SIZES, *OTHERS)],
        others="(batch, heads, length, d_head), each head with its features",
        label="split",
        doubt="",
        gradients=False,
        describe=_moved,
        aside=_undone,
        picture=_owners,
    ),
    Part(
        "my_join",
        JOIN_MISTAKES,
        lambda seed: [_cut(*sizes) for sizes in (SIZES, *OTHERS)],
        others="(batch, length, d_model), the heads side by side",
        label="join",
        doubt="",
        gradients=False,
        describe=_moved,
    ),
    praise="to split and to join gives back what was there",
)

# ------------------------------------------------------------ 04.2 the module

LAYERS = ("query", "key", "value", "output")
TWO = "`attention` returns two things: `context, weights = attention(…)`"
FOUR = "four `nn.Linear` are due, `self.query_projection`, `self.key_projection`, …"


def _as_function(layer: Any) -> Callable:
    """The class as a function of what it attends to and of its four layers' numbers."""

    def function(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        n_heads: int,
        weight: Tensor,
        bias: Tensor,
    ) -> Any:
        if isinstance(layer, nn.Module):
            raise Stop(wrong("hand over the class itself, without parentheses"))
        module = layer(query.size(-1), n_heads)
        if module is None or module is ... or stub(getattr(layer, "forward", None)):
            raise NotImplementedError
        given, layers = {}, []
        for i, name in enumerate(f"{part}_projection" for part in LAYERS):
            linear = getattr(module, name, None)
            if not isinstance(linear, nn.Linear):
                kind = type(linear).__name__
                raise Stop(wrong(f"{FOUR}: `self.{name}` is a {kind}"))
            if linear.weight.shape != weight[i].shape or linear.bias is None:
                found = f"{tuple(linear.weight.shape)}, bias: {linear.bias is not None}"
                due = "`nn.Linear(d_model, d_model)`, with its bias"
                raise Stop(wrong(f"`self.{name}` is to be {due}, not {found}"))
            if any(
                linear is other or linear.weight is other.weight for other in layers
            ):
                raise Stop(wrong(f"{FOUR}: `self.{name}` is one of the others"))
            layers.append(linear)
            given |= {f"{name}.weight": weight[i], f"{name}.bias": bias[i]}
        unknown = {name for name, _ in module.named_parameters()} - {*given}
        if unknown:
            text = f"{FOUR}: the module also learns {', '.join(sorted(unknown)):.60}"
            raise Stop(wrong(text))
        inputs = (query, key, value) if mask is None else (query, key, value, mask)
        try:
            return functional_call(module, given, inputs)
        except (AttributeError, TypeError) as error:
            if not re.search(
                "'tuple' object has no|must be Tensor, not tuple", f"{error}"
            ):
                raise
            raise Stop(wrong(f"{stopped(error)}. {TWO}")) from None

    return function


def _module_inputs(
    seed: int, sizes: tuple[int, int, int, int, int], mask: Tensor | bool = False
) -> tuple:
    """Random query, key, value, mask (True: one of full shape), four layers' numbers.

    sizes: n_heads, d_head, batch, the length of the queries, and that of the keys.
    """
    generator = torch.Generator().manual_seed(seed)
    n_heads, d_head, batch, length, keys = sizes
    d_model = n_heads * d_head
    shapes = (batch, length), (batch, keys), (batch, keys), (4, d_model)
    tensors = [torch.randn(*x, d_model, generator=generator) for x in shapes]
    bias = torch.randn(4, d_model, generator=generator)
    if mask is True:
        b, q, k = torch.meshgrid(
            *map(torch.arange, (batch, length, keys)), indexing="ij"
        )
        mask = ((b + 2 * q + k) % 3 != 0)[:, None]
    shown = mask if isinstance(mask, Tensor) else None
    weight = tensors[3] / d_model**0.5  # so that no softmax is all 0 and 1
    return (*tensors[:3], shown, n_heads, weight, bias)


K = "self.split(self.key_projection(key))"
V = "self.split(self.value_projection(value))"
CUT = "x.unflatten(2, (self.n_heads, -1)).transpose(1, 2)"
BACK = "context.transpose(1, 2).flatten(2)"
CALL, OUT = "attention(q, k, v, mask)", f"self.output_projection({BACK})"
Q = "self.split(self.query_projection(query))"
RAW = "(q @ k.mT / k.size(-1) ** 0.5)"
HIDE = "masked_fill(torch.tensor(False) if mask is None else ~mask, {})"
FOR_EACH_HEAD = torch.arange(48).view(2, 2, 3, 4) % 5 > 1
EMPTY_ROW = torch.arange(24).view(2, 3, 4) % 5 > 1
EMPTY_ROW[1, 2] = False  # the second head's last query, in every sentence
SIZE = "len(q), self.n_heads, q.size(2), k.size(2)"
SENTENCE = f"mask.expand({SIZE}).flatten(1).any(1)[:, None, None, None]"
ALL_PADDING = torch.tensor([[True, True, True, False], [False] * 4])[:, None, None]
multi_head = Exercise(
    """\
class MyMultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.query_projection = nn.Linear(d_model, d_model)
        self.key_projection = nn.Linear(d_model, d_model)
        self.value_projection = nn.Linear(d_model, d_model)
        self.output_projection = nn.Linear(d_model, d_model)

    def split(self, x):
        return x.unflatten(2, (self.n_heads, -1)).transpose(1, 2)

    def forward(self, query, key, value, mask=None):
        q = self.split(self.query_projection(query))
        k = self.split(self.key_projection(key))
        v = self.split(self.value_projection(value))
        context, _ = attention(q, k, v, mask)
        return self.output_projection(context.transpose(1, 2).flatten(2))
""",
    Part(
        "MyMultiHeadAttention",
        {
            "the output projection is missing: it mixes what the heads found": {
                OUT: BACK
            },
            "the heads are split without a transpose, so that a row mixes tokens: "
            "`unflatten(2, (n_heads, -1))`, then `transpose(1, 2)`": {
                CUT: "x.reshape(len(x), self.n_heads, x.size(1), -1)"
            },
            "the heads are joined without a transpose, so that a row mixes tokens: "
            "`transpose(1, 2)`, then `flatten(2)`": {
                BACK: "context.reshape(query.shape)"
            },
            "the features of different heads take turns in the joined context: "
            "`transpose(1, 2)`, then `flatten(2)`": {
                BACK: "context.permute(0, 2, 3, 1).flatten(2)"
            },
            "there is one head, of all features: split into n_heads": {
                "(self.n_heads, -1)": "(1, -1)"
            },
            "the scores are divided by the square root of d_model: a head has d_head "
            "features": {CALL: "attention(q / self.n_heads**0.5, k, v, mask)"},
            "length and heads are never exchanged: `transpose(1, 2)` after the cut, "
            "and again before `flatten(2)`": {
                CUT: "x.unflatten(2, (self.n_heads, -1))",
                BACK: "context.flatten(2)",
            },
            "the scores are divided by d_head: take its square root": {
                CALL: "attention(q / q.size(-1) ** 0.5, k, v, mask)"
            },
            "the scores are not divided by the square root of d_head": {
                CALL: "attention(q * q.size(-1) ** 0.5, k, v, mask)"
            },
            "a head gets every n-th feature, not a block of neighbours: "
            "`unflatten(2, (n_heads, -1))`": {
                CUT: "x.unflatten(2, (-1, self.n_heads)).permute(0, 3, 1, 2)"
            },
            "a length is taken from the wrong input: keys and values have "
            "`key.size(1)` rows, queries and the result `query.size(1)`": [
                {
                    K: "self.key_projection(key).view(len(key), query.size(1), "
                    "self.n_heads, key.size(2) // self.n_heads).transpose(1, 2)"
                },
                {
                    BACK: "context.transpose(1, 2).reshape(len(key), key.size(1), "
                    "key.size(2))"
                },
            ],
            "the softmax runs over the queries: each query's weights sum to 1 over "
            "the keys": {CALL: f"({RAW}.{HIDE.format('-1e9')}.softmax(-2) @ v, None)"},
            "the mask comes after the softmax, so that the weights no longer sum to "
            "1: hide the scores": {
                CALL: f"({RAW}.softmax(-1).{HIDE.format(0)} @ v, None)"
            },
            "a query that may attend to nothing gets NaN: its context is 0": {
                CALL: f"({RAW}.{HIDE.format('-math.inf')}.softmax(-1) @ v, None)"
            },
            "a query that may attend to nothing gets an average: its context is 0": {
                CALL: f"({RAW}.{HIDE.format('-1e9')}.softmax(-1) @ v, None)"
            },
            "a query that may attend to nothing gets an average where others of its "
            "sentence may attend: its context is 0 there, too": {
                CALL: f"({RAW}.{HIDE.format('-1e9')}.softmax(-1) @ v * "
                f"(1 if mask is None else {SENTENCE}), None)"
            },
            "all heads use the first head's mask": {
                CALL: "attention(q, k, v, None if mask is None else "
                "mask[:, :1] if mask.dim() == 4 else mask)"
            },
            "three axes of a mask are (heads, query_length, key_length): broadcasting "
            "puts the missing axis in front, `mask[None]`": {
                CALL: "attention(q, k, v, mask[:, None] if mask is not None "
                "and mask.dim() == 3 else mask)"
            },
            "a mask whose key axis is 1 is not used: it hides all keys of a query": {
                CALL: "attention(q, k, v, None if mask is None or mask.size(-1) == 1 "
                "else mask)"
            },
            "the mask is not used: pass it on to `attention`": {
                CALL: "attention(q, k, v)"
            },
            "the mask is inverted: True = may attend": {
                CALL: "attention(q, k, v, None if mask is None else ~mask)"
            },
            "keys and values are made from the query: they come from `key` and "
            "`value`": {
                K: "self.split(self.key_projection(query))",
                V: "self.split(self.value_projection(query))",
            },
            "the keys are made from the query: they come from `key`": {
                K: "self.split(self.key_projection(query))"
            },
            "the keys are made from the value: they come from `key`": {
                K: "self.split(self.key_projection(value))"
            },
            "the queries are made from the key: they come from `query`": {
                Q: "self.split(self.query_projection(key))"
            },
            "the values are made from the key: they come from `value`": {
                V: "self.split(self.value_projection(key))"
            },
            "keys and values are exchanged": {CALL: "attention(q, v, k, mask)"},
            "the query projection also makes keys and values: each has its own": {
                K: "self.split(self.query_projection(key))",
                V: "self.split(self.query_projection(value))",
            },
            "the key projection also makes the values: they have their own": {
                V: "self.split(self.key_projection(value))"
            },
            "queries, keys and values are not projected": {
                Q: "self.split(query)",
                K: "self.split(key)",
                V: "self.split(value)",
            },
        },
        lambda seed: [
            _module_inputs(seed, (3, 4, 2, 5, 5)),
            _module_inputs(seed, (3, 2, 2, 2 + seed % 3, 6)),
            _module_inputs(seed, (4, 1, 1, 4, 3)),
        ],
        ["the numbers of the loop over heads"],
        doubt="",
        trials=[
            Trial(
                _module_inputs(0, (2, 5, 3, 5, 7), mask=True),
                ["with a mask, too"],
                "with a mask it goes wrong: ",
            ),
            Trial(
                _module_inputs(0, (2, 5, 3, 6, 6), mask=causal_mask(6)),
                ["with a causal mask, one for all sentences"],
                "with a mask of shape (1, 1, 6, 6) it goes wrong: ",
            ),
            Trial(
                _module_inputs(0, (2, 5, 2, 3, 4), mask=ALL_PADDING),
                ["a query that may attend to nothing gets a context of 0"],
                "where a sentence is all padding it goes wrong: ",
                gradients="the result is right, its gradients are not (one cause: -∞ "
                "added to the scores makes them NaN; `masked_fill` does not)",
            ),
            Trial(
                _module_inputs(0, (2, 5, 2, 3, 4), mask=FOR_EACH_HEAD),
                ["a mask of its own for each head"],
                "with a mask of shape (2, 2, 3, 4) it goes wrong: ",
            ),
            Trial(
                _module_inputs(0, (2, 5, 3, 6, 6), mask=causal_mask(6)[0, 0]),
                ["a mask of two axes"],
                "with a mask of shape (6, 6) it goes wrong: ",
            ),
            Trial(
                _module_inputs(0, (2, 5, 2, 3, 4), mask=EMPTY_ROW[None]),
                before="where one query of one head may attend to nothing it goes "
                "wrong: ",
            ),
            Trial(
                _module_inputs(0, (2, 5, 2, 3, 4), mask=EMPTY_ROW),
                ["a mask of three axes, with an empty row in one head"],
                "with a mask of shape (2, 3, 4), heads first, it goes wrong: ",
            ),
            Trial(
                _module_inputs(0, (2, 5, 2, 3, 4), mask=EMPTY_ROW[1, :, 2:3]),
                before="with a mask of shape (3, 1) it goes wrong: ",
            ),
            Trial(
                _module_inputs(0, (2, 5, 2, 3, 4), mask=EMPTY_ROW[1, :1]),
                ["a mask whose key axis or query axis is 1"],
                "with a mask of shape (1, 4) it goes wrong: ",
            ),
        ],
        lenient=lambda seed: _module_inputs(seed, (4, 1, 4, 4, 4)),
        only_lenient="",
        shown=MultiHeadAttention,
        use=_as_function,
    ),
    uses={"attention": attention},
)

# ------------------------------------------------------------ 04.3 the third head

SENTENCES = (
    " ".join(rings.WORDS),
    "a dog is a dog is a dog",
    "one two three four five six seven eight",
)
SPLIT_WORDS = [text.split() for text in SENTENCES]
EQUAL = torch.tensor([[[a == b for b in s] for a in s] for s in SPLIT_WORDS]).double()
DUE = EQUAL / EQUAL.sum(dim=2, keepdim=True)  # (sentences, 8, 8): the head's maps


def _maps(rows: tuple[Tensor, Tensor]) -> Tensor:
    """What a head with these rows of the query's and key's matrices looks at."""
    for name, part in zip(("query_rows", "key_rows"), rows, strict=True):
        if part.shape != (8, 24):
            raise Stop(wrong(f"{name} has shape {tuple(part.shape)}, not (8, 24)"))
    query, key = (part.detach().float() for part in rows)
    x = torch.cat([rings.sentence(words) for words in SPLIT_WORDS])
    maps = attention(x @ query.T, x @ key.T, x)[1]
    if not maps.isfinite().all():
        raise Stop(wrong("the head's weights hold NaN: look at the scores"))
    return maps


def _unstacked(answer: Callable) -> Callable:
    """A tensor of two stands for its two parts."""

    @wraps(answer)
    def function() -> Any:
        output = answer()
        both = plain(output)
        stacked = isinstance(both, Tensor) and both.shape == (2, 8, 24)
        return (*both,) if stacked else output

    return function


def _outline(maps: Tensor) -> tuple[bool, ...]:
    """What of the maps must agree to name a mistake."""
    own, others = maps[EQUAL > 0], maps[EQUAL == 0]
    return (
        bool(maps.amax() - maps.amin() < 1e-3),
        bool(own.min() > others.max()),
        bool(own.max() < others.min()),
        bool(maps.diagonal(0, 1, 2).min() > 0.9),
        bool((maps * EQUAL).sum(dim=2).min() < 0.9),
    )


def _on_sentence(row: int) -> Trial:
    def share(maps: Tensor) -> float:
        return (maps[row] * EQUAL[row]).sum(dim=1).min().item()

    def uneven(maps: Tensor) -> float:
        own = maps[row] * EQUAL[row]
        return (own - own.sum(dim=1, keepdim=True) * DUE[row]).abs().max().item()

    return Trial(
        (),
        [f"“{SENTENCES[row][:16]} …”: at least {{share:.3f}} on the same word"],
        f"“{SENTENCES[row]}”: ",
        "the weights are not evenly on the same words: compare the pictures",
        lambda maps, due: share(maps) >= 0.9 and uneven(maps) <= 0.03,
        lambda maps, due: {"share": share(maps)},
        lambda maps, due: partial(weights_beside, maps[row], DUE[row]),
    )


QUERY = "query_rows[:, 0:8] = 10 * math.sqrt(8) * torch.eye(8)"
KEY = "key_rows[:, 0:8] = torch.eye(8)"
PLACES = "[:, 8:16] ="
third_head = Exercise(
    """\
def third_head():
    query_rows, key_rows = torch.zeros(2, 8, 24)
    query_rows[:, 0:8] = 10 * math.sqrt(8) * torch.eye(8)
    key_rows[:, 0:8] = torch.eye(8)
    return query_rows, key_rows
""",
    Part(
        "third_head",
        {
            "all keys get the same weight: the scores do not tell words apart": {
                QUERY: "pass"
            },
            "every place looks at itself: the head compares places, features 8 to 15; "
            "features 0 to 7 say which word it is": {
                QUERY: QUERY.replace("[:, 0:8] =", PLACES),
                KEY: KEY.replace("[:, 0:8] =", PLACES),
            },
            "the head compares places, too: take features 0 to 7 alone": {
                QUERY: "query_rows[:, 0:16] = 30 * torch.eye(8).repeat(1, 2)",
                KEY: "key_rows[:, 0:16] = torch.eye(8).repeat(1, 2)",
            },
            "words that are not in the lesson's sentence have no feature in the rows: "
            "compare all of features 0 to 7": {
                QUERY: "query_rows[:6, 0:6] = 10 * math.sqrt(8) * torch.eye(6)"
            },
            "the right words win, but get only {share:.3f} together: larger scores "
            "make a harder look-up, and √d_head makes them smaller": {
                "10 * math.sqrt(8) * torch": "torch"
            },
            "every word looks at all words but its own: is a sign wrong?": {
                "10 * math.sqrt": "-10 * math.sqrt"
            },
        },
        trials=[_on_sentence(row) for row in range(len(SENTENCES))],
        results=("query_rows", "key_rows"),
        use=_unstacked,
        measure=_maps,
        outline=_outline,
        gradients=False,
    ),
)

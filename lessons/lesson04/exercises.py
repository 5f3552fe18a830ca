"""The exercises of lesson 04, multi-head attention: reference answers and mistakes."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import torch
from torch import Tensor

from helpers.attention import MultiHeadAttention, attention
from helpers.exercise import Exercise, Probe
from helpers.masks import causal_mask, padding_mask
from lessons.checking.comparing import plain, same
from lessons.checking.engine import Exercise as EngineExercise
from lessons.checking.engine import Part, Trial
from lessons.checking.findings import Stop, wrong
from lessons.checking.pictures import owners_beside, weights_beside
from lessons.checking.running import run
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


split_and_join = EngineExercise(
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


class _Variant(MultiHeadAttention):
    """The module in steps, each of which a mistake replaces."""

    def forward(self, query, key, value, mask=None):
        """Shapes as in MultiHeadAttention."""
        q = self.split_heads(self.query_projection(query))
        k = self.split_heads(self.key_projection(key))
        v = self.split_heads(self.value_projection(value))
        return self.finish(self.join(attention(q, k, v, mask)[0]))

    def join(self, context):
        """(batch, heads, length, d_head) -> (batch, length, d_model)."""
        return context.transpose(1, 2).flatten(2)

    def finish(self, joined):
        """(batch, length, d_model) -> the same shape."""
        return self.output_projection(joined)


class _SplitByReshape(_Variant):
    def split_heads(self, x):
        return x.reshape(len(x), self.n_heads, x.size(1), -1)


class _JoinedByReshape(_Variant):
    def join(self, context):
        return context.reshape(len(context), context.size(2), -1)


class _NoOutput(_Variant):
    def finish(self, joined):
        return joined


class _NoMask(_Variant):
    def forward(self, query, key, value, mask=None):
        return super().forward(query, key, value)


class _OfTheQuery(_Variant):
    def forward(self, query, key, value, mask=None):
        return super().forward(query, query, query, mask)


def _probe(
    heads: int,
    d_head: int,
    queries: int,
    keys: int,
    mask: Tensor | None,
    batch: int = 3,
    **said: str,
) -> Probe:
    """Some sentences; the keys are no values, so that none stands for the other."""
    chance = torch.Generator().manual_seed(keys)
    query, key, value = (
        torch.randn(batch, length, heads * d_head, generator=chance)
        for length in (queries, keys, keys)
    )
    build = said.pop("build", lambda component: component(heads * d_head, heads))
    return Probe(query, key, value, *[mask] * (mask is not None), build=build, **said)


PADDED = torch.tensor([[5, 6, 7], [5, 6, 0], [0, 0, 0]])
TWO_STEPS = "`unflatten(2, (n_heads, -1))`, then `transpose(1, 2)`"
multi_head_attention = Exercise(
    MultiHeadAttention,
    [
        _probe(3, 4, 5, 5, None, praise="the numbers of the loop over heads"),
        _probe(4, 2, 2, 6, None, when="where query and key have other lengths: "),
        _probe(2, 3, 1, 4, None, batch=1, when="for one query of one sentence: "),
        _probe(2, 5, 4, 4, causal_mask(4), praise="with a causal mask, too"),
        _probe(
            *(2, 3, 2, 3, padding_mask(PADDED)),
            praise="a sentence of padding alone gets a context of 0",
            when="with a padding mask, and a sentence of padding alone: ",
        ),
        _probe(
            *(2, 4, 3, 5, torch.arange(90).view(3, 2, 3, 5) % 7 > 2),
            praise="a mask of its own for each head",
            when="with a mask of its own for each head: ",
        ),
    ],
    {
        f"the heads are split without a transpose, so that a row mixes tokens: "
        f"{TWO_STEPS}": _SplitByReshape,
        "the heads are joined without a transpose, so that a row mixes tokens: "
        "`transpose(1, 2)`, then `flatten(2)`": _JoinedByReshape,
        "the output projection is missing: it mixes what the heads found": _NoOutput,
        "the mask is not used: pass it on to `attention`": _NoMask,
        "keys and values are made from the query: they come from `key` and `value`": (
            _OfTheQuery
        ),
    },
    attributes=("n_heads",),
    lesson="04",
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
third_head = EngineExercise(
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

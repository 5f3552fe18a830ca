"""The exercises of lesson 04, multi-head attention: reference answers and mistakes."""

from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from helpers.attention import MultiHeadAttention, record_attention
from helpers.checks.comparing import plain, same
from helpers.checks.engine import Exercise, Part, Trial
from helpers.checks.findings import Stop, wrong
from helpers.checks.pictures import owners_beside, weights_beside
from helpers.checks.running import run
from helpers.checks.values import Values

# ------------------------------------------------------------ 04.1 split and join

SPLIT = "x.unflatten(2, (n_heads, -1)).transpose(1, 2)"
SPLIT_MISTAKES = {
    "`view` or `reshape` alone deals the numbers out in the order in which they lie, "
    "so that a row holds pieces of other tokens: cut the last axis first, "
    "`x.unflatten(2, (n_heads, -1))`, then exchange length and heads, "
    "`transpose(1, 2)`": {SPLIT: "x.reshape(len(x), n_heads, x.size(1), -1)"},
    "length still stands before heads: the features are cut; now exchange the axes: "
    "`transpose(1, 2)`": {SPLIT: "x.unflatten(2, (n_heads, -1))"},
    "a head gets every n-th feature, not a block of neighbours: head 1 owns the first "
    "d_head features: cut into (n_heads, d_head), in this order, "
    "`unflatten(2, (n_heads, -1))`": {
        SPLIT: "x.unflatten(2, (-1, n_heads)).permute(0, 3, 1, 2)"
    },
    "the last axis is cut into (d_head, heads): the heads come first: "
    "`unflatten(2, (n_heads, -1))`": {
        SPLIT: "x.unflatten(2, (-1, n_heads)).transpose(1, 2)"
    },
    "the last axis is cut into (d_head, heads) and not yet exchanged: the heads come "
    "first: `unflatten(2, (n_heads, -1))`, then `transpose(1, 2)`": {
        SPLIT: "x.unflatten(2, (-1, n_heads))"
    },
    "the heads stand before the batch: the batch stays in front: (batch, heads, "
    "length, d_head)": {SPLIT: "torch.stack(x.chunk(n_heads, dim=2))"},
    "`transpose(1, 2)` comes before the cut, so that it exchanges length and features: "
    "cut first, `x.unflatten(2, (n_heads, -1))`": {
        SPLIT: "x.transpose(1, 2).reshape(len(x), n_heads, x.size(1), -1)"
    },
    "length and features are exchanged: the last axis is d_head: of all axes only "
    "length and heads change places": {
        SPLIT: "x.unflatten(2, (n_heads, -1)).permute(0, 2, 3, 1)"
    },
    "batch and heads are one axis: that is how d2l does it; here they stay apart: "
    "(batch, heads, length, d_head)": {SPLIT: f"{SPLIT}.flatten(0, 1)"},
    "the tokens are cut among the heads, not the features: every head sees all tokens: "
    "cut axis 2, not axis 1": {SPLIT: "torch.stack(x.chunk(n_heads, dim=1), dim=1)"},
}
JOIN = "context.transpose(1, 2).flatten(2)"
JOIN_MISTAKES = {
    "without the transpose a row holds one head's features of several tokens: exchange "
    "heads and length first, then make one axis of the last two: "
    "`context.transpose(1, 2).flatten(2)`": {
        JOIN: "context.reshape(len(context), context.size(2), -1)"
    },
    "length and heads are exchanged, but heads and features are not joined: make one "
    "axis of the last two: `flatten(2)`": {JOIN: "context.transpose(1, 2)"},
    "length and d_head have become one axis: exchange heads and length first: "
    "`transpose(1, 2)`, then `flatten(2)`": {JOIN: "context.flatten(2)"},
    "the features of different heads take turns: head 1's features come first, then "
    "head 2's: after `transpose(1, 2)` the last two axes are (heads, d_head), and "
    "`flatten(2)` joins them in this order": {
        JOIN: "context.permute(0, 2, 3, 1).flatten(2)"
    },
    "the heads are added up: they are laid side by side: d_model is heads × d_head "
    "wide": {JOIN: "context.sum(1)"},
    "the heads are averaged: they are laid side by side: d_model is heads × d_head "
    "wide": {JOIN: "context.mean(1)"},
    "the heads are laid below each other, along the length: side by side, along the "
    "features": {JOIN: "context.flatten(1, 2)"},
    "`view` refuses a transposed tensor, as its numbers would have to be moved: take "
    "`flatten(2)`, or `contiguous()` before the `view`": {
        JOIN: "context.transpose(1, 2).view(len(context), context.size(2), -1)"
    },
}
# batch, length, heads, d_head: all different, so that no two axes can be mixed up.
SIZES, OTHERS, SINGLE = (2, 3, 4, 5), [(3, 7, 2, 1), (1, 1, 3, 2)], (3, 1, 2, 6)


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
    if not isinstance(value, Tensor):
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
        lenient=lambda seed: _cut(*SINGLE),
        only_lenient="it is right only for a sentence of one token",
        label="join",
        gradients=False,
        describe=_moved,
    ),
    praise="to split and to join gives back what was there",
)

# ------------------------------------------------------------ 04.2 which way back

ways_back = Values(
    """\
answers = {
    "A": "error",  # context.transpose(1, 2).view(batch, length, d_model)
    "B": "mixes tokens",  # context.reshape(batch, length, d_model)
    "C": "right",  # torch.cat(context.unbind(dim=1), dim=-1)
    "D": "mixes heads",  # context.permute(0, 2, 3, 1).flatten(2)
    "E": "right",  # context.transpose(1, 2).contiguous().view(batch, length, d_model)
}
""",
    {
        "A": {
            "right": "would be, if `view` could read a transposed tensor: it needs the "
            "numbers in the order of the new axes"
        },
        "B": {
            "right": "the shape is; but which numbers come first in memory, all of "
            "head 1 or all of token 1?",
            "error": "`reshape` never complains when the count fits: its danger",
            "mixes heads": "one row gets one head's features, and of how many tokens?",
        },
        "C": {},
        "D": {
            "right": "look at the last two axes before `flatten`: (d_head, heads), so "
            "whose feature comes second?",
            "error": "`flatten` copies where it has to",
            "mixes tokens": "length is axis 1, alone, so each row keeps its token",
        },
        "E": {},
    },
    {
        "A": "the order of the axes is right; the trouble is where the numbers lie",
        "C": "`unbind(dim=1)` gives one (batch, length, d_head) for each head, and "
        "these are laid side by side, as in the loop",
        "E": "`contiguous()` moves the numbers into the new order, so `view` may read",
    },
    choices=("right", "error", "mixes tokens", "mixes heads"),
)

# ------------------------------------------------------------ 04.3 count them

counts = Values(
    """\
d_head_big = 1024 // 16
one_head_base = 3 * (512 * 64 + 64)
all_heads_base = 4 * (512 * 512 + 512)
twice_the_heads = all_heads_base
weights_base = 32 * 8 * 100 * 100
""",
    {
        "d_head_big": {
            1024: "that is d_model; the heads share it",
            128: "the big model has 16 heads, not 8",
            32: "d_model of the big model is 1024",
            16: "that is the number of heads; each has d_model / n_heads features",
        },
        "one_head_base": {
            3
            * 64
            * 512: "a bias for each of the 64 features of each projection is due",
            64 * 513: "that is one projection; there are three",
            64 * 512: "that is one projection without its bias; there are three",
            3 * 512 * 513: "these are all eight heads; one has 64 features",
            3 * 512 * 512: "these are all eight heads; one has 64 features",
            3 * 64 * 64: "a head reads all 512 features and makes 64 of them",
            4 * 64 * 512: "the output projection is not asked for, but the biases are",
            3 * 64 * 65: "a head reads all 512 features and makes 64 of them",
            4 * 64 * 513: "the output projection is not asked for",
            3 * 512 * 65: "the bias is as long as the output, 64",
        },
        "all_heads_base": {
            4 * 512 * 512: "the biases are missing: 512 for each of the four matrices",
            3 * 512 * 513: "the output projection is missing",
            3 * 512 * 512: "the output projection and the biases are missing",
            8 * 4 * 512 * 513: "the eight heads share the 512 features",
            8 * 3 * 512 * 513: "the eight heads share the 512 features",
            512 * 513: "that is one of four matrices",
            512 * 512: "that is one of four matrices, without its biases",
            4 * 512 * 512 + 3 * 512: "the output projection has a bias, too",
            4 * 1024 * 1025: "d_model of the base model is 512",
        },
        "twice_the_heads": {
            8
            * 512
            * 513: "more heads are narrower heads: what does the count depend on?",
            2
            * 512
            * 513: "more heads are narrower heads: what does the count depend on?",
            4 * 512 * 512: "the biases are missing",
            3 * 512 * 513: "the output projection is missing",
            4 * 1024 * 1025: "d_model stays 512",
        },
        "weights_base": {
            32 * 100 * 100: "each of the 8 heads has weights of its own",
            8 * 100 * 100: "each of the 32 sentences has weights of its own",
            100 * 100: "each head of each sentence has weights of its own",
            32 * 8 * 100: "a weight for each pair of query and key: 100 × 100",
            32 * 100 * 512: "a weight belongs to a pair of tokens, not to a feature",
            32 * 8 * 100 * 100 * 64: "a weight for each pair, not for each feature",
        },
    },
    {
        "d_head_big": "{way}: d_model is shared out among the heads",
        "": "{way}; write the shape of each tensor down and multiply",
    },
)

# ------------------------------------------------------------ 04.4 the third head

QUERY = "module.query_projection.weight[16:24, :8] = loud * torch.eye(8)"
KEY = "module.key_projection.weight[16:24, :8] = torch.eye(8)"
RETURN = "    return module"
WORDS, PLACES = "[16:24, :8]", "[16:24, 8:16]"


def _at(query: str, key: str, block: str = "eye(8)") -> dict[str, str]:
    """A patch that writes this block of numbers at other places of the two weights."""
    return {
        QUERY: QUERY.replace(WORDS, query).replace("eye(8)", block),
        KEY: KEY.replace(WORDS, key).replace("eye(8)", block),
    }


ELSEWHERE = (
    "something else has changed, too: only the query's and the key's rows 16 to 23 are "
    "head 3's to write"
)
NO_GRAD = "keep `@torch.no_grad()` above the function"
THIRD_HEAD_MISTAKES = {
    "you wrote into columns 16 to 23; `nn.Linear` keeps its matrix as (output, input), "
    "so a head's features are rows: `weight[16:24, …]`": _at(*["[:8, 16:24]"] * 2),
    "head 3 reads features 16 to 23, which are empty: rows say which head, columns "
    "what it reads, so words are `weight[16:24, :8]`": _at(*["[16:24, 16:24]"] * 2),
    "head 3 still asks nothing: rows 16 to 23 of both weights are zero": {
        QUERY: "pass",
        KEY: "pass",
    },
    "head 3's query is still zero, so all scores are 0: it takes a query and a key": {
        QUERY: "pass"
    },
    "head 3's key is still zero, so all scores are 0: it takes a query and a key": {
        KEY: "pass"
    },
    "every key gets the same weight: query and key do not tell words apart": (
        _at(WORDS, WORDS, "ones(8, 8)")
    ),
    "head 3 compares places, features 8 to 15; which features say which word it is?": [
        _at(PLACES, PLACES),
        _at(WORDS, PLACES),
        _at(PLACES, WORDS),
    ],
    "head 3 reads places, too, features 8 to 15, so that the same words get unequal "
    "shares": [
        _at("[16:24, :16]", "[16:24, :16]", "eye(8).repeat(1, 2)"),
        _at(WORDS, "[16:24, :16]", "eye(8).repeat(1, 2)") | {QUERY: QUERY},
    ],
    "the right words win, but get only {share:.2f} together: make the query louder, "
    "and mind √d_head": {"loud = 10 * math.sqrt(8)": "loud = 1.0"},
    "every word looks at all words but its own: is a sign wrong?": {
        "10 * math.sqrt(8)": "-10 * math.sqrt(8)"
    },
    ELSEWHERE: {
        RETURN: f"    module.value_projection.weight[16:24, :8] = 1.0\n{RETURN}"
    },
    NO_GRAD: {"@torch.no_grad()\n": ""},
    "you change the module and return nothing: end with `return module`": {RETURN: ""},
}
SENTENCES = (
    "the cat saw the dog and the bird",
    "a dog is a dog is a dog",
    "one two three four five six seven eight",
)
# As in the lesson, a word's id is its place in the sentence's vocabulary.
IDS = torch.tensor(
    [[[*dict.fromkeys(s.split())].index(w) for w in s.split()] for s in SENTENCES]
)
EQUAL = (IDS[:, :, None] == IDS[:, None]).double()
DUE = EQUAL / EQUAL.sum(dim=2, keepdim=True)  # (sentences, 8, 8): the third head's maps


@torch.no_grad()
@torch.random.fork_rng(devices=[])
def left_and_right() -> MultiHeadAttention:
    """The lesson's module: head 1 looks left, head 2 right, head 3 asks nothing."""
    module, loud = MultiHeadAttention(24, 3), 10 * 8**0.5
    for parameter in module.parameters():
        parameter.zero_()
    for rows, step, sign in ((slice(0, 8), 1, 1), (slice(8, 16), -1, -1)):
        module.query_projection.weight[rows, 8:16] = loud * torch.eye(8).roll(step, 1)
        module.key_projection.weight[rows, 8:16] = torch.eye(8)
        module.value_projection.weight[rows, :8] = torch.eye(8)
        module.output_projection.weight[16:, rows] = sign * torch.eye(8)
    return module


def _read(output, *given) -> dict:
    """The module's maps (sentences, heads, 8, 8), and its parameters."""
    if not isinstance(output, MultiHeadAttention):
        kind = type(output).__name__
        raise Stop(wrong(f"return the module that came in, changed, not a {kind}"))
    parameters = dict(output.named_parameters())
    for name, due in left_and_right().named_parameters():
        shape = tuple(parameters[name].shape) if name in parameters else "nothing"
        if shape != tuple(due.shape):
            text = f"`{name}` is {shape} now, not {tuple(due.shape)}"
            raise Stop(wrong(f"{text}: write into its slice, `weight[16:24, …] = …`"))
    words, places = F.one_hot(IDS, 8), torch.eye(8).expand(3, 8, 8)
    x = torch.cat([words, places, 0 * places], dim=2).to(parameters[name].dtype)
    with torch.no_grad(), record_attention(output) as maps:
        heard = output(x, x, x)
    if not maps[""].isfinite().all():
        raise Stop(wrong("the weights hold NaN: a projection holds NaN or infinity"))
    return plain({"maps": maps[""], "parameters": parameters, "output": heard})


BEFORE = _read(left_and_right())


def _moved_heads(value: dict) -> list[int]:
    """Which of the heads 1 and 2 no longer look where they did."""
    change = (value["maps"] - BEFORE["maps"]).abs().amax(dim=(0, 2, 3))
    return [head for head in (1, 2) if change[head - 1] > 1e-3]


def _elsewhere(value: dict) -> bool:
    """Whether anything besides rows 16 to 23 of query and key has changed."""
    changed = [value["output"] - BEFORE["output"]]
    for name, before in BEFORE["parameters"].items():
        rows = slice(16 if name.startswith(("query", "key")) else None)
        changed.append((value["parameters"][name] - before)[rows])
    others = value["parameters"].keys() - BEFORE["parameters"].keys()
    return bool(others) or any(part.abs().max() > 1e-3 for part in changed)


def _outline(value: dict) -> tuple:
    """Which blocks of the two weights hold something, and what head 3 looks at."""
    weights = [value["parameters"][f"{x}_projection.weight"] for x in ("query", "key")]
    blocks = torch.stack(weights).unflatten(1, (3, 8)).unflatten(3, (3, 8))
    third = value["maps"][:, 2]
    own, others = third[EQUAL > 0], third[EQUAL == 0]
    flat = (third.amax(dim=2) - third.amin(dim=2)).max() < 1e-3
    looks = flat, own.min() > others.max(), own.max() < others.min()
    return blocks.abs().amax(dim=(2, 4)) > 0, looks


def _spoilt(value: dict, due: dict) -> str:
    moved = [
        f"head {head} no longer looks where it did" for head in _moved_heads(value)
    ]
    rows = ": head 3 owns rows 16 to 23 of the weight, `weight[16:24, …]`"
    return ", ".join(moved) + rows


def _on_sentence(row: int, sentence: str) -> Trial:
    def share(value: dict) -> Tensor:
        return (value["maps"][row, 2] * EQUAL[row]).sum(dim=1).min()

    def fits(value: dict, due: dict) -> bool:
        uneven = ((value["maps"][row, 2] - DUE[row]) * EQUAL[row]).abs().max()
        return bool(share(value) >= 0.9 and uneven <= 0.1)

    def facts(value: dict, due: dict) -> dict:
        if share(value) >= 0.9:
            why = "the weights are on the same words, but they are not even"
        else:
            why = "the weights are not on the same words: compare the pictures"
        return {"share": share(value), "why": why}

    start = " ".join(sentence.split()[:4])
    return Trial(
        (left_and_right(),),
        [f"“{start} …”: at least {{share:.2f}} on the same word"],
        f"“{sentence}”: ",
        "{why}",
        fits,
        facts,
        lambda value, due: partial(weights_beside, value["maps"][row, 2], DUE[row]),
    )


third_head = Exercise(
    """\
@torch.no_grad()
def third_head(module):
    loud = 10 * math.sqrt(8)
    module.query_projection.weight[16:24, :8] = loud * torch.eye(8)
    module.key_projection.weight[16:24, :8] = torch.eye(8)
    return module
""",
    Part(
        "third_head",
        THIRD_HEAD_MISTAKES,
        trials=[
            Trial(
                (left_and_right(),), accepts=lambda value, due: not _moved_heads(value)
            ),
            *(_on_sentence(*numbered) for numbered in enumerate(SENTENCES)),
            Trial(
                (left_and_right(),),
                otherwise=ELSEWHERE,
                accepts=lambda value, due: not _elsewhere(value),
            ),
        ],
        lenient=lambda seed: (left_and_right().requires_grad_(False),),
        runs=NO_GRAD,
        in_place=True,
        measure=_read,
        outline=_outline,
        describe=_spoilt,
    ),
    praise="heads 1 and 2 look left and right as before",
)

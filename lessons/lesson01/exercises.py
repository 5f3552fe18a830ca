"""The exercises of lesson 01, embeddings and positions: answers and known mistakes."""

import math
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from matplotlib import pyplot as plt
from torch import Tensor, nn
from torch.func import functional_call

from helpers.plots import heatmap
from helpers.positions import positional_encoding
from lessons.checking.engine import Exercise, Part
from lessons.checking.findings import Stop, wrong
from lessons.checking.running import stub

# ------------------------------------------------------------------ 01.1 the encoding


def _beside(value: Tensor, due: Tensor, *, of: str) -> None:
    """The learner's numbers next to the expected ones."""
    _, axes = plt.subplots(1, 2, figsize=(6.4, 3.2), sharey=True)
    for ax, numbers, title in zip(
        axes, (value, due), ("yours", "expected"), strict=True
    ):
        labels = (range(size) for size in numbers.shape)
        look = {"signed": True, "colour_bar": False, "label": ""}
        heatmap(numbers, *labels, title=f"{of}, {title}", ax=ax, **look)
        ax.set(xlabel="feature", ylabel="")
    plt.show()


def _picture(value: Tensor, due: Tensor, *, of: str) -> Callable | None:
    if not isinstance(value, Tensor) or value.shape != due.shape:
        return None
    return partial(_beside, value.detach(), due, of=of)


def _sizes(seed: int) -> tuple[int, int]:
    """A length, or step, and a d_model that is no multiple of 4, from the seed."""
    draw = random.Random(seed)
    return draw.randrange(33, 60), 2 * draw.randrange(9, 15, 2)


PAIR = "features 2i and 2i + 1 share one wave, with the exponent 2i / d_model"
COUNT = "torch.arange(length)[:, None]"
EXPONENT = "torch.arange(0, d_model, 2) / d_model"
HALVES = "table[:, : d_model // 2]", "table[:, d_model // 2 :]"
SIN, COS = "angle.sin()", "angle.cos()"
EVEN, ODD = "table[:, 0::2]", "table[:, 1::2]"
sinusoids = Exercise(
    """\
def my_positional_encoding(length, d_model):
    position = torch.arange(length)[:, None]
    angle = position / 10000 ** (torch.arange(0, d_model, 2) / d_model)
    table = torch.empty(length, d_model)
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle.cos()
    return table
""",
    Part(
        "my_positional_encoding",
        {
            f"the 2 of 2i is missing, or the base is 100: {PAIR}": {
                EXPONENT: "torch.arange(d_model // 2) / d_model"
            },
            "the 2 of 2i is there twice: `torch.arange(0, d_model, 2)` is 2i already": {
                EXPONENT: "torch.arange(0, d_model, 2) * 2 / d_model"
            },
            f"each feature has a wave of its own: {PAIR}": [
                {
                    EXPONENT: f"{factor} * torch.arange(d_model) / d_model",
                    SIN: "angle[:, 0::2].sin()",
                    COS: "angle[:, 1::2].cos()",
                }
                for factor in (1, 2)
            ],
            f"the exponent is not divided by d_model: {PAIR}": {
                EXPONENT: "torch.arange(0.0, d_model, 2)"
            },
            "the exponents run to 1: the last pair has (d_model - 2) / d_model": {
                EXPONENT: "torch.linspace(0, 1, d_model // 2)"
            },
            "the pairs are counted from 1: i starts at 0, so the first pair turns by "
            "1 a step": {EXPONENT: "torch.arange(2, d_model + 2, 2) / d_model"},
            "the angle is multiplied by 10000^(2i / d_model): divide: each pair turns "
            "more slowly than the one before": {"position / 10000": "position * 10000"},
            "the base is not 10000": [{"10000": str(base)} for base in (1000, 100_000)],
            "`10000 ** a / d` is `(10000 ** a) / d`: put the exponent in parentheses": {
                f"({EXPONENT})": EXPONENT.replace("(0,", "(0.0,")
            },
            "position / 10000 is computed first: the exponent belongs to 10000 alone": {
                "position / 10000": "(position / 10000)"
            },
            "the exponential needs the natural logarithm of 10000, not log10": {
                "10000 **": "math.exp(4) **"
            },
            "the angle is in radians: no factor of 2π, no degrees": [
                {"position / 10000": f"{factor} * position / 10000"}
                for factor in ("2 * math.pi", "math.pi / 180")
            ],
            "the positions are counted from 1: the first row is of position 0": {
                COUNT: "torch.arange(1, length + 1)[:, None]"
            },
            "sine and cosine are swapped: sine in the even features, 0, 2, …": {
                SIN: COS,
                COS: SIN,
            },
            "all sines come first: sine and cosine of a pair stand side by side": {
                EVEN: HALVES[0],
                ODD: HALVES[1],
            },
            "`//` divides without a remainder: use `/`": {
                EXPONENT: "torch.arange(0, d_model, 2) // d_model"
            },
            "a minus stands at the sine": {SIN: "-angle.sin()"},
            "a minus stands at the cosine": {COS: "-angle.cos()"},
            "the odd features hold no cosine": [{COS: SIN}, {COS: "0"}],
            "the even features hold no sine": [{SIN: COS}, {SIN: "0"}],
            "the angles are not turned into waves": {SIN: "angle", COS: "angle"},
            "the table is transposed: a row for each position": {
                "return table": "return table.T"
            },
            "there is one axis too many: return (length, d_model)": [
                {"return table": "return table[None]"},
                {"return table": "return table[:, None]"},
            ],
        },
        lambda seed: [(12, 16), (7, 6), _sizes(seed)],
        ["12 positions, d_model 16: every number is right"],
        picture=partial(_picture, of="table"),
        shown=positional_encoding,
    ),
)

# ------------------------------------------------------------------ 01.2 the rotation

BLOCK = "each pair has a block of 2 × 2 numbers, of cos and sin of its own angle"
FIRST, SECOND = (
    "matrix[a, a], matrix[a, b] = c, s",
    "matrix[b, a], matrix[b, b] = -s, c",
)
ANGLE = "k / 10000 ** (2 * i / d_model)"
BACK = "it goes k positions back instead of on: which sine has the minus? The matrix "
rotation = Exercise(
    """\
def shift_matrix(k, d_model):
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model)
        c, s, a, b = math.cos(angle), math.sin(angle), 2 * i, 2 * i + 1
        matrix[a, a], matrix[a, b] = c, s
        matrix[b, a], matrix[b, b] = -s, c
    return matrix
""",
    Part(
        "shift_matrix",
        {
            f"{BACK}stands on the left of a column": {
                "= c, s": "= c, -s",
                "= -s, c": "= s, c",
            },
            "no sine has a minus: then it does not turn, it stretches": {
                "= -s, c": "= s, c"
            },
            "both sines have a minus: then it does not turn, it stretches": {
                "= c, s": "= c, -s"
            },
            "the minus stands at a cosine: that mirrors where it should turn": [
                {"= -s, c": "= s, -c"},
                {"= c, s": "= -c, s", "= -s, c": "= s, c"},
            ],
            "sine and cosine are swapped: for k = 0 the matrix must change nothing": [
                {"= c, s": "= s, c", "= -s, c": "= c, -s"},
                {"= c, s": "= s, c", "= -s, c": "= -c, s"},
            ],
            f"only the diagonal is filled: {BLOCK}": {
                "= c, s": "= c, 0",
                "= -s, c": "= 0, c",
            },
            f"only the first pair turns: {BLOCK}": {
                "range(d_model // 2)": "range(1)",
                "torch.zeros(d_model, d_model)": "torch.eye(d_model)",
            },
            "all pairs turn by the same angle: pair i turns by k / 10000^(2i / d_model)"
            "": {ANGLE: "k"},
            "it makes one step, whatever k is: the angle is k times that of one step": {
                ANGLE: "1 / 10000 ** (2 * i / d_model)"
            },
            "the angle is multiplied by 10000^(2i / d_model): divide": {
                ANGLE: "k * 10000 ** (2 * i / d_model)"
            },
            "it is k times the matrix of one step: multiply the angle instead": {
                ANGLE: "1 / 10000 ** (2 * i / d_model)",
                "return matrix": "return k * matrix",
            },
            "the 2 of 2i is missing: pair i has the exponent 2i / d_model": {
                ANGLE: "k / 10000 ** (i / d_model)"
            },
            "the 2 of 2i is there twice: pair i has the exponent 2i / d_model": {
                ANGLE: "k / 10000 ** (4 * i / d_model)"
            },
            "the pairs are counted from 1: i starts at 0": {
                ANGLE: "k / 10000 ** (2 * (i + 1) / d_model)"
            },
            "the angle is in radians: no factor of 2π, no degrees": [
                {ANGLE: f"{factor} * k / 10000 ** (2 * i / d_model)"}
                for factor in ("2 * math.pi", "math.pi / 180", "180 / math.pi")
            ],
            "it is made for a table with all sines first: here a pair's features are "
            "2i and 2i + 1": {"2 * i, 2 * i + 1": "i, i + d_model // 2"},
            "it goes on where k is negative: keep the sign of k": {
                ANGLE: f"abs({ANGLE})"
            },
            "these are the blocks alone: put them on the diagonal of one matrix": {
                "return matrix": "return torch.stack([matrix[i:i + 2, i:i + 2] "
                "for i in range(0, d_model, 2)])"
            },
            "the matrix changes nothing": {
                FIRST: "matrix[a, a] = 1",
                SECOND: "matrix[b, b] = 1",
            },
        },
        lambda seed: [(5, 16), _sizes(seed), (-2, 6)],
        ["a step of 5 at d_model 16: every position goes to the one 5 further"],
        others="other steps and sizes work too, also back (k = -2)",
        doubt="",
        picture=partial(_picture, of="matrix"),
    ),
)

# --------------------------------------------------------------- 01.3 the input layer

WORDS = "`self.words` is to be an `nn.Embedding` of vocab_size rows, d_model wide"
BEHIND = (
    "a tensor stays on the CPU when the layer moves to another device: keep the table "
    "with `self.register_buffer`"
)


def _as_function(layer: Any) -> Callable:
    """The layer as a function of the tokens and of the words that it is to have."""

    def function(tokens: Tensor, words: Tensor) -> Any:
        if isinstance(layer, nn.Module):
            raise Stop(wrong("hand over the class itself, without parentheses"))
        d_model, length = words.size(1), tokens.size(1)
        longest = length if length > 100 else length + 3  # as long as can be, or less
        module = layer(len(words), d_model, longest)
        if module is None or module is ... or stub(getattr(layer, "forward", None)):
            raise NotImplementedError
        if not isinstance(module, nn.Module):
            raise Stop(wrong("the class is to be an `nn.Module`"))
        own = getattr(module, "words", None)
        if not isinstance(own, nn.Embedding) or own.weight.shape != words.shape:
            raise Stop(wrong(f"{WORDS}: it is {own!r:.60}"))
        for option in ("padding_idx", "max_norm"):
            if getattr(own, option) is not None:
                text = f"`{option}` treats some words in another way: leave it out"
                raise Stop(wrong(text))
        if not own.weight.requires_grad:
            raise Stop(wrong("the words would not be trained: they are to be learnt"))
        learnt = {n for n, p in module.named_parameters() if p.requires_grad}
        if more := learnt - {"words.weight"}:
            text = f"`{min(more)}` would be trained: only the words are to be learnt"
            raise Stop(wrong(f"{text}: a table that stays as it is is a buffer"))
        output = functional_call(module, {"words.weight": words}, (tokens,))
        if output is None:
            return None
        start = _start(own.weight.detach())
        if _stays_behind(module, tokens):
            raise Stop(wrong(BEHIND))
        return output, start

    return function


def _stays_behind(module: nn.Module, tokens: Tensor) -> bool:
    """Whether the layer, moved to another device, stops for a tensor of the CPU's.

    Afterwards it is on that device, which is torch's "meta".
    """
    try:
        module.to("meta")(tokens.to("meta"))
    except RuntimeError as error:
        return "on device cpu" in str(error) or "found at least two dev" in str(error)
    except Exception:  # of what that device alone cannot do
        return False
    return False


def _start(weight: Tensor) -> Tensor:
    """The words' size in units of 1/√d_model if it is one of three, else 0.

    Chance may change it a little: the fewer the words, the more.
    """
    d_model, slack = weight.size(1), 0.04 + 3 / math.sqrt(weight.numel())
    mean, size = weight.mean(), weight.var(dim=0).mean().sqrt()  # between words
    mean, size = mean * math.sqrt(d_model), size * math.sqrt(d_model)
    known = (1.0, math.sqrt(d_model), 1 / math.sqrt(d_model))
    found = (one for one in known if abs(size / one - 1) < slack)
    return torch.tensor(next(found, 0.0) if abs(mean) < slack * max(size, 1) else 0.0)


def _inputs(
    seed: int, vocab: int, batch: int, length: int, smallest: int
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    d_model = 2 * random.Random(seed).randrange(smallest, smallest + 15)
    tokens = torch.randint(vocab, (batch, length), generator=generator)
    return tokens, torch.randn(vocab, d_model, generator=generator)


def _describe(value: tuple[Tensor, ...], due: tuple[Tensor, ...]) -> str:
    if torch.allclose(value[0], due[0], atol=1e-4):
        return "the words start with another mean than 0 or size than 1/√d_model"
    return "the result is not words · √d_model + positions"


START = "nn.init.normal_(self.words.weight, std=d_model**-0.5)"
ROOT = "math.sqrt(self.words.embedding_dim)"
TABLE = "self.table[: tokens.size(1)]"
BUFFER = 'self.register_buffer("table", positional_encoding(max_length, d_model))'
MADE = "positional_encoding(max_length, d_model)"
input_layer = Exercise(
    """\
class MyInputLayer(nn.Module):
    def __init__(self, vocab_size, d_model, max_length):
        super().__init__()
        self.words = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.words.weight, std=d_model**-0.5)
        self.register_buffer("table", positional_encoding(max_length, d_model))

    def forward(self, tokens):
        x = self.words(tokens) * math.sqrt(self.words.embedding_dim)
        return x + self.table[: tokens.size(1)]
""",
    Part(
        "MyInputLayer",
        {
            "the words start at nn.Embedding's own size of 1: set the standard "
            "deviation to 1/√d_model": {START: ""},
            "the words start with a standard deviation of 1/d_model: take 1/√d_model": {
                "std=d_model**-0.5": "std=1 / d_model"
            },
            "the factor is missing: multiply the words by √d_model": {f" * {ROOT}": ""},
            "the words would not be trained: they are to be learnt": {
                START: f"{START}\n        self.words.requires_grad_(False)"
            },
            "the words are divided by √d_model: multiply": {f"* {ROOT}": f"/ {ROOT}"},
            "the factor is d_model: take its square root": {
                ROOT: "self.words.embedding_dim"
            },
            "the positions are multiplied, too: the factor is for the words alone": {
                f"x + {TABLE}": f"x + {TABLE} * {ROOT}"
            },
            "no positions are added": {f" + {TABLE}": ""},
            "the table is too short: it needs max_length rows": [
                {MADE: f"positional_encoding({rows}, d_model)"}
                for rows in ("vocab_size", "max_length - 1", 10, 99, 512, 5000)
            ],
            BEHIND: {BUFFER: f"self.table = {MADE}"},
            "the table is indexed by the token ids: take the rows 0 to length - 1": [
                {TABLE: "self.table[tokens]"},
                {TABLE: "positional_encoding(999, x.size(-1)).to(x)[tokens]"},
            ],
            "every token gets the row of position 0: take a row for each position": {
                TABLE: "self.table[:1]"
            },
            "the positions start at 1: the first token is at position 0": {
                TABLE: "self.table[1 : tokens.size(1) + 1]"
            },
            "the table is indexed along the batch: its rows belong to the length": {
                TABLE: "self.table[: tokens.size(0), None]"
            },
            "only the positions are returned: add them to the words": {
                f"x + {TABLE}": f"0 * x + {TABLE}"
            },
            "`table` would be trained: only the words are to be learnt: a table that "
            "stays as it is is a buffer": {
                BUFFER: f"self.table = nn.Parameter({MADE})"
            },
        },
        lambda seed: [
            _inputs(seed, 900, 3, 5, 25),
            _inputs(seed, 30, 1, 5100, 4),
            _inputs(seed, 6, 2, 9, 120),
        ],
        [
            "words · √d_model + positions, at the right places",
            "words start at 1/√d_model",
        ],
        lenient=lambda seed: _inputs(seed, 6, 4, 4, 25),
        doubt="",
        results=("input", "start"),
        describe=_describe,
        use=_as_function,
    ),
    uses={"positional_encoding": positional_encoding},
)

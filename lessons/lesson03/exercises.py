"""The exercises of lesson 03, masks: reference answers and known mistakes."""

import math
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import torch
from torch import Tensor

from helpers import BOS, EOS, PAD, masks
from helpers.exercise import Exercise, Probe
from lessons.checking.comparing import plain
from lessons.checking.engine import Exercise as EngineExercise
from lessons.checking.engine import Part, Trial
from lessons.checking.findings import Stop, wrong
from lessons.checking.pictures import weights_beside
from lessons.checking.running import stopped
from lessons.checking.values import Values

# ------------------------------------------------------------ what all masks share

ALIGN = "axes are lined up from the right, and an index of `None` adds one of size 1"
BATCH_AS_HEADS = ": the batch stands on the second axis, that of the heads"
BOOLEANS = "`&`, `|` and `~` are for booleans, and something here is numbers"
# What part of PyTorch's message means, where masks are made.
REASONS = {
    "must match the size": "two sizes differ; axes are lined up from the right",
    '"bitwise': BOOLEANS,
    "operator.invert": BOOLEANS,
    "is ambiguous": "one truth value is asked for, as by `and`, `or`, `not` and `if`, "
    "and a mask has many: `&`, `|` and `~` work on each",
}


def _explained(function: Callable) -> Callable:
    """The learner's function; what stops code that makes masks gets a reason."""

    @wraps(function)
    def explained(*inputs: Any) -> Any:
        try:
            return function(*inputs)
        except (RuntimeError, TypeError, ValueError) as error:
            if isinstance(error, NotImplementedError) and not error.args:
                raise
            for part, reason in REASONS.items():
                if part in str(error):
                    raise Stop(wrong(f"{reason} ({stopped(error)})")) from None
            raise

    return explained


def _whole(batch: int, length: int, output: Any) -> Any:
    """The mask for each sentence, query and key; Stop if it is no such mask.

    A mask of another shape that broadcasts to the same is the same.
    """
    mask = plain(output)
    if not isinstance(mask, Tensor):
        return mask
    if mask.dtype != torch.bool:
        floats = mask.is_floating_point() and bool(mask.isinf().any())
        kind = getattr(output, "dtype", mask.dtype)
        text = f"return booleans, not {str(kind).removeprefix('torch.')}"
        text += ": 0 and -∞ are another convention, to be added to the scores" * floats
        text += ": a comparison gives them, such as `!=` or `>=`" * (not floats)
        raise Stop(wrong(text))
    full, shape = (batch, 1, length, length), tuple(mask.shape)
    axes = (4,) if batch > 1 else (2, 3, 4)
    fits = zip(reversed(shape), reversed(full), strict=False)
    if len(shape) not in axes or any(size not in (1, due) for size, due in fits):
        wanted = f"({batch}, 1, {length}, {length})"
        text = f"the shape {shape} does not broadcast to {wanted} as it should"
        text += f": {ALIGN}" * (len(shape) < 4)
        text += BATCH_AS_HEADS * (batch > 1 and shape[:2] == (1, batch))
        raise Stop(wrong(text))
    return mask.expand(full)


def _of_tokens(output: Any, tokens: Tensor, *others: Tensor) -> Any:
    return _whole(*tokens.shape, output)


def _of_length(output: Any, length: int) -> Any:
    return _whole(1, length, output)


def _picture(value: Tensor, due: Tensor) -> Callable | None:
    """The first sentence whose masks differ, where there are masks to compare."""
    if value.shape != due.shape or value.size(-1) > 8:
        return None
    place = int((value != due).flatten(1).any(dim=1).nonzero()[0])
    return partial(weights_beside, value[place, 0].float(), due[place, 0].float())


def _describe(value: Tensor, due: Tensor) -> str:
    leaks, blind = int((value & ~due).sum()), int((due & ~value).sum())
    text = f"{leaks} pairs are visible that must be hidden, "
    return f"{text}{blind} are hidden that must be visible"


MASK = {
    "gradients": False,
    "doubt": "",
    "use": _explained,
    "describe": _describe,
    "picture": _picture,
}
OPPOSITE = "it is inverted: `True` means *may attend*, not *hidden*"
ITSELF = "a token does not see itself: the diagonal belongs to it"
EVERYTHING = "nothing is hidden: each token sees all"
UPSIDE_DOWN = "the triangle is upside down, so that the past is hidden"
FIRST = "it is made from the first row of the batch alone: each row has its own"
TOO_FAR = "each token sees the next one, the very word that it is to guess"

# ------------------------------------------------------------ 03.1 the three masks

# Padding on the right, none, on the left; 1 to 3 are UNK, BOS and EOS. Three sentences
# of five tokens, so that no axis can be taken for another.
TOKENS = torch.tensor([[2, 6, 3, PAD, PAD], [2, 7, 1, 5, 3], [PAD, PAD, 2, 9, 3]])


def _tokens(seed: int) -> list[tuple[Tensor]]:
    """The sentences above, others with padding anywhere, some without, a long one."""
    generator = torch.Generator().manual_seed(seed)
    length, full = torch.randint(21, 40, (2,), generator=generator).tolist()
    drawn = torch.randint(10, (2, length), generator=generator)
    drawn[:, :2] = torch.tensor([[4, PAD], [PAD, 5]])
    return [
        (TOKENS,),
        (drawn,),
        (torch.randint(4, 99, (2, full), generator=generator),),
        (torch.randint(10, (1, 180 + length), generator=generator),),
    ]


def _by_places(tokens: Tensor) -> Tensor:
    """As if padding stood only at the end."""
    lengths = (tokens != PAD).sum(dim=1, keepdim=True)
    return (torch.arange(tokens.size(1)) < lengths)[:, None, None, :]


ON_META = "moved to another device (here PyTorch's “meta”): "
SENTENCES = [
    Probe(TOKENS, praise="padding may stand anywhere"),
    Probe(torch.tensor([[2, 5, 1, 9, 3, 8, PAD]]), when="for one longer sentence: "),
    Probe(torch.arange(180).view(2, 90) % 60, when="for 90 tokens and ids up to 59: "),
    Probe(TOKENS.to("meta"), when=ON_META),
]
QUERIES_TOO = "padded queries are hidden as well: hide keys only, the last axis"
padding_mask = Exercise(
    masks.padding_mask,
    SENTENCES,
    {
        OPPOSITE: lambda tokens: ~masks.padding_mask(tokens),
        "padded *queries* are hidden, whole rows: keys lie along the last axis": (
            lambda tokens: masks.padding_mask(tokens).mT
        ),
        QUERIES_TOO: lambda tokens: (
            masks.padding_mask(tokens) & masks.padding_mask(tokens).mT
        ),
        "other special tokens are hidden, too: only PAD is padding": lambda tokens: (
            tokens > EOS
        )[:, None, None, :],
        "it is right for padding at the end only, which may stand anywhere": _by_places,
    },
    lesson="03",
)
causal_mask = Exercise(
    masks.causal_mask,
    [
        Probe(5, praise="each token sees itself and the past"),
        Probe(1, when="for one token: "),
        Probe(90, when="for 90 tokens: "),
        Probe(9, device=torch.device("meta"), when="with `device` (here “meta”): "),
    ],
    {
        OPPOSITE: lambda length, device=None: ~masks.causal_mask(length, device=device),
        UPSIDE_DOWN: lambda length, device=None: (
            masks.causal_mask(length, device=device).mT
        ),
        ITSELF: lambda length, device=None: masks.causal_mask(
            length, device=device
        ).tril(-1),
        TOO_FAR: lambda length, device=None: torch.ones(
            1, 1, length, length, dtype=torch.bool, device=device
        ).tril(1),
    },
    lesson="03",
)
decoder_mask = Exercise(
    masks.decoder_mask,
    SENTENCES,
    {
        OPPOSITE: lambda tokens: ~masks.decoder_mask(tokens),
        "it shows words *or* the past: a visible key must be both": lambda tokens: (
            masks.padding_mask(tokens) | masks.causal_mask(tokens.size(1))
        ),
        "padding is not hidden": lambda tokens: masks.causal_mask(
            tokens.size(1)
        ).expand(len(tokens), -1, -1, -1),
        "the future is not hidden": lambda tokens: masks.padding_mask(tokens).expand(
            -1, -1, tokens.size(1), -1
        ),
        QUERIES_TOO: lambda tokens: (
            masks.decoder_mask(tokens) & masks.padding_mask(tokens).mT
        ),
    },
    lesson="03",
)

# ------------------------------------------------------------ 03.2 the packed mask

# Documents of several lengths, also one that is only <bos>, and a row that begins in
# the middle of a document; then longer rows, of one long document and of nine; then a
# batch of one long row, of many documents.
PACKED = torch.tensor(
    [[2, 7, 8, 3, 2, 7, 3], [2, 9, 1, 9, 9, 9, 3], [7, 3, 2, 2, 5, 3, 2]]
)


def _packed(seed: int) -> list[tuple[Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(3, 9, (2, 20 + seed % 3), generator=generator)
    drawn[0, [0, 3, 6, 8, 11, 13, 14, 17, 19]] = drawn[1, 2] = BOS
    alone = torch.randint(2, 9, (1, 200 + seed % 7), generator=generator)
    return [(PACKED,), (drawn,), (alone,)]


COUNT = "(tokens == BOS).cumsum(dim=1)"
SAME = "document[:, None, :, None] == document[:, None, None, :]"
TOGETHER = "same & causal_mask(tokens.size(1), device=tokens.device)"
packed_mask = EngineExercise(
    """\
def my_packed_mask(tokens):
    document = (tokens == BOS).cumsum(dim=1)
    same = document[:, None, :, None] == document[:, None, None, :]
    return same & causal_mask(tokens.size(1), device=tokens.device)
""",
    Part(
        "my_packed_mask",
        {
            OPPOSITE: {TOGETHER: f"~({TOGETHER})"},
            "the future is not hidden: documents are packed for a decoder": {
                TOGETHER: "same"
            },
            "earlier documents are not hidden": [
                {TOGETHER: "causal_mask(tokens.size(1))"},
                {SAME: SAME.replace("==", ">=")},
            ],
            ITSELF: {TOGETHER: f"({TOGETHER}).tril(-1)"},
            "the beginning of a document, <bos>, is hidden from it": {
                TOGETHER: f"{TOGETHER} & (tokens != BOS)[:, None, None, :]"
            },
            "`tokens == BOS` marks beginnings only: number the documents, by counting "
            "along the row": {COUNT: "(tokens == BOS)"},
            UPSIDE_DOWN: {TOGETHER: "same & causal_mask(tokens.size(1)).mT"},
            FIRST: {COUNT: "(tokens[:1] == BOS).cumsum(dim=1)"},
            "the documents are counted down the batch: count along each row": {
                "dim=1": "dim=0"
            },
            "a <bos> belongs to the document that it begins, not to the one before": {
                COUNT: "((tokens == BOS).cumsum(dim=1) - (tokens == BOS).long())"
            },
            "<unk> is no beginning: compare with BOS itself": {
                COUNT: "(tokens <= BOS).cumsum(dim=1)"
            },
            "a document ends after its <eos>, not before it: a new one begins with "
            "<bos>": {COUNT: "(tokens == EOS).cumsum(dim=1)"},
            "a row may begin in the middle of a document: its tokens, too, see each "
            "other": {TOGETHER: f"{TOGETHER} & (document > 0)[:, None, None, :]"},
            "each <bos> stays visible to later documents: it belongs to its own": {
                TOGETHER: "(same | (tokens == BOS)[:, None, None, :]) & "
                "causal_mask(tokens.size(1))"
            },
        },
        _packed,
        ["each token sees its own document's past, and nothing else"],
        measure=_of_tokens,
        **MASK,
    ),
    uses={"BOS": BOS, "EOS": EOS, "causal_mask": masks.causal_mask},
)

# ------------------------------------------------------------ 03.3 four black boxes


def _suspect(make_mask: Callable, late: bool = False) -> Callable[[Tensor], Tensor]:
    """A self-attention on three words and two <pad>, in its own way of masking."""

    def look(x: Tensor) -> Tensor:
        places = torch.arange(5)
        real = (places < 3)[None, :]
        past = places[:, None] >= places[None, :]
        generator = torch.Generator().manual_seed(3)
        size = x.size(-1)
        projections = torch.randn(3, size, size, generator=generator) / size**0.5
        query, key, value = (x @ w.to(x.dtype) for w in projections)
        scores, mask = query @ key.mT / math.sqrt(size), make_mask(real, past)
        if late:
            return scores.softmax(-1).masked_fill(~mask, 0.0) @ value
        weights = scores.masked_fill(~mask, -math.inf).softmax(-1)
        return weights.masked_fill(~mask, 0.0) @ value

    return look


SUSPECTS = {
    "A": _suspect(lambda real, past: real | past),
    "B": _suspect(lambda real, past: real & past),
    "C": _suspect(lambda real, past: real & past, late=True),
    "D": _suspect(lambda real, past: ~(real & past)),
}
find_mistakes = Values(
    """\
mistakes = {
    "A": "or in place of and",
    "B": "right",
    "C": "mask after the softmax",
    "D": "inverted",
}
""",
    {
        "A": {
            "nothing hidden": "its words' rows have exact zeros: in which columns?",
            "mask after the softmax": "its words' rows show the future strongly and "
            "<pad> not at all: a mask after the softmax would leave both, faintly",
            "one token too far": "its first row reaches further than one word",
            "triu in place of tril": "the words' past is there as well",
            "right": "above the diagonal there is influence",
        },
        "B": {
            "queries hidden, not keys": "the rows of <pad> are not empty",
            "one token too few": "its first word reaches itself",
        },
        "C": {
            "nothing hidden": "nearly, as everything reaches everything; but in the "
            "first row, the cells that should be hidden are faint",
            "or in place of and": "the words' rows have not a single exact zero",
            "right": "a small influence is not 0: there is no exact zero",
        },
        "D": {
            "triu in place of tril": "with `triu`, the columns of <pad> would be 0 in "
            "the words' rows",
        },
    },
    {
        "A": "in the words' rows all words come through, future ones too, but no <pad>",
        "B": "nothing above the diagonal, nothing from <pad> but from its own query, "
        "and no gap below the diagonal",
        "C": "no cell is exactly 0, and the cells that should be hidden are mostly "
        "faint",
        "D": "the past is exactly 0, while future and <pad> come through",
    },
    choices=(
        "right",
        "one token too far",
        "one token too few",
        "triu in place of tril",
        "queries hidden, not keys",
        "mask after the softmax",
        "nothing hidden",
        "inverted",
        "or in place of and",
    ),
)

# ------------------------------------------------------------ 03.4 PyTorch's two masks

PADDED, FUTURE = TOKENS == PAD, ~masks.causal_mask(5)[0, 0]
# Nothing causal, and a token that may not see itself.
BAND = torch.ones(5, 5).triu(2).bool() | FUTURE.mT | torch.eye(5)[1].diag().bool()


def _added(hidden: Tensor) -> Tensor:
    """The same mask as floats, which are added to the scores."""
    return torch.zeros(hidden.shape).masked_fill(hidden, -math.inf)


def _two(seed: int) -> list[tuple[Tensor, Tensor]]:
    """PyTorch's masks, True = hidden in both: for TOKENS, and for other sizes."""
    (tokens,) = _tokens(seed)[1]
    return [(PADDED, FUTURE), (tokens == PAD, ~masks.causal_mask(tokens.size(1))[0, 0])]


FLOATS = "an attn_mask of floats, 0 and -∞: "
EITHER = "(key_padding_mask[:, None, None, :] | attn_mask)"
from_pytorch = EngineExercise(
    """\
def from_pytorch(key_padding_mask, attn_mask):
    if attn_mask.dtype != torch.bool:
        attn_mask = attn_mask < 0
    return ~(key_padding_mask[:, None, None, :] | attn_mask)
""",
    Part(
        "from_pytorch",
        {
            "it is inverted: PyTorch's `True` means *hidden*, ours *may attend*": {
                f"~{EITHER}": EITHER
            },
            "it hides only what both masks hide: one of them is enough": {
                EITHER: EITHER.replace("|", "&")
            },
            "only the key_padding_mask is inverted: both hold True = hidden": {
                f"~{EITHER}": "~key_padding_mask[:, None, None, :] & attn_mask"
            },
            "only the attn_mask is inverted: both hold True = hidden": {
                f"~{EITHER}": "key_padding_mask[:, None, None, :] & ~attn_mask"
            },
            "the key_padding_mask has no effect": {EITHER: "(attn_mask[None, None])"},
            "the attn_mask has no effect": {
                EITHER: "(key_padding_mask[:, None, None, :])"
            },
            "padded *queries* are hidden: the key_padding_mask is about keys": {
                EITHER: "(key_padding_mask[:, None, :, None] | attn_mask)"
            },
            "the attn_mask is transposed: its rows are the queries, as ours": {
                EITHER: "(key_padding_mask[:, None, None, :] | attn_mask.mT)"
            },
            "it is inverted: 0 = may attend and -∞ = hidden": {
                "attn_mask < 0": "attn_mask == 0"
            },
            "padded *queries* are hidden as well as keys: hide keys only": {
                EITHER: "(key_padding_mask[:, None, None, :] | attn_mask | "
                "key_padding_mask[:, None, :, None])"
            },
        },
        _two,
        ["a boolean attn_mask: hidden is what one of the two masks hides"],
        measure=_of_tokens,
        trials=[
            Trial(
                (PADDED, BAND),
                ["another attn_mask than the causal one works, too"],
                "with an attn_mask that is not causal it goes wrong: ",
                picture=_picture,
            ),
            Trial((PADDED, _added(FUTURE)), before=FLOATS),
            Trial(
                (PADDED, _added(BAND).double()),
                [f"{FLOATS}read rightly, too"],
                f"{FLOATS}one that is not causal, in float64, goes wrong: ",
                picture=_picture,
            ),
        ],
        **MASK,
    ),
)

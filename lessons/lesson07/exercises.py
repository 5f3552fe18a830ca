"""The exercises of lesson 07, the decoder: reference answers and mistakes."""

import inspect
from functools import cache
from typing import Any

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers import BOS, EOS, PAD, UNK
from helpers.attention import MultiHeadAttention
from helpers.decoder import DecoderLayer
from helpers.layers import LayerSizes
from helpers.masks import causal_mask, decoder_mask, padding_mask
from helpers.plots import heatmap
from helpers.probes import influence
from lessons.checking.comparing import plain
from lessons.checking.engine import Exercise, Part, Trial
from lessons.checking.findings import Stop, wrong
from lessons.checking.values import Values

IDS = {"BOS": BOS, "EOS": EOS, "PAD": PAD}

# ------------------------------------------------------------ 07.1 the decoder layer


class LayerParts(nn.Module):
    """The parts of a decoder layer, and nothing that puts them together."""

    def __init__(self, sizes: LayerSizes):
        super().__init__()
        whole = DecoderLayer(sizes)
        self.self_attention = whole.self_attention
        self.cross_attention = whole.cross_attention
        self.feed_forward = whole.feed_forward
        self.residuals = whole.residuals
        for residual in self.residuals:
            residual.register_forward_pre_hook(_wants_a_function)
        for attention in (self.self_attention, self.cross_attention):
            attention.register_forward_pre_hook(_wants_a_value_a_key)
        self.eval()  # a learner's `layer.eval()` then changes nothing


def _wants_a_function(residual: nn.Module, inputs: tuple) -> None:
    """Stop where a residual gets what a sublayer returns, in place of the sublayer."""
    if len(inputs) == 2 and isinstance(inputs[1], Tensor):
        text = "a residual got a tensor as its sublayer: hand over a function, which it"
        raise Stop(wrong(f"{text} calls itself (`lambda y: …`)"))
    if len(inputs) == 2 and isinstance(inputs[1], MultiHeadAttention):
        text = "a residual calls its sublayer with one argument, but an attention wants"
        raise Stop(wrong(f"{text} query, key and value: hand over a function of one"))
    if len(inputs) == 2 and not _takes_one(inputs[1]):
        text = "a residual hands its sublayer one argument, what it is to read, and"
        raise Stop(wrong(f"{text} your function does not take it (`lambda y: …`)"))


def _takes_one(function: Any) -> bool:
    """Whether a function can be called with one argument; True if none can say."""
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:  # of some built-in functions
        return True
    return True


def _wants_a_value_a_key(attention: nn.Module, inputs: tuple) -> None:
    """Stop where there are more, or fewer, values than keys."""
    if len(inputs) > 2 and inputs[1].shape != inputs[2].shape:
        text = (
            "keys and values come from two places: both come from the target, or both"
        )
        raise Stop(wrong(f"{text} from `memory`"))


def _layer_inputs(
    seed: int,
    sizes: tuple[int, int, int],
    *,
    norm_first: bool = False,
    masks: str = "both",
) -> tuple:
    """A layer's parts, x, memory and two masks; sizes: batch, target, source.

    `masks` are "both", "neither", "target" or "source"; the others are None.
    """
    batch, target_length, source_length = sizes
    d_model = 8 + 4 * (seed % 3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = LayerParts(
            LayerSizes(
                d_model=d_model, n_heads=2, d_ff=12, dropout=0.0, norm_first=norm_first
            )
        )
        for name, parameter in layer.named_parameters():
            nn.init.normal_(parameter, std=0.7 if parameter.dim() > 1 else 0.3)
            # a softmax does not feel it: its gradient is 0 but for rounding
            parameter.requires_grad_(not name.endswith("key_projection.bias"))
        x = torch.randn(batch, target_length, d_model)
        memory = 2 * torch.randn(batch, source_length, d_model)
    # Row i of the source ends in i places of padding, of the target it is the other
    # way round: neither mask can stand for the other.
    rows = torch.arange(batch)[:, None]
    source, target = (
        (torch.arange(length) < length - padding % length).long()
        for length, padding in ((source_length, rows), (target_length, rows.flip(0)))
    )
    mask = decoder_mask(target) if masks in ("both", "target") else None
    memory_mask = padding_mask(source) if masks in ("both", "source") else None
    return layer, x, memory, mask, memory_mask


SELF = "layer.self_attention(y, y, y, mask)"
CROSS = "layer.cross_attention(y, memory, memory, memory_mask)"
FIRST = f"x = layer.residuals[0](x, lambda y: {SELF})"
SECOND = f"x = layer.residuals[1](\n        x, lambda y: {CROSS}\n    )"
LAST = "layer.residuals[2](x, layer.feed_forward)"
OR_NONE = "None if {} is None else"
decoder_layer = Exercise(
    f"""\
def my_decoder_layer(layer, x, memory, mask, memory_mask):
    x = layer.residuals[0](x, lambda y: {SELF})
    x = layer.residuals[1](
        x, lambda y: {CROSS}
    )
    return {LAST}
""",
    Part(
        "my_decoder_layer",
        {
            "the cross-attention comes before the self-attention: it is the second "
            "sublayer": {FIRST: SECOND, SECOND: FIRST},
            "the feed-forward network comes before the cross-attention: it is the "
            "last sublayer": {
                SECOND: "x = layer.residuals[2](x, layer.feed_forward)",
                LAST: f"layer.residuals[1](x, lambda y: {CROSS})",
            },
            "the self-attention has no mask: give it `mask`": {
                SELF: "layer.self_attention(y, y, y)"
            },
            "the cross-attention has no mask: give it `memory_mask`": {
                CROSS: "layer.cross_attention(y, memory, memory)"
            },
            "the two masks are exchanged: `mask` is for the self-attention": {
                SELF: "layer.self_attention(y, y, y, memory_mask)",
                CROSS: "layer.cross_attention(y, memory, memory, mask)",
            },
            "both attentions have the same mask: `mask` is for the self-attention, "
            "`memory_mask` for the cross-attention": [
                {CROSS: "layer.cross_attention(y, memory, memory, mask)"},
                {SELF: "layer.self_attention(y, y, y, memory_mask)"},
            ],
            "the cross-attention reads the target: keys and values come from "
            "`memory`": {CROSS: "layer.cross_attention(y, y, y, mask)"},
            "the memory asks in the cross-attention: the query is the target": {
                CROSS: "layer.cross_attention(memory, y, y)"
            },
            "the self-attention reads the memory: query, key and value are the "
            "target": {SELF: "layer.self_attention(y, memory, memory, memory_mask)"},
            "the two attentions are exchanged: each has parameters of its own": {
                SELF: SELF.replace("self_att", "cross_att"),
                CROSS: CROSS.replace("cross_att", "self_att"),
            },
            "the self-attention works twice: the second one is "
            "`layer.cross_attention`": {CROSS: CROSS.replace("cross_att", "self_att")},
            "one residual serves all sublayers: each has its own norm, "
            "`layer.residuals[0]`, `[1]` and `[2]`": {
                "residuals[1]": "residuals[0]",
                "residuals[2]": "residuals[0]",
            },
            "the residuals of self-attention and feed-forward are exchanged": {
                "residuals[0]": "residuals[2]",
                "residuals[2]": "residuals[0]",
            },
            "the cross-attention has no way around it: call it through "
            "`layer.residuals[1]`": {
                SECOND: "x = layer.cross_attention(x, memory, memory, memory_mask)"
            },
            "the feed-forward network has no way around it: call it through "
            "`layer.residuals[2]`": {LAST: "layer.feed_forward(x)"},
            "there is no norm: each residual has one, so call the sublayers through "
            "them": {
                FIRST: f"y = x\n    x = x + {SELF}",
                SECOND: f"y = x\n    x = x + {CROSS}",
                LAST: "x + layer.feed_forward(x)",
            },
            "the self-attention's mask hides later tokens, but no padding: give it "
            "`mask` as it is": {
                SELF: "layer.self_attention(y, y, y, torch.ones(y.size(1), y.size(1))"
                ".tril().bool())"
            },
            "no sublayer has its residual: call each through `layer.residuals`": {
                FIRST: "x = layer.self_attention(x, x, x, mask)",
                SECOND: "x = layer.cross_attention(x, memory, memory, memory_mask)",
                LAST: "layer.feed_forward(x)",
            },
            "x is added twice: a residual adds its input already": [
                {FIRST: f"x = x + layer.residuals[0](x, lambda y: {SELF})"},
                {LAST: f"x + {LAST}"},
            ],
            "there is one norm too many at the end: each residual has its norm": {
                LAST: f"layer.residuals[2].norm({LAST})"
            },
            "the memory goes through a norm: the cross-attention reads it as it is": {
                CROSS: CROSS.replace(
                    "memory, memory,",
                    "layer.residuals[1].norm(memory), layer.residuals[1].norm(memory),",
                )
            },
            "the masks are the other way round: True stands for what may be seen": {
                SELF: SELF.replace(", mask", ", None if mask is None else ~mask"),
                CROSS: CROSS.replace(
                    ", memory_mask",
                    ", None if memory_mask is None else ~memory_mask",
                ),
            },
            "the norm always comes last: call each sublayer through its residual, "
            "which knows where its norm belongs": {
                FIRST: f"y = x\n    x = layer.residuals[0].norm(x + {SELF})",
                SECOND: f"y = x\n    x = layer.residuals[1].norm(x + {CROSS})",
                LAST: "layer.residuals[2].norm(x + layer.feed_forward(x))",
            },
            "each mask may be None alone: give each attention its own, whatever the "
            "other is": [
                {
                    SELF: SELF.replace(
                        ", mask", f", {OR_NONE.format('memory_mask')} mask"
                    )
                },
                {
                    CROSS: CROSS.replace(
                        ", memory_mask", f", {OR_NONE.format('mask')} memory_mask"
                    )
                },
            ],
            "the query of the cross-attention is the layer's own input: it is what "
            "the self-attention's residual returns": {
                FIRST: f"own = x\n    {FIRST}",
                CROSS: CROSS.replace("(y,", "(own,"),
            },
            "the feed-forward network is missing": {LAST: "x"},
            "the cross-attention is missing": {SECOND: "pass"},
            "the self-attention is missing": {FIRST: "pass"},
            "the residual hands its sublayer what to read: with the norm first, that "
            "is not x; use the argument of your function": [
                {SELF: "layer.self_attention(x, x, x, mask)"},
                {CROSS: "layer.cross_attention(x, memory, memory, memory_mask)"},
                {
                    SELF: "layer.self_attention(x, x, x, mask)",
                    CROSS: "layer.cross_attention(x, memory, memory, memory_mask)",
                },
                {
                    LAST: "layer.residuals[2](x, lambda y: layer.feed_forward(x))",
                },
            ],
            "the sublayer reads the layer's own input: each one reads the sum of "
            "what was before it": {
                FIRST: f"{FIRST.replace('x =', 'seen =')}",
                SECOND: f"{SECOND.replace('x =', 'seen = seen +')}",
                LAST: LAST.replace("(x,", "(seen,"),
            },
        },
        lambda seed: [
            _layer_inputs(seed, (2, 5, 3)),
            _layer_inputs(seed + 1, (3, 4, 4 + seed % 3), norm_first=True),
            _layer_inputs(seed + 2, (1, 1, 6)),
        ],
        ["the numbers of a layer with the norm last"],
        others="with the norm first, and with a target of one token",
        doubt="",
        trials=[
            Trial(
                _layer_inputs(0, (2, 4, 3), masks="neither"),
                before="where both masks are None it goes wrong: ",
            ),
            Trial(
                _layer_inputs(3, (2, 4, 3), masks="source"),
                before="where `mask` is None it goes wrong: ",
            ),
            Trial(
                _layer_inputs(4, (3, 12, 1), masks="target"),
                ["without masks, too, with one of them, and with one source token"],
                "with `memory_mask` None and one source token it goes wrong: ",
            ),
            Trial(
                _layer_inputs(1, (2, 4, 4), norm_first=True),
                before="where target and source have the same length it goes wrong: ",
            ),
        ],
        lenient=lambda seed: _layer_inputs(seed, (2, 4, 4)),
        only_lenient="it runs only where target and source have the same length",
        shown=DecoderLayer.forward,
    ),
)

# ------------------------------------------------------------ 07.2 shift a batch

BATCHES = [
    [[7, UNK, 9], [5, PAD, PAD], [6, UNK, PAD]],
    [[5, 6], [8, 4]],
    [[9, 8, 7, PAD], [4, PAD, PAD, PAD]],
]


def _random_batch(seed: int) -> Tensor:
    """Words (batch, length) of random lengths, ids from 4."""
    generator = torch.Generator().manual_seed(seed)
    batch, length = 4 + seed % 3, 12 + seed % 4
    words = torch.randint(4, 30, (batch, length), generator=generator)
    lengths = torch.randint(1, length + 1, (batch, 1), generator=generator)
    return words.masked_fill(torch.arange(length) >= lengths, PAD)


def _harmless(pair: tuple[Tensor, Tensor], words: Tensor) -> dict[str, Tensor]:
    """The two; an EOS that is read right after it was to be said counts as PAD."""
    read, say = pair
    if any(part.is_floating_point() for part in pair):
        text = "ids are integers: build on `words`, or pass dtype=torch.long"
        raise Stop(wrong(text))
    if read.shape == say.shape:
        said = F.pad(say[..., :-1] == EOS, (1, 0))
        read = read.masked_fill(said & (say == PAD) & (read == EOS), PAD)
    return {"read": read, "say": say}


def _rows(value: dict[str, Tensor], due: dict[str, Tensor]) -> str:
    """The shape, or the first row, that differs."""
    for name, wanted in due.items():
        shapes = tuple(value[name].shape), tuple(wanted.shape)
        if shapes[0] != shapes[1]:
            return f"{name} has shape {shapes[0]}, not {shapes[1]}"
    for name, wanted in due.items():
        differs = (value[name] != wanted).any(dim=1)
        if differs.any():
            row = int(differs.nonzero()[0])
            found = f"is {value[name][row].tolist()}, due is {wanted[row].tolist()}"
            return f"{name}: row {row} {found}"
    return ""


READ, SAY = "F.pad(words, (1, 0), value=BOS)", "F.pad(words, (0, 1), value=PAD)"
ENDED = "say[torch.arange(len(words)), lengths] = EOS"
BOTH = "read, say"
shift = Exercise(
    f"""\
def my_shift(words):
    lengths = (words != PAD).sum(dim=1)
    read = {READ}
    say = {SAY}
    {ENDED}
    return {BOTH}
""",
    Part(
        "my_shift",
        {
            "the two are swapped: return what is read first": {BOTH: "say, read"},
            "in a short sentence EOS stands behind the padding: it belongs right "
            "after the last word, at the place `(words != PAD).sum(dim=1)` of its "
            "row": [
                {ENDED: "say[:, -1] = EOS"},
                {ENDED: "say[torch.arange(len(words)), lengths.max()] = EOS"},
            ],
            "EOS is missing in what is to be said": {ENDED: "pass"},
            "the places after EOS hold -100, PyTorch's own choice for what the loss "
            "leaves out: PAD is due here": {
                ENDED: f"{ENDED}\n    say = say.masked_fill(say == PAD, -100)"
            },
            "every place of padding says EOS: one is enough, and the loss would "
            "count all": {ENDED: "say[say == PAD] = EOS"},
            "nothing is shifted: both begin with BOS": {BOTH: "read, read"},
            "nothing is shifted: both end in EOS": {BOTH: "say, say"},
            "nothing is shifted: both are the whole row from BOS to EOS": {
                BOTH: "torch.cat([read[:, :1], say], 1), torch.cat([read[:, :1], say]"
                ", 1)"
            },
            "BOS is missing in what is read: put it in front": {READ: f"{SAY}"},
            "what is read still ends in EOS, and is longer than what is said": {
                BOTH: "torch.cat([read[:, :1], say], 1), say"
            },
            "what is to be said still begins with BOS": {
                BOTH: "read, torch.cat([read[:, :1], say], 1)"
            },
            "the last column is cut off: `[:, :-1]` and `[:, 1:]` are for rows that "
            "hold BOS and EOS already": [
                {BOTH: "read[:, :-1], say[:, :-1]"},
                {BOTH: "words[:, :-1], words[:, 1:]"},
            ],
            "EOS takes the place of the last word: it comes after it": {
                ENDED: "say[torch.arange(len(words)), lengths - 1] = EOS"
            },
            "`<unk>` stands for a word: its id is below 4, and it counts": [
                {"(words != PAD)": "(words > 3)"},
            ],
            "BOS and EOS stand on the wrong sides": {
                READ: "F.pad(words, (1, 0), value=EOS)",
                ENDED: "say[torch.arange(len(words)), lengths] = BOS",
            },
        },
        lambda seed: [
            *((torch.tensor(rows),) for rows in BATCHES),
            (_random_batch(seed),),
        ],
        ["what is read: <bos>, then the words", "what is said: the words, then <eos>"],
        others="other batches work too",
        doubt="",
        trials=[
            Trial(
                (torch.tensor([[6, 4, PAD], [PAD, PAD, PAD]]),),
                ["an empty sentence says <eos> at once"],
                "where a sentence has no words it goes wrong: ",
            ),
            Trial((torch.tensor([[5]]),), before="with one word it goes wrong: "),
        ],
        results=("read", "say"),
        measure=_harmless,
        describe=_rows,
    ),
    uses=IDS,
)

# ------------------------------------------------------------ 07.3 the greedy loop


class Scripted:
    """A stand-in for a writer: it goes on with a script as long as it is followed.

    Each source has a row of words to write. At any place whose beginning differs from
    <bos> and these words, the word LOST is the likeliest; UNBEGUN without the <bos>.
    """

    LOST, UNBEGUN = 4, 5

    def __init__(self, scripts: Tensor, level: float):
        self.scripts, self.level = scripts, level
        self.calls: set[tuple[int, int]] = set()  # (number of the call, rows)

    def __call__(self, source: Tensor, read: Tensor) -> Tensor:
        """Logits (batch, length, words) for source (batch, digits), read (batch, n)."""
        if read.is_floating_point():
            raise ValueError(f"read holds ids, so integers are due, not {read.dtype}")
        if read.dim() != 2 or len(read) != len(source):
            shapes = tuple(read.shape), tuple(source.shape)
            text = "read {} does not fit source {}: (batch, length) is due"
            raise ValueError(text.format(*shapes))
        scripts = self.scripts[source[:, 0] - 4]
        batch, length = read.shape
        self.calls.add((len(self.calls), batch))
        due = torch.cat([torch.full((batch, 1), BOS), scripts], dim=1)
        due = torch.cat([due, torch.full((batch, length), PAD)], dim=1)
        followed = (read == due[:, :length]).long().cumprod(dim=1).bool()
        lost = torch.where(read[:, :1] == BOS, self.LOST, self.UNBEGUN)
        best = torch.where(followed, due[:, 1 : length + 1], lost)
        generator = torch.Generator().manual_seed(length)
        logits = torch.rand(batch, length, 30, generator=generator)
        logits = logits.scatter(2, best[..., None], 1.01)
        return logits + self.level


def _to_write(
    seed: int, lengths: tuple[int, ...], steps: int, level: float = 0.0
) -> tuple:
    """A scripted writer, source (batch, 3) and steps; lengths count the words.

    A script may hold <unk> or <bos>, and goes on behind its <eos>, with more of these.
    """
    generator = torch.Generator().manual_seed(seed)
    longest = max(lengths) + 6
    scripts = torch.randint(6, 30, (len(lengths), longest), generator=generator)
    for row, length in zip(scripts, lengths, strict=True):
        if length > 1:
            row[length // 2] = (UNK, BOS)[length % 2]
        row[length], row[length + 1 :: 3] = EOS, EOS
    source = torch.randint(4, 14, (len(lengths), 3), generator=generator)
    source[:, 0] = 4 + torch.arange(len(lengths))
    return Scripted(scripts, level), source, steps


def _written(
    output: Any, logits_of: Scripted, source: Tensor, steps: int
) -> dict[str, Any]:
    """The ids without columns of PAD alone at the end; which calls there were."""
    ids = plain(output)
    if not isinstance(ids, Tensor):
        raise Stop(wrong("return one tensor whose rows have the same length"))
    if ids.is_floating_point():
        text = "ids are integers: build on `argmax`, or pass dtype=torch.long"
        raise Stop(wrong(text))
    while ids.dim() == 2 and ids.size(1) > 1 and (ids[:, -1] == PAD).all():
        ids = ids[:, :-1]
    asked = sum(rows for _, rows in logits_of.calls)
    return {
        "ids": ids,
        "too long": asked > len(source) * ids.shape[-1],
        "one pass": len(logits_of.calls) == 1 < ids.shape[-1],
    }


def _shapes(value: dict[str, Any], due: dict[str, Any]) -> str:
    shapes = tuple(value["ids"].shape), tuple(due["ids"].shape)
    text = f"the shape is {shapes[0]} where {shapes[1]} is due"
    return text if shapes[0] != shapes[1] else ""


ASK = "logits_of(source, read)[:, -1].argmax(dim=-1)"
FILL = "word = word.masked_fill(finished, PAD)"
ENDS = "finished = finished | (word == EOS)"
START = "torch.full((len(source), 1), BOS)"
# Rows are cut afterwards: rightly, leaving each later EOS, leaving all up to the last.
ENDED_BEFORE = "(read[:, :-1] == EOS).cumsum(1) > 0"
FILLED = f"return read[:, 1:].masked_fill({ENDED_BEFORE}, PAD)"
LATER_LEFT = (
    f"return read[:, 1:].masked_fill(({ENDED_BEFORE}) & (read[:, 1:] != EOS), PAD)"
)
TO_THE_LAST = (
    "after = (read[:, 1:] == EOS).flip(1).cumsum(1).flip(1) == 0\n    "
    f"return read[:, 1:].masked_fill(({ENDED_BEFORE}) & after, PAD)"
)
greedy = Exercise(
    f"""\
def my_write(logits_of, source, steps):
    read = {START}
    finished = torch.zeros(len(source), dtype=torch.bool)
    for _ in range(steps):
        word = {ASK}
        {FILL}
        read = torch.cat([read, word[:, None]], dim=1)
        {ENDS}
        if finished.all():
            break
    return read[:, 1:]
""",
    Part(
        "my_write",
        {
            "the result still begins with BOS: leave it out": {
                "return read[:, 1:]": "return read"
            },
            "the loop does not begin with BOS": [
                {START: "torch.full((len(source), 1), EOS)"},
                {START: "torch.full((len(source), 1), PAD)"},
            ],
            "the word comes from the first position: what comes next stands at the "
            "last one, `[:, -1]`": {ASK: ASK.replace("-1].", "0].")},
            "the loop reads the last word alone: it must read all that it has "
            "written, from BOS on": {ASK: ASK.replace("read)", "read[:, -1:])")},
            "the writer is asked once for all words: ask it in each step, with what "
            "it has written so far": {
                "range(steps)": "range(0)",
                "return read[:, 1:]": "return logits_of(source, F.pad(read, (0, "
                "steps - 1))).argmax(dim=-1)",
            },
            "the least probable word is taken: `argmax`, not `argmin`": {
                ASK: ASK.replace("argmax", "argmin")
            },
            "it never stops early: once every row has said EOS, the loop should end": {
                "finished.all()": "False"
            },
            "it stops when the first row says EOS: go on until every row has": {
                "finished.all()": "finished.any()"
            },
            "it stops only when all rows say EOS in the same step: remember which "
            "rows have said it": {ENDS: "finished = word == EOS", FILL: "pass"},
            "a row goes on writing after its EOS: PAD is due there": {FILL: "pass"},
            "EOS itself is lost: only what comes after it becomes PAD, so update what "
            "has finished after the filling": {
                FILL: "finished = finished | (word == EOS)",
                ENDS: "read[:, -1] = read[:, -1].masked_fill(finished, PAD)",
            },
            "a row wakes up again: PAD is due at every place after its EOS, not at the "
            "first alone": {FILL: "word = word.masked_fill(read[:, -1] == EOS, PAD)"},
            "a row repeats EOS: after the first one, PAD is due": {
                FILL: "word = word.masked_fill(finished, EOS)"
            },
            "the last EOS is missing: append the word before you stop": {
                "return read[:, 1:]": "return read[:, 1:-1] if finished.all() else "
                "read[:, 1:]"
            },
            "one word too few: `steps` words may be written": {
                "range(steps)": "range(steps - 1)"
            },
            "one word too many: at most `steps` words are due": {
                "range(steps)": "range(steps + 1)"
            },
            "the writer reads PAD behind what is written, and the last place is one "
            "of these: let it read only what is written so far": {
                ASK: ASK.replace("read)", "F.pad(read, (0, 1 + steps - read.size(1))))")
            },
            "`<unk>` and `<bos>` end no row: EOS alone does": {
                ENDS: "finished = finished | (word <= EOS)"
            },
            "some words are never taken: the most probable one may be any, `<unk>` and "
            "`<bos>`, too": {ASK: ASK.replace("-1].", "-1, EOS:].") + " + EOS"},
            "a row may say EOS twice, and it counts as two rows: stop when every row "
            "has said it": {
                FILL: "pass",
                "finished.all()": "(read == EOS).sum() >= len(source)",
                "return read[:, 1:]": FILLED,
            },
            "a row may say EOS again: all after its first one is PAD": [
                {FILL: "pass", "return read[:, 1:]": LATER_LEFT},
                {FILL: "pass", "return read[:, 1:]": TO_THE_LAST},
            ],
            "all rows get the first row's word": {
                ASK: f"{ASK}[:1].expand(len(source))"
            },
            "the rows of the source are exchanged": {
                "logits_of(source,": "logits_of(source.flip(0),"
            },
        },
        lambda seed: [
            _to_write(seed, (3, 1, 4), 9),
            _to_write(seed, (2, 2), 6, level=-50.0),
            _to_write(seed, (4 + seed % 5,), 12, level=10.0),
        ],
        ["rows of several lengths, each up to its <eos>"],
        others="other batches work too, and a single row",
        doubt="",
        trials=[
            Trial(
                _to_write(1, (7, 2, 9), 4),
                ["it stops after `steps` words"],
                "where `steps` ends the loop before EOS it goes wrong: ",
            ),
            Trial(_to_write(2, (5, 0), 8), before="where a row is empty: "),
            Trial(_to_write(3, (3, 2), 1), before="with steps=1 it goes wrong: "),
            Trial(
                _to_write(4, (150, 40), 200), before="with 150 words it goes wrong: "
            ),
        ],
        measure=_written,
        describe=_shapes,
    ),
    uses=IDS,
)

# ------------------------------------------------------------ 07.4 four patients

# What the pictures of each would be: target, source.
TRIANGLE = "a whole lower triangle and nothing above it"
FAULTS = {
    "right": (TRIANGLE, "three full columns"),
    "no causal mask": ("a full square", "three full columns"),
    "no memory mask": (TRIANGLE, "six full columns"),
    "memory mask on the self-attention": (
        "a triangle with nothing but the diagonal in its last three columns",
        "six full columns",
    ),
    "causal mask on both": (TRIANGLE, "three columns cut by a stair"),
    "cross-attention reads the target": (
        "a triangle and three full columns, up above the diagonal",
        "empty",
    ),
}
ANSWER = """\
faults = {
    "A": "causal mask on both",
    "B": "memory mask on the self-attention",
    "C": "right",
    "D": "cross-attention reads the target",
}
"""
TARGET = ["<bos>", "les", "chats", "dorment", "bien", "."]
SOURCE = ["cats", "sleep", "well", "<pad>", "<pad>", "<pad>"]


def _reasons(fault: str) -> dict[str, str]:
    """For each wrong answer: what the picture would be then, and is not."""
    found = {}
    for other, looks in FAULTS.items():
        pairs = zip(("target", "source"), looks, FAULTS[fault], strict=True)
        for side, would, does in reversed([*pairs]):
            if would != does:
                found[other] = f"then the {side}'s picture would be {would}"
    return found


PATIENTS = {
    "A": "causal mask on both",
    "B": "memory mask on the self-attention",
    "C": "right",
    "D": "cross-attention reads the target",
}
diagnoses = Values(
    ANSWER,
    {letter: _reasons(fault) for letter, fault in PATIENTS.items()},
    {"": "compare its two pictures with those of a sound decoder"},
    kinds={"": "one of the six names in quotes is due"},
    choices=tuple(FAULTS),
)


@cache
def reach(fault: str) -> tuple[Tensor, Tensor]:
    """Influence of target and source on the outputs of a decoder with this fault."""
    sizes = LayerSizes(d_model=16, n_heads=4, d_ff=32, dropout=0.0, norm_first=False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1 + [*FAULTS].index(fault))
        layer = DecoderLayer(sizes).eval()
        x, memory = torch.randn(2, 1, 6, 16)
    tokens = torch.tensor([[int(word != "<pad>") for word in SOURCE]])
    mask, memory_mask = causal_mask(6), padding_mask(tokens)
    if fault == "no causal mask":
        mask = None
    elif fault == "no memory mask":
        memory_mask = None
    elif fault == "memory mask on the self-attention":
        mask, memory_mask = mask & memory_mask, None
    elif fault == "causal mask on both":
        memory_mask = mask & memory_mask
    reads_target = fault == "cross-attention reads the target"

    def decode(x: Tensor, memory: Tensor) -> Tensor:
        return layer(x, x if reads_target else memory, mask, memory_mask)

    return (
        influence(lambda x: decode(x, memory), x),
        influence(lambda memory: decode(x, memory) + 0 * memory.sum(), memory),
    )


def draw_patients() -> None:
    """What can reach what in patients A to D: from the target, and from the source."""
    figure, axes = plt.subplots(4, 2, figsize=(4.2, 7.6), sharey=True, sharex="col")
    for row, (letter, fault) in zip(axes, PATIENTS.items(), strict=True):
        sides = zip(("target", "source"), reach(fault), (TARGET, SOURCE), strict=True)
        for ax, (side, found, tokens) in zip(row, sides, strict=True):
            options = {"mask": found > 0, "colour_bar": False, "rotation": 90}
            reached = 0.5 * (found > 0)
            heatmap(
                reached, TARGET, tokens, title=f"{letter}: {side}", ax=ax, **options
            )
            ax.set(xlabel="", ylabel="")
            ax.tick_params(labelsize=9)
            for line in range(1, 6):
                ax.axhline(line, color="white", lw=0.8)
                ax.axvline(line, color="white", lw=0.8)
    figure.suptitle("Grey: an influence of exactly 0")
    figure.supxlabel("token that is read", fontsize=10)
    figure.supylabel("output at", fontsize=10)
    plt.show()

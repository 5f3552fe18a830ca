"""The exercises of lesson 08, the whole Transformer: reference answers and mistakes."""

import copy
from collections.abc import Callable
from functools import cache, wraps
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector

from helpers import EOS, PAD
from helpers.decoder import Decoder
from helpers.encoder import Encoder
from helpers.layers import LayerSizes
from helpers.masks import decoder_mask, padding_mask
from helpers.positions import PositionalEncoding
from helpers.transformer import Transformer, TransformerConfig
from lessons.checking.comparing import plain
from lessons.checking.engine import Exercise, Part, Trial
from lessons.checking.findings import Stop, wrong
from lessons.checking.running import definitions, stub
from lessons.checking.values import Values

# ------------------------------------------------------------ 08.1 ids to logits


def _parts(seed: int, d_model: int, vocab: int) -> nn.ModuleDict:
    """Small parts of a Transformer, as in the lesson, every parameter random."""
    sizes = LayerSizes(
        d_model=d_model, n_heads=2, d_ff=24, dropout=0.0, norm_first=False
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        parts = nn.ModuleDict(
            {
                "source_embedding": nn.Embedding(vocab, d_model),
                "target_embedding": nn.Embedding(vocab, d_model),
                "positions": PositionalEncoding(d_model, dropout=0.0, max_length=210),
                "encoder": Encoder(2, sizes),
                "decoder": Decoder(2, sizes),
                "projection": nn.Linear(d_model, vocab, bias=False),
            }
        )
        for parameter in parts.parameters():
            if parameter.dim() == 1:
                nn.init.normal_(parameter, mean=0.5, std=0.3)
        for side in ("source", "target"):
            weight = parts[f"{side}_embedding"].weight
            nn.init.normal_(weight, std=d_model**-0.5)
        parts.given = [p.detach().clone() for p in parts.parameters()]
    return parts


def _ids(
    seed: int, lengths: tuple[int, int], batch: int = 3, vocab: int = 30
) -> tuple[Tensor, Tensor]:
    """Ids of both sides, <unk>, <bos> and <eos> among them; each has its padding."""
    generator = torch.Generator().manual_seed(seed)
    both = [torch.randint(1, vocab, (batch, n), generator=generator) for n in lengths]
    for ids, most in zip(both, ((1, 2, 3), (3, 1, 2)), strict=True):
        for row in range(batch if min(lengths) > 3 else 0):
            ids[row, ids.size(1) - most[row] :] = PAD
    return both[0], both[1]


VOCABS = {16: 30, 24: 23}  # for each d_model


@cache
def _skeleton(d_model: int) -> nn.ModuleDict:
    return _parts(0, d_model, VOCABS[d_model])


def _probe(
    seed: int, lengths: tuple[int, int], batch: int = 3, d_model: int = 16
) -> tuple[Tensor, Tensor, Tensor]:
    """Ids of both sides, and all numbers of the parts in one tensor."""
    parts = _parts(seed, d_model, VOCABS[d_model])
    numbers = parameters_to_vector(parts.parameters()).detach()
    return *_ids(seed, lengths, batch, VOCABS[d_model]), numbers


class _Caller(nn.Module):
    """What an answer gives for its parts, so that the parts' numbers can be lent."""

    def __init__(self, parts: nn.ModuleDict, answer: Callable):
        super().__init__()
        self.parts, self.answer = parts, [answer]

    def forward(self, source: Tensor, target: Tensor) -> Any:
        """The answer's output, whatever it is."""
        return self.answer[0](self.parts, source, target)


def _with_numbers(answer: Callable) -> Callable:
    """The answer as a function of the ids and of all its parts' numbers."""

    def function(source: Tensor, target: Tensor, parts: Tensor) -> Any:
        (skeleton,) = (
            x
            for x in map(_skeleton, VOCABS)
            if sum(p.numel() for p in x.parameters()) == len(parts)
        )
        learned = dict(skeleton.named_parameters(prefix="parts"))
        pieces = parts.split([p.numel() for p in learned.values()])
        lent = {
            name: piece.view(p.shape)
            for (name, p), piece in zip(learned.items(), pieces, strict=True)
        }
        output = functional_call(_Caller(skeleton, answer), lent, (source, target))
        if (output is None or output is ...) and stub(answer):
            raise NotImplementedError
        return output

    return function


def _asked_for(output, source: Tensor, target: Tensor, parts: Tensor):
    """The logits with zeros where the target is padding: those have no label."""
    value = plain(output)
    if not isinstance(value, Tensor) or value.shape[:-1] != target.shape:
        return output
    return value.masked_fill((target == PAD)[..., None], 0)


SCALE = "math.sqrt(parts.source_embedding.embedding_dim)"
SOURCE, TARGET = (f"scale * parts.{x}_embedding({x})" for x in ("source", "target"))
CROSS, BACK = "source_mask)\n    return", "decoder_mask(target)"
REAL = "padding_mask(source)\n    x"
LOOK_ACROSS = (
    "the keys of the cross-attention are the source's tokens: hide the source's "
    "padding, `padding_mask(source)`"
)
LOOK_BACK = (
    "the decoder's self-attention hides later tokens: `decoder_mask(target)` comes "
    "before the memory's mask"
)
my_forward = Exercise(
    """\
def my_forward(parts, source, target):
    scale = math.sqrt(parts.source_embedding.embedding_dim)
    source_mask = padding_mask(source)
    x = parts.positions(scale * parts.source_embedding(source))
    memory = parts.encoder(x, source_mask)
    y = parts.positions(scale * parts.target_embedding(target))
    states = parts.decoder(y, memory, decoder_mask(target), source_mask)
    return parts.projection(states)
""",
    Part(
        "my_forward",
        {
            "no mask is handed over: padding and later tokens have to be hidden": {
                "encoder(x, source_mask)": "encoder(x)",
                "decoder_mask(target), source_mask)": "None, None)",
            },
            "the cross-attention has no mask: " + LOOK_ACROSS: {
                CROSS: "None)\n    return"
            },
            "the cross-attention's mask is made from the target: " + LOOK_ACROSS: [
                {CROSS: "padding_mask(target))\n    return"},
                {CROSS: "decoder_mask(target))\n    return"},
            ],
            "the cross-attention's mask is inverted: True = may attend": {
                CROSS: "~source_mask)\n    return"
            },
            "the decoder sees the tokens that it has to predict: " + LOOK_BACK: [
                {BACK: "None"},
                {BACK: "padding_mask(target)"},
            ],
            "the decoder's own mask is inverted: True = may attend": {BACK: f"~{BACK}"},
            "the decoder's own mask is made from the source: " + LOOK_BACK: [
                {BACK: "decoder_mask(source)"},
                {BACK: "source_mask"},
            ],
            "the decoder's two masks are exchanged: " + LOOK_BACK: {
                "decoder_mask(target), source_mask": "source_mask, decoder_mask(target)"
            },
            "a real token is hidden: only <pad> is padding, `padding_mask(source)`": [
                {REAL: "(source > EOS)[:, None, None]\n    x"},
                {REAL: f"{REAL[:20]} & (source != EOS)[:, None, None]\n    x"},
            ],
            "the encoder sees padding: hide it, `padding_mask(source)`": {
                "encoder(x, source_mask)": "encoder(x)"
            },
            "the encoder is causal: it may look both ways, `padding_mask(source)`": {
                "encoder(x, source_mask)": "encoder(x, decoder_mask(source))"
            },
            "the source has no positions: `parts.positions(…)` adds them": {
                f"parts.positions({SOURCE})": SOURCE
            },
            "the target has no positions: `parts.positions(…)` adds them": {
                f"parts.positions({TARGET})": TARGET
            },
            "the source's embeddings are not multiplied by √d_model": {
                SOURCE: SOURCE[8:]
            },
            "the target's embeddings are not multiplied by √d_model": {
                TARGET: TARGET[8:]
            },
            "the embeddings are multiplied by d_model: take its square root": {
                SCALE: SCALE[10:-1]
            },
            "the factor is √64, for the d_model of this notebook's model: the parts "
            "here have another, `parts.source_embedding.embedding_dim`": {SCALE: "8.0"},
            "the embeddings are not multiplied by √d_model": {SCALE: "1"},
            "the embeddings are divided by √d_model: multiply": {SCALE: f"1 / {SCALE}"},
            "the positions are multiplied by √d_model, too: only the embeddings are": [
                {f"parts.positions({SOURCE})": f"scale * parts.positions({SOURCE[8:]})"}
                | {
                    f"parts.positions({TARGET})": f"scale * "
                    f"parts.positions({TARGET[8:]})"
                },
            ],
            "source and target have an embedding each, and one of them is used for the "
            "other": [
                {SOURCE: "scale * parts.target_embedding(source)"},
                {TARGET: "scale * parts.source_embedding(target)"},
            ],
            "the decoder attends to the embedded source: hand over the encoder's "
            "output": {"(y, memory,": "(y, x,"},
            "these are the decoder's states: `parts.projection(states)` turns them "
            "into logits": {"parts.projection(states)": "states"},
            "a softmax stands at the end: return the logits, as the loss has the "
            "softmax": [
                {"parts.projection(states)": f"parts.projection(states).{kind}(-1)"}
                for kind in ("softmax", "log_softmax")
            ],
            "the states are multiplied by an embedding's matrix: here, the projection "
            "has its own, `parts.projection(states)`": [
                {"parts.projection(states)": f"F.linear(states, parts.{x}.weight)"}
                for x in ("source_embedding", "target_embedding")
            ],
        },
        lambda seed: [
            _probe(seed, (7, 5)),
            _probe(seed + 1, (4 + seed % 2, 6 + seed % 3), d_model=24),
            _probe(seed, (6, 6)),
        ],
        ["the logits are (batch, target_length, vocab_size), with the right numbers"],
        others="other lengths, vocabularies and d_model work too",
        doubt="is a size written as a number? ",
        trials=[
            Trial(_probe(0, (1, 1), batch=1), before="with one token a side: "),
            Trial(_probe(0, (9, 1), batch=1), before="with one target token: "),
            Trial(
                _probe(0, (190, 205), batch=2),
                ["one token or two hundred: right"],
                before="with 190 and 205 tokens: ",
            ),
        ],
        lenient=lambda seed: _probe(seed, (6, 6)),
        only_lenient="it is right only where source and target have the same length",
        measure=_asked_for,
        use=_with_numbers,
    ),
    uses={"padding_mask": padding_mask, "decoder_mask": decoder_mask, "EOS": EOS},
)

# ------------------------------------------------------------------ 08.2 tying

PLACES = ("source_embedding", "target_embedding", "projection")
ASSIGN = (
    "assign the parameter itself, `parts.projection.weight = "
    "parts.source_embedding.weight`, and likewise for the other"
)
ONLY = (
    "only the three matrices change; the modules stay, plain embeddings among them, as "
    "`my_forward` multiplies by √d_model"
)
forward = definitions(my_forward.answer, my_forward.uses)["my_forward"]


def _in_three_places(output, parts: nn.ModuleDict) -> tuple[int, ...]:
    """Of the three matrices: parameters, places in memory, and what else counts.

    That is whether their numbers are equal, how many parameters the parts have, how
    many rows get a gradient, and how many are left after a copy in float64.
    """
    if not isinstance(output, nn.Module):
        kind = type(output).__name__
        raise Stop(wrong(f"return the parts, all of them, not a {kind}"))
    weights = _weights(output)
    _unchanged(output, parts, weights)
    try:
        logits, reached = _logits(output)
        again = len({id(weight) for weight in _weights(copy.deepcopy(output).double())})
    except Exception as error:
        text = f"the parts give no logits any more ({type(error).__name__})"
        raise Stop(wrong(f"{text}: share the *weight*, {ASSIGN}")) from None
    one = len({id(weight) for weight in weights})
    if one == 1:
        due_logits, due_reached = _logits(_tied_as_due(parts, weights[0]))
        if not torch.allclose(logits, due_logits, atol=1e-5):
            raise Stop(
                wrong(f"the tied parts give other logits than they should: {ONLY}")
            )
        if not torch.allclose(reached, due_reached, rtol=1e-3, atol=1e-4):
            raise Stop(wrong(f"the shared matrix gets another gradient: {ONLY}"))
    return (
        one,
        len({weight.data_ptr() for weight in weights}),
        int(all(torch.equal(weights[0], weight) for weight in weights)),
        sum(parameter.numel() for parameter in output.parameters()),
        int(reached.any(dim=1).sum()),
        again,
    )


def _logits(parts: nn.Module) -> tuple[Tensor, Tensor]:
    """The logits for some ids, padding among them, and the source matrix's gradient."""
    logits = forward(parts, *_ids(0, (7, 5), vocab=23))
    weight = parts.source_embedding.weight
    return logits, torch.autograd.grad(logits.logsumexp(-1).sum(), weight)[0]


def _tied_as_due(parts: nn.ModuleDict, weight: Tensor) -> nn.ModuleDict:
    """Fresh parts with the given numbers, and this matrix in the three places."""
    vocab, d_model = weight.shape
    fresh = _parts(0, d_model, vocab)
    with torch.no_grad():
        for parameter, given in zip(fresh.parameters(), parts.given, strict=True):
            parameter.copy_(given)
    shared = nn.Parameter(weight.detach().clone())
    for place in PLACES:
        fresh[place].weight = shared
    return fresh


def _unchanged(output: nn.Module, parts: nn.ModuleDict, weights: list) -> None:
    """Stop unless the matrices' numbers are given ones, and all else is as it was."""
    names = [name for name, _ in _parts(0, 16, 30).named_parameters()]
    given = dict(zip(names, parts.given, strict=True))
    matrices = [given.pop(f"{place}.weight") for place in PLACES]
    for place, weight in zip(PLACES, weights, strict=True):
        if not any(torch.equal(weight, matrix) for matrix in matrices):
            text = f"parts.{place} holds numbers that none of the three matrices had"
            raise Stop(wrong(f"{text}: {ASSIGN}"))
    now = dict(output.named_parameters())
    for name, before in given.items():
        if name in now and not torch.equal(now[name], before):
            raise Stop(wrong(f"{name} has changed: only the three matrices are tied"))
        if name in now and not now[name].requires_grad:
            raise Stop(wrong(f"{name} does not learn any more: leave it as it was"))


def _weights(parts: nn.Module) -> list[nn.Parameter]:
    weights = [getattr(getattr(parts, x, None), "weight", None) for x in PLACES]
    for place, weight in zip(PLACES, weights, strict=True):
        if not isinstance(weight, nn.Parameter) or not weight.requires_grad:
            text = f"parts.{place} has no parameter `weight` that learns any more"
            raise Stop(wrong(f"{text}: {ASSIGN}"))
    return weights


TIE_TARGET = "parts.target_embedding.weight = shared"
TIE_PROJECTION = "parts.projection.weight = shared"


def _both(text: str) -> dict[str, str]:
    """Both assignments done in another way; {} is the place of the module's name."""
    return {
        line: text.replace("{}", line.split(".weight")[0])
        for line in (TIE_TARGET, TIE_PROJECTION)
    }


tied = Exercise(
    """\
def tie(parts):
    shared = parts.source_embedding.weight
    parts.target_embedding.weight = shared
    parts.projection.weight = shared
    return parts
""",
    Part(
        "tie",
        {
            f"the target embedding still has a matrix of its own: {ASSIGN}": {
                TIE_TARGET: "pass"
            },
            f"the projection still has a matrix of its own: {ASSIGN}": {
                TIE_PROJECTION: "pass"
            },
            "the numbers are equal, but there are three parameters: they are equal "
            f"until the first step of training; {ASSIGN}": [
                _both("{}.weight.data.copy_(shared.data)"),
                _both("{}.weight = nn.Parameter(shared.detach().clone())"),
            ],
            "the three share their memory, but they are three parameters, each with a "
            f"gradient of its own; a copy or a change of dtype parts them; {ASSIGN}": [
                _both("{}.weight.data = shared.data"),
                _both("{}.weight = nn.Parameter(shared.data)"),
            ],
        },
        lambda seed: [
            (_parts(seed, 16, 30),),
            (_parts(seed, 24, 30 + seed % 3),),
        ],
        ["source embedding, target embedding and projection: one parameter"],
        others="still one after a copy and a change of dtype",
        in_place=True,
        measure=_in_three_places,
        describe=lambda value, due: _untied(value, due),
    ),
)


def _untied(value: Tensor, due: Tensor) -> str:
    """What was counted, where no known mistake fits."""
    if value[0] != 1:
        return f"there are {value[0]} parameters in the three places: {ASSIGN}"
    if value[3] != due[3]:
        return f"the parts have {value[3]:,} parameters, where {due[3]:,} are due"
    return "the shared matrix does not get all of its gradient, or not after a copy"


# --------------------------------------------------------------- 08.3 counting


def _config(vocabs: tuple[int, int], sizes: tuple[int, ...], **more):
    """sizes: d_model, n_heads, d_ff, n_layers, max_length."""
    names = "d_model", "n_heads", "d_ff", "n_layers", "max_length"
    sizes = dict(zip(names, sizes, strict=True))
    return (TransformerConfig(*vocabs, **sizes, **more),)


NO_BUILDING = (
    "your function builds a module: count from the sizes in `config`, with formulas "
    "for the parts of lessons 04 and 05"
)


def _from_sizes(answer: Callable) -> Callable:
    """The answer; Stop where it builds a module."""

    def function(config: TransformerConfig) -> Any:
        def refuse(*_, **__):
            raise Stop(wrong(NO_BUILDING))

        with mock.patch.object(nn.Module, "__init__", refuse):
            return answer(config)

    return wraps(answer)(function)


def _number(output, config: TransformerConfig):
    """The output; Stop for text."""
    if isinstance(output, str):
        raise Stop(wrong("return an integer, not a str"))
    return output


def _off(value: Tensor, due: Tensor) -> str:
    """By how much a count is wrong."""
    off = value.item() - due.item()
    way = "too many" if off > 0 else "too few"
    return (
        f"{value.item():,.10g} where {due.item():,} are due: {abs(off):,.10g} {way}; "
        "which matrices, biases or norms have that size?"
    )


LAYER = "3 * attention + 2 * feed_forward + 5 * norm"
ATTENTION, FEED_FORWARD = "4 * (d * d + d)", "d * d_ff + d_ff + d_ff * d + d"
APART = "config.source_vocab + 2 * config.target_vocab"
THREE = "there are three in a layer of both stacks together"
counted = Exercise(
    """\
def count_parameters(config):
    d, d_ff = config.d_model, config.d_ff
    attention = 4 * (d * d + d)
    feed_forward = d * d_ff + d_ff + d_ff * d + d
    norm = 2 * d
    layer = 3 * attention + 2 * feed_forward + 5 * norm
    rows = config.target_vocab
    if not config.share_embeddings:
        rows = config.source_vocab + 2 * config.target_vocab
    ends = 2 * norm if config.norm_first else 0
    return rows * d + config.n_layers * layer + ends
""",
    Part(
        "count_parameters",
        {
            "the biases of the attentions are missing: four of d_model each": {
                ATTENTION: "4 * d * d"
            },
            "an attention has four biases, not one": {ATTENTION: "4 * d * d + d"},
            "an attention has four matrices with their biases, not three: the output "
            "projection is one of them": {ATTENTION: "3 * (d * d + d)"},
            "the heads share the d_model features: an attention is counted once, "
            "whatever their number": {ATTENTION: f"config.n_heads * {ATTENTION}"},
            "the biases of the feed-forward networks are missing: d_ff and d_model": {
                FEED_FORWARD: "2 * d * d_ff"
            },
            "the two biases of a feed-forward network have d_ff and d_model numbers": [
                {FEED_FORWARD: "2 * d * d_ff + 2 * d"},
                {FEED_FORWARD: "2 * d * d_ff + 2 * d_ff"},
            ],
            "a feed-forward network has two matrices, not one": {
                FEED_FORWARD: "d * d_ff + d_ff + d"
            },
            f"there is one attention too many: {THREE}": {
                "3 * attention": "4 * attention"
            },
            f"there is one attention too few: {THREE}": {
                "3 * attention": "2 * attention"
            },
            f"there are two attentions too few: {THREE}": {"3 * att": "1 * att"},
            "an encoder layer and a decoder layer have a feed-forward network each, "
            "two in all": [
                {"2 * feed_forward": "1 * feed_forward"},
                {"2 * feed_forward": "3 * feed_forward"},
            ],
            "the norms are missing: one for each sublayer": {"5 * norm": "0"},
            "a norm has two vectors of d_model, gain and bias": {
                "norm = 2": "norm = 1"
            },
            "each sublayer has one norm: an encoder layer two, a decoder layer three": [
                {"5 * norm": f"{number} * norm"} for number in (2, 4, 6)
            ],
            "4 · d_model numbers are missing in each layer: gains and biases of two "
            "norms, or the four biases of one attention": {"5 * norm": "3 * norm"},
            "these are the matrices alone: biases and norms are missing": {
                ATTENTION: "4 * d * d",
                FEED_FORWARD: "2 * d * d_ff",
                "5 * norm": "0",
                "2 * norm if config.norm_first else 0": "0",
            },
            "the token vectors are missing: d_model for each token": {
                "rows * d +": "0 +"
            },
            "shared embeddings are one matrix, counted once": [
                {
                    "rows = config.target_vocab\n": f"rows = {number} * "
                    "config.target_vocab\n"
                }
                for number in (2, 3)
            ],
            "without `share_embeddings` there are three matrices: source, target and "
            "projection": [
                {APART: "config.target_vocab"},
                {APART: "config.source_vocab + config.target_vocab"},
            ],
            "the projection has a row for each token of the *target*": {
                APART: "2 * config.source_vocab + config.target_vocab"
            },
            "the projection has no bias": {"+ ends": "+ ends + config.target_vocab"},
            "the sinusoids are computed, not learned: they do not count": {
                "+ ends": "+ ends + config.max_length * d"
            },
            "with `norm_first` each of the two stacks ends with one norm more": [
                {"2 * norm if config.norm_first else 0": "0"},
                {"2 * norm if": "norm if"},
            ],
            "only with `norm_first` does a stack end with one norm more": {
                "2 * norm if config.norm_first else 0": "2 * norm"
            },
            "both stacks have `n_layers` layers": {"config.n_layers": "1"},
        },
        lambda seed: [
            _config((1013, 1013), (46, 2, 101, 7, 89)),
            _config((907 + seed, 907 + seed), (38, 2, 73, 5, 97)),
        ],
        ["shared embeddings, norm last: right"],
        trials=[
            Trial(
                _config((53, 71), (22, 2, 59, 3, 17), share_embeddings=False),
                ["separate embeddings: right"],
                "with separate embeddings: ",
            ),
            Trial(
                _config((61, 61), (26, 2, 31, 5, 19), norm_first=True),
                ["norm first: right"],
                "with norm first: ",
            ),
            Trial(
                _config(
                    (41, 83), (6, 3, 7, 1, 23), share_embeddings=False, norm_first=True
                ),
                before="with separate embeddings and norm first: ",
            ),
            Trial((TransformerConfig.base(),), ["base: right"], "base: "),
            Trial((TransformerConfig.big(),), ["big: right"], "big: "),
        ],
        use=_from_sizes,
        measure=_number,
        describe=_off,
    ),
)

# ------------------------------------------------------------- 08.4 first losses

VOCAB, D_MODEL, LABELS = 4000, 96, 1008


def first_losses() -> dict[str, float]:
    """The first losses of the six models of exercise 08.4, each really made."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        sizes = {"d_model": D_MODEL, "n_heads": 4, "d_ff": 384, "n_layers": 2}
        config = TransformerConfig(VOCAB, VOCAB, dropout=0.0, norm_first=True, **sizes)
        model = Transformer(config).double()
        large = Transformer(config).double()
        nn.init.normal_(large.source_embedding.weight)
        ids = torch.randint(4, VOCAB, (LABELS // 12, 25))
    source, target, labels = ids[:, :12], ids[:, 12:-1], ids[:, 13:].flatten()
    with torch.no_grad():
        scores = model(source, target).flatten(0, 1)
        high = large(source, target).flatten(0, 1)
    losses = {
        "A": F.cross_entropy(scores, labels, reduction="sum"),
        "B": F.cross_entropy(scores, target.flatten()),
        "C": F.cross_entropy(scores, labels),
        "D": F.nll_loss(scores, labels),
        "E": F.cross_entropy(high, labels),
        "F": F.cross_entropy(scores.softmax(dim=-1), labels),
    }
    return {name: loss.item() for name, loss in losses.items()}


diagnosis = Values(
    """\
diagnosis = {
    "A": "sum, not mean",
    "B": "labels not shifted",
    "C": "healthy",
    "D": "no softmax",
    "E": "embeddings of std 1",
    "F": "softmax twice",
}
""",
    {name: {} for name in "ABCDEF"},
    {
        "A": f"divide it by the {LABELS} labels: which loss is left?",
        "B": "it is below ln V: which token gets a high logit before any training?",
        "C": "what does a tied model with small embeddings add to ln V?",
        "D": "it is near 0, and could be negative: is it a mean of −ln p?",
        "E": "compare it with d_model: which logit can be as large as that?",
        "F": "it is ln V to two digits: how different are logits that all lie between "
        "0 and 1?",
    },
    choices=(
        "healthy",
        "embeddings of std 1",
        "labels not shifted",
        "softmax twice",
        "no softmax",
        "sum, not mean",
    ),
)

"""Checks for the exercises of lesson 08, the whole Transformer."""

import copy
import math
import re
from collections.abc import Callable, Iterable, Iterator
from numbers import Real

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers import PAD
from helpers.checks.core import (
    Finding,
    Mistake,
    Stop,
    attempt,
    check,
    recognise,
    right,
    same,
    untried,
    wrong,
)
from helpers.decoder import Decoder
from helpers.encoder import Encoder
from helpers.layers import LayerSizes
from helpers.masks import decoder_mask, padding_mask
from helpers.positions import PositionalEncoding, TokenEmbedding
from helpers.transformer import Transformer, TransformerConfig

# ------------------------------------------------------------- 08.1 ids to logits

VOCAB, D_MODEL = 30, 16


def _parts(seed: int) -> nn.ModuleDict:
    """Small parts of a Transformer, as in the lesson, every parameter random."""
    sizes = LayerSizes(
        d_model=D_MODEL, n_heads=2, d_ff=24, dropout=0.0, norm_first=False
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        parts = nn.ModuleDict(
            {
                "source_embedding": TokenEmbedding(VOCAB, D_MODEL),
                "target_embedding": TokenEmbedding(VOCAB, D_MODEL),
                "positions": PositionalEncoding(D_MODEL, dropout=0.0, max_length=20),
                "encoder": Encoder(2, sizes),
                "decoder": Decoder(2, sizes),
                "projection": nn.Linear(D_MODEL, VOCAB, bias=False),
            }
        )
        for parameter in parts.parameters():
            if parameter.dim() == 1:
                nn.init.normal_(parameter, mean=0.5, std=0.3)
    return parts


def _ids(seed: int, source_length: int, target_length: int) -> tuple[Tensor, Tensor]:
    """Source and target ids, each row with padding; never as much on both sides."""
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(4, VOCAB, (3, source_length), generator=generator)
    target = torch.randint(4, VOCAB, (3, target_length), generator=generator)
    for row in range(3):
        source[row, -(row + 1) :] = PAD
        target[row, -(3, 1, 2)[row] :] = PAD
    return source, target


def _all_logits(parts, source, target, **steps) -> Tensor:
    """The logits with some of the STEPS done in another way."""
    steps = STEPS | steps
    embedded = steps["place_source"](parts, steps["embed_source"](parts, source))
    memory = parts.encoder(embedded, steps["source_mask"](source))
    memory = steps["memory"](memory, embedded)
    x = steps["place_target"](parts, steps["embed_target"](parts, target))
    masks = (steps[name](source, target) for name in ("mask", "memory_mask"))
    return steps["give"](parts, parts.decoder(x, memory, *masks))


def _real(logits: Tensor, target: Tensor) -> Tensor:
    """The logits with zeros where the target is padding: nobody asks for those."""
    if logits.shape[:-1] != target.shape:
        return logits
    return logits.masked_fill((target == PAD)[..., None], 0.0)


def version(parts, source, target, **steps) -> Tensor:
    """What a learner's logits are compared with."""
    return _real(_all_logits(parts, source, target, **steps), target)


# A mistake is another way to do one of these.
STEPS = {
    "embed_source": lambda parts, ids: parts.source_embedding(ids),
    "place_source": lambda parts, x: parts.positions(x),
    "source_mask": padding_mask,
    "memory": lambda memory, embedded: memory,
    "embed_target": lambda parts, ids: parts.target_embedding(ids),
    "place_target": lambda parts, x: parts.positions(x),
    "mask": lambda source, target: decoder_mask(target),
    "memory_mask": lambda source, target: padding_mask(source),
    "give": lambda parts, states: parts.projection(states),
}

LOOK_ACROSS = (
    "the keys there are the source's tokens, so its padding is what must be hidden: "
    "`padding_mask(source)`"
)
LOOK_BACK = "hide what comes later, and padding: `decoder_mask(target)`"
EMBED = "`parts.source_embedding(source)`, `parts.target_embedding(target)`"
SCALED = "`TokenEmbedding` does that itself (lesson 01)"
NOT_TIED = "these parts have a matrix of their own for that, `parts.projection(states)`"
LOGITS = "return the scores as they are: the softmax is the loss's business"
LOGIT_MISTAKES = [
    Mistake(
        "the memory's mask is missing",
        LOOK_ACROSS,
        {"memory_mask": lambda source, target: None},
    ),
    Mistake(
        "the memory's mask is made from the target",
        LOOK_ACROSS,
        {"memory_mask": lambda source, target: padding_mask(target)},
    ),
    Mistake(
        "the memory's mask is the decoder's own",
        LOOK_ACROSS,
        {"memory_mask": lambda source, target: decoder_mask(target)},
    ),
    Mistake(
        "the memory's mask is inverted",
        "True = may attend: `padding_mask(source)`",
        {"memory_mask": lambda source, target: ~padding_mask(source)},
    ),
    Mistake(
        "the decoder's mask is missing, so it sees the words that it is to predict",
        LOOK_BACK,
        {"mask": lambda source, target: None},
    ),
    Mistake(
        "the decoder's mask hides padding only, so it sees the words it is to predict",
        LOOK_BACK,
        {"mask": lambda source, target: padding_mask(target)},
    ),
    Mistake(
        "the decoder's mask is inverted",
        "True = may attend: " + LOOK_BACK,
        {"mask": lambda source, target: ~decoder_mask(target)},
    ),
    Mistake(
        "the decoder's mask is made from the source",
        LOOK_BACK,
        {"mask": lambda source, target: decoder_mask(source)},
    ),
    Mistake(
        "the decoder's two masks are swapped",
        "the one for looking back comes first, the one for the memory second",
        {
            "mask": lambda source, target: padding_mask(source),
            "memory_mask": lambda source, target: decoder_mask(target),
        },
    ),
    Mistake(
        "the encoder's mask is missing",
        "the padding of the source must be hidden: `padding_mask(source)`",
        {"source_mask": lambda source: None},
    ),
    Mistake(
        "the encoder's mask is causal",
        "the source is known as a whole and may look both ways: `padding_mask(source)`",
        {"source_mask": decoder_mask},
    ),
    Mistake(
        "the encoder's mask is inverted",
        "True = may attend: `padding_mask(source)`",
        {"source_mask": lambda source: ~padding_mask(source)},
    ),
    Mistake(
        "the positions of the source are forgotten",
        "`parts.positions(…)` comes after the embedding, on both sides",
        {"place_source": lambda parts, x: x},
    ),
    Mistake(
        "the positions of the target are forgotten",
        "`parts.positions(…)` comes after the embedding, on both sides",
        {"place_target": lambda parts, x: x},
    ),
    Mistake(
        "the source is embedded by the target's embedding",
        EMBED,
        {"embed_source": lambda parts, ids: parts.target_embedding(ids)},
    ),
    Mistake(
        "the target is embedded by the source's embedding",
        EMBED,
        {"embed_target": lambda parts, ids: parts.source_embedding(ids)},
    ),
    Mistake(
        "the source's embeddings are scaled twice",
        SCALED,
        {"embed_source": lambda parts, ids: 4 * parts.source_embedding(ids)},
    ),
    Mistake(
        "the target's embeddings are scaled twice",
        SCALED,
        {"embed_target": lambda parts, ids: 4 * parts.target_embedding(ids)},
    ),
    Mistake(
        "the decoder looks at the embedded source, not at the memory",
        "the encoder's output is what goes into `parts.decoder(x, memory, …)`",
        {"memory": lambda memory, embedded: embedded},
    ),
    Mistake(
        "the projection is missing",
        "the decoder gives states; `parts.projection(states)` makes logits of them",
        {"give": lambda parts, states: states},
    ),
    Mistake(
        "the states are multiplied with the source embedding's matrix",
        NOT_TIED,
        {"give": lambda parts, states: states @ parts.source_embedding.weight.T},
    ),
    Mistake(
        "the states are multiplied with the target embedding's matrix",
        NOT_TIED,
        {"give": lambda parts, states: states @ parts.target_embedding.weight.T},
    ),
    Mistake(
        "a softmax stands at the end",
        LOGITS,
        {"give": lambda parts, states: parts.projection(states).softmax(dim=-1)},
    ),
    Mistake(
        "a log-softmax stands at the end",
        LOGITS,
        {"give": lambda parts, states: parts.projection(states).log_softmax(dim=-1)},
    ),
]


@check
def logits(function: Callable, *, seed: int = 0) -> Iterator[Finding]:
    """Exercise 08.1: `function(parts, source, target)` returns the logits.

    source (batch, source_length) and target (batch, target_length) are ids, the logits
    (batch, target_length, vocab_size).
    """
    parts = _parts(seed)
    source, target = _ids(seed, 7, 5)
    output = _logits_of(function, parts, source, target)
    expected = version(parts, source, target)
    if not same(_real(output, target), expected):
        made = recognise(
            _real(output, target), version, LOGIT_MISTAKES, (parts, source, target)
        )
        raise Stop(wrong(_named(made) if made else _wrong_logits(output, target)))
    yield right("the logits are (batch, target_length, vocab_size) and as expected")
    if not output.requires_grad:
        raise Stop(
            wrong(
                "no gradient reaches the parts, so nothing could be learnt: no "
                "`detach`, `no_grad` or `.data` on the way"
            )
        )
    other = _ids(seed + 1, 4, 6)
    if not same(
        _real(_logits_of(function, parts, *other), other[1]), version(parts, *other)
    ):
        raise Stop(
            wrong(
                f"right for lengths 7 and 5, wrong for {other[0].size(1)} and "
                f"{other[1].size(1)}: is something of a sentence kept or written as a "
                "number?"
            )
        )
    yield right("other lengths work too")
    if same(output, _all_logits(parts, source, target)):
        yield right("the masks: later tokens and padding of each side are hidden")
    else:
        yield right(
            "the masks: later tokens and the source's padding are hidden (padding of "
            "the target is not: it comes last, so only padded places notice)"
        )


def _logits_of(function, parts, source, target) -> Tensor:
    try:
        output = attempt(function, parts, source, target)
    except Stop as stop:
        if stop.finding.mark == "✗":
            _name_failure(stop, function, parts)
        raise
    if not isinstance(output, Tensor):
        kind = type(output).__name__
        raise Stop(wrong(f"return one tensor, the logits, not: {kind}"))
    return output


def _name_failure(stop, function, parts) -> None:
    """Name the mistake that made the code stop: equal lengths let it run."""
    inputs = parts, *_ids(3, 6, 6)
    output = attempt(function, *inputs)
    if isinstance(output, Tensor):
        real = _real(output, inputs[2])
        if made := recognise(real, version, LOGIT_MISTAKES, inputs):
            raise Stop(wrong(f"{_named(made)} ({stop.finding.text})")) from None


def _named(made: Iterable[Mistake]) -> str:
    return "; and ".join(f"{mistake.name}: {mistake.hint}" for mistake in made)


def _wrong_logits(output: Tensor, target: Tensor) -> str:
    """What can be said of wrong logits that no known mistake gives."""
    shape, due = tuple(output.shape), (*target.shape, VOCAB)
    if shape == (due[0], due[1] - 1, due[2]):
        return (
            f"the logits have shape {shape}, not {due}: the target is shifted already"
        )
    if shape != due:
        return (
            f"the logits have shape {shape}, not {due}: a row for each target token, a "
            "score in it for each token of the vocabulary"
        )
    if not output.isfinite().all():
        return "the logits hold NaN or infinity: which mask hides everything?"
    sums = output.detach().sum(dim=-1)
    if torch.allclose(sums, torch.ones_like(sums), atol=1e-3):
        return f"they sum to 1 at each place, so a softmax stands at the end: {LOGITS}"
    return (
        "the shape is right, the numbers are not: go along the table of the lesson, "
        "step by step, and compare what goes into the encoder and the decoder"
    )


# ------------------------------------------------------------------ 08.2 tying

PLACES = ("source_embedding", "target_embedding", "projection")
ASSIGN = (
    "assign the parameter itself, `parts.projection.weight = "
    "parts.source_embedding.weight`, and likewise for the other"
)


@check
def tied(function: Callable, *, seed: int = 0) -> Iterator[Finding]:
    """Exercise 08.2: `function(parts)` returns the parts with one matrix for three."""
    parts = _parts(seed)
    before = sum(p.numel() for p in parts.parameters())
    output = _tie(function, parts)
    weights = [_weight(output, place) for place in PLACES]
    _demand_one(weights)
    yield right("source embedding, target embedding and projection: one parameter")
    after = sum(p.numel() for p in output.parameters())
    if before - after != 2 * VOCAB * D_MODEL:
        raise Stop(
            wrong(
                f"there should be 2 · {VOCAB} · {D_MODEL} = {2 * VOCAB * D_MODEL} "
                f"parameters fewer, not {before - after}: is something else left over, "
                "or lost?"
            )
        )
    yield right(f"counted once: {before - after} parameters fewer")
    _demand_logits(output, seed)
    yield right("the parts still work, and one gradient gathers all three uses")
    moved = copy.deepcopy(output).double()
    _demand_one([_weight(moved, place) for place in PLACES])
    yield right("still one after a copy and a change of number format")


def _tie(function, parts):
    """What the function returns, or a finding that it forgot to return the parts."""
    weights = [getattr(parts, place).weight for place in PLACES]
    values = [weight.detach().clone() for weight in weights]
    try:
        return attempt(function, parts)
    except Stop as stop:
        now = [getattr(getattr(parts, place, None), "weight", None) for place in PLACES]
        unlike = any(x is not y for x, y in zip(now, weights, strict=True))
        moved = not all(torch.equal(x, y) for x, y in zip(weights, values, strict=True))
        if stop.finding.mark == "○" and (unlike or moved):
            text = (
                "something was changed, but nothing returned: end with `return parts`"
            )
            raise Stop(wrong(text)) from None
        raise


def _weight(parts, place) -> nn.Parameter:
    if not isinstance(parts, nn.Module):
        kind = type(parts).__name__
        raise Stop(wrong(f"return the parts, all of them, not: {kind}"))
    weight = getattr(getattr(parts, place, None), "weight", None)
    if not isinstance(weight, nn.Parameter):
        raise Stop(
            wrong(
                f"parts.{place} has no parameter `weight` any more: tie, don't remove"
            )
        )
    return weight


def _demand_one(weights: list[nn.Parameter]) -> None:
    """Stop unless the three are one and the same parameter."""
    number = len({id(weight) for weight in weights})
    if number == 1:
        return
    if len({weight.data_ptr() for weight in weights}) == 1:
        text = (
            f"the three share their memory but are {number} parameters: each gets a "
            "gradient of its own, the optimizer moves the same numbers "
            f"{number} times, and a move to another device parts them"
        )
    elif all(torch.equal(weights[0], weight) for weight in weights):
        text = (
            f"the same numbers, but {number} parameters: they are equal until the "
            "first step of training, and each is counted"
        )
    elif number == 2:
        ids = [id(weight) for weight in weights]
        alone = next(
            place for place, i in zip(PLACES, ids, strict=True) if ids.count(i) == 1
        )
        text = f"{alone} still has a matrix of its own"
    else:
        text = "each of the three still has a matrix of its own"
    raise Stop(wrong(f"{text}; {ASSIGN}"))


def _demand_logits(parts, seed) -> None:
    """Stop unless the tied parts give logits and one gradient."""
    source, target = _ids(seed, 7, 5)
    try:
        output = _all_logits(parts, source, target)
        fault = "" if output.size(-1) == VOCAB else f"they give {tuple(output.shape)}"
    except Exception as error:
        fault = f"{type(error).__name__}: {error}"
    if fault:
        raise Stop(
            wrong(
                f"the tied parts make no logits any more ({fault:.80}): share the "
                "*weight*; embedding and projection stay modules of their own"
            )
        )
    weight = parts.source_embedding.weight
    if not weight.requires_grad:
        raise Stop(wrong("the shared matrix asks for no gradient: `requires_grad`"))
    (gradient,) = torch.autograd.grad(output.logsumexp(dim=-1).sum(), weight)
    if not gradient.any(dim=1).all():
        raise Stop(
            wrong(
                "some tokens get no gradient, though the projection weighs them all: "
                "is it cut off, or not the matrix that is used?"
            )
        )


# --------------------------------------------------------------- 08.3 counting

# Sizes so unlike each other that no mistake comes to the counts of another, or of two.
CONFIGS = {
    "shared embeddings": TransformerConfig(
        1013, 1013, d_model=46, n_heads=2, d_ff=101, n_layers=7, max_length=89
    ),
    "separate embeddings": TransformerConfig(
        *(50, 70),
        share_embeddings=False,
        **{"d_model": 8, "n_heads": 4, "d_ff": 20, "n_layers": 3, "max_length": 17},
    ),
    "norm first": TransformerConfig(
        *(60, 60),
        norm_first=True,
        **{"d_model": 12, "n_heads": 3, "d_ff": 31, "n_layers": 5, "max_length": 19},
    ),
}


def counted(c: TransformerConfig, **terms) -> int:
    """The parameters of a configuration, with some of the TERMS done otherwise."""
    term = {name: count(c) for name, count in (TERMS | terms).items()}
    attention = term["attention_weights"] + term["attention_biases"]
    feed_forward = term["ffn_weights"] + term["ffn_biases"]
    layer = term["attentions"] * attention + term["ffns"] * feed_forward + term["norms"]
    stacks = term["layers"] * layer + term["last_norms"]
    return term["vectors"] + stacks + term["more"]


def _vectors(c: TransformerConfig, separate: tuple[int, int] = (1, 2)) -> int:
    """The token vectors; `separate`: so many matrices of source and target if apart."""
    sources, targets = (0, 1) if c.share_embeddings else separate
    return c.d_model * (sources * c.source_vocab + targets * c.target_vocab)


TERMS = {
    "vectors": _vectors,
    "layers": lambda c: c.n_layers,
    "attentions": lambda c: 3,
    "ffns": lambda c: 2,
    "attention_weights": lambda c: 4 * c.d_model**2,
    "attention_biases": lambda c: 4 * c.d_model,
    "ffn_weights": lambda c: 2 * c.d_model * c.d_ff,
    "ffn_biases": lambda c: c.d_ff + c.d_model,
    "norms": lambda c: 5 * 2 * c.d_model,
    "last_norms": lambda c: 4 * c.d_model if c.norm_first else 0,
    "more": lambda c: 0,
}


def _count_mistake(name, hint, **terms):
    return Mistake(name, hint, terms)


COUNT_MISTAKES = [
    _count_mistake(
        "the biases of the attentions are missing",
        "each of the four projections has d_model of them",
        attention_biases=lambda c: 0,
    ),
    _count_mistake(
        "an attention is counted with one bias",
        "each of the four projections has one, of d_model numbers",
        attention_biases=lambda c: c.d_model,
    ),
    _count_mistake(
        "the biases of the feed-forward networks are missing",
        "the first matrix has d_ff of them, the second d_model",
        ffn_biases=lambda c: 0,
    ),
    _count_mistake(
        "the biases of a feed-forward network are counted with one size",
        "the first matrix has d_ff of them, the second d_model",
        ffn_biases=lambda c: 2 * c.d_model,
    ),
    _count_mistake(
        "a feed-forward network is counted with one matrix",
        "it has two, d_model × d_ff and d_ff × d_model",
        ffn_weights=lambda c: c.d_model * c.d_ff,
    ),
    _count_mistake(
        "one of the two feed-forward networks is missing",
        "an encoder layer has one, and a decoder layer too",
        ffns=lambda c: 1,
    ),
    _count_mistake(
        "the norms are missing",
        "one for each sub-layer, two in an encoder layer and three in a decoder layer",
        norms=lambda c: 0,
    ),
    _count_mistake(
        "a norm is counted with one vector",
        "it has a gain and a bias, 2 · d_model",
        norms=lambda c: 5 * c.d_model,
    ),
    _count_mistake(
        "the decoder's third norm is missing",
        "a decoder layer has three sub-layers, and a norm for each",
        norms=lambda c: 4 * 2 * c.d_model,
    ),
    _count_mistake(
        "the cross-attention is missing",
        "a decoder layer has two attentions, an encoder layer one",
        attentions=lambda c: 2,
    ),
    _count_mistake(
        "the decoder's two attentions are missing",
        "a decoder layer has two attentions, an encoder layer one",
        attentions=lambda c: 1,
    ),
    _count_mistake(
        "the output projection of the attentions is missing",
        "query, key, value and output: four matrices, four biases",
        attention_weights=lambda c: 3 * c.d_model**2,
        attention_biases=lambda c: 3 * c.d_model,
    ),
    _count_mistake(
        "the attention is counted once for each head",
        "the heads share the d_model features: all together make one d_model × d_model "
        "matrix, whatever their number",
        attention_weights=lambda c: c.n_heads * 4 * c.d_model**2,
        attention_biases=lambda c: c.n_heads * 4 * c.d_model,
    ),
    _count_mistake(
        "the vectors of the tokens are missing",
        "a row of d_model numbers for each token of the vocabulary",
        vectors=lambda c: 0,
    ),
    _count_mistake(
        "shared embeddings are counted more than once",
        "share_embeddings: one matrix in three places",
        vectors=lambda c: c.d_model * (c.source_vocab + 2 * c.target_vocab),
    ),
    _count_mistake(
        "shared embeddings are counted twice",
        "share_embeddings: one matrix in three places, the projection is one of them",
        vectors=lambda c: (2 if c.share_embeddings else 1) * _vectors(c),
    ),
    _count_mistake(
        "separate embeddings are counted once",
        "without share_embeddings there are three matrices: source, target, projection",
        vectors=lambda c: c.d_model * c.target_vocab,
    ),
    _count_mistake(
        "separate embeddings are counted without the projection",
        "without share_embeddings there are three matrices: source, target, projection",
        vectors=lambda c: _vectors(c, separate=(1, 1)),
    ),
    _count_mistake(
        "the projection of separate embeddings is counted with the source's vocabulary",
        "it has a row for each token of the target",
        vectors=lambda c: _vectors(c, separate=(2, 1)),
    ),
    _count_mistake(
        "the projection is counted with a bias",
        "it has none",
        more=lambda c: c.target_vocab,
    ),
    _count_mistake(
        "the positions are counted",
        "the sinusoids are computed, not learnt",
        more=lambda c: c.max_length * c.d_model,
    ),
    _count_mistake(
        "the last norms of norm first are missing",
        "with norm_first each of the two stacks ends with one norm more",
        last_norms=lambda c: 0,
    ),
    _count_mistake(
        "one last norm of norm first is missing",
        "with norm_first each of the two stacks ends with one norm more",
        last_norms=lambda c: 2 * c.d_model if c.norm_first else 0,
    ),
    _count_mistake(
        "last norms are counted with norm last, too",
        "only norm_first ends its stacks with a norm",
        last_norms=lambda c: 4 * c.d_model,
    ),
    _count_mistake(
        "only one layer is counted",
        "there are n_layers in the encoder and as many in the decoder",
        layers=lambda c: 1,
    ),
]


@check
def count(function: Callable) -> Iterator[Finding]:
    """Exercise 08.3: `function(config)` returns the number of parameters."""
    yours = [_number(function, config) for config in CONFIGS.values()]
    if yours != [counted(config) for config in CONFIGS.values()]:
        raise Stop(wrong(_explained(yours) or _unexplained(yours)))
    for name in CONFIGS:
        yield right(f"{name}: right")
    for name in ("base", "big"):
        config = getattr(TransformerConfig, name)()
        number, expected = _number(function, config), counted(config)
        if number != expected:
            text = f"{name}: {number:,.10g}, not {expected:,}: is a size written down?"
            raise Stop(wrong(text))
        yield right(f"{name}: {expected:,}")


def _number(function, config) -> float:
    output = attempt(function, config)
    if isinstance(output, Tensor) and output.numel() == 1:
        output = output.item()
    number = isinstance(output, Real) and not isinstance(output, bool)
    if not number or not math.isfinite(output):
        said = " ".join(repr(output).split())
        raise Stop(wrong(f"return a number of parameters, not {said:.60}"))
    return float(output)


def _exact(counts: Iterable[float]) -> Tensor:
    """Counts cut in two, as `same` forgives a tensor one part in 10,000."""
    return torch.tensor([divmod(n, 4096) for n in counts], dtype=torch.float64)


def _counts(configs: Iterable[TransformerConfig], **terms) -> Tensor:
    return _exact(counted(c, **terms) for c in configs)


def _explained(yours: list[float]) -> str:
    """The mistakes made, if there are few; else those that the first count shows."""
    configs = list(CONFIGS.values())
    for shown, where in ((3, ""), (1, "with shared embeddings and norm last: ")):
        if yours[:shown] != [counted(c) for c in configs[:shown]]:
            inputs = (configs[:shown],)
            made = recognise(_exact(yours[:shown]), _counts, COUNT_MISTAKES, inputs)
            if made:
                return where + _named(made)
    return ""


def _unexplained(yours: list[float]) -> str:
    """Which configuration goes wrong, and by how much."""
    name, c, number = next(
        (name, c, number)
        for (name, c), number in zip(CONFIGS.items(), yours, strict=True)
        if number != counted(c)
    )
    off = abs(number - counted(c))
    more = "too many" if number > counted(c) else "too few"
    each = f", {off / c.n_layers:,.10g} a layer" if off % c.n_layers == 0 else ""
    sizes = f"d_model {c.d_model}, d_ff {c.d_ff}, {c.n_layers} layers"
    return (
        f"{name} ({sizes}, vocabularies {c.source_vocab} and {c.target_vocab}): "
        f"{number:,.10g}, which is {off:,.10g} {more}{each}. Which of the matrices, "
        "biases or norms has just that size, or a multiple?"
    )


# ------------------------------------------------------------- 08.4 first losses

FAULTS = {
    "A": "sum, not mean",
    "B": "labels not shifted",
    "C": "healthy",
    "D": "no softmax",
    "E": "embeddings of std 1",
    "F": "softmax twice",
}
# What to think about where the answer is wrong, by the fault that is there.
HINTS = {
    "sum, not mean": "divide it by the 384 tokens: what is left?",
    "labels not shifted": (
        "below ln V before the first step, so the model is given something of the "
        "answer. Which token does a fresh tied model favour?"
    ),
    "healthy": "tied embeddings of size d_model^-½: which first loss was derived?",
    "no softmax": (
        "near 0, and it may even be negative: that is the mean of logits, no logarithm "
        "of a probability"
    ),
    "embeddings of std 1": (
        "about d_model: which logit can be as large as that, and who does it favour?"
    ),
    "softmax twice": (
        "ln V almost to the digit, where a tied model should start ½ higher. "
        "Probabilities lie between 0 and 1: taken for logits, they are all nearly equal"
    ),
}


def first_losses() -> dict[str, float]:
    """The first losses of the six models of exercise 08.4, each really made."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        sizes = {"d_model": 64, "n_heads": 4, "d_ff": 256, "n_layers": 2}
        config = TransformerConfig(1000, 1000, dropout=0.0, norm_first=True, **sizes)
        model = Transformer(config).double()
        large = Transformer(config).double()
        nn.init.normal_(large.source_embedding.weight)
        ids = torch.randint(4, 1000, (32, 25))
    source, target, labels = ids[:, :12], ids[:, 12:-1], ids[:, 13:].flatten()
    with torch.no_grad():
        scores = model(source, target).flatten(0, 1)
        high = large(source, target).flatten(0, 1)
    losses = {
        "sum, not mean": F.cross_entropy(scores, labels, reduction="sum"),
        "labels not shifted": F.cross_entropy(scores, target.flatten()),
        "healthy": F.cross_entropy(scores, labels),
        "no softmax": F.nll_loss(scores, labels),
        "embeddings of std 1": F.cross_entropy(high, labels),
        "softmax twice": F.cross_entropy(scores.softmax(dim=-1), labels),
    }
    return {name: losses[fault].item() for name, fault in FAULTS.items()}


def _words(text: str) -> str:
    """Small letters, no punctuation."""
    return " ".join(re.findall(r"\w+", text.lower()))


_WORDS = {_words(fault): fault for fault in HINTS}


@check
def diagnosis(**answers) -> Iterator[Finding]:
    """Exercise 08.4: for each of A to F the name of its fault."""
    for name, fault in FAULTS.items():
        answer = answers.get(name)
        if answer is None or answer is Ellipsis:
            yield untried(f"model {name}: not attempted yet")
            continue
        said = _WORDS.get(_words(answer)) if isinstance(answer, str) else None
        if said == fault:
            yield right(f"model {name}: {fault}")
        elif said:
            yield wrong(f"model {name} is not “{said}”: {HINTS[fault]}")
        else:
            choice = ", ".join(f"“{fault}”" for fault in HINTS)
            yield wrong(f"model {name}: {answer!r:.40} is none of the six, {choice}")

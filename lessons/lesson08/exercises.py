"""The exercises of lesson 08: the whole Transformer, its faults, and its size."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from helpers import PAD
from helpers import transformer as course
from helpers.exercise import Exercise, Probe, Wrong, choose
from helpers.masks import causal_mask, decoder_mask, padding_mask
from helpers.positions import positional_encoding
from helpers.transformer import TransformerConfig
from lessons.lesson08 import assembly

# ------------------------------------------------------------------ 08.1 the model

SMALL = TransformerConfig(
    *(23, 19),
    **{"d_model": 12, "n_heads": 3, "d_ff": 20, "n_layers": 2, "dropout": 0.25},
    norm_first=True,
    share_embeddings=False,
    max_length=16,
)
PAPER = replace(SMALL, source_vocab=17, target_vocab=17, n_layers=1, norm_first=False)
PAPER = replace(PAPER, share_embeddings=True)


def _whole(
    config: TransformerConfig, made: type, *, measured: bool = False
) -> nn.Module:
    """The model; its source embedding stands first, and so names what is shared."""
    model = made(config)
    model.is_measured = measured and not issubclass(made, course.Transformer)
    for name in [x for x in model._modules if x != "source_embedding"]:
        model._modules[name] = model._modules.pop(name)  # now behind it
    shared = ("target_embedding.weight", "projection.weight")
    own = [name for name, _ in model.named_parameters() if name in shared]
    if config.share_embeddings and own:
        raise Wrong(
            f"`{own[0]}` is still a parameter of its own: assign to it "
            "`self.source_embedding.weight` itself, no copy of it and no `.data`"
        )
    return model


def _waves(ids: Tensor) -> Tensor:
    """Some vectors (…, 12) in place of ids."""
    return torch.sin(ids[..., None] * torch.arange(1.0, 13.0))


STEPS: dict[str, Callable] = {
    "encode": lambda model, source, target: model.encode(source),
    "decode": lambda model, source, target: model.decode(
        target, _waves(source), source
    ),
    "project": lambda model, source, target: model.project(_waves(target[:, -1])),
}


def _step(name: str, made: type) -> nn.Module:
    """The model, of which one method is called alone."""
    model = _whole(SMALL, made)
    model.forward = partial(STEPS[name], model)
    return model


def _ids(batch: int, *lengths: int, vocab: int = 19) -> list[Tensor]:
    """Ids of both sides; row i of the source ends with i places of padding."""
    chance = torch.Generator().manual_seed(sum(lengths))
    both = [torch.randint(1, vocab, (batch, n), generator=chance) for n in lengths]
    for row in range(1, batch):
        both[0][row, -row:] = PAD
        both[1][-row - 1, -row:] = PAD
    return both


def _probe(
    config: TransformerConfig,
    *sizes: int,
    vocab: int = 19,
    measured: bool = False,
    **said,
) -> Probe:
    build = partial(_whole, config, measured=measured)
    return Probe(*_ids(*sizes, vocab=vocab), build=build, **said)


def _starts_badly(model: nn.Module) -> str:
    """What is wrong with a model before its first step; "" for nothing."""
    parts = _stacks_badly, _embeds_badly, _changes_memory, _gives_probabilities
    measures = *parts, _draws_badly, _drops_badly, _ends_elsewhere
    for measure in measures if model.is_measured else ():
        try:
            with torch.no_grad():
                text = measure(model)
        except Exception:  # the probes say more
            continue
        if text:
            return text
    return ""


def _stacks_badly(model: nn.Module) -> str:
    """Whether a stack has as many layers as the configuration says."""
    trial = _trial(model)
    due = course.Transformer(trial.config)
    for stack in ("encoder", "decoder"):
        found, wanted = ([*getattr(x, stack).parameters()] for x in (trial, due))
        if len(found) != len(wanted):
            return (
                f"with `config.n_layers` {trial.config.n_layers}, `{stack}` has "
                f"{len(found)} parameters where {len(wanted)} are due: hand it "
                "`config.n_layers` and `config.layer_sizes()`"
            )
    return ""


def _changes_memory(model: nn.Module) -> str:
    """Whether `decode` hands the decoder another memory than the one it is given."""
    source, target = _ids(2, 5, 4, vocab=17)
    seen, memory = [], _waves(source)
    model.decoder.register_forward_pre_hook(lambda _, given: seen.append(given))
    model.eval().decode(target, memory, source)
    if len(seen) == 1 and len(seen[0]) > 1 and not torch.equal(seen[0][1], memory):
        return (
            "`decode` hands the decoder another memory than the one it is given: take "
            "its argument `memory` as it is"
        )
    return ""


def _embeds_badly(model: nn.Module) -> str:
    """What is wrong with the vectors that the two stacks read."""
    model.eval()
    d_model, (source, target) = model.config.d_model, _ids(2, 5, 4, vocab=17)
    read, sides = {}, {"encoder": ("source", source), "decoder": ("target", target)}
    for stack in sides:
        getattr(model, stack).register_forward_pre_hook(
            lambda _, given, stack=stack: read.update({stack: given})
        )
    model(source, target)
    for stack, given in read.items():
        side, ids = sides[stack]
        rows = getattr(model, f"{side}_embedding").weight[ids]
        (other,) = {"source", "target"} - {side}
        others = getattr(model, f"{other}_embedding").weight[ids]
        table = positional_encoding(ids.size(1), d_model)
        faults = {
            f"the positions are missing: the {stack} reads `self.positions` of the "
            "embeddings": math.sqrt(d_model) * rows,
            "the embeddings are multiplied by √d_model twice: TokenEmbedding does it": (
                d_model * rows + table
            ),
            "the embeddings are not multiplied by √d_model: TokenEmbedding, which "
            "multiplies, makes both": rows + table,
            f"the {stack} reads `self.{other}_embedding`: take that of the {side}": (
                math.sqrt(d_model) * others + table
            ),
        }
        if model.config.share_embeddings:  # the other side's is its own
            faults.popitem()
        for text, wrong in faults.items():
            if given and torch.allclose(given[0], wrong, atol=1e-4):
                return text
    return ""


def _gives_probabilities(model: nn.Module) -> str:
    """Whether the logits have gone through a softmax, or its logarithm."""
    model.eval()
    for x in (model.project(_waves(torch.arange(3))), model(*_ids(2, 3, 4, vocab=17))):
        for name, sums in (("softmax", x.sum(-1)), ("log_softmax", x.exp().sum(-1))):
            if torch.allclose(sums, torch.ones(())):
                return (
                    f"a {name} stands at the end: return the logits, as the loss has "
                    "the softmax"
                )
    return ""


def _trial(model: nn.Module, dropout: float = 0.0) -> nn.Module:
    """A larger model of the same class, with enough numbers to measure."""
    shared = model.config.share_embeddings
    config = TransformerConfig(
        *(200, 200 if shared else 300),
        **{"d_model": 64, "n_heads": 2, "d_ff": 32, "n_layers": 1, "dropout": dropout},
        norm_first=model.config.norm_first,
        share_embeddings=shared,
        max_length=20,
    )
    return type(model)(config)


def _draws_badly(model: nn.Module) -> str:
    """What is wrong with the size of the initial weights."""
    trial = _trial(model)
    for name in ("source_embedding", "target_embedding"):
        spread = getattr(trial, name).weight.std().item() * math.sqrt(64)
        if not 0.9 < spread < 1.1:
            return (
                f"`{name}` starts with a standard deviation of {spread:.2g} / √d_model"
                ", not 1 / √d_model: TokenEmbedding draws it, and nothing comes after"
            )
    spread = trial.projection.weight.std().item()
    if not trial.config.share_embeddings and not 0.016 < spread < 0.025:
        return (
            "the projection's initial weights have a standard deviation of "
            f"{spread:.2g}, not 0.02: `nn.init.normal_(…, std=0.02)`"
        )
    for stack in ("encoder", "decoder"):
        for name, weight in getattr(trial, stack).named_parameters():
            scale = weight.std().item() * math.sqrt(weight.size(-1))
            if weight.dim() == 2 and not 0.1 < scale < 3:  # PyTorch's: 0.58
                return (
                    f"`{stack}.{name}` starts with a standard deviation of "
                    f"{weight.std():.2g}: leave the layers' matrices as they are drawn"
                )
    return ""


def _drops_badly(model: nn.Module) -> str:
    """Where two runs in training differ less, or more, than the course's do."""
    x, ids = torch.randn(20, 8, 64), torch.full((20, 8), 5)
    calls: dict[str, Callable] = {
        "positions": lambda model: model.positions(x),
        "encoder": lambda model: model.encoder(x),
        "decoder": lambda model: model.decoder(x, x),
        "encode": lambda model: model.encode(ids),
        "decode": lambda model: model.decode(ids, x, ids),
        "project": lambda model: model.project(x),
    }
    for dropout in (0.0, 0.3):
        yours = _trial(model, dropout).train()
        due = course.Transformer(yours.config).train()
        due.load_state_dict(yours.state_dict(), strict=False)
        for name, call in calls.items():
            found, wanted = (
                (call(one) - call(one)).square().mean().item() for one in (yours, due)
            )
            if not 0.85 * wanted <= found <= 1.18 * wanted:
                more = "more" if found > wanted else "less"
                return (
                    f"with `config.dropout` {dropout}, `{name}` drops {more} when it "
                    "trains than the course's: `config.dropout` goes to the positions, "
                    "`config.layer_sizes()` to both stacks, and that is all"
                )
    return ""


def _ends_elsewhere(model: nn.Module) -> str:
    """Whether sentences may be as long as the configuration says, and no longer."""
    trial = _trial(model).eval()
    longest = trial.config.max_length
    for length in (longest, longest + 1):
        try:
            trial.positions(torch.zeros(1, length, 64))
            fits = True
        except Exception:
            fits = False
        if fits != (length == longest):
            does = "takes" if fits else "refuses"
            return (
                f"with `config.max_length` {longest}, `positions` {does} a sentence of "
                f"{length} tokens: hand it `max_length=config.max_length`"
            )
    return ""


class _NoMaskAcross(course.Transformer):
    def decode(self, target, memory, source):
        x = self.positions(self.target_embedding(target))
        return self.decoder(x, memory, decoder_mask(target))


class _SeesTheFuture(course.Transformer):
    def decode(self, target, memory, source):
        x = self.positions(self.target_embedding(target))
        return self.decoder(x, memory, padding_mask(target), padding_mask(source))


class _EncodesPadding(course.Transformer):
    def encode(self, source):
        return self.encoder(self.positions(self.source_embedding(source)))


class _ForgetsPadding(course.Transformer):
    def decode(self, target, memory, source):
        x = self.positions(self.target_embedding(target))
        mask = causal_mask(target.size(1))
        return self.decoder(x, memory, mask, padding_mask(source))


class _MaskOfTheTarget(course.Transformer):
    def decode(self, target, memory, source):
        x = self.positions(self.target_embedding(target))
        return self.decoder(x, memory, decoder_mask(target), padding_mask(target))


transformer = Exercise(
    course.Transformer,
    [
        _probe(
            *(SMALL, 3, 7, 5),
            measured=True,
            praise="the course's logits, with three matrices",
        ),
        _probe(SMALL, 2, 6, 6, alike=True),
        _probe(
            *(PAPER, 2, 5, 8),
            vocab=17,
            measured=True,
            praise="with `share_embeddings` one matrix, and with the norm last",
            when="with `share_embeddings`, one parameter in three places: ",
        ),
        _probe(
            replace(SMALL, source_vocab=19),
            *(1, 3, 4),
            when="with vocabularies of one size, but nothing shared: ",
        ),
        *(
            Probe(*_ids(2, 4, 6), build=partial(_step, name), when=f"`{name}` alone: ")
            for name in ("encode", "decode")
        ),
        Probe(
            *_ids(3, 4, 5),
            build=partial(_step, "project"),
            when="`project` alone, as writing calls it: ",
            praise="`encode`, `decode` and `project` alone, as writing calls them",
        ),
    ],
    {
        "the cross-attention has no mask: hide the source's padding, "
        "`padding_mask(source)`": _NoMaskAcross,
        "the decoder sees the tokens that it is to predict: its own mask is "
        "`decoder_mask(target)`": _SeesTheFuture,
        "the encoder sees padding: hide it, `padding_mask(source)`": _EncodesPadding,
        "the decoder sees the target's padding: its own mask is "
        "`decoder_mask(target)`, not `causal_mask` alone": _ForgetsPadding,
        "the cross-attention's keys are the source's: its mask is "
        "`padding_mask(source)`, not of the target": _MaskOfTheTarget,
    },
    attributes=("config", "positions"),
    initial=_starts_badly,
    lesson="08",
)

# ------------------------------------------------------------------ 08.2 five models

FAULTS = {
    "A": "large projection",
    "B": "sees padding",
    "C": "no positions",
    "D": "softmax twice",
    "E": "sees the future",
}
# What each fault would show in the tests.
SIGNS = {
    "large projection": "its first loss would be far above ln V",
    "sees padding": "its logits would move when the padding goes",
    "no positions": "it would pass every test",
    "softmax twice": "its loss would hardly fall, though nothing is hidden from it: "
    "how large can the logit of the true token be?",
    "sees the future": "its logits would move when later tokens go",
}
diagnosis = partial(choose, due=FAULTS, choices=SIGNS)

# ------------------------------------------------------------------ 08.3 the size


def _number(output: Any, config: TransformerConfig) -> Any:
    """A number, out of a tensor; a whole float as an integer."""
    number = getattr(output, "item", lambda: output)()
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _off_by(wrong: Callable[[TransformerConfig], int]) -> Callable:
    """The count with so many too many, or too few if negative."""
    return lambda config: assembly.count_parameters(config) + wrong(config)


def _sizes(*sizes: int, vocab: tuple[int, int] = (101, 101), **options) -> tuple:
    names = "d_model", "n_heads", "d_ff", "n_layers"
    sizes = dict(zip(names, sizes, strict=True))
    return (TransformerConfig(*vocab, **sizes, **options),)


count_parameters = Exercise(
    assembly.count_parameters,
    [
        Probe(*_sizes(46, 2, 101, 7), praise="shared embeddings, norm last"),
        Probe(*_sizes(38, 2, 73, 5), when="with other sizes: "),
        Probe(
            *_sizes(22, 2, 59, 3, vocab=(53, 71), share_embeddings=False),
            praise="separate embeddings",
            when="with separate embeddings: ",
        ),
        Probe(
            *_sizes(26, 2, 31, 5, norm_first=True),
            praise="norm first",
            when="with the norm first: ",
        ),
        Probe(TransformerConfig.base(), praise="base", when="for base: "),
    ],
    {
        "the biases of the attentions are missing: four of d_model each": _off_by(
            lambda c: -12 * c.n_layers * c.d_model
        ),
        "the biases of the feed-forward networks are missing: d_ff and d_model": (
            _off_by(lambda c: -2 * c.n_layers * (c.d_ff + c.d_model))
        ),
        "an attention is missing: a layer of each stack has three together": _off_by(
            lambda c: -4 * c.n_layers * (c.d_model**2 + c.d_model)
        ),
        "the norms are missing: one for each sublayer, with gain and bias": _off_by(
            lambda c: -assembly.parameters(c)["norms"]
        ),
        "a norm has two vectors of d_model, gain and bias": _off_by(
            lambda c: -assembly.parameters(c)["norms"] // 2
        ),
        "shared embeddings are one matrix, counted once": _off_by(
            lambda c: 2 * c.target_vocab * c.d_model * c.share_embeddings
        ),
        "without `share_embeddings` there are three matrices: source, target and "
        "projection": _off_by(
            lambda c: -c.target_vocab * c.d_model * (not c.share_embeddings)
        ),
        "with `norm_first`, each of the two stacks ends with one norm more": _off_by(
            lambda c: -4 * c.d_model * c.norm_first
        ),
    },
    read=_number,
)

"""The exercises of lesson 08: the whole Transformer, its faults, and its size."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from helpers import PAD
from helpers import transformer as course
from helpers.exercise import Exercise, Probe
from helpers.masks import decoder_mask, padding_mask
from helpers.transformer import TransformerConfig
from lessons.checking.values import Values
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


def _whole(config: TransformerConfig, made: type) -> nn.Module:
    """The model; its source embedding stands first, and so names what is shared."""
    model = made(config)
    for name in [x for x in model._modules if x != "source_embedding"]:
        model._modules[name] = model._modules.pop(name)  # now behind it
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


def _probe(config: TransformerConfig, *sizes: int, vocab: int = 19, **said) -> Probe:
    return Probe(*_ids(*sizes, vocab=vocab), build=partial(_whole, config), **said)


def _starts_badly(model: nn.Module) -> str:
    """What is wrong with the initial weights, or with dropout; "" for nothing."""
    try:
        config, x = model.config, _waves(torch.arange(8).view(2, 4))
        parts = {"positions": (x,), "encoder": (x,), "decoder": (x, x)}
        for name, inputs in parts.items():
            part = getattr(model.train(), name)
            if torch.equal(part(*inputs), part(*inputs)):
                return (
                    f"no dropout acts in `{name}`: `config.dropout` goes to the "
                    "positions, `config.layer_sizes()` to both stacks"
                )
        logits = model.eval()(*_ids(3, 9, 9, vocab=config.target_vocab))
        spread = model.source_embedding.weight.std().item() * math.sqrt(12)
        loss = (logits.logsumexp(-1) - logits.mean(-1)).mean().item()
        even = math.log(config.target_vocab)
    except Exception:  # the probes say more
        return ""
    if not 0.75 < spread < 1.3:
        return (
            f"the embeddings start with a standard deviation of {spread:.2g} / √d_model"
            ", not 1 / √d_model: TokenEmbedding draws them, and nothing comes after"
        )
    if not config.share_embeddings and loss > even + 0.05:
        return (
            f"the first loss is {loss:.2f}, where {config.target_vocab} equal logits "
            f"give ln {config.target_vocab} = {even:.2f}: let the projection's initial "
            "weights have a standard deviation of 0.02"
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


class _ScaledTwice(course.Transformer):
    def encode(self, source):
        x = self.source_embedding(source) * math.sqrt(self.config.d_model)
        return self.encoder(self.positions(x), padding_mask(source))

    def decode(self, target, memory, source):
        x = self.target_embedding(target) * math.sqrt(self.config.d_model)
        x, mask = self.positions(x), decoder_mask(target)
        return self.decoder(x, memory, mask, padding_mask(source))


class _Probabilities(course.Transformer):
    def project(self, states):
        return super().project(states).softmax(dim=-1)


transformer = Exercise(
    course.Transformer,
    [
        _probe(SMALL, 3, 7, 5, praise="the course's logits, with three matrices"),
        _probe(SMALL, 2, 6, 6, alike=True),
        _probe(
            *(PAPER, 2, 5, 8),
            vocab=17,
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
        "the embeddings are multiplied by √d_model twice: TokenEmbedding does it": (
            _ScaledTwice
        ),
        "a softmax stands at the end: return the logits, as the loss has the softmax": (
            _Probabilities
        ),
    },
    attributes=("config", "positions"),
    initial=_starts_badly,
    lesson="08",
)

# ------------------------------------------------------------------ 08.2 five models

diagnosis = Values(
    """\
diagnosis = {
    "A": "large projection",
    "B": "sees padding",
    "C": "no positions",
    "D": "softmax twice",
    "E": "sees the future",
}
""",
    {name: {} for name in "ABCDE"},
    {
        "A": "its first loss is far above ln V: what makes logits large?",
        "B": "its logits move when the padding goes: which mask hides padding?",
        "C": "it passes every test: which fault does nothing that the tests look at?",
        "D": "its loss hardly falls, though nothing is hidden from it: how large can "
        "the logit of the true token be?",
        "E": "its logits move when later tokens go: which mask hides them?",
    },
    choices=(
        "sees the future",
        "sees padding",
        "softmax twice",
        "large projection",
        "no positions",
    ),
)

# ------------------------------------------------------------------ 08.3 the size


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
    read=lambda output, config: getattr(output, "item", lambda: output)(),
)

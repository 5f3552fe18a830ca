"""The exercises of lesson 08: the whole Transformer, its faults, and its size."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from helpers import PAD
from helpers import transformer as course
from helpers.exercise import Exercise, Probe, Wrong, choose
from helpers.masks import causal_mask, decoder_mask, padding_mask
from helpers.transformer import TransformerConfig
from lessons.lesson08 import assembly

# ------------------------------------------------------------------ 08.1 the model

OURS = TransformerConfig(
    *(200, 300),
    **{"d_model": 64, "n_heads": 2, "d_ff": 32, "n_layers": 1, "dropout": 0.27},
    norm_first=True,
    share_embeddings=False,
    max_length=7,
)
PAPER = replace(OURS, target_vocab=200, norm_first=False)
PAPER = replace(PAPER, share_embeddings=True)
# Two layers at the others' size would make rounding look like a fault.
SMALL = replace(OURS, target_vocab=200, d_model=16, n_layers=2)


def _waves(ids: Tensor) -> Tensor:
    """Some vectors (…, 64) in place of ids."""
    return torch.sin(ids[..., None] * torch.arange(1.0, 65.0))


PARTS: dict[str, Callable] = {
    "encoder": lambda model, source, target: model.encoder(_waves(source)),
    "decoder": lambda model, source, target: model.decoder(
        _waves(target), _waves(source)
    ),
    "encode": lambda model, source, target: model.encode(source),
    "decode": lambda model, source, target: model.decode(
        target, _waves(source), source
    ),
    "project": lambda model, source, target: model.project(_waves(target[:, -1])),
}


def _whole(config: TransformerConfig, made: type, *, only: str = "") -> nn.Module:
    """The model, or one part of it; its source embedding names what is shared."""
    model = made(config)
    for name in [x for x in model._modules if x != "source_embedding"]:
        model._modules[name] = model._modules.pop(name)  # now behind it
    if only:
        model.forward = partial(PARTS[only], model)
    return model


def _sound(config: TransformerConfig, made: type) -> nn.Module:
    """The model, unless something is wrong with it that no output shows."""
    model, due = _whole(config, made), course.Transformer(config)
    weights = dict(model.named_parameters())
    for name, weight in due.named_parameters():
        found, wanted = weights[name].std().item(), weight.std().item()
        most = 3 if "layers" in name else 1.3  # PyTorch's own layers start smaller
        if weight.dim() == 2 and not wanted / most < found < wanted * most:
            raise Wrong(
                f"`{name}` starts with a standard deviation of {found:.2g}, not "
                f"{wanted:.2g}"
            )
    due.load_state_dict(model.state_dict(), strict=False)
    ids = torch.randint(4, 200, (2, 40, config.max_length))
    for name, call in PARTS.items():
        found, wanted = (
            (call(one, *ids) - call(one, *ids)).square().mean().item()
            for one in (model.train(), due.train())
        )
        if not 0.85 * wanted <= found <= 1.18 * wanted:
            raise Wrong(
                f"in training, `{name}` drops {'more' if found > wanted else 'less'} "
                "than the course's: `config.dropout` goes to the positions, "
                "`config.layer_sizes()` to both stacks, and that is all"
            )
    try:
        model.positions(torch.zeros(1, config.max_length + 1, config.d_model))
    except Exception:  # smaller: rounding in large logits is no fault
        return _whole(replace(config, d_model=16), made)
    raise Wrong("`positions` takes any length: hand it `max_length=config.max_length`")


def _ids(batch: int, *lengths: int) -> list[Tensor]:
    """Ids of both sides; row i of the source ends with i places of padding."""
    chance = torch.Generator().manual_seed(sum(lengths))
    both = [torch.randint(1, 200, (batch, n), generator=chance) for n in lengths]
    for row in range(1, batch):
        both[0][row, -row:] = PAD
        both[1][-row - 1, -row:] = PAD
    return both


def _nothing(ids: Tensor) -> None:
    """No mask."""


def _with_masks(
    encoder: Callable = padding_mask,
    decoder: Callable = decoder_mask,
    memory: Callable = padding_mask,
) -> type:
    """A Transformer with these masks: the encoder's, and the decoder's two."""

    class Masked(course.Transformer):
        def encode(self, source):
            x = self.positions(self.source_embedding(source))
            return self.encoder(x, encoder(source))

        def decode(self, target, states, source):
            x = self.positions(self.target_embedding(target))
            return self.decoder(x, states, decoder(target), memory(source))

    return Masked


class _Softmax(course.Transformer):
    def project(self, states):
        return super().project(states).softmax(dim=-1)


transformer = Exercise(
    course.Transformer,
    [
        *(
            Probe(
                *_ids(2, 4, 6),
                build=partial(_whole, OURS, only=name),
                when=f"`{name}` alone: ",
            )
            for name in ("encode", "decode")
        ),
        Probe(
            *_ids(3, 4, 5),
            build=partial(_whole, OURS, only="project"),
            when="`project` alone, as writing calls it: ",
        ),
        Probe(
            *_ids(3, 7, 5),
            build=partial(_sound, OURS),
            praise="the course's logits, also of each method alone",
        ),
        Probe(
            *_ids(2, 5, 7),
            build=partial(_sound, PAPER),
            praise="with `share_embeddings` one matrix, and with the norm last",
            when="with `share_embeddings`, one parameter in three places: ",
        ),
        Probe(
            *_ids(1, 3, 4),
            build=partial(_whole, SMALL),
            when="with vocabularies of one size, but nothing shared: ",
        ),
    ],
    {
        "the encoder sees padding: hide it, `padding_mask(source)`": _with_masks(
            encoder=_nothing
        ),
        "the decoder sees the tokens that it is to predict: its own mask is "
        "`decoder_mask(target)`": _with_masks(decoder=padding_mask),
        "the decoder sees the target's padding: its own mask is "
        "`decoder_mask(target)`, not `causal_mask` alone": _with_masks(
            decoder=lambda target: causal_mask(target.size(1))
        ),
        "the cross-attention has no mask: hide the source's padding, "
        "`padding_mask(source)`": _with_masks(memory=_nothing),
        "a softmax stands at the end: return the logits, as the loss has the "
        "softmax": _Softmax,
    },
    attributes=("config", "positions"),
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
        "the norms are missing: one for each sublayer, with gain and bias": _off_by(
            lambda c: -assembly.parameters(c)["norms"]
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
    read=lambda output, config: float(output),
)

"""The exercises of lesson 06: one layer of the encoder, and the stack."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from helpers import encoder as course
from helpers.exercise import Exercise, Probe
from helpers.in_training import InTraining
from helpers.layers import LayerSizes
from helpers.masks import padding_mask

# Sentences of several lengths, padded on the right or on the left.
PADDED = padding_mask(torch.tensor([[5, 6, 7, 8], [5, 6, 0, 0], [0, 0, 0, 7]]))
NO_MASK = "the mask is not handed on, so that words attend to padding"
SHARE = 0.3


def _probe(
    *shape: int,
    norm_first: bool,
    mask: Tensor | None = None,
    n_layers: int = 0,
    training: bool = False,
    **said: str,
) -> Probe:
    """Random vectors of this shape, for a layer, or for a stack of n_layers."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))
    d_model, n_heads = shape[-1], 2 if shape[-1] % 4 else 4
    shape = {"d_model": d_model, "n_heads": n_heads, "d_ff": d_model + 3}
    sizes = LayerSizes(**shape, dropout=SHARE, norm_first=norm_first)

    def build(made: type) -> nn.Module:
        module = made(n_layers, sizes) if n_layers else made(sizes)
        if training:
            return InTraining(module, ["self_attention", "feed_forward"], SHARE)
        return module

    given = [x] if mask is None else [x, mask]
    return Probe(*given, build=build, training=training, **said)


# ------------------------------------------------------------------ 06.1 the layer


def _layer(forward: Callable) -> type:
    """An EncoderLayer with this `forward(self, x, mask=None)`."""
    return type("Wrong", (course.EncoderLayer,), {"forward": forward})


def _outside(self, x, mask=None):
    x = self.residuals[0](x, lambda y: self.self_attention(x, x, x, mask))
    return self.residuals[1](x, self.feed_forward)


def _one_residual(self, x, mask=None):
    x = self.residuals[0](x, lambda y: self.self_attention(y, y, y, mask))
    return self.residuals[0](x, self.feed_forward)


encoder_layer = Exercise(
    course.EncoderLayer,
    [
        _probe(2, 3, 8, norm_first=False, praise="norm last: the course's numbers"),
        _probe(3, 4, 10, norm_first=False, mask=PADDED, when="with a padding mask: "),
        _probe(
            *(3, 4, 8),
            norm_first=True,
            mask=PADDED,
            praise="norm first and with a mask, too",
            when="with a padding mask and norm_first=True: ",
        ),
        _probe(
            *(20, 7, 8),
            norm_first=True,
            training=True,
            praise="in training, dropout falls on what each half adds",
            when="in training: ",
        ),
    ],
    {
        NO_MASK: _layer(
            lambda self, x, mask=None: course.EncoderLayer.forward(self, x)
        ),
        "with norm first, the attention must read the normalised vectors, as the "
        "residual hands them to its function: `lambda y: self.self_attention(y, y, y, "
        "mask)`": _layer(_outside),
        "both halves use the same residual, and with it the same norm: each has its "
        "own": _layer(_one_residual),
    },
    attributes=("self_attention", "feed_forward", "residuals"),
    lesson="06",
)

# ------------------------------------------------------------------ 06.2 the stack


def _stack(forward: Callable) -> type:
    """An Encoder with this `forward(self, x, mask=None)`."""
    return type("Wrong", (course.Encoder,), {"forward": forward})


def _no_norm(self, x, mask=None):
    for layer in self.layers:
        x = layer(x, mask)
    return x


def _norm_inside(self, x, mask=None):
    for layer in self.layers:
        x = self.norm(layer(x, mask))
    return x


encoder = Exercise(
    course.Encoder,
    [
        _probe(2, 3, 8, n_layers=2, norm_first=False, praise="two layers, norm last"),
        _probe(
            *(3, 4, 12),
            n_layers=3,
            norm_first=True,
            mask=PADDED,
            praise="three layers, norm first: the last norm is in its place",
            when="with three layers, norm_first=True and a padding mask: ",
        ),
        _probe(1, 2, 4, n_layers=1, norm_first=True, when="for one layer: "),
        _probe(
            *(20, 7, 8),
            n_layers=2,
            norm_first=True,
            training=True,
            when="in training: ",
        ),
    ],
    {
        NO_MASK: _stack(lambda self, x, mask=None: course.Encoder.forward(self, x)),
        "with norm first, the last norm is made but never used": _stack(_no_norm),
        "the last norm runs after each layer: does it stand inside the loop?": (
            _stack(_norm_inside)
        ),
        "every layer reads the stack's input, so that only the last one counts: "
        "`x = layer(x, mask)`": _stack(
            lambda self, x, mask=None: self.norm(self.layers[-1](x, mask))
        ),
        "the first layer alone runs: does the `return` stand inside the loop?": _stack(
            lambda self, x, mask=None: self.norm(self.layers[0](x, mask))
        ),
    },
    attributes=("layers", "norm"),
    lesson="06",
)

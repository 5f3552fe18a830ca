"""The exercises of lesson 06: one layer of the encoder, and the stack."""

import torch
from torch import Tensor, nn

from helpers import encoder as course
from helpers.exercise import Exercise, Probe
from helpers.layers import LayerSizes
from helpers.masks import padding_mask

# Sentences of several lengths, padded on the right or on the left.
PADDED = padding_mask(torch.tensor([[5, 6, 7, 8], [5, 6, 0, 0], [0, 0, 0, 7]]))
NO_MASK = "the mask is not handed on, so that words attend to padding"
RESULT = (
    "a residual needs the sublayer as a function, `residual(x, lambda y: …)`: yours "
    "hands over the sublayer's result"
)


def _probe(
    *shape: int,
    norm_first: bool,
    mask: Tensor | None = None,
    n_layers: int = 0,
    dropout: float = 0.0,
    **said: str,
) -> Probe:
    """Random vectors of this shape, for a layer, or for a stack of n_layers."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))
    n_heads = 2 if shape[-1] % 4 else 4
    shares = {"dropout": dropout, "norm_first": norm_first}
    sizes = LayerSizes(d_model=shape[-1], n_heads=n_heads, d_ff=shape[-1] + 3, **shares)

    def build(made: type) -> nn.Module:
        module = made(n_layers, sizes) if n_layers else made(sizes)
        module.sizes_to_try = sizes
        return module

    return Probe(x, *[mask] * (mask is not None), build=build, **said)


# ------------------------------------------------------------------ 06.1 the layer


def _in_training(module: nn.Module) -> str:
    """Whether each half drops the share that the sizes ask for, and nothing else is."""
    sizes = module.sizes_to_try
    ends = (module.self_attention.output_projection, module.feed_forward.contract)
    try:
        if not _like_the_course(module, torch.randn(2, 5, sizes.d_model)):
            return ""  # the probes say more
        for half, own in (("attention", 0), ("feed-forward", 1)):
            for place, end in enumerate(ends):  # this half adds 1, the other nothing
                nn.init.zeros_(end.weight), nn.init.constant_(end.bias, place == own)
            out = module.train()(torch.zeros(40, 5, sizes.d_model))
            share = (out < out.amax(dim=2, keepdim=True) - 1e-3).float().mean().item()
            if abs(share - sizes.dropout) > 0.06:
                return (
                    f"of what the {half} adds, training must drop the share "
                    f"`sizes.dropout`, here {sizes.dropout}: yours drops {share:.1f}"
                )
        nn.init.zeros_(ends[1].bias)  # now neither adds anything: nothing to drop
        x = torch.randn(2, 5, sizes.d_model)
        evaluated, trained = (_read_and_made(module.train(t), x) for t in (False, True))
    except Exception as error:
        if "'Tensor' object is not callable" in str(error):
            return RESULT
        return ""
    if not all(map(torch.allclose, evaluated, trained)):
        return "in training, more is dropped than what each half adds"
    return ""


@torch.no_grad()
def _like_the_course(module: nn.Module, x: Tensor) -> bool:
    due = course.EncoderLayer(module.sizes_to_try).eval()
    due.load_state_dict(module.state_dict())
    return torch.allclose(module.eval()(x), due(x), atol=1e-4)


@torch.no_grad()
def _read_and_made(module: nn.Module, x: Tensor) -> list[Tensor]:
    """What the two sublayers read, and what the layer makes."""
    found = []

    def read(part: nn.Module, inputs: tuple, named: dict) -> None:
        every = [*inputs, *named.values()]
        found.extend(t for t in every if isinstance(t, Tensor) and t.dtype == x.dtype)

    parts = (module.self_attention, module.feed_forward)
    hooks = [part.register_forward_pre_hook(read, with_kwargs=True) for part in parts]
    found.append(module(x))
    for hook in hooks:
        hook.remove()
    return found


class _Halves(course.EncoderLayer):
    """A layer whose steps are wrong in one way or another."""

    def attend(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return self.residuals[0](x, lambda y: self.self_attention(y, y, y, mask))


class _NoMask(_Halves):
    def forward(self, x, mask=None):
        return super().forward(x)


class _Outside(_Halves):
    """With norm first, what the attention reads is not normalised."""

    def forward(self, x, mask=None):
        x = self.residuals[0](x, lambda y: self.self_attention(x, x, x, mask))
        return self.residuals[1](x, self.feed_forward)


class _OneResidual(_Halves):
    def forward(self, x, mask=None):
        return self.residuals[0](self.attend(x, mask), self.feed_forward)


class _FeedsFirst(_Halves):
    def forward(self, x, mask=None):
        x = self.residuals[1](x, self.feed_forward)
        return self.attend(x, mask)


class _BothOfTheInput(_Halves):
    def forward(self, x, mask=None):
        attended = self.attend(x, mask)
        return self.residuals[1](attended, lambda y: self.feed_forward(x))


encoder_layer = Exercise(
    course.EncoderLayer,
    [
        _probe(2, 3, 8, norm_first=False, praise="norm last: the course's numbers"),
        _probe(
            *(2, 5, 12),
            norm_first=True,
            dropout=0.5,
            praise="norm first, too",
            when="with norm_first=True: ",
        ),
        _probe(
            *(3, 4, 10),
            norm_first=False,
            mask=PADDED,
            dropout=0.5,
            praise="with a mask, too",
            when="with a padding mask: ",
        ),
        _probe(
            *(3, 4, 8),
            norm_first=True,
            mask=PADDED,
            when="with a padding mask and norm_first=True: ",
        ),
        _probe(1, 2, 6, norm_first=False, when="for two tokens: "),
        _probe(2, 90, 4, norm_first=True, dropout=0.1, when="for 90 tokens: "),
    ],
    {
        NO_MASK: _NoMask,
        "with norm first, the attention must read the normalised vectors, as the "
        "residual hands them to its function: `lambda y: self.self_attention(y, y, y, "
        "mask)`": _Outside,
        "both halves use the same residual, and with it the same norm: each has its "
        "own": _OneResidual,
        "the feed-forward network comes first: attention does": _FeedsFirst,
        "the feed-forward network reads the layer's input, not what its residual "
        "hands it": _BothOfTheInput,
    },
    attributes=("self_attention", "feed_forward", "residuals"),
    initial=_in_training,
    lesson="06",
)

# ------------------------------------------------------------------ 06.2 the stack


class _Blind(course.Encoder):
    def forward(self, x, mask=None):
        return super().forward(x)


class _NoNorm(course.Encoder):
    def forward(self, x, mask=None):
        for layer in self.layers:
            x = layer(x, mask)
        return x


class _OneMask(course.Encoder):
    def forward(self, x, mask=None):
        for i, layer in enumerate(self.layers):
            x = layer(x, None if i else mask)
        return self.norm(x)


class _LastAlone(course.Encoder):
    def forward(self, x, mask=None):
        for layer in self.layers:
            out = layer(x, mask)
        return self.norm(out)


class _FirstAlone(course.Encoder):
    def forward(self, x, mask=None):
        for layer in self.layers:
            return self.norm(layer(x, mask))


def _norms(module: nn.Module) -> str:
    """Whether the last norm is used more than once."""
    used, norm = [], getattr(module, "norm", None)
    if not (module.sizes_to_try.norm_first and isinstance(norm, nn.Module)):
        return ""
    hook = norm.register_forward_hook(lambda *_: used.append(True))
    try:
        module(torch.randn(2, 3, module.sizes_to_try.d_model))
    except Exception:
        return ""  # the probes say more
    finally:
        hook.remove()
    text = "the last norm runs {} times: does it stand inside the loop?"
    return text.format(len(used)) if len(used) > 1 else ""


encoder = Exercise(
    course.Encoder,
    [
        _probe(
            *(2, 3, 8),
            n_layers=2,
            norm_first=False,
            praise="two layers, norm last: the course's numbers",
        ),
        _probe(
            *(2, 5, 12),
            n_layers=3,
            norm_first=True,
            praise="three layers, norm first: the last norm is in its place",
            when="with three layers and norm_first=True: ",
        ),
        _probe(
            *(3, 4, 10),
            n_layers=2,
            norm_first=False,
            mask=PADDED,
            praise="every layer gets the mask",
            when="with a padding mask: ",
        ),
        _probe(
            *(3, 4, 8),
            n_layers=3,
            norm_first=True,
            mask=PADDED,
            when="with a padding mask, three layers and norm_first=True: ",
        ),
        _probe(1, 2, 4, n_layers=1, norm_first=True, when="for one layer: "),
    ],
    {
        NO_MASK: _Blind,
        "with norm first, the last norm is made but never used": _NoNorm,
        "the mask goes to the first layer alone: each layer needs it": _OneMask,
        "every layer reads the stack's input, so that only the last one counts: "
        "`x = layer(x, mask)`": _LastAlone,
        "the first layer alone runs: does the `return` stand inside the loop?": (
            _FirstAlone
        ),
    },
    attributes=("layers", "norm"),
    initial=_norms,
    lesson="06",
)

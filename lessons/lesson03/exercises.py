"""The exercises of lesson 03: masks, what the future changes, and packed documents."""

import math
from collections.abc import Callable
from numbers import Real

import torch
from torch import Tensor

from helpers import BOS, EOS, PAD, masks, probes
from helpers.exercise import Exercise, Probe, Wrong

OPPOSITE = "it is inverted: `True` means *may attend*, not *hidden*"
UPSIDE_DOWN = "the triangle is upside down, so that the past is hidden"
HIDDEN_QUERIES = "padded *queries* are hidden, whole rows: keys lie along the last axis"

# ------------------------------------------------------------ 03.1 the three masks

# Padding on the right, none, on the left; 1 to 3 are UNK, BOS and EOS. Three sentences
# of five tokens, so that no axis can be taken for another.
TOKENS = torch.tensor([[2, 6, 3, PAD, PAD], [2, 7, 1, 5, 3], [PAD, PAD, 2, 9, 3]])
SENTENCES = [
    Probe(TOKENS, praise="padding may stand anywhere"),
    Probe(torch.tensor([[2, 5, 1, 9, 3, 8, PAD]]), when="for one longer sentence: "),
    Probe(torch.arange(180).view(2, 90) % 60, when="for 90 tokens and ids up to 59: "),
    Probe(TOKENS.to("meta"), when="moved to another device (here “meta”): "),
]


def _changed(component: Callable, change: Callable[[Tensor], Tensor]) -> Callable:
    """The component with this change of its mask."""
    return lambda *inputs, **named: change(component(*inputs, **named))


def _joined(join: Callable[[Tensor, Tensor], Tensor]) -> Callable:
    """A decoder's mask from its two parts, joined in this way."""
    return lambda tokens: join(
        masks.padding_mask(tokens), masks.causal_mask(tokens.size(1))
    )


padding_mask = Exercise(
    masks.padding_mask,
    SENTENCES,
    {
        OPPOSITE: _changed(masks.padding_mask, torch.logical_not),
        HIDDEN_QUERIES: _changed(masks.padding_mask, lambda mask: mask.mT),
        "other special tokens are hidden, too: only PAD is padding": lambda tokens: (
            tokens > EOS
        )[:, None, None, :],
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
        OPPOSITE: _changed(masks.causal_mask, torch.logical_not),
        UPSIDE_DOWN: _changed(masks.causal_mask, lambda mask: mask.mT),
        "a token does not see itself: the diagonal belongs to it": _changed(
            masks.causal_mask, lambda mask: mask.tril(-1)
        ),
        "each token sees the next one, the very word that it is to guess": _changed(
            masks.causal_mask, lambda mask: torch.ones_like(mask).tril(1)
        ),
    },
    lesson="03",
)
decoder_mask = Exercise(
    masks.decoder_mask,
    SENTENCES,
    {
        "it shows words *or* the past: a visible key must be both": _joined(
            lambda padding, causal: padding | causal
        ),
        UPSIDE_DOWN: _joined(lambda padding, causal: padding & causal.mT),
        HIDDEN_QUERIES: _joined(lambda padding, causal: padding.mT & causal),
    },
    lesson="03",
)

# ------------------------------------------------------------ 03.2 the future


def _past_mean(x: Tensor) -> Tensor:
    """Each output is the mean of the inputs up to its place: causal."""
    return x.cumsum(dim=1) / torch.arange(1, x.size(1) + 1)[:, None]


def _mixed(seed: int) -> Callable:
    """A layer whose outputs see all inputs, each with a weight of its own."""
    weights = torch.randn(9, 9, generator=torch.Generator().manual_seed(seed))
    return lambda x: weights[: x.size(1), : x.size(1)] @ x


def _cut(
    choose: Callable = lambda ks: ks,
    read: Callable = lambda change: change.abs().max(),
    largest: Callable = lambda changes: torch.stack(changes).max().item(),
) -> Callable:
    """A wrong answer, which compares some cuts or looks at a part of the change."""

    def change(layer: Callable, x: Tensor) -> float:
        whole, ks = layer(x), range(1, x.size(1))
        return largest([read(layer(x[:, :k]) - whole[:, :k]) for k in choose(ks)])

    return change


def _number(change: object, *inputs: object) -> Tensor:
    """A number or a tensor with one, without its gradient; not finite is NaN."""
    shape = tuple(getattr(change, "shape", ()))
    if shape or not isinstance(change, Real | Tensor):
        kind = f"a tensor of shape {shape}" if shape else f"a {type(change).__name__}"
        raise Wrong(f"return one number, not {kind}")
    number = torch.as_tensor(change, dtype=torch.float32).detach()
    return number if number.isfinite() else torch.tensor(math.nan)


def _of(layer: Callable, *sizes: int, **said: str) -> Probe:
    """A layer that gives no gradients, and random inputs of these sizes."""
    x = torch.randn(sizes, generator=torch.Generator().manual_seed(sizes[1]))
    return Probe(lambda x: layer(x.detach()), x, **said)


BY_LENGTH = "for x / x.size(1), which depends on the length: "
future_change = Exercise(
    probes.future_change,
    [
        _of(_past_mean, 2, 5, 3, praise="a causal layer changes by nothing"),
        # These seeds tell mistakes apart: the largest change is at k = 5, 2 and 1.
        _of(_mixed(128), 2, 6, 4),
        _of(_mixed(454), 2, 6, 4),
        _of(_mixed(7), 2, 6, 4, praise="the largest change is found, at any k"),
        _of(lambda x: x / x.size(1), 2, 5, 3, when=BY_LENGTH),
        _of(lambda x: x.flip(1), 3, 4, when="for x of shape (batch, length): "),
        _of(
            lambda x: _past_mean(x) * (math.nan if x.size(1) == 2 else 1),
            *(2, 5, 3),
            praise="the length and NaN are seen, too",
        ),
    ],
    {
        "a leak can lower an output as well: take the `abs()` of the difference": _cut(
            read=lambda change: change.max()
        ),
        "the longest cut alone counts: keep the largest change over all k": _cut(
            choose=lambda ks: ks[-1:]
        ),
        "the first cut alone counts: does a `return` stand inside the loop?": _cut(
            choose=lambda ks: ks[:1]
        ),
        "a test must not swallow NaN, and Python's `max(0.0, nan)` is 0.0: collect the "
        "changes, and take `torch.stack(changes).max()`": _cut(
            largest=lambda changes: max(0.0, *[c.nan_to_num(0).item() for c in changes])
        ),
    },
    read=_number,
)

# ------------------------------------------------------------ 03.3, deeper: packed


def _packed(tokens: Tensor) -> Tensor:
    """Hide the future and other documents: (batch, 1, length, length)."""
    return _same((tokens == BOS).cumsum(dim=1))


def _same(document: Tensor) -> Tensor:
    """Which pairs are of the same document, by its numbers, and not in the future."""
    same = document[:, None, :, None] == document[:, None, None, :]
    return same & masks.causal_mask(document.size(1))


# Documents of several lengths, also one that is only <bos>, and a row that begins in
# the middle of a document; then a longer row, of many documents.
PACKED = torch.tensor(
    [[2, 7, 8, 3, 2, 7, 3], [2, 9, 1, 9, 9, 9, 3], [7, 3, 2, 2, 5, 3, 2]]
)
packed_mask = Exercise(
    _packed,
    [
        Probe(PACKED, praise="each token sees its own document's past, nothing else"),
        Probe(torch.arange(90)[None] % 7, when="for one row of many documents: "),
    ],
    {
        "`tokens == BOS` marks beginnings only: number the documents, by counting "
        "along the row": lambda tokens: _same(tokens == BOS),
        "a document ends after its <eos>, not before it: a new one begins with <bos>": (
            lambda tokens: _same((tokens == EOS).cumsum(dim=1))
        ),
    },
)

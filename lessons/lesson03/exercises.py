"""The exercises of lesson 03: masks, what the future changes, and two rules more."""

import math
from collections.abc import Callable
from numbers import Real

import torch
from matplotlib import pyplot as plt
from torch import Tensor

from helpers import BOS, EOS, PAD, masks, probes
from helpers.exercise import Exercise, Probe, Wrong

OPPOSITE = "it is inverted: `True` means *may attend*, not *hidden*"
ITSELF = "a token does not see itself: the diagonal belongs to it"
UPSIDE_DOWN = "the triangle is upside down, so that the past is hidden"
TOO_FAR = "each token sees the next one, the very word that it is to guess"

# ------------------------------------------------------------ 03.1 the three masks

# Padding on the right, none, on the left; 1 to 3 are UNK, BOS and EOS. Three sentences
# of five tokens, so that no axis can be taken for another.
TOKENS = torch.tensor([[2, 6, 3, PAD, PAD], [2, 7, 1, 5, 3], [PAD, PAD, 2, 9, 3]])


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
HIDDEN_QUERIES = "padded *queries* are hidden, whole rows: keys lie along the last axis"
QUERIES_TOO = "padded queries are hidden as well: hide keys only, the last axis"
padding_mask = Exercise(
    masks.padding_mask,
    SENTENCES,
    {
        OPPOSITE: lambda tokens: ~masks.padding_mask(tokens),
        HIDDEN_QUERIES: lambda tokens: masks.padding_mask(tokens).mT,
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
        UPSIDE_DOWN: lambda tokens: (
            masks.padding_mask(tokens) & masks.causal_mask(tokens.size(1)).mT
        ),
        HIDDEN_QUERIES: lambda tokens: (
            masks.padding_mask(tokens).mT & masks.causal_mask(tokens.size(1))
        ),
        QUERIES_TOO: lambda tokens: (
            masks.decoder_mask(tokens) & masks.padding_mask(tokens).mT
        ),
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


def _counting(x: Tensor) -> Tensor:
    """Each output depends on how many inputs there are."""
    return x / x.size(1)


def _nan_at_two(x: Tensor) -> Tensor:
    """Causal, but no number for two inputs."""
    return _past_mean(x) * (math.nan if x.size(1) == 2 else 1)


def _cut(
    choose: Callable = range,
    read: Callable = lambda d: d.abs().max(),
    largest: Callable = lambda changes: torch.stack(changes).max().item(),
) -> Callable:
    """A wrong answer, which compares some cuts or looks at a part of the difference."""

    def change(layer: Callable, x: Tensor) -> float:
        whole, length = layer(x), x.size(1)
        cuts = choose(1, length)
        return largest([read(layer(x[:, :k]) - whole[:, :k]) for k in cuts])

    return change


def _set_to_zero(layer: Callable, x: Tensor) -> float:
    """What comes later is still there, as zeros."""
    whole, places = layer(x), torch.arange(x.size(1))
    later = [(places >= k).view(-1, *[1] * (x.dim() - 2)) for k in places[1:]]
    changes = [layer(x.masked_fill(hidden, 0)) - whole for hidden in later]
    parts = [change[:, : k + 1] for k, change in enumerate(changes)]
    return torch.stack([part.abs().max() for part in parts]).max().item()


def _number(change: object, *inputs: object) -> Tensor:
    """A number or a tensor with one, without its gradient; not finite is NaN."""
    number = change.detach() if isinstance(change, Tensor) else change
    if shape := tuple(getattr(number, "shape", ())):
        raise Wrong(f"return one number, not a tensor of shape {shape}")
    if not isinstance(number, Real | Tensor):
        raise Wrong(f"return one number, not a {type(number).__name__}")
    number = torch.as_tensor(number, dtype=torch.float32)
    return number if number.isfinite() else torch.tensor(math.nan)


def _of(layer: Callable, *sizes: int, **said: str) -> Probe:
    """A layer that gives no gradients, and random inputs of these sizes."""
    x = torch.randn(sizes, generator=torch.Generator().manual_seed(sizes[1]))
    return Probe(lambda x: layer(x.detach()), x, **said)


future_change = Exercise(
    probes.future_change,
    [
        _of(_past_mean, 2, 5, 3, praise="a causal layer changes by nothing"),
        # These seeds tell mistakes apart: the largest change is at k = 5, 2 and 1.
        _of(_mixed(128), 2, 6, 4),
        _of(_mixed(454), 2, 6, 4),
        _of(_mixed(7), 2, 6, 4, praise="the largest change is found, at any k"),
        _of(
            _counting, 2, 5, 3, when="for x / x.size(1), which depends on the length: "
        ),
        _of(lambda x: x.flip(1), 3, 4, when="for x of shape (batch, length): "),
        _of(_nan_at_two, 2, 5, 3, praise="the length and NaN are seen, too"),
    ],
    {
        "a leak can lower an output as well: take the `abs()` of the difference": _cut(
            read=lambda difference: difference.max()
        ),
        "the longest cut alone counts: keep the largest change over all k": _cut(
            lambda start, stop: [stop - 1]
        ),
        "the first cut alone counts: does a `return` stand inside the loop?": _cut(
            lambda start, stop: [1]
        ),
        "the longest cut is missing: k goes up to length - 1, and `range` stops before "
        "its end": _cut(lambda start, stop: range(1, stop - 1)),
        "the mean change is no largest change: a small leak drowns in it": _cut(
            read=lambda difference: difference.abs().mean()
        ),
        "the last output of each cut is not all of it: compare with `[:, :k]`": _cut(
            read=lambda difference: difference[:, -1].abs().max()
        ),
        "cut off what comes later: zeros in its place still count, as for the layer "
        "x / x.size(1)": _set_to_zero,
        "a test must not swallow NaN, and Python's `max(0.0, nan)` is 0.0: collect the "
        "changes, and take `torch.stack(changes).max()`": _cut(
            largest=lambda changes: max(
                0.0, *[c.nan_to_num(0.0).item() for c in changes]
            )
        ),
    },
    read=_number,
)

# ------------------------------------------------------------ 03.3, deeper: packed


def _two_masks(yours: Tensor, due: Tensor) -> None:
    """Draw the first masks that differ, the learner's beside that expected."""
    place = (yours != due).flatten(1).any(dim=1).nonzero()[0].item()
    _, axes = plt.subplots(1, 2, figsize=(5.6, 2.8), layout="constrained")
    for ax, mask, title in zip(axes, (yours, due), ("yours", "expected"), strict=True):
        ax.imshow(mask[place, 0].int().numpy(), cmap="cividis", vmin=0, vmax=1)
        ax.set(title=title, xlabel="key", ylabel="query", xticks=[], yticks=[])
    plt.show()


def _packed(tokens: Tensor) -> Tensor:
    """Hide the future and other documents: (batch, 1, length, length)."""
    return _same((tokens == BOS).cumsum(dim=1))


def _same(document: Tensor, compare: Callable = torch.eq) -> Tensor:
    """Which pairs are of the same document, by its numbers, and not in the future."""
    same = compare(document[:, None, :, None], document[:, None, None, :])
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
        OPPOSITE: lambda tokens: ~_packed(tokens),
        "the future is not hidden: documents are packed for a decoder": lambda tokens: (
            _packed(tokens) | _packed(tokens).mT
        ),
        "earlier documents are not hidden": lambda tokens: masks.causal_mask(
            tokens.size(1)
        ).expand(len(tokens), -1, -1, -1),
        ITSELF: lambda tokens: _packed(tokens).tril(-1),
        "`tokens == BOS` marks beginnings only: number the documents, by counting "
        "along the row": lambda tokens: _same(tokens == BOS),
        "the documents are counted down the batch: count along each row": (
            lambda tokens: _same((tokens == BOS).cumsum(dim=0))
        ),
        "a document ends after its <eos>, not before it: a new one begins with <bos>": (
            lambda tokens: _same((tokens == EOS).cumsum(dim=1))
        ),
        "a row may begin in the middle of a document: its tokens see each other": (
            lambda tokens: (
                _packed(tokens) & ((tokens == BOS).cumsum(dim=1) > 0)[:, None, None, :]
            )
        ),
    },
    picture=_two_masks,
)

# ------------------------------------------------------------ 03.4, deeper: PyTorch


def _from_pytorch(key_padding_mask: Tensor, attn_mask: Tensor) -> Tensor:
    """The one mask of the course that hides what PyTorch's two hide together."""
    if attn_mask.dtype != torch.bool:
        attn_mask = attn_mask < 0
    return ~(key_padding_mask[:, None, None, :] | attn_mask)


def _as_booleans(change: Callable[[Tensor, Tensor], Tensor]) -> Callable:
    """A wrong answer, of the keys' padding (four axes) and the other as booleans."""

    def answer(key_padding_mask: Tensor, attn_mask: Tensor) -> Tensor:
        floats = attn_mask.dtype != torch.bool
        hidden = attn_mask < 0 if floats else attn_mask
        mask = change(key_padding_mask[:, None, None, :], hidden)
        return mask.expand(len(mask), 1, len(hidden), len(hidden))

    return answer


def _floats(hidden: Tensor) -> Tensor:
    """The same mask as floats, which are added to the scores."""
    return torch.zeros(hidden.shape).masked_fill(hidden, -math.inf)


PADDED, FUTURE = TOKENS == PAD, ~masks.causal_mask(5)[0, 0]
NOT_CAUSAL = torch.ones(8, 8).triu(2).bool() | torch.eye(8)[1].diag().bool()
LONGER = torch.tensor([[2, 5, PAD, 6, 7, 3, PAD, PAD]]) == PAD
from_pytorch = Exercise(
    _from_pytorch,
    [
        Probe(PADDED, FUTURE, praise="hidden is what one of the two masks hides"),
        Probe(LONGER, NOT_CAUSAL, when="with an attn_mask that is not causal: "),
        Probe(PADDED, _floats(FUTURE), when="with an attn_mask of floats, 0 and -∞: "),
        Probe(
            *(LONGER, _floats(NOT_CAUSAL).double()),
            when="with floats (float64) that are not causal: ",
            praise="an attn_mask of floats is read rightly, too",
        ),
    ],
    {
        "it is inverted: PyTorch's `True` means *hidden*, ours *may attend*": (
            _as_booleans(lambda padded, hidden: padded | hidden)
        ),
        "it hides only what both masks hide: one of them is enough": (
            _as_booleans(lambda padded, hidden: ~(padded & hidden))
        ),
        "only the key_padding_mask is inverted: both hold True = hidden": (
            _as_booleans(lambda padded, hidden: ~padded & hidden)
        ),
        "only the attn_mask is inverted: both hold True = hidden": (
            _as_booleans(lambda padded, hidden: padded & ~hidden)
        ),
        "the key_padding_mask has no effect": (
            _as_booleans(lambda padded, hidden: ~hidden & (padded | ~padded))
        ),
        "the attn_mask has no effect": _as_booleans(lambda padded, hidden: ~padded),
        "padded *queries* are hidden: the key_padding_mask is about keys": (
            _as_booleans(lambda padded, hidden: ~(padded.mT | hidden))
        ),
        "the floats are read the other way round: 0 = may attend and -∞ = hidden": (
            lambda key_padding_mask, attn_mask: _from_pytorch(
                key_padding_mask,
                attn_mask if attn_mask.dtype == torch.bool else attn_mask == 0,
            )
        ),
    },
    picture=_two_masks,
)

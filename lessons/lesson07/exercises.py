"""The exercises of lesson 07: the decoder's layer, the stack, and the writer."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from helpers import BOS, EOS, PAD, UNK
from helpers import decoder as course
from helpers.exercise import Exercise, Probe
from helpers.in_training import InTraining
from helpers.layers import LayerSizes
from helpers.masks import decoder_mask, padding_mask
from lessons.lesson07.writer import greedy_decode as written_greedily

SHARE = 0.25
SUBLAYERS = ["self_attention", "cross_attention", "feed_forward"]

# ------------------------------------------------------------------ 07.1 the decoder


def _probe(
    batch: int,
    target: int,
    source: int,
    *,
    n_layers: int = 0,
    norm_first: bool = False,
    masks: str = "both",
    training: bool = False,
    **said,
) -> Probe:
    """x and memory, random, of these lengths, and masks with padding at the ends.

    For a layer, or for a stack of n_layers. `masks` are "both", "neither", "target" or
    "source"; the others are None.
    """
    chance = torch.Generator().manual_seed(10 * target + source)
    x = torch.randn(batch, target, 12, generator=chance)
    memory = 2 * torch.randn(batch, source, 12, generator=chance)
    short = torch.arange(batch)[:, None]  # row i of the source has i places of padding
    ids, words = (
        (torch.arange(length) < (length - padding).clamp(min=1)).long() * 5
        for length, padding in ((source, short), (target, short.flip(0)))
    )
    mask = decoder_mask(words) if masks in ("both", "target") else None
    memory_mask = padding_mask(ids) if masks in ("both", "source") else None
    shape = {"d_model": 12, "n_heads": 3, "d_ff": 20}
    sizes = LayerSizes(**shape, dropout=SHARE, norm_first=norm_first)

    def build(made: type) -> nn.Module:
        module = made(n_layers, sizes) if n_layers else made(sizes)
        return InTraining(module, SUBLAYERS, SHARE) if training else module

    given = x, memory, mask, memory_mask
    return Probe(*given, build=build, training=training, **said)


def _layer(forward: Callable) -> type:
    """A DecoderLayer with this `forward`."""
    return type("Wrong", (course.DecoderLayer,), {"forward": forward})


def _masked(change: Callable) -> type:
    """A DecoderLayer with the two masks that `change` makes of its own."""

    def forward(self, x, memory, mask=None, memory_mask=None):
        masks = change(mask, memory_mask)
        return course.DecoderLayer.forward(self, x, memory, *masks)

    return _layer(forward)


def _asked_by_the_memory(self, x, memory, mask=None, memory_mask=None):
    x = self.residuals[0](x, lambda y: self.self_attention(y, y, y, mask))
    x = self.residuals[1](x, lambda y: self.cross_attention(memory, y, y, memory_mask))
    return self.residuals[2](x, self.feed_forward)


decoder_layer = Exercise(
    course.DecoderLayer,
    [
        _probe(2, 5, 3, masks="neither", praise="without masks: the course's numbers"),
        _probe(2, 4, 4, masks="neither", alike=True),
        _probe(
            *(3, 4, 6),
            norm_first=True,
            masks="neither",
            praise="with the norm first, too",
            when="with the norm first: ",
        ),
        _probe(3, 7, 1, masks="target", when="with `mask` alone: "),
        _probe(2, 6, 3, masks="source", when="with `memory_mask` alone: "),
        _probe(2, 5, 3, praise="with masks, too", when="with both masks: "),
        _probe(
            *(20, 5, 3),
            training=True,
            praise="in training, dropout falls on what each sublayer adds",
            when="in training: ",
        ),
    ],
    {
        "the masks are swapped: `mask` is the self-attention's, `memory_mask` the "
        "cross-attention's": _masked(lambda own, across: (across, own)),
        "`mask` changes nothing: it is for the self-attention": _masked(
            lambda own, across: (None, across)
        ),
        "`memory_mask` changes nothing: it is for the cross-attention": _masked(
            lambda own, across: (own, None)
        ),
        "the cross-attention's query is the memory: the query comes from the target, "
        "keys and values from the memory": _layer(_asked_by_the_memory),
    },
    lesson="07",
)


def _stack(forward: Callable) -> type:
    """A Decoder with this `forward(self, x, *others)`: memory and masks."""
    return type("Wrong", (course.Decoder,), {"forward": forward})


def _norm_each_time(self, x, *others):
    for layer in self.layers:
        x = self.norm(layer(x, *others))
    return x


decoder = Exercise(
    course.Decoder,
    [
        _probe(2, 4, 3, n_layers=1, masks="neither", praise="one layer, without masks"),
        _probe(2, 5, 3, n_layers=2, praise="two, with masks", when="with masks: "),
        _probe(
            *(3, 4, 6),
            n_layers=3,
            norm_first=True,
            praise="three, with the norm first",
            when="with three layers, and the norm first: ",
        ),
        _probe(20, 5, 3, n_layers=2, training=True, when="in training: "),
    ],
    {
        "the norm works after each layer: it comes once, at the end": _stack(
            _norm_each_time
        ),
        "each layer reads the stack's input: it reads what the layer before gives": (
            _stack(lambda self, x, *others: self.norm(self.layers[-1](x, *others)))
        ),
        "the first layer alone runs: does the `return` stand inside the loop?": _stack(
            lambda self, x, *others: self.norm(self.layers[0](x, *others))
        ),
    },
    lesson="07",
)

# ------------------------------------------------------------------ 07.2 the writer


class Scripted(nn.Module):
    """A stand-in for a model: it goes on with a script as long as it is followed.

    Each source has a row of tokens to write. Where what was written differs from BOS
    and these tokens, LOST comes next. A state is a logit with the other sign.
    """

    LOST, SIZE = 4, 30

    def __init__(self, scripts: Tensor):
        super().__init__()
        self.scripts = scripts

    def encode(self, source: Tensor) -> Tensor:
        """source (batch, source_length) -> memory (batch, source_length, 1)."""
        return source[..., None] / 2

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """States (batch, target_length, SIZE)."""
        if (target.dim(), memory.dim()) != (2, 3) or len(target) != len(source):
            raise ValueError("decode reads ids (batch, length), memory and source")
        scripts = self.scripts[(2 * memory[:, 0, 0]).long() - 4]
        due = torch.cat([torch.full_like(scripts[:, :1], BOS), scripts], dim=1)
        length = target.size(1)
        followed = (target == due[:, :length]).long().cumprod(dim=1).bool()
        best = torch.where(followed, due[:, 1 : length + 1], self.LOST)
        chance = torch.Generator().manual_seed(length)
        states = -torch.rand(*target.shape, self.SIZE, generator=chance)
        return states.scatter(2, best[..., None], -1.01)

    def project(self, states: Tensor) -> Tensor:
        """States (…, SIZE) -> logits of the same shape."""
        return -states


def _script(*lengths: int, most: int, **said: str) -> Probe:
    """Rows of so many words; a script may hold UNK, and goes on behind its EOS."""
    chance = torch.Generator().manual_seed(sum(lengths))
    scripts = torch.randint(6, 30, (len(lengths), 20), generator=chance)
    for row, length in zip(scripts, lengths, strict=True):
        row[length // 2] = UNK
        row[length] = row[length + 2] = EOS
    source = torch.randint(4, 14, (len(lengths), 3), generator=chance)
    source[:, 0] = 4 + torch.arange(len(lengths))
    return Probe(Scripted(scripts), source, max_length=most, **said)


def _wrong(
    model: nn.Module,
    source: Tensor,
    *,
    max_length: int,
    window: int = 20,
    first: int = 1,
    filled: bool = True,
    end: int = EOS,
    early: bool = False,
) -> Tensor:
    """The writer, and with other options what is wrong with it."""
    memory = model.encode(source)
    written = torch.full((len(source), 1), BOS)
    finished = torch.zeros(len(source), dtype=torch.bool)
    for _ in range(max_length):
        states = model.decode(written[:, -window:], memory, source)
        token = model.project(states[:, -1]).argmax(dim=-1)
        ends = token == EOS
        if filled:
            token = token.masked_fill(finished, PAD)
        token = token.masked_fill(ends & ~finished, end)
        written = torch.cat([written, token[:, None]], dim=1)
        finished = finished | ends
        if finished.any() if early else finished.all():
            break
    return written[:, first:]


greedy_decode = Exercise(
    written_greedily.__wrapped__,
    [
        _script(5, 2, 7, most=12, praise="each row, up to its EOS"),
        _script(1, 3, most=9, when="with two rows: "),
        _script(4, most=9, praise="a single row", when="with a single row: "),
        _script(
            *(6, 2, 9, 3),
            most=6,
            praise="it stops after `max_length` tokens",
            when="where max_length ends it: ",
        ),
    ],
    {
        "`decode` gets the newest token alone: it wants all from BOS on": partial(
            _wrong, window=1
        ),
        "behind its EOS, a row goes on: fill it with PAD": partial(
            _wrong, filled=False
        ),
        "the EOS itself is missing: fill with PAD only what comes behind it": partial(
            _wrong, end=PAD
        ),
        "BOS still stands in front: return `written[:, 1:]`": partial(_wrong, first=0),
        "it stops when one row has its EOS: wait until all have": partial(
            _wrong, early=True
        ),
    },
    lesson="07",
)

"""The exercises of lesson 07: the decoder's layer, the stack, and the writer."""

import copy
from functools import partial

import torch
from torch import Tensor, nn

from helpers import BOS, EOS, PAD, UNK
from helpers import decoder as course
from helpers.exercise import Exercise, Probe
from helpers.layers import LayerSizes
from helpers.masks import decoder_mask, padding_mask
from lessons.lesson07.writer import greedy_decode as written_greedily

# ------------------------------------------------------------------ 07.1 the decoder


def _sizes(norm_first: bool, dropout: float = 0.25) -> LayerSizes:
    return LayerSizes(
        d_model=12, n_heads=3, d_ff=20, dropout=dropout, norm_first=norm_first
    )


def _probe(
    batch: int,
    target: int,
    source: int,
    *,
    build,
    norm_first: bool = False,
    masks: str = "both",
    **said,
) -> Probe:
    """x and memory, random, of these lengths, and masks with padding at the ends.

    `masks` are "both", "neither", "target" or "source"; the others are None.
    """
    chance = torch.Generator().manual_seed(10 * target + source)
    x = torch.randn(batch, target, 12, generator=chance)
    memory = 2 * torch.randn(batch, source, 12, generator=chance)
    short = torch.arange(batch)[:, None]  # row i of the source has i places of padding
    ids, words = (
        (torch.arange(length) < (length - padding).clamp(min=1)).long() * 5
        for length, padding in ((source, short), (target, short.flip(0)))
    )
    given = {
        "mask": decoder_mask(words) if masks in ("both", "target") else None,
        "memory_mask": padding_mask(ids) if masks in ("both", "source") else None,
    }
    sizes = _sizes(norm_first, dropout=0.5 if norm_first else 0.25)

    def made(component: type) -> nn.Module:
        module = build(sizes, component)
        module.sizes_to_try = sizes
        return module

    return Probe(x, memory, *given.values(), build=made, **said)


def _use_of_masks(module: nn.Module) -> str:
    """Whether each mask changes what comes out."""
    x, memory = torch.randn(2, 5, 12), torch.randn(2, 3, 12)
    own = decoder_mask(torch.full((2, 5), 5))
    across = padding_mask(torch.tensor([[5, 5, 0], [5, 0, 0]]))
    module.eval()
    try:
        with_both = module(x, memory, own, across)
        unread = [
            torch.equal(with_both, module(x, memory, *given))
            for given in ((None, across), (own, None))
        ]
    except Exception:  # the probes say more
        return ""
    if all(unread):
        return (
            "neither mask changes anything: `mask` is for the self-attention, "
            "`memory_mask` for the cross-attention"
        )
    for which, name, part in zip(
        unread, ("mask", "memory_mask"), ("self", "cross"), strict=True
    ):
        if which:
            return f"`{name}` changes nothing: it is for the {part}-attention"
    return ""


def _dropout(layer: nn.Module, sizes: LayerSizes) -> str:
    """Whether each sublayer counts, and drops the share that the sizes ask for."""
    x, memory = torch.zeros(80, 5, 12), torch.randn(80, 3, 12)
    layer = copy.deepcopy(layer).train()
    try:
        ends = {
            "self_attention": layer.self_attention.output_projection,
            "cross_attention": layer.cross_attention.output_projection,
            "feed_forward": layer.feed_forward.contract,
        }
        for residual in layer.residuals:  # a norm would hide what is dropped
            residual.norm = nn.Identity()
        for own in ends:
            with torch.no_grad():  # this sublayer adds 1, the others nothing
                for name, end in ends.items():
                    end.weight.zero_(), end.bias.fill_(float(name == own))
                added = layer(x, memory)
            kept = added[added.abs() > 1e-6]
            if not kept.numel():
                return (
                    f"nothing of `{own}` reaches the result: each sublayer must run, "
                    "in a residual of its own"
                )
            share = 1 - kept.numel() / added.numel()
            once = (kept - kept[0]).abs().max() < 1e-3
            if once and abs(share - sizes.dropout) > 0.04:
                return (
                    f"of what `{own}` adds, training must drop the share "
                    f"`sizes.dropout`, here {sizes.dropout}: yours drops {share:.2f}"
                )
    except Exception:  # the probes say more
        return ""
    return ""


def _fresh_layer(layer: nn.Module) -> str:
    return _dropout(layer, layer.sizes_to_try) or _use_of_masks(layer)


def _fresh_stack(stack: nn.Module) -> str:
    found = (_dropout(layer, stack.sizes_to_try) for layer in stack.layers)
    return next(filter(None, found), "") or _use_of_masks(stack)


class _Layer(course.DecoderLayer):
    """A decoder layer whose three steps may be wrong."""

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> Tensor:
        self.given = memory, mask, memory_mask
        for step in self.steps():
            x = step(x)
        return x

    def steps(self) -> tuple:
        return self.own, self.across, self.feed

    def own(self, x: Tensor) -> Tensor:
        mask = self.given[1]
        return self.residuals[0](x, lambda y: self.self_attention(y, y, y, mask))

    def across(self, x: Tensor) -> Tensor:
        memory, _, mask = self.given
        return self.residuals[1](
            x, lambda y: self.cross_attention(y, memory, memory, mask)
        )

    def feed(self, x: Tensor) -> Tensor:
        return self.residuals[2](x, self.feed_forward)


class _Swapped(_Layer):
    def forward(self, x, memory, mask=None, memory_mask=None):
        return super().forward(x, memory, memory_mask, mask)


class _AcrossFirst(_Layer):
    def steps(self) -> tuple:
        return self.across, self.own, self.feed


class _PastTheNorm(_Layer):
    def own(self, x: Tensor) -> Tensor:
        mask = self.given[1]
        return self.residuals[0](x, lambda y: self.self_attention(x, x, x, mask))

    def across(self, x: Tensor) -> Tensor:
        memory, _, mask = self.given
        return self.residuals[1](
            x, lambda y: self.cross_attention(x, memory, memory, mask)
        )


class _AskedByTheMemory(_Layer):
    def across(self, x: Tensor) -> Tensor:
        memory, _, mask = self.given
        return self.residuals[1](x, lambda y: self.cross_attention(memory, y, y, mask))


class _OneResidual(_Layer):
    def forward(self, x, memory, mask=None, memory_mask=None):
        residual = self.residuals[0]
        x = residual(x, lambda y: self.self_attention(y, y, y, mask))
        x = residual(x, lambda y: self.cross_attention(y, memory, memory, memory_mask))
        return residual(x, self.feed_forward)


_of_a_layer = partial(_probe, build=lambda sizes, made: made(sizes))
decoder_layer = Exercise(
    course.DecoderLayer,
    [
        _of_a_layer(2, 5, 3, praise="the course's numbers, with the norm last"),
        _of_a_layer(2, 4, 4, alike=True),
        _of_a_layer(
            *(3, 4, 6),
            norm_first=True,
            praise="with the norm first, too",
            when="with the norm first: ",
        ),
        _of_a_layer(1, 1, 6, when="with a target of one token: "),
        _of_a_layer(2, 4, 3, masks="neither", when="where both masks are None: "),
        _of_a_layer(2, 6, 3, masks="source", when="where `mask` is None: "),
        _of_a_layer(
            *(3, 7, 1),
            masks="target",
            praise="masks may be None",
            when="where `memory_mask` is None: ",
        ),
    ],
    {
        "the masks are swapped: `mask` is the self-attention's, `memory_mask` the "
        "cross-attention's": _Swapped,
        "the cross-attention comes before the self-attention": _AcrossFirst,
        "the attentions read x itself: with the norm first, a residual hands its "
        "sublayer the normalised x; use the argument of your function": _PastTheNorm,
        "the cross-attention's query is the memory: the query comes from the target, "
        "keys and values from the memory": _AskedByTheMemory,
        "all three sublayers use the same residual, and with it the same norm: each "
        "has its own": _OneResidual,
    },
    initial=_fresh_layer,
    lesson="07",
)


class _NormEachTime(course.Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        for layer in self.layers:
            x = self.norm(layer(x, memory, mask, memory_mask))
        return x


class _NormOnceMore(_NormEachTime):
    def forward(self, x, memory, mask=None, memory_mask=None):
        return self.norm(super().forward(x, memory, mask, memory_mask))


class _NormForgotten(course.Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
        return x


class _LastLayerAlone(course.Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        return self.norm(self.layers[-1](x, memory, mask, memory_mask))


class _FirstLayerAlone(course.Decoder):
    def forward(self, x, memory, mask=None, memory_mask=None):
        return self.norm(self.layers[0](x, memory, mask, memory_mask))


def _of_a_stack(layers: int, *sizes: int, **said) -> Probe:
    return _probe(*sizes, build=lambda sizes, made: made(layers, sizes), **said)


decoder = Exercise(
    course.Decoder,
    [
        _of_a_stack(2, 2, 5, 3, praise="a stack of two layers, with the norm last"),
        _of_a_stack(
            *(3, 3, 4, 6),
            norm_first=True,
            praise="of three, with the norm first",
            when="with three layers, and the norm first: ",
        ),
        _of_a_stack(1, 2, 4, 3, masks="neither", when="without masks: "),
    ],
    {
        "the norm works after each layer: it comes once, at the end": _NormEachTime,
        "the norm works after each layer, and again at the end: it comes once, at the "
        "end": _NormOnceMore,
        "the norm at the end is made, but not used": _NormForgotten,
        "each layer reads the stack's input: it reads what the layer before gives": (
            _LastLayerAlone
        ),
        "the first layer alone runs: does the `return` stand inside the loop?": (
            _FirstLayerAlone
        ),
    },
    initial=_fresh_stack,
    lesson="07",
)

# ------------------------------------------------------------------ 07.2 the writer


class Scripted(nn.Module):
    """A stand-in for a model: it goes on with a script as long as it is followed.

    Each source has a row of tokens to write. Where what was written differs from BOS
    and these tokens, LOST comes next; UNBEGUN without BOS. A logit stands 3 places
    further than the state that it is made of.
    """

    LOST, UNBEGUN, SIZE = 4, 5, 30

    def __init__(self, scripts: Tensor):
        super().__init__()
        self.scripts = scripts

    def encode(self, source: Tensor) -> Tensor:
        """source (batch, source_length) -> memory (batch, source_length, 1)."""
        return source[..., None] / 2

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """States (batch, target_length, SIZE)."""
        if target.is_floating_point() or target.dim() != 2:
            raise ValueError("target holds ids, (batch, length)")
        if memory.dim() != 3 or memory.shape[:2] != source.shape:
            raise ValueError("memory is what `encode` gives for this source")
        if len(target) != len(source):
            raise ValueError(f"{len(target)} targets, and {len(source)} sources")
        batch, length = target.shape
        scripts = self.scripts[(2 * memory[:, 0, 0]).long() - 4]
        start = torch.full((batch, 1), BOS)
        due = torch.cat([start, scripts, 0 * target, 0 * start], dim=1)
        followed = (target == due[:, :length]).long().cumprod(dim=1).bool()
        lost = torch.where(target[:, :1] == BOS, self.LOST, self.UNBEGUN)
        best = torch.where(followed, due[:, 1 : length + 1], lost)
        chance = torch.Generator().manual_seed(length)
        states = torch.rand(batch, length, self.SIZE, generator=chance)
        states = states.scatter(2, best[..., None], 1.01)
        return states.roll(-3, dims=2)

    def project(self, states: Tensor) -> Tensor:
        """States (…, SIZE) -> logits of the same shape."""
        return states.roll(3, dims=-1)


def _script(*lengths: int, most: int, **said: str) -> Probe:
    """Rows of so many words; a script may hold UNK, and goes on behind its EOS."""
    chance = torch.Generator().manual_seed(sum(lengths))
    longest = max(lengths) + 6
    scripts = torch.randint(6, 30, (len(lengths), longest), generator=chance)
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
    window: int | None = None,
    skip: int = 1,
    filled: bool = True,
    end: int = EOS,
    stop: str = "all",
) -> Tensor:
    """The writer, and with other options what is wrong with it."""
    memory = model.encode(source)
    written = torch.full((len(source), 1), BOS)
    finished = torch.zeros(len(source), dtype=torch.bool)
    for _ in range(max_length):
        read = written if window is None else written[:, -window:]
        states = model.decode(read, memory, source)
        token = model.project(states[:, -1]).argmax(dim=-1)
        ends = token == EOS
        if filled:
            token = token.masked_fill(finished, PAD)
        token = token.masked_fill(ends & ~finished, end)
        written = torch.cat([written, token[:, None]], dim=1)
        finished = finished | ends
        if {"any": finished.any(), "all": finished.all(), "now": ends.all()}.get(stop):
            break
    return written[:, skip:]


def _one_less(model: nn.Module, source: Tensor, *, max_length: int) -> Tensor:
    return _wrong(model, source, max_length=max_length - 1)


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
        "behind its EOS, a row goes on, and the loop waits until all rows say EOS in "
        "the same step: remember which rows have finished": partial(
            _wrong, filled=False, stop="now"
        ),
        "the EOS itself is missing: fill with PAD only what comes behind it": partial(
            _wrong, end=PAD
        ),
        "BOS still stands in front: return `written[:, 1:]`": partial(_wrong, skip=0),
        "it stops when one row has its EOS: wait until all have": partial(
            _wrong, stop="any"
        ),
        "it goes on when every row has its EOS: stop there": partial(_wrong, stop=""),
        "one token too few: BOS does not count": _one_less,
    },
    lesson="07",
)

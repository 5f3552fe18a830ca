"""The exercises of lesson 11: a decoder layer's step with a cache, and beam search."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from helpers import BOS, EOS, PAD, caching
from helpers.caching import AttentionCache
from helpers.decoder import DecoderLayer
from helpers.exercise import Exercise, Outcome, Probe, Wrong, differs
from helpers.layers import LayerSizes
from lessons.lesson11 import search

# ------------------------------------------------------------ 11.1 a step with a cache


def _step(
    heads_of: tuple[int, int], batch: int, known: int, hidden: int | None, **said: Any
) -> Probe:
    """A layer of (heads, d_head), so many tokens known, and a source of five tokens.

    Of the first source, the last `hidden` tokens are padding; None: there is no mask.
    """
    heads, d_head = heads_of
    d_model = heads * d_head
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(heads + known)
        widths = {"d_model": d_model, "n_heads": heads, "d_ff": 2 * d_model}
        sizes = LayerSizes(**widths, dropout=0.0, norm_first=heads % 2 == 0)
        layer = DecoderLayer(sizes).eval()
        for parameter in layer.parameters():
            nn.init.normal_(parameter, std=d_model**-0.5)
        before, memory = (torch.randn(batch, n, d_model) for n in (known, 5))
        x = torch.randn(batch, 1, d_model)
        past = AttentionCache()
        if known:
            past.extend(*layer.self_attention.project(before, before))
        source = AttentionCache(*layer.cross_attention.project(memory, memory))
    mask = torch.ones(batch, 1, 1, 5, dtype=torch.bool)
    if hidden:
        mask[0, ..., -hidden:] = False
    return Probe(layer, x, past, source, None if hidden is None else mask, **said)


def _with_caches(
    output: Any, layer: nn.Module, x: Tensor, past: Any, source: Any, *mask: Any
) -> tuple:
    """The output and what both caches hold, without gradients: nothing is trained."""
    kept = [past.keys, past.values, source.keys, source.values, output]
    return tuple(x.detach() if isinstance(x, Tensor) else x for x in kept)


class _Step(Exercise):
    """An exercise that says which cache is wrong, and only then that the output is."""

    def _described(self, yours: Outcome, due: Outcome) -> str:
        names = "past.keys", "past.values", "source.keys", "source.values"
        names = (*(f"after the step, `{name}`" for name in names), "the result")
        both = zip(names, yours.output, due.output, strict=True)
        found = ((name, differs(one, other)) for name, one, other in both)
        return next(f"{name} {text}" for name, text in found if text)


def _wrong_step(
    layer: nn.Module,
    x: Tensor,
    past: AttentionCache,
    source: AttentionCache,
    memory_mask: Tensor | None = None,
    *,
    alone: bool = False,
    behind: bool = False,
    raw: bool = False,
    masked: bool = True,
    grows: bool = False,
    bare: bool = False,
) -> Tensor:
    """A step, and with other options what is wrong with it."""

    def look_back(y: Tensor) -> Tensor:
        attention, z = layer.self_attention, x if raw else y
        new = attention.project(z, z)
        old = past.keys, past.values
        heads = past.extend(*new)
        if alone:
            heads = new
        if behind and old[0] is not None:
            heads = old
        return attention.attend(y, *heads)

    def look_at_source(y: Tensor) -> Tensor:
        attention = layer.cross_attention
        if grows:
            source.extend(*attention.project(y, y))
        mask = memory_mask if masked else None
        return attention.attend(y, source.keys, source.values, mask)

    parts = [look_back, look_at_source, layer.feed_forward]
    for part, around in zip(parts, layer.residuals, strict=True):
        x = x + part(x) if bare else around(x, part)
    return x


layer_step = _Step(
    caching.layer_step,
    [
        _step((2, 4), 3, 4, None, praise="a step after four tokens, norm first"),
        _step((3, 2), 2, 6, 2, praise="a step after six, norm last, the source padded"),
        _step(
            *((4, 3), 2, 0, 1),
            praise="the first step; both caches hold what they should",
            when="at the first step, where `past` is empty: ",
        ),
    ],
    {
        "the new token sees itself alone: attend to all keys and values that "
        "`past.extend` returns": partial(_wrong_step, alone=True),
        "the new token does not see itself: extend `past` first, then attend": partial(
            _wrong_step, behind=True
        ),
        "keys and values are made from x: make them from what the residual hands "
        "over": partial(_wrong_step, raw=True),
        "the norm is missing: `layer.residuals[0](x, …)` adds the sublayer's output "
        "and normalises, too": partial(_wrong_step, bare=True),
        "the source's cache grows: it stays, so attend to `source.keys` and "
        "`source.values` as they are": partial(_wrong_step, grows=True),
        "padding of the source is seen: hand `memory_mask` to the "
        "cross-attention": partial(_wrong_step, masked=False),
    },
    read=_with_caches,
    lesson="11",
)

# ------------------------------------------------------------ 11.2 beam search


def _ids(output: Any, *inputs: Any) -> list[int]:
    """The ids as a plain list."""
    try:
        return [int(x) for x in output]
    except (TypeError, ValueError, RuntimeError):
        raise Wrong("return the ids of one hypothesis, a list") from None


def _wrong_search(
    next_scores: Callable[[list[int]], Tensor],
    beam_size: int,
    max_length: int,
    *,
    ends: bool = True,
    keeps: bool = True,
    aside: bool = False,
    hurry: bool = False,
    each: bool = False,
    likely: bool = False,
) -> list[int]:
    """A beam search, and with other options what is wrong with it."""
    beam, ended = [([], 0.0)], []
    for _ in range(max_length):
        candidates = []
        for tokens, total in beam:
            if ends and tokens[-1:] == [EOS]:
                candidates += [(tokens, total)] * keeps
                continue
            scores = next_scores(tokens)
            if each and tokens:
                scores = torch.where(scores == scores.max(), scores, -math.inf)
            pairs = enumerate((scores.exp() if likely else scores).tolist())
            candidates += [([*tokens, i], total + score) for i, score in pairs]
        candidates.sort(key=lambda candidate: candidate[1], reverse=True)
        beam = candidates[:beam_size]
        done = [one for one in beam if one[0][-1:] == [EOS]]
        if hurry and done:
            return done[0][0]
        if aside:
            ended += done
            going = [one for one in candidates if one[0][-1:] != [EOS]]
            beam = going[:beam_size]
    return max(ended + beam, key=lambda one: one[1], default=([EOS], 0.0))[0]


def _world(seed: int, size: int, longest: int, vocabulary: int = 7, **said) -> Probe:
    before = f"with beam_size={size} and max_length={longest}: "
    scores = search.random_scores(seed, vocabulary)
    return Probe(scores, size, longest, when=before, **said)


def _late(tokens: list[int]) -> Tensor:
    """next_scores of a vocabulary of 7, where the ninth or tenth beginning wins."""
    logits = -0.05 * torch.arange(7.0)
    logits[[PAD, BOS]] = -math.inf
    if len(tokens) < 2:
        logits[EOS] = -9.0
    elif tokens == [5, 4]:
        logits[EOS] = 9.0
    return logits.log_softmax(dim=0)


beam_search = Exercise(
    search.beam_search,
    [
        _world(2105, 3, 7),
        _world(97, 3, 7),
        _world(371, 3, 7),
        _world(521, 3, 8, 9, praise="beams of 3 find what they should"),
        _world(2, 1, 8, praise="a beam of 1 is greedy decoding"),
        _world(3, 341, 4, praise="a beam that drops nothing finds the best sentence"),
        Probe(_late, 12, 5, when="with beam_size=12 and a vocabulary of 7: "),
        _world(5, 30, 1, 12, praise="other lengths and vocabularies work, too"),
    ],
    {
        "a hypothesis that has ended is lost: it stays among the candidates, with "
        "its sum": partial(_wrong_search, keeps=False),
        "hypotheses that have ended are set aside: here they keep their places in "
        "the beam, until better ones push them out": partial(_wrong_search, aside=True),
        "it stops at the first hypothesis that ends: take max_length steps, then the "
        "largest sum counts, ended or not": partial(_wrong_search, hurry=True),
        "each hypothesis goes on with its best token alone: rank all continuations "
        "of all hypotheses together": partial(_wrong_search, each=True),
        "probabilities are added: add log-probabilities, as `next_scores` gives "
        "them": partial(_wrong_search, likely=True),
        "a hypothesis goes on after its EOS: it stays as it is": partial(
            _wrong_search, ends=False
        ),
    },
    read=_ids,
    lesson="11",
)

"""What the heads of a translator do, and where its encoder keeps a fact (lesson 12)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from helpers import BOS
from helpers.attention import MultiHeadAttention
from helpers.corpus import SentencePair
from helpers.corpus.phenomena import ADJECTIVE_NAMES, NOUN_OF
from helpers.masks import padding_mask
from helpers.text import split_words


@torch.no_grad()
def patched_memory(
    model: nn.Module,
    source: Tensor,
    donor: Tensor,
    level: int,
    place: int | list[int],
) -> Tensor:
    """The memory of `source`, with the donor's vectors put in at a level and place.

    source and donor (batch, length), padded at the same places. Level 0 is below the
    first layer, level 1 above it; the last level is the memory's.
    """
    layers, mask = model.encoder.layers, padding_mask(source)
    x, other = (model.positions(model.source_embedding(s)) for s in (source, donor))
    for layer in layers[:level]:
        x, other = layer(x, mask), layer(other, mask)
    x = x.clone()
    x[:, place] = other[:, place]
    for layer in layers[level:]:
        x = layer(x, mask)
    return model.encoder.norm(x)


@torch.no_grad()
def next_words(
    model: nn.Module, memory: Tensor, source: Tensor, start: Tensor
) -> Tensor:
    """The word that the model writes after `start` (batch, length), (batch,)."""
    return model.project(model.decode(start, memory, source))[:, -1].argmax(dim=-1)


def write(model: nn.Module, memory: Tensor, source: Tensor, n_words: int = 5) -> Tensor:
    """The first words that the model writes from a memory, (batch, n_words)."""
    words = torch.full((len(source), 1), BOS)
    for _ in range(n_words):
        new = next_words(model, memory, source, words)
        words = torch.cat([words, new[:, None]], dim=1)
    return words[:, 1:]


@contextmanager
def record_contexts(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Keep what the heads of every MultiHeadAttention hand to its output projection.

    Gives {name of the module: (batch, length, heads, d_head)}, filled in the block.
    """
    contexts: dict[str, Tensor] = {}

    def keeper(name: str, n_heads: int) -> Callable:
        def keep(layer: nn.Module, inputs: tuple[Tensor]) -> None:
            contexts[name] = inputs[0].detach().unflatten(-1, (n_heads, -1))

        return keep

    hooks = [
        module.output_projection.register_forward_pre_hook(keeper(name, module.n_heads))
        for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention)
    ]
    try:
        yield contexts
    finally:
        for hook in hooks:
            hook.remove()


def same_article(articles: Tensor, nouns: Tensor) -> Tensor:
    """For each row, another row with the same article and another noun, (batch,).

    The noun is another if none fills half of the article's rows.
    """
    order = torch.arange(len(articles))
    for article in articles.unique():
        rows = (articles == article).nonzero()[:, 0]
        rows = rows[nouns[rows].argsort(stable=True)]
        step = nouns[rows].unique(return_counts=True)[1].max().item()
        order[rows] = rows.roll(step)
    return order


def noun_phrases(pairs: Sequence[SentencePair]) -> dict[str, list[tuple]]:
    """Where "the" stands before a noun, and before an adjective and its noun.

    Lists of (sentence, place of "the", of the adjective, of the noun), by what follows
    the French article: "noun" or "adjective"; without an adjective, under "alone".
    """
    found = {"alone": [], "adjective": [], "noun": []}
    for row, pair in enumerate(pairs):
        words, french = split_words(pair.source), dict(pair.alignment)
        for i, word in enumerate(words[:-2]):
            if word == "the" and words[i + 1] in NOUN_OF:
                found["alone"].append((row, i, i, i + 1))
                continue
            described = words[i + 1] in ADJECTIVE_NAMES and words[i + 2] in NOUN_OF
            if word == "the" and described:
                first = "noun" if french[i + 2] < french[i + 1] else "adjective"
                found[first].append((row, i, i + 1, i + 2))
    return found

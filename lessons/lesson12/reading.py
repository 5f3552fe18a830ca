"""What the heads of a translator do, and where its encoder keeps a fact (lesson 12)."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

import torch
from torch import Tensor, nn

from helpers import BOS, PAD
from helpers.attention import record_attention
from helpers.batching import Batch
from helpers.corpus import SentencePair
from helpers.corpus.phenomena import ADJECTIVE_NAMES, NOUN_OF
from helpers.decoding import inference
from helpers.evaluation import alignment_error_rate
from helpers.masks import decoder_mask, padding_mask
from helpers.patching import record_contexts, replace_contexts
from helpers.text import split_words
from helpers.transformer import Transformer
from lessons.lesson12.minimal_pairs import ARTICLE

LOOKING = {"the": {"the"}, "our, their": {"our", "their"}, "adjective": ADJECTIVE_NAMES}


def noun_masks(pairs: Sequence[SentencePair], length: int) -> dict[str, Tensor]:
    """For words of each kind of LOOKING before a noun: True at this noun.

    Each (sentences, length, length) over English words; only adjectives may stand
    between a word and its noun.
    """
    shape = len(pairs), length, length
    masks = {kind: torch.zeros(shape).bool() for kind in LOOKING}
    for row, pair in enumerate(pairs):
        noun = None
        for i, word in reversed([*enumerate(split_words(pair.source))]):
            for kind, words in LOOKING.items():
                if noun is not None and word in words:
                    masks[kind][row, i, noun] = True
            if word not in ADJECTIVE_NAMES:
                noun = i if word in NOUN_OF else None
    return masks


def order_masks(pairs: Sequence[SentencePair], length: int) -> dict[tuple, Tensor]:
    """For "the" before an adjective and its noun, by the order of these in French.

    Keys are (what comes first in French, at which the mask is True), both "adjective"
    or "noun"; masks as those of `noun_masks`.
    """
    kinds, shape = ("adjective", "noun"), (len(pairs), length, length)
    masks = {(x, y): torch.zeros(shape).bool() for x in kinds for y in kinds}
    for row, pair in enumerate(pairs):
        english, place = split_words(pair.source), dict(pair.alignment)
        triples = zip(english, english[1:], english[2:], strict=False)
        for i, (article, adjective, noun) in enumerate(triples):
            described = adjective in ADJECTIVE_NAMES and noun in NOUN_OF
            if article == "the" and described:
                first = kinds[place[i + 2] < place[i + 1]]
                masks[first, "adjective"][row, i, i + 1] = True
                masks[first, "noun"][row, i, i + 2] = True
    return masks


def right_sentences(model: Transformer, batch: Batch) -> Tensor:
    """Whether the likeliest next word is the reference's everywhere, (sentences,).

    Greedy decoding then writes the reference.
    """
    with inference(model):
        said = model(batch.source, batch.decoder_input).argmax(dim=-1)
    return ((said == batch.labels) | (batch.labels == PAD)).all(dim=1)


def slips(model: Transformer, batch: Batch, words: Sequence[str]) -> Counter:
    """How often (the word due, another word) are due and said at the same place."""
    with inference(model):
        said = model(batch.source, batch.decoder_input).argmax(dim=-1)
    wrong = (said != batch.labels) & (batch.labels != PAD)
    both = zip(batch.labels[wrong].tolist(), said[wrong].tolist(), strict=True)
    return Counter((words[due], words[other]) for due, other in both)


def mean_contexts(contexts: Mapping[str, Tensor], batch: Batch) -> dict[str, Tensor]:
    """The mean of every head's contexts over all real places, (heads, d_head)."""
    source, target = batch.source != PAD, batch.labels != PAD
    return {
        name: x[source if name.startswith("encoder") else target].mean(dim=0)
        for name, x in contexts.items()
    }


def uniform_contexts(model: Transformer, batch: Batch, name: str) -> Tensor:
    """What the heads of an attention would hand on if all their weights were equal.

    (batch, query_length, heads, d_head), for the attention called `name`.
    """
    attention, values = model.get_submodule(name), []
    hook = attention.value_projection.register_forward_hook(
        lambda layer, inputs, output: values.append(output)
    )
    with inference(model):
        model(batch.source, batch.decoder_input)
    hook.remove()
    in_decoder = name.startswith("decoder") and name.endswith("self_attention")
    mask = padding_mask(batch.source)
    mask = decoder_mask(batch.decoder_input) if in_decoder else mask
    queries = batch.source if name.startswith("encoder") else batch.decoder_input
    weights = mask[:, 0].expand(-1, queries.size(1), -1).float()
    weights = weights / weights.sum(dim=-1, keepdim=True).clamp(min=1)
    return (weights @ values[0]).unflatten(-1, (attention.n_heads, -1))


def patch(
    layers: Sequence[Callable[[Tensor], Tensor]],
    x: Tensor,
    donor: Tensor,
    level: int,
    place: int | list[int],
) -> Tensor:
    """Run x through the layers, with the donor's vectors put in on the way.

    x and donor (batch, length, d_model). At `level` 0 the donor's vectors are put in
    before the first layer, at level 1 after it, and so on; only those of `place`.
    """
    for layer in layers[:level]:
        x, donor = layer(x), layer(donor)
    x = x.clone()
    x[:, place] = donor[:, place]
    for layer in layers[level:]:
        x = layer(x)
    return x


def encoder_steps(model: Transformer, source: Tensor) -> list[Callable]:
    """The encoder's layers as functions of the vectors; the last one ends in its norm.

    So what leaves the last one is the memory.
    """
    mask, layers = padding_mask(source), model.encoder.layers
    last = len(layers) - 1
    norms = [
        model.encoder.norm if i == last else nn.Identity() for i in range(last + 1)
    ]
    return [
        lambda x, layer=layer, norm=norm: norm(layer(x, mask))
        for layer, norm in zip(layers, norms, strict=True)
    ]


@torch.no_grad()
def patched_memory(
    model: Transformer,
    source: Tensor,
    donor: Tensor,
    level: int,
    place: int | list[int],
) -> Tensor:
    """The memory of `source`, with the vectors of `donor` put in at a level and place.

    source and donor (batch, length) have their padding at the same places.
    """
    x, other = (model.positions(model.source_embedding(s)) for s in (source, donor))
    return patch(encoder_steps(model, source), x, other, level, place)


@torch.no_grad()
def write(
    model: Transformer, memory: Tensor, source: Tensor, n_words: int = 5
) -> Tensor:
    """The first words that the model writes from a memory, (batch, n_words)."""
    words = torch.full((len(source), 1), BOS)
    for _ in range(n_words):
        states = model.decode(words, memory, source)[:, -1:]
        words = torch.cat([words, model.project(states).argmax(dim=-1)], dim=1)
    return words[:, 1:]


@torch.no_grad()
def article_scores(
    model: Transformer,
    own: Batch,
    donor: Batch,
    *,
    heads: Mapping[str, int | list[int]] | None = None,
    place: Sequence[int] = (),
    hidden: Sequence[int] = (),
) -> Tensor:
    """The scores of all words where the French article is due, (batch, vocab_size).

    Both are of `noun_pairs`. The donor's contexts replace those of the `heads`
    {attention: numbers} where the article stands, in English or in French, and its
    vectors those of the memory at `place`. The decoder sees nothing of the `hidden`
    places of the memory.
    """
    start, seen = own.decoder_input[:, : ARTICLE + 1], own.source.clone()
    seen[:, list(hidden)] = PAD
    with record_contexts(model) as contexts:
        model.decode(start, model.encode(donor.source), donor.source)
    contexts = dict(contexts)
    with ExitStack() as stack:
        for name, numbers in (heads or {}).items():
            where = torch.arange(contexts[name].size(1)) == ARTICLE
            attention = model.get_submodule(name)
            replaced = replace_contexts(attention, numbers, contexts[name], where[None])
            stack.enter_context(replaced)
        top = len(model.encoder.layers)
        memory = patched_memory(model, own.source, donor.source, top, list(place))
        return model.project(model.decode(start, memory, seen))[:, -1]


def donor_leads(model: Transformer, own: Batch, donor: Batch, **patches) -> Tensor:
    """How far the score of the donor's article is above the sentence's own, (batch,).

    The patches are those of `article_scores`.
    """
    scores = article_scores(model, own, donor, **patches)
    ours, theirs = (
        scores.gather(1, batch.labels[:, [ARTICLE]])[:, 0] for batch in (own, donor)
    )
    return theirs - ours


def same_article(own: Batch, donor: Batch) -> Batch:
    """A control for the donor: its sentences are others that have `own`'s article.

    Their vectors and contexts are patched then; the words that are compared stay.
    """
    articles = own.labels[:, ARTICLE]
    order = torch.arange(len(articles))
    for article in articles.unique():
        rows = (articles == article).nonzero()[:, 0]
        order[rows] = rows.roll(1)
    return Batch(own.source[order], donor.target)


@torch.no_grad()
def first_look(model: Transformer, source: Tensor) -> Tensor:
    """The first word's weights on the mark before <eos>, (sentences, heads of both)."""
    with record_attention(model) as maps:
        model(source, torch.full((len(source), 1), BOS))
    return heads_of(maps)[:, :, 0, -2]


def heads_of(maps: Mapping[str, Tensor], kind: str = "cross_attention") -> Tensor:
    """The maps of all layers of a kind, one head after the other, as one tensor."""
    return torch.cat([w for name, w in maps.items() if kind in name], dim=1)


def equal_weights(source: Tensor) -> Tensor:
    """The map of an encoder's head with equal weights, (batch, 1, length, length)."""
    real = padding_mask(source).float()
    return (real / real.sum(dim=-1, keepdim=True)).expand(-1, -1, source.size(1), -1)


def mean_on(weights: Tensor, chosen: Tensor) -> Tensor:
    """The mean weight of each head on chosen keys, over queries that have any."""
    on_chosen = (weights * chosen[:, None]).sum(dim=-1)  # (batch, heads, query_length)
    return on_chosen.sum(dim=(0, 2)) / chosen.any(dim=-1).sum()


def links(weights: Tensor, pairs: Sequence[SentencePair]) -> list[list[tuple]]:
    """For each pair, (English, French) links by the largest weight of each row."""
    best = weights.argmax(dim=-1).tolist()
    lengths = [len(split_words(pair.target)) for pair in pairs]
    rows = zip(best, lengths, strict=True)
    return [[(row[j], j) for j in range(length)] for row, length in rows]


def error_rates(weights: Tensor, pairs: Sequence[SentencePair]) -> Tensor:
    """The alignment error rate of each head."""
    truth = [pair.alignment for pair in pairs]
    found = [links(of_head, pairs) for of_head in weights.unbind(dim=1)]
    return torch.tensor([alignment_error_rate(some, truth) for some in found])


def points_lost(model: Transformer, batch: Batch, other: Batch) -> Callable:
    """A function (name, head) -> {how contexts are replaced: sentences lost of 100}.

    `itself`: by what the head hands on anyway; `removed`: by 0; `mean`: by its mean
    over the places of another batch; `uniform`: by what equal weights would give.
    """
    kept = []
    for some in (batch, other):
        with record_contexts(model) as contexts, inference(model):
            model(some.source, some.decoder_input)
        kept.append(contexts)
    means = mean_contexts(kept[1], other)
    whole = right_sentences(model, batch).float().mean()

    def lost(name: str, head: int) -> dict[str, float]:
        ways = {"itself": kept[0][name], "removed": 0.0, "mean": means[name]}
        ways["uniform"] = uniform_contexts(model, batch, name)
        found = {}
        for way, by in ways.items():
            with replace_contexts(model.get_submodule(name), head, by):
                share = right_sentences(model, batch).float().mean()
            found[way] = 100 * (whole - share).item()
        return found

    return lost

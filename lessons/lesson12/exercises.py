"""The exercises of lesson 12: a patch in an encoder, and the places of a fact."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn

from helpers import PAD
from helpers.exercise import Exercise, Probe, Wrong
from helpers.masks import padding_mask
from helpers.transformer import Transformer, TransformerConfig
from lessons.lesson12 import reading

# ------------------------------------------------------------ 12.1 the patched memory


def _patch(
    n_layers: int, level: int, place: int | list[int], *, padded: int = 0, **said: str
) -> Probe:
    """A model of so many layers, norm last if three, and two batches of its tokens.

    Of the first sentence, the last `padded` tokens are padding.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(n_layers + level)
        sizes = {"d_model": 6 * n_layers, "n_heads": n_layers, "d_ff": 8}
        sizes |= {"n_layers": n_layers, "norm_first": n_layers != 3, "max_length": 16}
        config = TransformerConfig(20, 9, **sizes, share_embeddings=False)
        model = Transformer(config).eval().requires_grad_(False)
        for name, parameter in model.encoder.named_parameters():
            flat = "query" in name or "key" in name  # each word sees all others
            nn.init.normal_(parameter, std=0.2 if flat else 1.0)
        source, donor = torch.randint(4, 20, (2, 1 + n_layers, 3 + n_layers))
    if padded:
        source[0, -padded:] = donor[0, -padded:] = PAD
    return Probe(model, source, donor, level, place, **said)


def _wrong_patch(
    model: nn.Module,
    source: Tensor,
    donor: Tensor,
    level: int,
    place: int | list[int],
    *,
    masked: bool = True,
    placed: bool = True,
    rises: bool = True,
    later: int = 0,
    every: bool = False,
    at_top: bool = False,
    again: bool = False,
    normed: bool = True,
) -> Tensor:
    """A patched memory, and with other options what is wrong with it."""
    layers, top = model.encoder.layers, len(model.encoder.layers)
    mask = padding_mask(source) if masked else None
    x, other = map(model.source_embedding, (source, donor))
    if placed:
        x, other = model.positions(x), model.positions(other)
    level = top if at_top else min(level + later, top)
    for number in range(top + 1):
        if number == level or (every and number > level):
            x = x.clone()
            x[:, place] = other[:, place]
            for layer in layers if again else []:
                x = layer(x, mask)
        if number < top and not (again and number >= level):
            x = layers[number](x, mask)
            other = layers[number](other, mask) if rises else other
    return model.encoder.norm(x) if normed else x


patched_memory = Exercise(
    reading.patched_memory,
    [
        _patch(4, 2, 2, padded=2, praise="one vector between two layers, with padding"),
        _patch(3, 2, [0, 3], praise="two vectors in three layers, norm last"),
        _patch(2, 0, [1, 2], padded=1, when="at level 0: "),
        _patch(3, 3, 1, padded=1, when="at the top level: "),
        _patch(2, 2, 0, praise="below the first layer and at the top, too"),
    ],
    {
        "the finished memory is patched, whatever the level: patch between two "
        "layers, and let those above it read the new vectors": partial(
            _wrong_patch, at_top=True
        ),
        "after the patch all layers run again: those below the level have run, so go "
        "on with `layers[level:]`": partial(_wrong_patch, again=True),
        "the donor's vectors are put in at every level from this one on: once is "
        "enough": partial(_wrong_patch, every=True),
        "the positions are missing: the first layer reads "
        "`model.positions(model.source_embedding(ids))`": partial(
            _wrong_patch, placed=False
        ),
        "`model.encoder.norm` is missing: it comes after the last layer": partial(
            _wrong_patch, normed=False
        ),
        "the layers get no mask, so that words attend to padding": partial(
            _wrong_patch, masked=False
        ),
        "the donor's embedded vector is put in: let the donor run through the layers, "
        "too, and take its vector of this level": partial(_wrong_patch, rises=False),
        "it is put in one level too high: level 0 is below the first layer": partial(
            _wrong_patch, later=1
        ),
    },
    lesson="12",
)

# ------------------------------------------------------------ 12.2 the places of a fact


def places_of(
    run: Callable[[Tensor], Tensor], memory: Tensor, donor: Tensor, word: int
) -> list[int]:
    """The smallest set of places whose vectors bring the donor's word.

    `run` maps a memory (batch, length, d_model) to the words written, (batch, words).
    A set is enough if more than 90 % of the rows get the donor's word; of several, the
    one with the largest share counts.
    """
    wanted = run(donor)[:, word]
    for size in range(1, memory.size(1) + 1):
        shares = {}
        for places in combinations(range(memory.size(1)), size):
            patched = memory.clone()
            patched[:, places] = donor[:, places]
            hits = run(patched)[:, word] == wanted
            shares[places] = hits.double().mean().item()
        best = max(shares, key=shares.get)
        if shares[best] > 0.9:
            return [*best]
    return []


def _wrong_places(
    kind: str, run: Callable, memory: Tensor, donor: Tensor, word: int
) -> list[int]:
    """A search that is wrong in the way of this kind."""
    length, word = memory.size(1), 0 if kind == "first word" else word
    wanted, before = run(donor), run(memory)

    def share(places: Sequence[int]) -> float:
        patched = memory.clone()
        patched[:, list(places)] = donor[:, list(places)]
        hits = run(patched) == wanted
        if kind == "changed":
            hits = run(patched) != before
        hits = hits.all(dim=1) if kind == "all words" else hits[:, word]
        return hits.double().mean().item()

    chosen, enough = [], {"few rows": 0.5, "all rows": 0.999}.get(kind, 0.9)
    for size in range(1, length + 1):
        sets = [*combinations(range(length), size)]
        if kind == "greedy":
            sets = [(*chosen, i) for i in range(length) if i not in chosen]
        best = max(sets, key=share)
        if kind == "first":
            best = next((x for x in sets if share(x) > enough), best)
        chosen = [*best]
        if share(best) > enough or kind == "single":
            return sorted(chosen)
    return []


# For each word, sets of places and the share of rows in which each set is enough; in
# the others, all places together are. OTHER: the set brings a word of neither.
OTHER = "other"
RULES = [
    [({3}, 1.0), ({1}, 0.94), ({0}, 0.3), ({2}, 1.0, OTHER)],
    [({0, 1}, 0.97), ({4}, 0.45), ({2}, 0.3), ({3, 4}, 0.8)],
    [({1, 2}, 0.92), ({0, 4}, 0.98), ({3}, 0.5)],
    [({0, 2, 3}, 0.95), ({0, 1}, 0.7), ({4}, 0.8)],
    [({0, 2}, 0.9), ({0, 1, 2, 3, 4}, 1.0)],  # more than 90 %: 90 % are too few
]


def _hidden(number: int, rows: int, turn: int = 0, **said: str) -> Probe:
    """A fact hidden by the rule of this number, its places moved on by `turn`.

    Two words are written; the other one follows another rule.
    """
    chance = torch.Generator().manual_seed(number)
    length, word = 5 + (turn > 0), number % 2
    memory, donor = torch.randn(2, rows, length, 2, generator=chance)
    row = torch.arange(rows)
    rules = [RULES[number - word], RULES[(number - word + 1) % len(RULES)]]

    def run(mixed: Tensor) -> Tensor:
        put_in = (mixed == donor).all(dim=-1)  # (rows, length)
        words = []
        for rule in rules:
            changed, other = put_in.all(dim=1), torch.zeros(rows, dtype=torch.bool)
            for places, share, *kind in rule:
                moved = [(place + turn) % length for place in places]
                hit = put_in[:, moved].all(dim=1) & (row < round(share * rows))
                if kind:
                    other = other | hit
                else:
                    changed = changed | hit
            words.append(row % 7 + torch.where(changed, 10, 20 * other))
        return torch.stack(words, dim=1)

    return Probe(run, memory, donor, word, **said)


def _sorted(output: Any, *inputs: Any) -> list[int]:
    """The places as a sorted list of whole numbers."""
    try:
        return sorted(int(place) for place in output)
    except (TypeError, ValueError):
        raise Wrong("return a list of places, such as [0, 3]") from None


find_places = Exercise(
    places_of,
    [
        _hidden(0, 200, praise="a fact at a single place is found"),
        _hidden(4, 100, 1),
        _hidden(1, 200, praise="so is one at two places that do nothing alone"),
        _hidden(2, 100),
        _hidden(3, 100, 2, praise="so are facts that sit at three or more"),
    ],
    {
        "several sets of this size are enough: take the one with the largest "
        "share": partial(_wrong_places, "first"),
        "this is greedy search: it keeps the best place and adds one at a time. Two "
        "places may do nothing alone and everything together": partial(
            _wrong_places, "greedy"
        ),
        "the best single place is returned, though it is not enough: try larger sets "
        "then": partial(_wrong_places, "single"),
        "a set counts as enough in too few rows: it takes more than 90 %": partial(
            _wrong_places, "few rows"
        ),
        "all rows are asked for, or the largest share of all sizes: take the smallest "
        "set that is enough in more than 90 %": partial(_wrong_places, "all rows"),
        "a word that has changed counts: it must be the donor's, "
        "`run(donor)[:, word]`": partial(_wrong_places, "changed"),
        "all words are compared: only the one at place `word` counts": partial(
            _wrong_places, "all words"
        ),
        "the first word is compared: take the one at place `word`": partial(
            _wrong_places, "first word"
        ),
    },
    read=_sorted,
)

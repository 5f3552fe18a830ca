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
    """A model of so many layers, norm first if two, and two batches of its tokens.

    Of the first sentence, the last `padded` tokens are padding.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(n_layers + level)
        sizes = {"d_model": 6 * n_layers, "n_heads": n_layers, "d_ff": 8}
        sizes |= {"n_layers": n_layers, "norm_first": n_layers == 2, "max_length": 16}
        config = TransformerConfig(20, 9, **sizes, share_embeddings=False)
        model = Transformer(config).eval().requires_grad_(False)
        for parameter in model.encoder.parameters():
            nn.init.normal_(parameter, std=0.5)
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
    rises: bool = True,
    swapped: bool = False,
    later: int = 0,
    as_ids: bool = False,
    rows: bool = False,
    added: bool = False,
) -> Tensor:
    """A patched memory, and with other options what is wrong with it."""
    layers, top = model.encoder.layers, len(model.encoder.layers)
    mask = padding_mask(source) if masked else None
    if as_ids:
        source, level = source.clone(), 0
        source[:, place] = donor[:, place]
    x, other = (model.positions(model.source_embedding(s)) for s in (source, donor))
    if swapped:
        x, other = other, x
    chosen = place if rows else (slice(None), place)
    for number in range(top + 1):
        if number == min(max(level + later, 0), top):
            x = x.clone()
            x[chosen] = other[chosen] + (x[chosen] if added else 0)
        if number < top:
            x = layers[number](x, mask)
            other = layers[number](other, mask) if rises else other
    return model.encoder.norm(x)


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
        "the layers get no mask, so that words attend to padding": partial(
            _wrong_patch, masked=False
        ),
        "the donor's embedded vector is put in: let the donor run through the layers, "
        "too, and take its vector of this level": partial(_wrong_patch, rises=False),
        "it is put in one level too high: level 0 is below the first layer": partial(
            _wrong_patch, later=1
        ),
        "the sentence's vectors are put into the donor's run: it is the other way "
        "round": partial(_wrong_patch, swapped=True),
        "it is put in one level too low: level 1 is above the first layer": partial(
            _wrong_patch, later=-1
        ),
        "the ids are exchanged before the embedding, which is level 0: put in the "
        "donor's vectors of this level": partial(_wrong_patch, as_ids=True),
        "`x[place]` takes sentences of the batch: the places are the second axis, "
        "`x[:, place]`": partial(_wrong_patch, rows=True),
        "the donor's vectors are added: they replace the sentence's": partial(
            _wrong_patch, added=True
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
    wanted, length = run(donor)[:, word], memory.size(1)

    def share(places: Sequence[int]) -> float:
        patched = memory.clone()
        patched[:, list(places)] = donor[:, list(places)]
        hits = run(patched)[:, word] == wanted
        return (hits[:1] if kind == "row" else hits).double().mean().item()

    chosen, ranked = [], sorted(range(length), key=lambda i: -share([i]))
    enough = 0.5 if kind == "half" else 0.9
    for size in range(1, length + 1):
        sets = [*combinations(range(length), size)]
        if kind == "greedy":
            sets = [(*chosen, i) for i in range(length) if i not in chosen]
        if kind == "ranked":
            sets = [tuple(ranked[:size])]
        best = max(sets, key=share)
        if kind == "first":
            best = next((x for x in sets if share(x) > enough), best)
        chosen = [*best]
        if share(best) > enough or kind == "single":
            return sorted(chosen)
    return []


# For each word, sets of places and the share of rows in which each set is enough; in
# the others, all places together are.
RULES = [
    [({3}, 1.0), ({1}, 0.94)],
    [({0, 1}, 0.97), ({4}, 0.45), ({2}, 0.3), ({3, 4}, 0.8)],
    [({1, 2}, 0.92), ({0, 4}, 0.98), ({3}, 0.5)],
    [({0, 2, 3}, 0.95), ({0, 1}, 0.7), ({4}, 0.8)],
    [({2}, 0.88), ({0, 1, 2, 3, 4}, 1.0)],
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
            changed = put_in.all(dim=1)
            for places, share in rule:
                moved = [(place + turn) % length for place in places]
                late = row >= round((1 - share) * rows)  # not in the first rows
                changed = changed | (put_in[:, moved].all(dim=1) & late)
            words.append(row % 7 + 10 * changed)  # the donor's are 10 higher
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
        _hidden(1, 200, praise="so is one at two places that do nothing alone"),
        _hidden(2, 100),
        _hidden(3, 100, 2, praise="so are facts that sit at three or more"),
        _hidden(4, 100, 1),
    ],
    {
        "several sets of this size are enough: take the one with the largest "
        "share": partial(_wrong_places, "first"),
        "this is greedy search: it keeps the best place and adds one at a time. Two "
        "places may do nothing alone and everything together": partial(
            _wrong_places, "greedy"
        ),
        "the places are ranked by what each does alone. Two may do nothing alone and "
        "everything together": partial(_wrong_places, "ranked"),
        "the best single place is returned, though it is not enough: try larger sets "
        "then": partial(_wrong_places, "single"),
        "only the first row is counted: take the share of all rows": partial(
            _wrong_places, "row"
        ),
        "a set counts as enough at half of the rows: it takes more than 90 %": partial(
            _wrong_places, "half"
        ),
    },
    read=_sorted,
)

"""The exercises of lesson 12: a patch in an encoder, and the places of a fact."""

from collections.abc import Callable
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


def _wrong_patch(wrong: str, model: nn.Module, *given: Any) -> Tensor:
    """A patched memory that is wrong in this way."""
    source, donor, level, place = given
    level += {"finished": len(model.encoder.layers), "too high": 1}.get(wrong, 0)
    mask = None if wrong == "no mask" else padding_mask(source)
    x, other = (model.positions(model.source_embedding(x)) for x in (source, donor))
    for layer in model.encoder.layers[:level]:
        x = layer(x, mask)
        other = other if wrong == "embedded" else layer(other, mask)
    x = x.clone()
    x[:, place] = other[:, place]
    for layer in model.encoder.layers[level:]:
        x = layer(x, mask)
    return model.encoder.norm(x)


patched_memory = Exercise(
    reading.patched_memory,
    [
        _patch(4, 2, 2, padded=2, praise="one vector between two layers, with padding"),
        _patch(3, 2, [0, 3], praise="two vectors in three layers, norm last"),
        _patch(2, 0, [1, 2], padded=1, when="at level 0: "),
        _patch(3, 3, 1, padded=1, praise="below the first layer and at the top, too"),
    ],
    {
        "the finished memory is patched, whatever the level: patch between two "
        "layers": partial(_wrong_patch, "finished"),
        "the layers get no mask, so that words attend to padding": partial(
            _wrong_patch, "no mask"
        ),
        "the donor's embedded vector is put in: the donor runs through the layers, "
        "too": partial(_wrong_patch, "embedded"),
        "it is put in one level too high: level 0 is below the first layer": partial(
            _wrong_patch, "too high"
        ),
    },
    lesson="12",
)

# ------------------------------------------------------------ 12.2 the places of a fact


def places_of(
    run: Callable[[Tensor], Tensor], memory: Tensor, donor: Tensor, wrong: str = ""
) -> list[int]:
    """The smallest set of places whose vectors bring the donor's word.

    `run` maps a memory (batch, length, d_model) to the words written, (batch,). A set
    is enough if more than 90 % of the rows get the donor's word; of several, the one
    with the largest share counts. `wrong` is a way to search wrongly.
    """
    before, wanted, best = run(memory), run(donor), ()
    for size in range(1, memory.size(1) + 1):
        shares = {}
        for places in combinations(range(memory.size(1)), size):
            if wrong == "greedy" and not {*best} <= {*places}:
                continue
            patched = memory.clone()
            patched[:, places] = donor[:, places]
            said = run(patched)
            hits = said != before if wrong == "changed" else said == wanted
            shares[places] = hits.double().mean().item()
            if wrong == "first" and shares[places] > 0.9:
                break
        best = max(shares, key=shares.get)
        if shares[best] > 0.9:
            break
    return [*best]


def _hidden(length: int, sets: dict[tuple[int, ...], float], **said: str) -> Probe:
    """Each of these sets of places brings the donor's word in a share of the rows.

    All places together bring it everywhere; place 0 alone brings another word.
    """
    chance = torch.Generator().manual_seed(length)
    memory, donor = torch.randn(2, 100, length, 2, generator=chance)
    row = torch.arange(len(memory))

    def run(mixed: Tensor) -> Tensor:
        put_in = (mixed == donor).all(dim=-1)  # (rows, length)
        found = put_in.all(dim=1)
        for places, share in sets.items():
            hit = put_in[:, places].all(dim=1) & (row < round(share * len(row)))
            found = found | hit
        return row % 7 + torch.where(found, 10, 20 * put_in[:, 0])

    return Probe(run, memory, donor, **said)


def _sorted(output: Any, *inputs: Any) -> list[int]:
    """The places as a sorted list of whole numbers."""
    try:
        return sorted(int(place) for place in output)
    except (TypeError, ValueError):
        raise Wrong("return a list of places, such as [0, 3]") from None


find_places = Exercise(
    places_of,
    [
        _hidden(
            *(4, {(3,): 0.96, (1,): 0.94, (0, 2): 1.0}),
            praise="a fact at one place is found",
        ),
        _hidden(
            *(5, {(1, 2): 0.97, (4,): 0.45, (0, 4): 0.92}),
            praise="so is one at two places that do nothing alone",
        ),
        _hidden(
            *(6, {(1, 2, 5): 0.95, (2, 3): 0.7, (4,): 0.9}),
            praise="so is one that sits at three",
        ),
    ],
    {
        "of several sets of this size, take the one with the largest share": partial(
            places_of, wrong="first"
        ),
        "this is greedy search, which keeps the best place: two places may do nothing "
        "alone": partial(places_of, wrong="greedy"),
        "a word that has changed counts: it must be the donor's, `run(donor)`": partial(
            places_of, wrong="changed"
        ),
    },
    read=_sorted,
)

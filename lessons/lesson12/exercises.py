"""The exercises of lesson 12, reading attention: reference answers and mistakes."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn

from lessons.checking.engine import Exercise, Part
from lessons.checking.findings import Stop, wrong
from lessons.lesson12.reading import patch

# ------------------------------------------------------- 12.1 alignment error rate

SHARED = "shared += len(set(ours) & set(theirs))"
LINKS = "links += len(set(ours)) + len(set(theirs))"
RATE = "1 - 2 * shared / links"
RATE_MISTAKES = {
    "the error rates of the sentences are averaged: count links over all sentences "
    "first, and divide once": {
        "shared = links = 0": "rates = []",
        SHARED: SHARED.replace("+=", "="),
        LINKS: LINKS.replace("+=", "=") + f"; rates.append({RATE})",
        f"return {RATE}": "return sum(rates) / len(rates)",
    },
    "the 2 is missing: shared links stand in both counts below": {
        RATE: "1 - shared / links"
    },
    "this is the share that is right; the error rate is 1 minus it": {
        RATE: "2 * shared / links"
    },
    "only the links found are counted below: that is 1 - precision, and one sure link "
    "would be perfect": {LINKS: "links += len(set(ours))", RATE: "1 - shared / links"},
    "only the true links are counted below: that is 1 - recall, and linking "
    "everything would be perfect": {
        LINKS: "links += len(set(theirs))",
        RATE: "1 - shared / links",
    },
    "below stands the union, in which shared links count once: add the two sizes": [
        {LINKS: "links += len(set(ours) | set(theirs))", RATE: form}
        for form in ("1 - shared / links", RATE)
    ],
    "one of the two sizes stands below, the larger or the smaller: add them": [
        {LINKS: f"links += {size}(len(set(ours)), len(set(theirs)))", RATE: form}
        for size in ("max", "min")
        for form in ("1 - shared / links", RATE)
    ],
    "a link that is given twice counts twice: make sets": [
        {
            SHARED: "shared += sum(link in theirs for link in ours)",
            LINKS: "links += len(ours) + len(theirs)",
        },
        {LINKS: "links += len(ours) + len(theirs)"},
        {SHARED: "shared += sum(link in theirs for link in ours)"},
    ],
    "all sentences are put into one set: the same pair of places in two sentences is "
    "two links": {
        "zip(found, truth)": "[(sum(map(list, found), []), sum(map(list, truth), []))]"
    },
    "the order of a link's two places counts: English first, then French": {
        SHARED: "shared += len({tuple(sorted(x)) for x in ours} & "
        "{tuple(sorted(x)) for x in theirs})"
    },
    "the links of `found` are turned round: English first, then French": {
        SHARED: "shared += len({(j, i) for i, j in ours} & set(theirs))"
    },
    "a dictionary keeps one link of each English word: it may have several": {
        SHARED: "shared += sum(dict(ours).get(i) == j for i, j in set(theirs))"
    },
    "a dictionary keeps one link of each French word: it may have several": {
        SHARED: "shared += sum({j: i for i, j in ours}.get(j) == i "
        "for i, j in set(theirs))"
    },
    "the links are compared one after the other: their order says nothing": {
        SHARED: "shared += sum(a == b for a, b in zip(ours, theirs))"
    },
    "only the first sentence counts: all of them": {
        "zip(found, truth)": "zip(found[:1], truth[:1])"
    },
    "return a share from 0 to 1, not percent": {RATE: f"100 * ({RATE})"},
    "it divides by 0 where no found link is true, where none is found, or where none "
    "is due: the rate is 1 then": [
        {RATE: "1 - 2 / (links / shared)"},
        *({RATE: f"{RATE} - 0 / sum(map(len, {side}))"} for side in ("found", "truth")),
    ],
    "where no found link is true, the rate is 1, not 0": {
        RATE: f"{RATE} if shared else 0"
    },
}
BY_HAND = [[(0, 0), (1, 1)]], [[(0, 0), (1, 2)]]
SEVERAL = (
    [
        [(0, 0), (1, 1), (1, 1), (2, 2), (3, 0)],
        [(0, 0), (3, 1)],
        [],
        [(1, 0), (0, 2)],
        [(2, 1), (2, 0), (0, 2), (1, 2)],
    ],
    [
        ((0, 0), (1, 1), (2, 3), (3, 2), (4, 4)),
        ((0, 0),),
        ((2, 2), (1, 0)),
        ((0, 1), (1, 0), (2, 2)),
        ((1, 2), (2, 0), (2, 1), (0, 2)),
    ],
)
PERFECT = [[(0, 1), (2, 0)], [(1, 1)]], [[(2, 0), (0, 1)], [(1, 1)]]
ALL_WRONG = [  # no found link is true, none is found, none is due
    ([[(0, 0), (1, 1)], [(2, 2)]], [[(0, 1)], [(1, 2), (2, 1)]]),
    ([[], []], [[(0, 0)], [(1, 0), (2, 1)]]),
    ([[(0, 0)], [(1, 0), (2, 1)]], [[], []]),
]


def _drawn_links(seed: int) -> tuple[list, list]:
    """Links of a few sentences; some are true, and some stand there twice.

    In some sentences more links are found than are true, in others fewer.
    """
    generator = torch.Generator().manual_seed(seed)
    sides = []
    for sizes in ((3, 7, 4, 6, 5), (6, 4, 7, 3, 5)):
        rows = torch.randint(4, (3 + seed % 3, 7, 2), generator=generator).tolist()
        sides.append(
            [
                [tuple(link) for link in row[:size]]
                for row, size in zip(rows, sizes, strict=False)
            ]
        )
    return sides[0], sides[1]


error_rate = Exercise(
    """\
def my_error_rate(found, truth):
    shared = links = 0
    for ours, theirs in zip(found, truth):
        shared += len(set(ours) & set(theirs))
        links += len(set(ours)) + len(set(theirs))
    return 1 - 2 * shared / links
""",
    Part(
        "my_error_rate",
        RATE_MISTAKES,
        lambda seed: [
            _drawn_links(26),
            BY_HAND,
            PERFECT,
            SEVERAL,
            *ALL_WRONG,
            _drawn_links(seed),
        ],
        ["five sentences are right"],
        others="other sentences, and a perfect or a wholly wrong alignment, too",
        doubt="",
        gradients=False,
        at_once=1,
        measure=lambda output, *inputs: _one_number(output),
    ),
)


def _one_number(output: Any) -> float:
    """The answer as a number; Stop if it is none."""
    try:
        return float(None if isinstance(output, str | bytes) else output)
    except (TypeError, ValueError):
        kind = type(output).__name__
        raise Stop(wrong(f"return one number, not a {kind}")) from None


# ------------------------------------------------------------------- 12.2 the patch

BOTH = "x, donor = layers[number](x), layers[number](donor)"
PUT = "x[:, place] = donor[:, place]"
PATCH_MISTAKES = {
    "the donor's embedded vector is put in: let the donor run through the layers, too, "
    "and take its vector of this level": {BOTH: "x = layers[number](x)"},
    "the patch comes one level too low: level 1 is above the first layer": {
        "if number == level": "if number == max(level - 1, 0)"
    },
    "the patch comes one level too high: level 0 is below the first layer": {
        "if number == level": "if number == min(level + 1, len(layers))"
    },
    "the donor's vector from the top is put in: take the one of this level": {
        "for number in": "for layer in layers:\n        donor = layer(donor)\n"
        "    for number in",
        BOTH: "x = layers[number](x)",
    },
    "the patch always comes at the top: at `level`": {
        "if number == level": "if number == len(layers)"
    },
    "the patch always comes below the first layer: at `level`": {
        "if number == level": "if number == 0"
    },
    "the levels are counted from the top: level 0 is below the first layer": {
        "if number == level": "if number == len(layers) - level"
    },
    "the vector is put in at every level: only at `level`": {
        "if number == level": "if True"
    },
    "the donor's embedded vector is put in at every level: take the donor's vector of "
    "`level`, and put it in there": {
        BOTH: "x = layers[number](x)",
        "if number == level": "if True",
    },
    "nothing is put in: this is the sentence's own run": {
        "if number == level": "if number == -1"
    },
    "this is the donor's run: replace the vector at `place` only": {
        PUT: "x[:] = donor"
    },
    "the places after `place` are replaced, too: only that one": {
        PUT: "x[:, place:] = donor[:, place:]"
    },
    "the places before `place` are replaced, too: only that one": {
        PUT: "x[:, : place + 1] = donor[:, : place + 1]"
    },
    "the vector is put in again at the levels above: only at `level`": {
        "if number == level": "if number >= level"
    },
    "the vector is put in at the levels below, too: only at `level`": {
        "if number == level": "if number <= level"
    },
    "only the first sentence is patched: all of the batch": {
        PUT: "x[0, place] = donor[0, place]"
    },
    "the first axis is the batch, the places are on the second": {
        PUT: "x[place % len(x)] = donor[place % len(x)]"
    },
    "the place before is patched: places count from 0": {
        PUT: "x[:, place - 1] = donor[:, place - 1]"
    },
    "the vector is put in at the right place, but it is the donor's first one": {
        PUT: "x[:, place] = donor[:, 0]"
    },
    "the donor's vector is added: it replaces the sentence's": {
        PUT: "x[:, place] = x[:, place] + donor[:, place]"
    },
    "it is the other way round: the donor gets a vector of the sentence": {
        PUT: "x, donor = donor.clone(), x; x[:, place] = donor[:, place]"
    },
    "the layers above the patch are missing": {
        "if number < len(layers)": "if number < min(level, len(layers))"
    },
    "the layers below the patch are missing": {
        "if number < len(layers)": "if level <= number < len(layers)"
    },
    "nothing is put in at the top: `level` may be len(layers)": {
        "if number == level": "if number == level < len(layers)"
    },
}


class Mixing(nn.Module):
    """A layer that lets places see each other, by where they stand."""

    def __init__(self, d_model: int, generator: torch.Generator):
        super().__init__()
        draws = torch.randn(3, d_model, d_model, generator=generator) / d_model**0.5
        self.own, self.before, self.all = (nn.Parameter(part) for part in draws)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, d_model) -> the same shape."""
        before = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1)
        mixed = x @ self.own + before @ self.before + x.mean(1, keepdim=True) @ self.all
        return x + mixed.tanh()


def _patch_inputs(
    seed: int, batch: int, length: int, n_layers: int, level: int, place: int
) -> tuple:
    """Layers, two sentences, level and place."""
    generator = torch.Generator().manual_seed(seed)
    d_model = 4 + seed % 3
    layers = nn.ModuleList(Mixing(d_model, generator) for _ in range(n_layers))
    both = torch.randn(2, batch, length, d_model, generator=generator)
    return layers.requires_grad_(False), both[0], both[1], level, place


put_in = Exercise(
    """\
def my_patch(layers, x, donor, level, place):
    for number in range(len(layers) + 1):
        if number == level:
            x = x.clone()
            x[:, place] = donor[:, place]
        if number < len(layers):
            x, donor = layers[number](x), layers[number](donor)
    return x
""",
    Part(
        "my_patch",
        PATCH_MISTAKES,
        lambda seed: [
            _patch_inputs(seed, 3, 5, 6, 2, 2),
            _patch_inputs(seed, 2, 4, 3, 0, 1),
            _patch_inputs(seed, 2, 4, 3, 3, 3),
            _patch_inputs(seed, 2, 6, 4, 3, 1),
            _patch_inputs(seed, 1 + seed % 2, 3 + seed % 3, 2, 1, seed % 3),
        ],
        ["between two layers"],
        others="below the first layer and at the top, too",
        doubt="",
        gradients=False,
        shown=patch,
        measure=lambda output, *inputs: (
            output.detach() if isinstance(output, Tensor) else output
        ),
    ),
)

# -------------------------------------------------------------- 12.3 find the places

SETS = "combinations(range(memory.size(1)), size)"
SIZES = "range(1, memory.size(1) + 1)"
SHARE = "(said == wanted).double().mean().item()"
PLACES_OF = "patched[:, places] = donor[:, places]"
BEST = "best = max(shares, key=shares.get)"
ENOUGH = "shares[best] > 0.9"
WANTED = "wanted = run(donor)[:, word]"
FIND_MISTAKES = {
    "several sets of this size pass 90 %: take the one with the largest share, not the "
    "first, the last or the one that barely passes": [
        {BEST: f"best = {pick}max(shares, key=shares.get))"}
        for pick in (
            "next((p for p in shares if shares[p] > 0.9), ",
            "next((p for p in reversed(shares) if shares[p] > 0.9), ",
            "min((p for p in shares if shares[p] > 0.9), key=shares.get, default=",
        )
    ],
    "the best single place is returned, though it does not pass 90 %: try larger "
    "sets then": {ENOUGH: "True"},
    "larger sets than that are tried, too: the smallest one that passes 90 % is due": {
        SIZES: "range(memory.size(1), 0, -1)"
    },
    "the search ends at too small a set: all sizes are due, up to all places": [
        {SIZES: f"range(1, {end})"} for end in ("3", "4", "5", "memory.size(1)")
    ],
    "some places are never tried: any of them may count": [
        {SETS: f"combinations(range({places}), size)"}
        for places in ("4", "5", "memory.size(1) - 1", "1, memory.size(1)")
    ],
    "this is greedy search: it keeps the best place and adds one at a time. Two places "
    "may do nothing alone and everything together: try all sets of a size": {
        WANTED: f"{WANTED}; best = ()",
        SETS: "[tuple(sorted((*best, i))) for i in range(memory.size(1)) "
        "if i not in best]",
    },
    "the places are ranked by what each does alone. Two may do nothing alone and "
    "everything together: try all sets of a size": {
        SETS: "combinations(range(memory.size(1)), 1) if size == 1 else "
        "[tuple(sorted(ranked[:size]))]",
        BEST: f"{BEST}; ranked = ranked if size > 1 else "
        "[p for p, in sorted(shares, key=shares.get, reverse=True)]",
    },
    "too few rows suffice: more than 90 % are due": [
        {ENOUGH: f"shares[best] > {share}"} for share in (0.5, 0.85)
    ],
    "90 % of the rows are not enough: more than 90 % are due": {
        ENOUGH: "shares[best] >= 0.9"
    },
    "too many rows are demanded: a little more than 90 % will do": [
        {ENOUGH: f"shares[best] > {share}"} for share in (0.905, 0.92, 0.999)
    ],
    "all words are compared: only the one at `word`": {
        SHARE: "(run(patched) == run(donor)).double().mean().item()"
    },
    "the first word is compared: the one at `word` is due": {
        WANTED: "wanted = run(donor)[:, 0]",
        "said = run(patched)[:, word]": "said = run(patched)[:, 0]",
    },
    "any other word counts: it must be the donor's": {
        SHARE: "(said != run(memory)[:, word]).double().mean().item()"
    },
    "rows in which both sentences have the same word count, too: take the share over "
    "all rows": [
        {SHARE: share}
        for share in (
            "(said == wanted)[wanted != run(memory)[:, word]].double().mean().item()",
            "((said == wanted) & (wanted != run(memory)[:, word])).double().mean()"
            ".item()",
        )
    ],
    "it counts how often the sentence's own word stays: count the donor's": {
        "wanted = run(donor)": "wanted = run(memory)"
    },
    "only the first row is patched, or its word is taken for all rows: each row has "
    "its own": [
        {PLACES_OF: "patched[0, places] = donor[0, places]"},
        {WANTED: "wanted = run(donor)[0, word]"},
    ],
    "the places count from 1 in what is returned: from 0": {
        "[*best]": "[place + 1 for place in best]"
    },
    "only neighbouring places are tried together: any set may do": {
        SETS: "[tuple(range(i, i + size)) for i in range(memory.size(1) - size + 1)]"
    },
}
# For each word, sets of places, and the share of rows in which each suffices. Negative
# places count from the end; in the rows of the empty set, the sentence's own word is
# the donor's. All places together always suffice.
RULES = [
    [({3}, 1.0), ({1}, 0.94)],
    [({1, 3}, 1.0), ({0, 3}, 0.91), ({1}, 0.55), ({3}, 0.3), ({0}, 0.6)],
    [({0, 2, 3}, 0.95), ({0, 1}, 0.7)],
    [({3}, 0.93), ({1, 2}, 1.0)],
    [({1, 2}, 1.0), ({0}, 0.3), ({0, 3}, 0.5), ({3}, 0.1), ({0, 3, 4}, 0.8)],
    [({0}, 0.91), ({1, 3}, 1.0), ({3}, 0.5)],
    [({2}, 0.89), ({0, 1}, 0.95)],
    [({0, 1, 2, 3}, 1.0), ({0, 1}, 0.6), ({1, 2, 3}, 0.8)],
    [({2}, 0.9), ({0, 1}, 0.95)],
    [({2}, 0.902), ({0, 1}, 1.0)],
    [({-2, -1}, 0.97), ({0, 1, 2}, 0.95)],
    [({0, 1, 2, 3}, 0.6), ({1, 2, 3, 4}, 0.5)],
    [({0, 1}, 0.97), ({2, 3, 4}, 0.95)],
    [({0}, 0.92), ({2}, 1.0), ({3}, 0.94)],
    [({0, 1}, 0.92), ({1, 4}, 0.99), ({2, 3}, 0.95)],
    [(set(), 0.4), ({2}, 0.93), ({0, 1}, 0.97)],
]
ORDER = 0, 4, 10, 12, 1, 2, 3, 5, 6, 8, 9, 7, 11, 13, 14, 15
AGAIN = 10, 1, 8, 5, 11, 14, 15  # with more places


class Hidden(nn.Module):
    """Writes words that follow the donor where enough of its vectors are put in."""

    def __init__(self, donor: Tensor, rules: Sequence):
        super().__init__()
        self.donor, self.rules = donor, rules

    def forward(self, memory: Tensor) -> Tensor:
        """(batch, length, d_model) -> words (batch, len(rules)).

        Of three words, the first is the sentence's, the second the donor's, the third
        another that a patch may give; every row has its own three.
        """
        put_in = (memory == self.donor).all(dim=-1)  # (batch, length)
        row, rows = torch.arange(len(memory)), len(memory)
        written = []
        for number, rule in enumerate(self.rules):
            odd = put_in[:, number] & (row < 0.97 * rows)
            said = torch.where(odd, 3, 1)
            for places, share in rule:
                enough = put_in[:, sorted(places)].all(dim=1)
                said = said.masked_fill(enough & (row < round(share * rows)), 2)
            written.append(said.masked_fill(put_in.all(dim=1), 2))
        return torch.stack(written, dim=1) + 3 * (row % 3)[:, None]


def _find_inputs(seed: int, length: int, number: int, turn: int = 0) -> tuple:
    """Hidden rules, two memories, and the word of the rule that has this number.

    `turn` moves the rules' places, those apart that count from the end.
    """
    generator = torch.Generator().manual_seed(seed)
    memory, donor = torch.randn(2, 500, length, 1 + number, generator=generator)
    word = number % 3
    rules = [RULES[(number + i - word) % len(RULES)] for i in range(3)]
    turned = [
        [
            ({i if i < 0 else (i + turn) % length for i in places}, share)
            for places, share in rule
        ]
        for rule in rules
    ]
    return Hidden(donor, turned), memory, donor, word


def _places(output: Any, run: nn.Module, memory: Tensor, *rest: Any) -> Tensor:
    """The answer as ones and zeros over the places; Stop if it is none."""
    length = memory.size(1)
    try:
        found = torch.as_tensor(sorted(output) if isinstance(output, set) else output)
    except (TypeError, ValueError, RuntimeError):
        raise Stop(wrong(f"return a list of places, not {str(output)[:40]}")) from None
    if found.ndim != 1:
        kind = f"a list of places, such as [3], not {str(output)[:40]}"
        raise Stop(wrong(f"return {kind}"))
    if not len(found):
        text = (
            "your set is empty: without the donor's vectors, nothing becomes its word"
        )
        raise Stop(wrong(text))
    if found.is_floating_point() or found.dtype == torch.bool:
        text = f"places are whole numbers, as in [0, 3]; yours are {found.tolist()}"
        raise Stop(wrong(text))
    found = found.tolist()
    if any(place not in range(length) for place in found):
        text = f"the places count from 0 to {length - 1}, yours are {found}"
        raise Stop(wrong(text))
    if found != sorted({*found}):
        text = f"return each place once, in rising order; yours are {found}"
        raise Stop(wrong(text))
    chosen = torch.zeros(length)
    chosen[found] = 1
    return chosen


def _other_places(value: Tensor, due: Tensor) -> str:
    yours, theirs = (x.nonzero().flatten().tolist() for x in (value, due))
    return (
        f"yours are the places {yours}, due are {theirs}: of the smallest sets that "
        "pass 90 %, the one with the largest share"
    )


find_places = Exercise(
    """\
def find_places(run, memory, donor, word):
    wanted = run(donor)[:, word]
    for size in range(1, memory.size(1) + 1):
        shares = {}
        for places in combinations(range(memory.size(1)), size):
            patched = memory.clone()
            patched[:, places] = donor[:, places]
            said = run(patched)[:, word]
            shares[places] = (said == wanted).double().mean().item()
        best = max(shares, key=shares.get)
        if shares[best] > 0.9:
            return [*best]
""",
    Part(
        "find_places",
        FIND_MISTAKES,
        lambda seed: [
            *(_find_inputs(seed, 5, number) for number in ORDER),
            *(_find_inputs(seed, 6, number, 1 + seed % 2) for number in AGAIN),
        ],
        ["a fact at a single place is found"],
        others="so are facts that sit at several, or at all of them",
        doubt="",
        gradients=False,
        at_once=1,
        measure=_places,
        describe=_other_places,
    ),
    uses={"combinations": combinations},
)

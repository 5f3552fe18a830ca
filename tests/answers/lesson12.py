"""Answers to lesson 12's exercises that no table holds: right ones, and wrong ones."""

from fractions import Fraction
from functools import partial
from itertools import combinations

import numpy as np
import torch

from helpers.evaluation import alignment_error_rate
from lessons.lesson12.reading import patch

# ------------------------------------------------------- 12.1 alignment error rate


def rate_of_numbered_links(found, truth):
    ours, theirs = (
        {(number, *link) for number, row in enumerate(side) for link in row}
        for side in (found, truth)
    )
    return torch.tensor(1 - 2 * len(ours & theirs) / (len(ours) + len(theirs)))


def rate_in_loops(found, truth):
    hits, size = 0, 0
    for i in range(len(found)):
        seen = []
        for link in found[i]:
            if link not in seen:
                seen.append(link)
                hits += link in truth[i]
        size += len(seen) + len(dict.fromkeys(truth[i]))
    return (size - 2 * hits) / size


def rate_as_a_fraction(found, truth):
    shared = sum(len({*f} & {*t}) for f, t in zip(found, truth, strict=True))
    return 1 - Fraction(2 * shared, sum(len({*x}) for x in (*found, *truth)))


def rate_by_english_word(found, truth):
    links = sum(len(set(f)) + len(set(t)) for f, t in zip(found, truth, strict=True))
    shared = 0
    for f, t in zip(found, truth, strict=True):
        kept = dict(f)
        shared += sum(kept.get(i) == j for i, j in set(t))
    return 1 - 2 * shared / links


def rate_by_french_word(found, truth):
    turned = [[[(j, i) for i, j in links] for links in side] for side in (found, truth)]
    return rate_by_english_word(*turned)


def rate_turned_round(found, truth):
    return rate_in_loops([[(j, i) for i, j in links] for links in found], truth)


def rate_in_order(found, truth):
    shared = sum(
        sum(a == b for a, b in zip(f, t, strict=False))
        for f, t in zip(found, truth, strict=True)
    )
    return 1 - 2 * shared / sum(len({*x}) for x in (*found, *truth))


def rate_of_sizes(size, factor, found, truth):
    pairs = [(set(f), set(t)) for f, t in zip(found, truth, strict=True)]
    below = sum(size(len(f), len(t)) for f, t in pairs)
    return 1 - factor * sum(len(f & t) for f, t in pairs) / below


def rate_of_all_sizes(size, factor, found, truth):
    pairs = [(set(f), set(t)) for f, t in zip(found, truth, strict=True)]
    below = size(sum(len(f) for f, _ in pairs), sum(len(t) for _, t in pairs))
    return 1 - factor * sum(len(f & t) for f, t in pairs) / below


def rate_by_f1(guarded, found, truth):
    """1 - F1; `guarded` says what may be 0: "sum", "found", "truth"."""
    pairs = [(set(f), set(t)) for f, t in zip(found, truth, strict=True)]
    shared = sum(len(f & t) for f, t in pairs)
    ours, theirs = (sum(len(pair[i]) for pair in pairs) for i in (0, 1))
    precision = 0 if "found" in guarded and ours == 0 else shared / ours
    recall = 0 if "truth" in guarded and theirs == 0 else shared / theirs
    if "sum" in guarded and precision + recall == 0:
        return 1.0
    return 1 - 2 * precision * recall / (precision + recall)


def rate_by_f1_of_arrays(found, truth):
    pairs = [(set(f), set(t)) for f, t in zip(found, truth, strict=True)]
    shared = torch.tensor(sum(len(f & t) for f, t in pairs))
    precision, recall = (
        shared / torch.tensor(sum(len(pair[i]) for pair in pairs)) for i in (0, 1)
    )
    return 1 - 2 * precision * recall / (precision + recall)


def rate_or_0(found, truth):
    rate = rate_in_loops(found, truth)
    return 0.0 if rate == 1 else rate


# ------------------------------------------------------------------- 12.2 the patch


def patch_in_two_halves(layers, x, donor, level, place):
    with torch.no_grad():
        for layer in list(layers)[:level]:
            x, donor = layer(x), layer(donor)
        x = torch.cat([x[:, :place], donor[:, [place]], x[:, place + 1 :]], dim=1)
        for layer in list(layers)[level:]:
            x = layer(x)
    return x


def patch_with_where(layers, x, donor, level, place):
    here = (torch.arange(x.size(1)) == place)[None, :, None]
    states = [donor]
    for layer in layers:
        states.append(layer(states[-1]))
    for number, state in enumerate(states):
        x = torch.where(here, state, x) if number == level else x
        x = layers[number](x) if number < len(layers) else x
    return x


def patch_nothing(layers, x, donor, level, place):
    for layer in layers:
        x = layer(x)
    return x


def patch_in_place(layers, x, donor, level, place):
    for number, layer in enumerate(layers):
        if number == level:
            x[:, place] = donor[:, place]
        x, donor = layer(x), layer(donor)
    return x


def patch_from_the_top(layers, x, donor, level, place):
    for layer in layers:
        donor = layer(donor)
    for number in range(len(layers) + 1):
        if number == level:
            x = torch.cat([x[:, :place], donor[:, [place]], x[:, place + 1 :]], dim=1)
        x = layers[number](x) if number < len(layers) else x
    return x


def patch_from_the_place_on(layers, x, donor, level, place):
    for number in range(len(layers) + 1):
        if number == level:
            x = torch.cat([x[:, :place], donor[:, place:]], dim=1)
        if number < len(layers):
            x, donor = layers[number](x), layers[number](donor)
    return x


def patch_at_the_top(layers, x, donor, level, place):
    return patch_in_two_halves(layers, x, donor, len(layers), place)


def patch_the_embedded(layers, x, donor, level, place):
    return patch_in_two_halves(layers, x, donor, 0, place)


def patch_from_above(layers, x, donor, level, place):
    return patch_in_two_halves(layers, x, donor, len(layers) - level, place)


def patch_at_every_level(layers, x, donor, level, place):
    here = torch.arange(x.size(1))[:, None] == place
    for layer in layers:
        x, donor = layer(torch.where(here, donor, x)), layer(donor)
    return torch.where(here, donor, x)


def patch_the_embedded_at_every_level(layers, x, donor, level, place):
    here = torch.arange(x.size(1))[:, None] == place
    for layer in layers:
        x = layer(torch.where(here, donor, x))
    return torch.where(here, donor, x)


def patch_the_embedded_up_to_the_level(layers, x, donor, level, place):
    here = torch.arange(x.size(1))[:, None] == place
    for number in range(len(layers) + 1):
        x = torch.where(here, donor, x) if number <= level else x
        x = layers[number](x) if number < len(layers) else x
    return x


def patch_all(layers, x, donor, level, place):
    for layer in layers:
        donor = layer(donor)
    return donor


# -------------------------------------------------------------- 12.3 find the places


def find_with_masks(run, memory, donor, word):
    length = memory.size(1)
    best = None
    for number in range(1, 2**length):
        chosen = torch.tensor([bool(number >> i & 1) for i in range(length)])
        said = run(torch.where(chosen[None, :, None], donor, memory))
        share = (said[:, word] == run(donor)[:, word]).double().mean()
        key = (-int(chosen.sum()), float(share))
        if share > 0.9 and (best is None or key > best[0]):
            best = key, chosen.nonzero().flatten()
    return best[1]


def find_as_a_tuple(run, memory, donor, word):
    goal = run(donor)[:, word]

    def share(places):
        mixed = memory.clone()
        for place in places:
            mixed[:, place] = donor[:, place]
        return sum(run(mixed)[:, word].eq(goal).tolist()) / len(goal)

    places = range(memory.shape[1])
    for size in places:
        some = sorted(combinations(places, size + 1), key=share)
        if share(some[-1]) > 0.9:
            return some[-1]
    return tuple(places)


def places_that_reach(least, most, run, memory, donor, word):
    """The places, if `least` of the rows suffices and sets have at most `most`."""
    wanted = run(donor)[:, word]
    for size in range(1, most + 1):
        shares = {}
        for places in combinations(range(memory.size(1)), size):
            patched = memory.clone()
            patched[:, places] = donor[:, places]
            shares[places] = (run(patched)[:, word] == wanted).double().mean()
        best = max(shares, key=shares.get)
        if shares[best] > least:
            return list(best)
    return list(range(memory.size(1)))


def find_as_a_set(run, memory, donor, word):
    return {*places_that_reach(0.9, 9, run, memory, donor, word)}


def find_as_an_array(run, memory, donor, word):
    return np.array(places_that_reach(0.9, 9, run, memory, donor, word))


def find_turned(run, memory, donor, word):
    return places_that_reach(0.9, 9, run, memory, donor, word)[::-1]


def find_twice(run, memory, donor, word):
    return sorted(2 * places_that_reach(0.9, 9, run, memory, donor, word))


def find_a_number(run, memory, donor, word):
    found = places_that_reach(0.9, 9, run, memory, donor, word)
    return found[0] if len(found) == 1 else found


def find_nested(run, memory, donor, word):
    return [places_that_reach(0.9, 9, run, memory, donor, word)]


def find_by_the_first_row(run, memory, donor, word):
    for size in range(1, memory.size(1) + 1):
        for places in combinations(range(memory.size(1)), size):
            patched = memory.clone()
            patched[:, places] = donor[:, places]
            words = run(patched)[:, word]
            if (words == run(donor)[0, word]).float().mean() > 0.9:
                return list(places)


def find_in_single_precision(run, memory, donor, word):
    wanted = run(donor)[:, word]
    for size in range(1, memory.size(1) + 1):
        best, kept = 0.0, None
        for places in combinations(range(memory.size(1)), size):
            mixed = memory.clone()
            mixed[:, list(places)] = donor[:, list(places)]
            share = (run(mixed)[:, word] == wanted).float().mean().item()
            if share > best:
                best, kept = share, list(places)
        if best > 0.9:
            return kept


def find_in_percent(run, memory, donor, word):
    for size in range(1, memory.size(1) + 1):
        found = []
        for places in combinations(range(memory.size(1)), size):
            index = torch.tensor(places)
            mixed = memory.index_copy(1, index, donor[:, index])
            misses = (run(mixed)[:, word] != run(donor)[:, word]).sum()
            if 100 * int(misses) / len(memory) < 10:
                found.append((misses, places))
        if found:
            return min(found)[1]


def find_among(tried, run, memory, donor, word):
    wanted = run(donor)[:, word]
    tried = [place for place in tried if place < memory.size(1)]
    for size in range(1, len(tried) + 1):
        shares = {}
        for places in combinations(tried, size):
            mixed = memory.clone()
            mixed[:, places] = donor[:, places]
            shares[places] = (run(mixed)[:, word] == wanted).double().mean()
        best = max(shares, key=shares.get)
        if shares[best] > 0.9:
            return list(best)


def find_by_rank(run, memory, donor, word):
    wanted = run(donor)[:, word]

    def share(places):
        mixed = memory.clone()
        mixed[:, places] = donor[:, places]
        return (run(mixed)[:, word] == wanted).float().mean().item()

    ranked = sorted(range(memory.size(1)), key=lambda i: -share([i]))
    for size in range(1, len(ranked) + 1):
        if share(ranked[:size]) > 0.9:
            return sorted(ranked[:size])


def find_up_to_four(run, memory, donor, word):
    wanted = run(donor)[:, word]
    for size in range(1, 5):
        shares = {}
        for places in combinations(range(memory.size(1)), size):
            mixed = memory.clone()
            mixed[:, places] = donor[:, places]
            shares[places] = (run(mixed)[:, word] == wanted).double().mean()
        best = max(shares, key=shares.get)
        if shares[best] > 0.9:
            return list(best)


def find_three_at_most(run, memory, donor, word):
    return places_that_reach(0.9, 3, run, memory, donor, word)


def find_three_or_the_first(run, memory, donor, word):
    found = places_that_reach(0.9, 3, run, memory, donor, word)
    return found if len(found) < 4 else [0]


def find_with_more_rows(run, memory, donor, word):
    return places_that_reach(0.92, memory.size(1), run, memory, donor, word)


def find_with_fewer_rows(run, memory, donor, word):
    return places_that_reach(0.71, memory.size(1), run, memory, donor, word)


def find_greedily(run, memory, donor, word):
    wanted, chosen, patched = run(donor)[:, word], [], memory.clone()
    while (run(patched)[:, word] == wanted).float().mean() <= 0.9:
        shares = {}
        for place in set(range(memory.size(1))) - {*chosen}:
            trial = patched.clone()
            trial[:, place] = donor[:, place]
            shares[place] = (run(trial)[:, word] == wanted).float().mean()
        chosen.append(max(shares, key=shares.get))
        patched[:, chosen[-1]] = donor[:, chosen[-1]]
    return sorted(chosen)


def find_the(pick, run, memory, donor, word):
    """Of the smallest sets that are enough, the one that `pick` takes of all."""
    wanted = run(donor)[:, word]
    for size in range(1, memory.size(1) + 1):
        enough = []
        for places in combinations(range(memory.size(1)), size):
            mixed = memory.clone()
            mixed[:, places] = donor[:, places]
            hits = (run(mixed)[:, word] == wanted).sum().item()
            if hits > 0.9 * len(memory):
                enough.append((hits, places))
        if enough:
            return list(pick(enough)[1])


def find_the_first_single(run, memory, donor, word):
    """Right but for single places, of which it takes the first that is enough."""
    found = find_the(max, run, memory, donor, word)
    first = find_the(lambda enough: enough[0], run, memory, donor, word)
    return first if len(found) == 1 else found


def find_the_first_of_several(run, memory, donor, word):
    """Right for single places; of larger sets it takes the first that is enough."""
    found = find_the(max, run, memory, donor, word)
    first = find_the(lambda enough: enough[0], run, memory, donor, word)
    return first if len(found) > 1 else found


def find_by_what_changes(over, run, memory, donor, word):
    """Counts the rows in which a word becomes the donor's, over `over` of rows."""
    wanted, own = run(donor)[:, word], run(memory)[:, word]
    changing = wanted != own
    below = changing.sum().item() if over == "changing rows" else len(memory)
    for size in range(1, memory.size(1) + 1):
        shares = {}
        for places in combinations(range(memory.size(1)), size):
            mixed = memory.clone()
            mixed[:, places] = donor[:, places]
            said = run(mixed)[:, word]
            shares[places] = ((said == wanted) & changing).sum().item() / below
        best = max(shares, key=shares.get)
        if shares[best] > 0.9:
            return list(best)


def find_by_errors(run, memory, donor, word):
    """Right: for each size the set with the fewest rows that miss the donor's word."""
    wanted = run(donor)[:, word].tolist()
    n_rows, length, _ = memory.shape
    for size in range(1, length + 1):
        fewest, kept = n_rows, None
        for places in combinations(range(length), size):
            columns = [(donor if i in places else memory)[:, i] for i in range(length)]
            said = run(torch.stack(columns, dim=1))[:, word].tolist()
            misses = sum(a != b for a, b in zip(said, wanted, strict=True))
            if misses < fewest:
                fewest, kept = misses, places
        if 10 * fewest < n_rows:
            return [*kept]


RIGHT = {
    "error_rate": [
        rate_of_numbered_links,
        rate_in_loops,
        rate_as_a_fraction,
        partial(rate_by_f1, ("sum", "found", "truth")),
    ],
    "put_in": [patch_in_two_halves, patch_with_where],
    "find_places": [
        find_with_masks,
        find_as_a_tuple,
        find_as_a_set,
        find_as_an_array,
        find_in_single_precision,
        find_in_percent,
        find_by_errors,
        partial(find_the, max),
    ],
}
WRONG = {
    "error_rate": [
        (alignment_error_rate, "the course's own"),
        (lambda found, truth: 0.123, "the result"),
        (lambda found, truth: 0.5, "the result"),
        (lambda found, truth: [1, 2], "return one number"),
        (lambda found, truth: str(rate_in_loops(found, truth)), "not a str"),
        (rate_by_english_word, "each English word"),
        (rate_by_french_word, "each French word"),
        (rate_turned_round, "turned round"),
        (rate_in_order, "one after the other"),
        (partial(rate_of_sizes, max, 1), "one of the two sizes"),
        (partial(rate_of_sizes, max, 2), "one of the two sizes"),
        (partial(rate_of_sizes, min, 1), "one of the two sizes"),
        (partial(rate_of_all_sizes, max, 1), "only the links found are counted"),
        (partial(rate_of_all_sizes, min, 2), "the result differs"),
        (partial(rate_by_f1, ()), "it divides by 0"),
        (partial(rate_by_f1, ("sum",)), "it divides by 0"),
        (partial(rate_by_f1, ("sum", "found")), "it divides by 0"),
        (partial(rate_by_f1, ("sum", "truth")), "it divides by 0"),
        (partial(rate_by_f1, ("found", "truth")), "it divides by 0"),
        (rate_by_f1_of_arrays, "NaN"),
        (rate_or_0, "the rate is 1, not 0"),
    ],
    "put_in": [
        (patch, "the course's own"),
        (patch_nothing, "nothing is put in"),
        (patch_in_place, "in place"),
        (patch_from_the_top, "vector from the top"),
        (patch_from_the_place_on, "the places after"),
        (patch_at_the_top, "always comes at the top"),
        (patch_the_embedded, "always comes below the first layer"),
        (patch_from_above, "counted from the top"),
        (patch_at_every_level, "put in at every level"),
        (patch_the_embedded_at_every_level, "embedded vector is put in at every level"),
        (patch_the_embedded_up_to_the_level, "embedded vector"),
        (patch_all, "the donor's run"),
        (lambda layers, x, donor, level, place: x, "the result differs"),
        (lambda layers, x, donor, level, place: x[0], "the shape is"),
    ],
    "find_places": [
        (find_greedily, "this is greedy search"),
        (find_by_rank, "ranked by what each does alone"),
        (partial(find_among, range(4)), "some places are never tried"),
        (partial(find_among, range(5)), "some places are never tried"),
        (partial(find_among, range(1, 9)), "some places are never tried"),
        (find_up_to_four, "the search ends at too small a set"),
        (find_turned, "in rising order"),
        (find_twice, "each place once"),
        (find_a_number, "return a list of places"),
        (find_nested, "return a list of places"),
        (find_by_the_first_row, "only the first row"),
        (partial(find_the, lambda enough: enough[0]), "several sets of this size"),
        (partial(find_the, lambda enough: enough[-1]), "several sets of this size"),
        (partial(find_the, min), "several sets of this size"),
        (find_the_first_single, "several sets of this size"),
        (find_the_first_of_several, "the one with the largest share"),
        (partial(find_by_what_changes, "changing rows"), "share over all rows"),
        (partial(find_by_what_changes, "all rows"), "share over all rows"),
        (find_three_or_the_first, "yours are the places"),
        (find_three_at_most, "yours are the places"),
        (find_with_more_rows, "too many rows"),
        (partial(places_that_reach, 0.905, 9), "too many rows"),
        (partial(places_that_reach, 0.899, 9), "90 % of the rows are not enough"),
        (find_with_fewer_rows, "too few rows"),
        (lambda run, memory, donor, word: [7], "count from 0"),
        (lambda run, memory, donor, word: [0.0], "whole numbers"),
        (lambda run, memory, donor, word: "the", "return a list of places"),
        (lambda run, memory, donor, word: [], "your set is empty"),
        (lambda run, memory, donor, word: [0], "yours are the places [0]"),
    ],
}

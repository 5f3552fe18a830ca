"""Answers to lesson 12's exercises that no table holds: right ones, and wrong ones."""

from itertools import combinations

import torch

from helpers.evaluation import alignment_error_rate

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


# -------------------------------------------------------------- 12.3 find the places


def find_with_masks(run, memory, donor, word):
    length = memory.size(1)
    best = None
    for number in range(1, 2**length):
        chosen = torch.tensor([bool(number >> i & 1) for i in range(length)])
        said = run(torch.where(chosen[None, :, None], donor, memory))
        share = (said[:, word] == run(donor)[:, word]).double().mean()
        key = (-int(chosen.sum()), float(share))
        if share >= 0.9 and (best is None or key > best[0]):
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
        if share(some[-1]) >= 0.9:
            return some[-1][::-1]
    return tuple(places)


def find_greedily(run, memory, donor, word):
    wanted, chosen, patched = run(donor)[:, word], [], memory.clone()
    while (run(patched)[:, word] == wanted).float().mean() < 0.9:
        shares = {}
        for place in set(range(memory.size(1))) - {*chosen}:
            trial = patched.clone()
            trial[:, place] = donor[:, place]
            shares[place] = (run(trial)[:, word] == wanted).float().mean()
        chosen.append(max(shares, key=shares.get))
        patched[:, chosen[-1]] = donor[:, chosen[-1]]
    return sorted(chosen)


RIGHT = {
    "error_rate": [rate_of_numbered_links, rate_in_loops],
    "put_in": [patch_in_two_halves, patch_with_where],
    "find_places": [find_with_masks, find_as_a_tuple],
}
WRONG = {
    "error_rate": [
        (alignment_error_rate, "the course's own"),
        (lambda found, truth: 0.123, "the result"),
        (lambda found, truth: [1, 2], "return one number"),
    ],
    "put_in": [
        (patch_nothing, "the result differs"),
        (patch_in_place, "in place"),
        (lambda layers, x, donor, level, place: x, "the result differs"),
        (lambda layers, x, donor, level, place: x[0], "the shape is"),
    ],
    "find_places": [
        (find_greedily, "yours are the places"),
        (lambda run, memory, donor, word: [7], "count from 0"),
        (lambda run, memory, donor, word: "the", "return a list of places"),
        (lambda run, memory, donor, word: [], "yours are the places"),
    ],
}

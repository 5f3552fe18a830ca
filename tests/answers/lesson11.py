"""Answers to the exercises of lesson 11: right ones in other styles, and wrong ones."""

import torch
from torch import nn
from torch.nn import functional as F

from helpers import BOS, EOS, PAD
from helpers.masks import causal_mask

# ------------------------------------------------------------ 11.1 greedy decoding


def row_by_row(model, source, max_length):
    """Lists, a sentence at a time, padded at the end."""
    rows = []
    for place in range(len(source)):
        words = []
        while len(words) < max_length and EOS not in words:
            tokens = torch.full((len(source), len(words) + 1), BOS)
            tokens[place, 1:] = torch.tensor(words)
            words.append(model(source, tokens)[place, -1].argmax().item())
        rows.append(words)
    longest = max(map(len, rows))
    return [words + [PAD] * (longest - len(words)) for words in rows]


def masked_at_the_end(model, source, max_length):
    """Written to the last step, and what follows an EOS is wiped out after that."""
    tokens = source.new_full((len(source), 1), BOS)
    for _ in range(max_length):
        with torch.no_grad():
            best = model(source, tokens)[:, -1:].softmax(-1).topk(1).indices
        tokens = torch.cat([tokens, best[..., 0]], dim=1)
    ids = tokens[:, 1:]
    ended = (ids == EOS).cumsum(1) - (ids == EOS).int() > 0
    return torch.where(ended, PAD, ids)


def filled_in_place(model, source, max_length):
    ids = torch.zeros(len(source), max_length, dtype=torch.long)
    alive = torch.ones(len(source), dtype=torch.bool)
    for step in range(max_length):
        read = F.pad(ids[:, :step], (1, 0), value=BOS)
        ids[alive, step] = model(source, read)[alive, -1].argmax(-1)
        alive = alive & (ids[:, step] != EOS)
    return ids.numpy()


def of_a_beginner(model, source, max_length):
    """No note of what has ended."""
    tokens = torch.full((len(source), 1), BOS)
    for _ in range(max_length):
        token = model(source, tokens)[:, -1].argmax(-1)
        tokens = torch.cat([tokens, token.unsqueeze(1)], dim=1)
        if (token == EOS).all():
            break
    return tokens[:, 1:]


def sampled(model, source, max_length):
    tokens = source.new_full((len(source), 1), BOS)
    for _ in range(max_length):
        shares = model(source, tokens)[:, -1].softmax(-1)
        tokens = torch.cat([tokens, torch.multinomial(shares, 1)], dim=1)
    return tokens[:, 1:]


def for_ever(model, source, max_length):
    tokens = source.new_full((len(source), 1), BOS)
    while not (tokens == EOS).any(dim=1).all():
        token = model(source, tokens)[:, -1].argmax(-1)
        tokens = torch.cat([tokens, token[:, None]], dim=1)
    return tokens[:, 1:]


def of_four_rows(model, source, max_length):
    tokens = torch.full((4, 1), BOS)
    for _ in range(max_length):
        token = model(source, tokens)[:, -1].argmax(-1)
        tokens = torch.cat([tokens, token[:, None]], dim=1)
    return tokens[:, 1:]


def from_nothing(model, source, max_length):
    tokens = source.new_empty((len(source), 0))
    return model(source, tokens)


# ------------------------------------------------------------ 11.2 a step with a cache


def with_attributes(attention, x, cache):
    keys, values = attention.project(x, x)
    if cache.keys is None:
        cache.keys, cache.values = keys, values
    else:
        cache.keys = torch.cat([cache.keys, keys], 2)
        cache.values = torch.cat((cache.values, values), dim=2)
    return attention.attend(x, cache.keys, cache.values, None)


def with_the_last_row(attention, x, cache):
    keys, values = cache.extend(*attention.project(x, x))
    return attention.attend(x, keys, values, causal_mask(len(cache))[:, :, -1:])


def by_hand(attention, x, cache):
    query = attention.split_heads(attention.query_projection(x))
    cache.extend(
        attention.split_heads(attention.key_projection(x)),
        attention.split_heads(attention.value_projection(x)),
    )
    scores = query @ cache.keys.mT / query.size(-1) ** 0.5
    context = (scores.softmax(-1) @ cache.values).transpose(1, 2).flatten(2)
    return attention.output_projection(context)


SEEN = []


def remembers_elsewhere(attention, x, cache):
    """The outputs are right, and the cache holds nothing."""
    if len(SEEN) == 0 or SEEN[-1].shape != x.shape:
        SEEN.clear()
    SEEN.append(x)
    whole = torch.cat(SEEN, dim=1)
    return attention(x, whole, whole)


def for_two_heads(attention, x, cache):
    keys = attention.key_projection(x).view(len(x), 1, 4, 3).transpose(1, 2)
    values = attention.value_projection(x).view(len(x), 1, 4, 3).transpose(1, 2)
    return attention.attend(x, *cache.extend(keys, values))


# ------------------------------------------------------------ 11.3 beam search


def with_tensors(next_scores, beam_size, max_length):
    """A topk over all continuations; finished rows go on with PAD, at no cost."""
    tokens, totals = [[]], torch.zeros(1)
    for _ in range(max_length):
        rows = []
        for before in tokens:
            scores = next_scores(before)
            if EOS in before:
                scores = torch.full_like(scores, -torch.inf)
                scores[PAD] = 0.0
            rows.append(scores)
        candidates = totals[:, None] + torch.stack(rows)
        best = candidates.flatten().topk(min(beam_size, candidates.numel()))
        found = [divmod(i, candidates.size(1)) for i in best.indices.tolist()]
        tokens = [[*tokens[row], token] for row, token in found]
        totals = best.values
    return [token for token in tokens[0] if token != PAD]


def with_tuples(next_scores, beam_size, max_length):
    beam = {(): 0.0}
    for _ in range(max_length):
        if all(tokens and tokens[-1] == EOS for tokens in beam):
            break
        found = {tokens: total for tokens, total in beam.items() if EOS in tokens}
        for tokens, total in beam.items():
            if tokens not in found:
                top = next_scores(tokens).topk(3)
                for score, token in zip(*top, strict=True):
                    found[*tokens, token.item()] = total + score.item()
        beam = dict(sorted(found.items(), key=lambda x: -x[1])[:beam_size])
    return max(beam, key=beam.get)


def with_all_tokens(next_scores, beam_size, max_length):
    beam = [(0.0, ())]
    for _ in range(max_length):
        found = [entry for entry in beam if entry[1][-1:] == (EOS,)]
        for total, tokens in beam:
            if tokens[-1:] != (EOS,):
                scores = next_scores(torch.tensor(tokens, dtype=torch.long))
                found += [
                    (total + s, (*tokens, i)) for i, s in enumerate(scores.numpy())
                ]
        beam = sorted(found, key=lambda entry: entry[0])[-beam_size:]
    return torch.tensor(beam[-1][1])


def greedy(next_scores, beam_size, max_length):
    tokens = []
    while len(tokens) < max_length and EOS not in tokens:
        tokens.append(next_scores(tokens).argmax().item())
    return tokens


def with_its_score(next_scores, beam_size, max_length):
    return with_tensors(next_scores, beam_size, max_length), 0.0


RIGHT = {
    "greedy": [row_by_row, masked_at_the_end, filled_in_place],
    "cached_step": [with_attributes, with_the_last_row, by_hand],
    "beam": [with_tensors, with_all_tokens],
}
WRONG = {
    "greedy": [
        (of_a_beginner, "a row goes on after its EOS"),
        (sampled, "two calls with the same inputs differ"),
        (for_ever, "a row goes on after its EOS"),
        (of_four_rows, "a row goes on after its EOS"),
        (from_nothing, "the first token to read is BOS"),
        (lambda model, source, n: source, "row 0 is ["),
        (lambda model, source, n: source[0], "not (5,)"),
        (lambda model, source, n: model(source, source), "not (4, 5, 12)"),
        (nn.Linear(2, 2), "your code stopped with TypeError"),
    ],
    "cached_step": [
        (remembers_elsewhere, "two calls with the same inputs differ"),
        (for_two_heads, "it goes wrong: is a size written as a number?"),
        (lambda attention, x, cache: x, "step 1 is the first to differ"),
        (lambda attention, x, cache: x[:, 0], "step 1 returns (2, 12), due is"),
        (lambda attention, x, cache: "x", "step 1 returns str, due is a tensor"),
        (
            lambda attention, x, cache: cache.extend(*attention.project(x, x)) and None,
            "your function returns nothing",
        ),
        (
            lambda attention, x, cache: attention.attend(x, cache.keys, cache.values),
            "your code stopped with AttributeError",
        ),
    ],
    "beam": [
        (greedy, "one hypothesis alone is followed"),
        (with_tuples, "due is"),
        (with_its_score, "hypothesis, not tuple"),
        (lambda scores, size, n: [4, 4], "for small model 1 it returns [4, 4]"),
        (lambda scores, size, n: scores([]), "for small model 1 it returns"),
        (lambda scores, size, n: 4, "return the list of ids of one hypothesis, not a"),
        (lambda scores, size, n: "le chat", "hypothesis, not str"),
        (lambda scores, size, n: scores([]) and None, "your code stopped with"),
        (lambda scores, size, n: print(end=""), "your function returns nothing"),
    ],
}

"""Answers to the exercises of lesson 11: right ones in other styles, and wrong ones."""

import heapq

import torch
from torch import nn
from torch.nn import functional as F

from helpers import BOS, EOS, PAD
from helpers.masks import causal_mask

# ------------------------------------------------------------ 11.1 greedy decoding


def row_by_row(model, source, max_length):
    """Lists, a sentence at a time, padded at the end."""
    rows = ragged(model, source, max_length)
    longest = max(map(len, rows))
    return [words + [PAD] * (longest - len(words)) for words in rows]


def ragged(model, source, max_length):
    rows = []
    for sentence in source:
        words = []
        while len(words) < max_length and EOS not in words:
            logits = model(sentence[None], torch.tensor([[BOS, *words]]))
            words.append(logits[0, -1].argmax().item())
        rows.append(words)
    return rows


def live_rows_alone(model, source, max_length):
    """Rows that have ended leave the batch."""
    ids = source.new_full((len(source), max_length + 1), PAD)
    ids[:, 0], live = BOS, torch.arange(len(source))
    for step in range(max_length):
        token = model(source[live], ids[live, : step + 1])[:, -1].argmax(-1)
        ids[live, step + 1] = token
        live = live[token != EOS]
        if len(live) == 0:
            break
    return ids[:, 1:]


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


def in_a_wide_buffer(width):
    """All columns come back, used or not; max_length + 1 is for a BOS never stored."""

    def write(model, source, max_length):
        ids = filled_in_place(model, source, max_length)
        return F.pad(torch.tensor(ids), (0, width - max_length), value=PAD)

    return write


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


def until_row_0_ends(model, source, max_length):
    tokens = torch.full((len(source), 1), BOS)
    ended = torch.zeros(len(source), dtype=torch.bool)
    while tokens.size(1) <= max_length and not ended[0]:
        token = model(source, tokens)[:, -1].argmax(-1).where(~ended, PAD)
        tokens = torch.cat([tokens, token[:, None]], dim=1)
        ended |= token == EOS
    return tokens[:, 1:]


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


def projects_again(attention, x, cache):
    """Old tokens are kept beside keys and values, and projected again."""
    cache.seen = torch.cat([getattr(cache, "seen", x[:, :0]), x], dim=1)
    cache.keys, cache.values = attention.project(cache.seen, cache.seen)
    return attention.attend(x, cache.keys, cache.values)


def zeroes_its_input(attention, x, cache):
    output = with_attributes(attention, x, cache)
    x.zero_()
    return output


def with_a_window(attention, x, cache):
    keys, values = cache.extend(*attention.project(x, x))
    return attention.attend(x, keys[:, :, -30:], values[:, :, -30:])


def swapped_inside(attention, x, cache):
    """The outputs are right, and the cache holds the two under each other's name."""
    keys, values = attention.project(x, x)
    values, keys = cache.extend(values, keys)
    return attention.attend(x, keys, values)


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


def ranked(key, at_the_end=None):
    """A beam whose hypotheses are ranked by key(tokens, total)."""

    def search(next_scores, beam_size, max_length):
        beam = [([], 0.0)]
        for _ in range(max_length):
            found = []
            for tokens, total in beam:
                if EOS in tokens:
                    found.append((tokens, total))
                    continue
                scores = next_scores(tokens).tolist()
                found += [([*tokens, i], total + x) for i, x in enumerate(scores)]
            beam = sorted(found, key=lambda entry: -key(*entry))[:beam_size]
        return max(beam, key=lambda entry: (at_the_end or key)(*entry))[0]

    return search


def mean(tokens, total):
    return total / len(tokens)


def of_the_textbook(next_scores, beam_size, max_length):
    """Those that end are set aside, and the beam is smaller by one."""
    beam, done = [([], 0.0)], []
    for _ in range(max_length):
        found = [
            ([*tokens, i], total + x)
            for tokens, total in beam
            for i, x in enumerate(next_scores(tokens).tolist())
        ]
        found = sorted(found, key=lambda entry: -entry[1])[: beam_size - len(done)]
        done += [entry for entry in found if entry[0][-1] == EOS]
        beam = [entry for entry in found if entry[0][-1] != EOS]
    return max(done + beam, key=lambda entry: entry[1])[0]


def apart(stops=False, ended_first=False):
    """Those that end are set aside, and the beam stays full."""

    def search(next_scores, beam_size, max_length):
        beam, done = [([], 0.0)], []
        for _ in range(max_length):
            found = [
                ([*tokens, i], total + x)
                for tokens, total in beam
                for i, x in enumerate(next_scores(tokens).tolist())
            ]
            found.sort(key=lambda entry: -entry[1])
            done += [entry for entry in found[:beam_size] if entry[0][-1] == EOS]
            beam = [entry for entry in found if entry[0][-1] != EOS][:beam_size]
            if stops and len(done) >= beam_size:
                break
        among = done or beam if ended_first else done + beam
        return max(among, key=lambda entry: entry[1])[0]

    return search


def exact(next_scores, beam_size, max_length):
    """The best of all sentences, by best-first search."""
    heap = [(0.0, [])]
    while True:
        cost, tokens = heapq.heappop(heap)
        if EOS in tokens or len(tokens) == max_length:
            return tokens
        for i, x in enumerate(next_scores(tokens).tolist()):
            if x > -torch.inf:
                heapq.heappush(heap, (cost - x, [*tokens, i]))


def trimmed(trim):
    """The right search, but that trim(beam, beam_size) gives the next beam, or None."""

    def search(next_scores, beam_size, max_length):
        beam = [([], 0.0)]
        for _ in range(max_length):
            found = [entry for entry in beam if EOS in entry[0]]
            for tokens, total in beam:
                if EOS not in tokens:
                    scores = next_scores(tokens).tolist()
                    found += [([*tokens, i], total + x) for i, x in enumerate(scores)]
            found.sort(key=lambda entry: -entry[1])
            kept = trim(found[:beam_size], beam_size)
            if kept is None:
                return found[0][0]
            beam = kept
        return beam[0][0]

    return search


def of_the_likeliest(count):
    """The right search, but each hypothesis has so many continuations at most."""

    def search(next_scores, beam_size, max_length):
        def likeliest(tokens):
            scores = next_scores(tokens)
            low = scores.topk(min(count, len(scores))).values[-1]
            return scores.where(scores >= low, -torch.inf)

        return with_tensors(likeliest, beam_size, max_length)

    return search


def few_have_ended(beam, beam_size):
    return None if 2 * sum(EOS in tokens for tokens, _ in beam) >= beam_size else beam


def near_the_best(beam, beam_size):
    return [entry for entry in beam if entry[1] > beam[0][1] - 2]


def with_one_list(next_scores, beam_size, max_length):
    """Each continuation is appended to the same list."""
    beam = [([], 0.0)]
    for _ in range(max_length):
        found = []
        for tokens, total in beam:
            for i, x in enumerate(next_scores(tokens).tolist()):
                tokens.append(i)
                found.append((tokens, total + x))
        beam = sorted(found, key=lambda entry: -entry[1])[:beam_size]
    return beam[0][0]


def greedy(next_scores, beam_size, max_length):
    tokens = []
    while len(tokens) < max_length and EOS not in tokens:
        tokens.append(next_scores(tokens).argmax().item())
    return tokens


def with_its_score(next_scores, beam_size, max_length):
    return with_tensors(next_scores, beam_size, max_length), 0.0


RIGHT = {
    "greedy": [row_by_row, live_rows_alone, masked_at_the_end, filled_in_place],
    "cached_step": [with_attributes, with_the_last_row, by_hand],
    "beam": [
        with_tensors,
        with_all_tokens,
        ranked(lambda tokens, total: total),
        trimmed(lambda beam, size: None if EOS in beam[0][0] else beam),
    ],
}
WRONG = {
    "greedy": [
        (of_a_beginner, "a row goes on after its EOS"),
        (ragged, "the rows differ in length"),
        (
            lambda model, source, n: filled_in_place(model, source, n) * 1.0,
            "the ids are floats",
        ),
        (in_a_wide_buffer(60), "of shape (batch, ≤ max_length), not (4, 60)"),
        (
            lambda model, source, n: in_a_wide_buffer(n + 1)(model, source, n),
            "of shape (batch, ≤ max_length), not (4, 13)",
        ),
        (sampled, "two calls with the same inputs differ"),
        (for_ever, "a row goes on after its EOS"),
        (of_four_rows, "a row goes on after its EOS"),
        (until_row_0_ends, "it stops when row 0 has ended"),
        (from_nothing, "the first token to read is BOS"),
        (lambda model, source, n: source, "row 0 is ["),
        (lambda model, source, n: source[0], "not (2,)"),
        (lambda model, source, n: model(source, source), "not (4, 2, 12)"),
        (nn.Linear(2, 2), "your code stopped with TypeError"),
    ],
    "cached_step": [
        (remembers_elsewhere, "two calls with the same inputs differ"),
        (projects_again, "`cache.values`: keep nothing elsewhere"),
        (zeroes_its_input, "change"),
        (with_a_window, "step 31 is the first to differ"),
        (swapped_inside, "`cache.keys` holds the values"),
        (lambda a, x, cache: x + with_attributes(a, x, cache), "x is added"),
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
        (ranked(mean), "sums are divided by the number of tokens"),
        (ranked(lambda t, s: s, mean), "sums are divided by the number of tokens"),
        (of_the_textbook, "hypotheses that have ended are set aside"),
        (apart(), "hypotheses that have ended are set aside"),
        (apart(stops=True), "hypotheses that have ended are set aside"),
        (apart(stops=True, ended_first=True), "an ended hypothesis is preferred"),
        (exact, "it returns a sentence that the beam drops"),
        (
            trimmed(few_have_ended),
            "for small model 7 it returns [6, 6], due is [3]",
        ),
        (trimmed(near_the_best), "with beam_size=6 and max_length=12: for small model"),
        (trimmed(lambda beam, size: beam[:12]), "with beam_size=30 and max_length=5:"),
        (of_the_likeliest(5), "with beam_size=30 and max_length=5: for small model"),
        (with_one_list, "does `append` change a list that is used again?"),
        (
            ranked(lambda t, s: s, lambda t, s: (t[-1] == EOS, s)),
            "an ended hypothesis is preferred",
        ),
        (
            lambda scores, size, n: ranked(lambda t, s: s)(scores, 3 * size, n),
            "the beam is wider than beam_size",
        ),
        (lambda scores, size, n: [EOS], "it returns [3], due is"),
        (with_its_score, "hypothesis, not several things"),
        (lambda scores, size, n: [4, 4], "for small model 1 it returns [4, 4]"),
        (lambda scores, size, n: scores([]), "for small model 1 it returns"),
        (lambda scores, size, n: 4, "return the list of ids of one hypothesis, not a"),
        (lambda scores, size, n: "le chat", "hypothesis, not str"),
        (lambda scores, size, n: scores([]) and None, "your code stopped with"),
        (lambda scores, size, n: print(end=""), "your function returns nothing"),
    ],
}

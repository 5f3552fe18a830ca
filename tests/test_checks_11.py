"""Lesson 11's checks: every mistake is caught by name, nothing sound is blamed."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from findings import assert_all_right, assert_wrong

from helpers import BOS, EOS, PAD, UNK
from helpers.checks import lesson11
from helpers.decoding import greedy_decode

# ------------------------------------------------------------------ 11.1 greedy


def by_batch(
    model,
    source,
    max_length,
    *,
    start=BOS,
    pick=lambda logits: logits[:, -1].argmax(dim=-1),
    keep=lambda token, finished: token.masked_fill(finished, PAD),
    early=False,
    over=torch.all,
):
    tokens = torch.full((len(source), 1), start)
    finished = torch.zeros(len(source), dtype=torch.bool)
    for _ in range(max_length):
        token = pick(model(source, tokens))
        if early:
            finished = finished | (token == EOS)
        token = keep(token, finished)
        tokens = torch.cat([tokens, token[:, None]], dim=1)
        finished = finished | (token == EOS)
        if over(finished):
            break
    return tokens[:, 1:]


def by_rows(model, source, max_length):
    """Sentence by sentence, as lists."""
    rows = []
    for one in source:
        ids = []
        while len(ids) < max_length and EOS not in ids:
            logits = model(one[None], torch.tensor([[BOS, *ids]]))
            ids.append(int(logits[0, -1].argmax()))
        rows.append(ids)
    longest = max(map(len, rows))
    return [row + [PAD] * (longest - len(row)) for row in rows]


def by_parts(model, source, max_length):
    """The source is encoded once."""
    memory = model.encode(source)
    tokens = source.new_full((source.size(0), 1), BOS)
    for _ in range(max_length):
        logits = model.project(model.decode(tokens, memory, source)[:, -1:])
        tokens = torch.cat([tokens, logits.argmax(dim=-1)], dim=1)
        if (tokens == EOS).any(dim=1).all():
            break
    ended = (tokens == EOS).cumsum(dim=1) - (tokens == EOS).long()
    return tokens.masked_fill(ended > 0, PAD)[:, 1:]


def by_helper(model, source, max_length):
    return greedy_decode(model, source, max_length=max_length)


@pytest.mark.parametrize("sound", [by_batch, by_rows, by_parts, by_helper])
def test_sound_greedy(sound):
    assert_all_right(lesson11.greedy.findings(sound), 3)


def shifted(count):
    return lambda model, source, max_length: by_batch(model, source, max_length + count)


def mutant(**changes):
    return lambda *inputs: by_batch(*inputs, **changes)


def forever(model, source, max_length):
    tokens = torch.full((len(source), 1), BOS)
    while True:
        token = model(source, tokens)[:, -1].argmax(dim=-1)
        tokens = torch.cat([tokens, token[:, None]], dim=1)


def all_at_once(model, source, max_length):
    tokens = torch.full((len(source), 1), BOS)
    for _ in range(max_length):
        tokens = torch.cat([tokens, model(source, tokens).argmax(dim=-1)], dim=1)
    return tokens[:, 1:]


def last_alone(model, source, max_length):
    return by_batch(lambda s, tokens: model(s, tokens[:, -1:]), source, max_length)


def swapped(model, source, max_length):
    return by_batch(lambda s, tokens: model(tokens, s), source, max_length)


def without_bos(model, source, max_length):
    """The loop begins with the source's first token."""
    tokens = source[:, :1]
    for _ in range(max_length):
        token = model(source, tokens)[:, -1].argmax(dim=-1)
        tokens = torch.cat([tokens, token[:, None]], dim=1)
    return tokens[:, 1:]


def from_nothing(model, source, max_length):
    tokens = source[:, :0]
    for _ in range(max_length):
        token = model(source, tokens)[:, -1].argmax(dim=-1)
        tokens = torch.cat([tokens, token[:, None]], dim=1)
    return tokens


def forgetful(model, source, max_length):
    """`finished` is the last token's alone."""
    tokens = torch.full((len(source), 1), BOS)
    finished = torch.zeros(len(source), dtype=torch.bool)
    for _ in range(max_length):
        token = model(source, tokens)[:, -1].argmax(dim=-1).masked_fill(finished, PAD)
        tokens = torch.cat([tokens, token[:, None]], dim=1)
        finished = token == EOS
        if finished.all():
            break
    return tokens[:, 1:]


def drawn(model, source, max_length):
    def pick(logits):
        return torch.multinomial((logits[:, -1] / 5).softmax(-1), 1).squeeze(1)

    return by_batch(model, source, max_length, pick=pick)


GREEDY = {
    "it starts from PAD": mutant(start=PAD),
    "it starts from EOS": mutant(start=EOS),
    "it starts from UNK": mutant(start=UNK),
    "it starts from the first token of the source": without_bos,
    "the logits of the first position": mutant(
        pick=lambda logits: logits[:, 0].argmax(dim=-1)
    ),
    "the argmax runs along the wrong axis": mutant(
        pick=lambda logits: logits.argmax(dim=1)[:, -1]
    ),
    "the least probable": mutant(
        pick=lambda logits: logits[:, -1].nan_to_num(neginf=99).argmin(dim=-1)
    ),
    "the last token alone": last_alone,
    "source and target are swapped": swapped,
    "goes on after its EOS": mutant(keep=lambda token, finished: token),
    "EOS itself is replaced by PAD": mutant(early=True),
    "as soon as one sentence has ended": mutant(over=torch.any),
    "go on to max_length although": mutant(over=lambda finished: False),
    "begins again after one PAD": forgetful,
    "is filled with EOS": mutant(
        keep=lambda token, finished: token.masked_fill(finished, EOS)
    ),
    "the rows differ in length": lambda *inputs: [
        row[row != PAD].tolist() for row in by_batch(*inputs)
    ],
    "one token too few": shifted(-1),
    "one token too many": shifted(1),
    "BOS is still in front": lambda *inputs: torch.nn.functional.pad(
        by_batch(*inputs), (1, 0), value=BOS
    ),
    "the last token is cut off": lambda *inputs: by_batch(*inputs)[:, :-1],
    "two calls differ": drawn,
    "the first token to read is BOS": from_nothing,
    "the loop went on": forever,
    "a step appends more than one": all_at_once,
    "a tensor of ids (batch, ≤ max_length), not (4,": lambda *inputs: by_batch(*inputs)[
        :, 0
    ],
    "not tuple": lambda *inputs: (by_batch(*inputs), None),
    "ids are integers": lambda *inputs: by_batch(*inputs).float(),
    "your code stopped with": lambda model, source, max_length: by_batch(
        model, source, max_length, pick=lambda logits: logits.argmax(dim=-1)
    ),
}


@pytest.mark.parametrize("name", GREEDY)
def test_mistakes_in_greedy_decoding_are_named(name):
    assert_wrong(lesson11.greedy.findings(GREEDY[name]), name)


def test_two_mistakes_in_greedy_decoding_are_both_named():
    both = mutant(start=PAD, keep=lambda token, finished: token)
    found = lesson11.greedy.findings(both)
    assert_wrong(found, "it starts from PAD", "goes on after its EOS")


@pytest.mark.slow
def test_what_no_mistake_explains_is_described():
    def second_best(logits):
        return logits[:, -1].topk(2).indices[:, 1]

    found = lesson11.greedy.findings(mutant(pick=second_best))
    assert_wrong(found, "row 0 is", "due is")
    found = lesson11.greedy.findings(lambda *inputs: by_batch(*inputs)[:3])
    assert_wrong(found, "3 rows of ids for 4")


@pytest.mark.parametrize("odd", [None, 5, "x", lambda *inputs: None, lambda: 1])
def test_greedy_never_raises(odd):
    found = lesson11.greedy.findings(odd)
    assert [finding.mark for finding in found] in (["○"], ["✗"])


# ---------------------------------------------------------- 11.2 length penalty

DUE = {
    "score_short": -3.0 / 1.5**0.6,
    "score_long": -4.2 / 2.5**0.6,
    "tie": math.log(1.4) / math.log(5 / 3),
}


def test_right_numbers():
    rounded = {name: round(value, 2) for name, value in DUE.items()}
    tensors = {name: torch.tensor(value) for name, value in DUE.items()}
    for answers in (DUE, rounded, tensors):
        assert_all_right(lesson11.length_penalty.findings(**answers), 3)


def test_nothing_attempted():
    found = lesson11.length_penalty.findings(score_short=None, tie=...)
    assert [finding.mark for finding in found] == ["○"] * 3


SLIPS = [
    ("score_short", -3.0 * 1.5**0.6, "multiplying punishes"),
    ("score_long", -4.2 * 2.5**0.6, "multiplying punishes"),
    ("score_long", -0.42, "the mean per token"),
    ("score_short", -3.0 / 4**0.6, "5 is added"),
    ("score_long", -4.2 / 2.5, "that is α = 1"),
    ("score_short", -3.0 / (0.6 * 1.5), "α is a power"),
    ("score_short", -3.0 / 9**0.6, "divide 5 + n by 6"),
    ("score_long", -4.2 / ((5 + 9) / 6) ** 0.6, "EOS is a token too"),
    ("score_long", -4.2 / ((5 + 11) / 6) ** 0.6, "counts EOS already"),
    ("score_short", -3.0, "α = 0"),
    ("score_short", 3.0 / 1.5**0.6, "stays negative"),
    ("score_short", 1.5**0.6, "this is the penalty"),
    ("tie", math.log(1.4) / math.log(2.5), "5 is added to both"),
    ("tie", -DUE["tie"], "the sign"),
    ("tie", 1.4 * 9 / 15, "take logarithms"),
    ("tie", 1 / DUE["tie"], "upside down"),
    ("tie", 1.4, "ratio of the log-probabilities"),
    ("tie", 0.6, "at 0.6 the short one is still ahead"),
    ("tie", 1, "the long one is ahead already"),
    ("tie", 0.1, "is not it"),
    ("tie", "0.66", "a number is due"),
    ("score_long", True, "a number is due"),
]


@pytest.mark.parametrize("name, answer, hint", SLIPS)
def test_wrong_numbers_are_explained(name, answer, hint):
    found = lesson11.length_penalty.findings(**{**DUE, name: answer})
    marks = {f.text.split(" ")[0].rstrip(":"): f for f in found}
    assert marks[name].mark == "✗" and hint in marks[name].text
    assert [f.mark for f in found].count("✓") == 2


# ------------------------------------------------------------------ 11.3 n-grams


def grams(tokens, n):
    return [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]


def by_counter(hypothesis, reference, n):
    ours, theirs = Counter(grams(hypothesis, n)), Counter(grams(reference, n))
    return (ours & theirs).total(), ours.total()


def by_removing(hypothesis, reference, n):
    left, matched = [" ".join(gram) for gram in grams(reference, n)], 0
    for gram in map(" ".join, grams(hypothesis, n)):
        if gram in left:
            left.remove(gram)
            matched += 1
    return [matched, max(0, len(hypothesis) - n + 1)]


def by_numpy(hypothesis, reference, n):
    return tuple(map(np.int64, by_counter(hypothesis, reference, n)))


def by_tensor(hypothesis, reference, n):
    return torch.tensor(by_counter(hypothesis, reference, n))


@pytest.mark.parametrize("sound", [by_counter, by_removing, by_numpy, by_tensor])
def test_sound_matches(sound):
    assert_all_right(lesson11.ngram_matches.findings(sound), 2)


def swap(function):
    return lambda h, r, n: function(h, r, n)[::-1]


MATCHES = {
    "more often than the reference has it: clip": lambda h, r, n: (
        sum(gram in grams(r, n) for gram in grams(h, n)),
        len(grams(h, n)),
    ),
    "the sum of all matches is clipped": lambda h, r, n: (
        min(sum(gram in grams(r, n) for gram in grams(h, n)), len(grams(r, n))),
        len(grams(h, n)),
    ),
    "repeated runs of the hypothesis count once": lambda h, r, n: (
        len({*grams(h, n)} & {*grams(r, n)}),
        len({*grams(h, n)}),
    ),
    "stands twice in both counts once": lambda h, r, n: (
        len({*grams(h, n)} & {*grams(r, n)}),
        len(grams(h, n)),
    ),
    "the total is that of the reference": lambda h, r, n: by_counter(r, h, n),
    "place by place": lambda h, r, n: (
        sum(a == b for a, b in zip(grams(h, n), grams(r, n), strict=False)),
        len(grams(h, n)),
    ),
    "the last run is missing": lambda h, r, n: by_counter(h[:-1], r[:-1], n),
    "single words are counted": lambda h, r, n: by_counter(h, r, 1),
    "the total counts words": lambda h, r, n: (by_counter(h, r, n)[0], len(h)),
    "runs overlap": lambda h, r, n: (
        (Counter(grams(h, n)[::n]) & Counter(grams(r, n)[::n])).total(),
        len(grams(h, n)[::n]),
    ),
    "swapped": swap(by_counter),
    "not one number": lambda h, r, n: 0.5,
    "two counts, matched and total, not 'x'": lambda h, r, n: "x",
    "due is": lambda h, r, n: (0, len(grams(h, n))),
    "your code stopped with": lambda h, r, n: by_counter(h, r),
}


@pytest.mark.parametrize("name", MATCHES)
def test_mistakes_in_the_matches_are_named(name):
    assert_wrong(lesson11.ngram_matches.findings(MATCHES[name]), name)


@pytest.mark.parametrize("odd", [None, 5, "x", lambda h, r, n: None])
def test_matches_never_raise(odd):
    found = lesson11.ngram_matches.findings(odd)
    assert [finding.mark for finding in found] in (["○"], ["✗"])


def test_changing_the_lists_in_place_is_survived():
    def pops(hypothesis, reference, n):
        answer = by_counter(hypothesis, reference, n)
        hypothesis.clear()
        return answer

    assert_all_right(lesson11.ngram_matches.findings(pops), 2)

"""Lesson 07's checks: every mistake is caught by name, nothing sound is blamed."""

import matplotlib.pyplot as plt
import pytest
import torch
from findings import assert_all_right, assert_answers, assert_wrong
from torch.nn import functional as F

from helpers import BOS, EOS, PAD
from helpers.caching import AttentionCache
from helpers.checks import lesson07
from helpers.masks import causal_mask

# ------------------------------------------------------------------- 07.1 shift


def by_padding(words):
    say = F.pad(words, (0, 1), value=PAD)
    say[torch.arange(len(words)), (words != PAD).sum(1)] = EOS
    return F.pad(words, (1, 0), value=BOS), say


def by_rows(words):
    rows = [[i for i in row if i != PAD] for row in words.tolist()]
    size = words.size(1) + 1

    def padded(rows):
        return torch.tensor([row + [PAD] * (size - len(row)) for row in rows])

    return [padded([[BOS, *row] for row in rows]), padded([[*r, EOS] for r in rows])]


def by_slices(words):
    whole = torch.cat([by_padding(words)[0][:, :1], by_padding(words)[1]], dim=1)
    return whole[:, :-1], whole[:, 1:]


def column(words, token):
    return torch.full((len(words), 1), token)


@pytest.mark.parametrize("sound", [by_padding, by_rows, by_slices])
def test_sound_shifts(sound):
    assert_all_right(lesson07.shift.findings(sound), 3)


SHIFTS = {
    "the two are swapped": lambda w: by_padding(w)[::-1],
    "EOS stands behind the padding": lambda w: (
        torch.cat([column(w, BOS), w], 1),
        torch.cat([w, column(w, EOS)], 1),
    ),
    "EOS is missing": lambda w: (
        torch.cat([column(w, BOS), w], 1),
        torch.cat([w, column(w, PAD)], 1),
    ),
    "every place of padding says EOS": lambda w: (
        F.pad(w, (1, 0), value=BOS),
        torch.where(F.pad(w, (0, 1)) == PAD, EOS, F.pad(w, (0, 1))),
    ),
    "both begin with BOS": lambda w: (F.pad(w, (1, 0), value=BOS),) * 2,
    "both end in EOS": lambda w: (by_padding(w)[1],) * 2,
    "both are the whole row": lambda w: (
        (torch.cat([column(w, BOS), by_padding(w)[1]], 1),) * 2
    ),
    "BOS is missing": lambda w: (F.pad(w, (0, 1)), by_padding(w)[1]),
    "still ends in EOS": lambda w: (
        torch.cat([column(w, BOS), by_padding(w)[1]], 1),
        by_padding(w)[1],
    ),
    "still begins with BOS": lambda w: (
        by_padding(w)[0],
        torch.cat([column(w, BOS), by_padding(w)[1]], 1),
    ),
    "the last word of the longest sentence": lambda w: (
        by_padding(w)[0][:, :-1],
        by_padding(w)[1][:, :-1],
    ),
    "without their first and their last": lambda w: (w[:, :-1], w[:, 1:]),
    "on the wrong sides": lambda w: (
        F.pad(w, (1, 0), value=EOS),
        F.pad(w, (0, 1), value=BOS),
    ),
    "read has the shape (3, 3), due is (3, 4)": lambda w: (w, by_padding(w)[1]),
    "say: row 0 is": lambda w: (
        by_padding(w)[0],
        by_padding(w)[1].masked_fill(by_padding(w)[1] == EOS, 1),
    ),
    "read: row 0 is": lambda w: (F.pad(w, (1, 0), value=1), by_padding(w)[1]),
    "read: row 1 is [2, 5, 9, 9]": lambda w: (
        by_padding(w)[0].masked_fill(by_padding(w)[0] == PAD, 9),
        by_padding(w)[1],
    ),
    "ids are integers": lambda w: tuple(part.float() for part in by_padding(w)),
    "return two tensors": lambda w: by_padding(w)[0],
    "changes its inputs": lambda w: (w.fill_(5), w),
}


@pytest.mark.parametrize("name", SHIFTS)
def test_mistakes_in_the_shift_are_named(name):
    assert_wrong(lesson07.shift.findings(SHIFTS[name]), name)


def test_sizes_written_as_numbers_are_found_in_the_shift():
    def fixed(words):
        read, say = by_padding(words)
        say = F.pad(words, (0, 1), value=PAD)
        say[[0, 1, 2], [3, 1, 2]] = EOS
        return read, say

    found = lesson07.shift.findings(fixed)
    assert_wrong(found, "with words = [[5, 6], [8, 4]]", "IndexError")


def test_a_late_eos_shows_where_no_row_is_full():
    def last_column(words):
        read, say = by_padding(words)
        if (words[:, -1] != PAD).any():
            return read, say
        return read, F.pad(words, (0, 1), value=EOS)

    assert_wrong(lesson07.shift.findings(last_column), "EOS stands behind the padding")


# ------------------------------------------------------------- 07.2 cached step


def step(attention, x, cache):
    keys, values = cache.extend(*attention.project(x, x))
    return attention.attend(x, keys, values)


def step_with_attributes(attention, x, cache):
    keys, values = attention.project(x, x)
    if cache.keys is None:
        cache.keys, cache.values = keys, values
    else:
        cache.keys = torch.cat([cache.keys, keys], 2)
        cache.values = torch.cat((cache.values, values), dim=2)
    return attention.attend(x, cache.keys, cache.values, None)


def step_with_a_mask(attention, x, cache):
    keys, values = cache.extend(*attention.project(x, x))
    last_row = causal_mask(len(cache))[:, :, -1:]
    return attention.attend(x, keys, values, last_row)


@pytest.mark.parametrize("sound", [step, step_with_attributes, step_with_a_mask])
def test_sound_steps(sound, seed):
    assert_all_right(lesson07.cached_step.findings(sound, seed=seed), 3)


def alone_and_unkept(attention, x, cache):
    return attention(x, x, x)


def alone_but_kept(attention, x, cache):
    keys, values = attention.project(x, x)
    cache.extend(keys, values)
    return attention.attend(x, keys, values)


def filled_once(attention, x, cache):
    if not len(cache):
        cache.extend(*attention.project(x, x))
    return attention.attend(x, cache.keys, cache.values)


def first_row(attention, x, cache):
    keys, values = cache.extend(*attention.project(x, x))
    return attention.attend(x, keys, values, causal_mask(len(cache))[:, :, :1])


def the_past_alone(attention, x, cache):
    old, keys = (cache.keys, cache.values), attention.project(x, x)
    cache.extend(*keys)
    return attention.attend(x, *(keys if old[0] is None else old))


def swapped(attention, x, cache):
    values, keys = cache.extend(*attention.project(x, x))
    return attention.attend(x, keys, values)


def written_over(attention, x, cache):
    cache.keys, cache.values = attention.project(x, x)
    return attention.attend(x, cache.keys, cache.values)


def joined_and_extended(attention, x, cache):
    keys, values = attention.project(x, x)
    if len(cache):
        keys = torch.cat([cache.keys, keys], dim=2)
        values = torch.cat([cache.values, values], dim=2)
    return attention.attend(x, *cache.extend(keys, values))


def as_numpy(attention, x, cache):
    return step(attention, x, cache).numpy()


def twice(attention, x, cache):
    cache.extend(*attention.project(x, x))
    cache.extend(*attention.project(x, x))
    return attention.attend(x, cache.keys, cache.values)


def keys_as_values(attention, x, cache):
    keys, _ = cache.extend(*attention.project(x, x))
    return attention.attend(x, keys, keys)


def no_return(attention, x, cache):
    cache.extend(*attention.project(x, x))


def whole_mask(attention, x, cache):
    keys, values = cache.extend(*attention.project(x, x))
    return attention.attend(x, keys, values, causal_mask(len(cache)))


def before_the_first(attention, x, cache):
    keys, values = attention.project(x, x)
    keys = torch.cat([cache.keys, keys], dim=2)
    return attention.attend(x, keys, values)


def with_the_cache(attention, x, cache):
    return step(attention, x, cache), cache


def in_heads(attention, x, cache):
    cache.extend(*attention.project(x, x))
    return cache.values[:, :, -1:]


def in_front(attention, x, cache):
    keys, values = attention.project(x, x)
    if len(cache):
        keys = torch.cat([keys, cache.keys], 2)
        values = torch.cat([values, cache.values], 2)
    cache.keys, cache.values = keys, values
    return attention.attend(x, keys, values)


def not_projected(attention, x, cache):
    cache.extend(x, x)
    return attention.attend(x, cache.keys, cache.values)


def projected_twice(attention, x, cache):
    keys, values = cache.extend(*attention.project(x, x))
    return attention(x, keys, values)


def own_store():
    kept = AttentionCache()
    return lambda attention, x, cache: step(attention, x, kept)


def restarting_store():
    """Keeps the tokens elsewhere and starts anew with a new cache."""
    kept = {}

    def fresh(attention, x, cache):
        return step(attention, x, kept.setdefault(id(cache), AttentionCache()))

    return fresh


def in_training_of_five(attention, x, cache):
    output = step(attention, x, cache)
    return output[:2] if len(output) > 2 else output


def without_output_projection(attention, x, cache):
    keys, values = cache.extend(*attention.project(x, x))
    queries = attention.split_heads(attention.query_projection(x))
    context = F.scaled_dot_product_attention(queries, keys, values)
    return context.transpose(1, 2).flatten(2)


WRONG_STEPS = [
    (alone_and_unkept, "nothing is ever put in the cache"),
    (alone_but_kept, "what it holds is not used"),
    (filled_once, "filled once"),
    (first_row, "every token sees the first one alone"),
    (the_past_alone, "does not see itself"),
    (swapped, "keys and values are swapped"),
    (written_over, "every step writes over"),
    (joined_and_extended, "the cache holds 31 keys after 5 tokens"),
    (as_numpy, "step 1 returns ndarray"),
    (twice, "every token is in the cache twice"),
    (keys_as_values, "the keys serve as values"),
    (no_return, "`return` is due"),
    (whole_mask, "a new token needs no mask"),
    (before_the_first, "before the first step the cache holds None"),
    (with_the_cache, "step 1 returns tuple, due is a tensor of shape (2, 1, 16)"),
    (in_heads, "step 1 returns (2, 4, 1, 4)"),
    (projected_twice, "keys and values are projected already"),
    (in_front, "new ones go to the end"),
    (not_projected, "what is put in the cache is the token itself"),
    (restarting_store(), "the cache holds 0 keys after 5 tokens"),
    (without_output_projection, "step 1 differs from the full pass"),
    (in_training_of_five, "step 1 returns (2, 1, 16), due is a tensor of shape (3"),
]


@pytest.mark.parametrize(("wrong", "part"), WRONG_STEPS)
def test_mistakes_in_the_step_are_named(wrong, part, seed):
    found = lesson07.cached_step.findings(wrong, seed=seed)
    named = [finding for finding in found if part in finding.text]
    assert [finding.mark for finding in named] == ["✗"], found


def test_what_stays_outside_the_cache_is_found():
    found = lesson07.cached_step.findings(own_store())
    assert any("the cache holds 0 keys" in finding.text for finding in found)
    assert_wrong([found[-1]], "a second sentence", "remain elsewhere")


def test_the_check_draws_no_random_number_of_the_learner():
    before = torch.get_rng_state()
    lesson07.cached_step.findings(step)
    lesson07.reach.cache_clear()
    lesson07.diagnoses.findings({"A": 1})
    assert torch.equal(torch.get_rng_state(), before)


# ---------------------------------------------------------- 07.3 continued mask


def mask(cached, new):
    return causal_mask(cached + new)[:, :, cached:]


def mask_by_comparison(cached, new):
    keys = torch.arange(cached + new)
    return (keys <= torch.arange(cached, cached + new)[:, None])[None, None]


def mask_in_two_parts(cached, new):
    past = torch.ones(1, 1, new, cached, dtype=torch.bool)
    return torch.cat([past, causal_mask(new)], dim=-1)


@pytest.mark.parametrize("sound", [mask, mask_by_comparison, mask_in_two_parts])
def test_sound_masks(sound):
    assert_all_right(lesson07.continued_mask.findings(sound), 3)


def ones(cached, new):
    return torch.ones(1, 1, new, cached + new, dtype=torch.bool)


MASKS = {
    "the first rows of the causal mask": lambda c, n: causal_mask(c + n)[:, :, :n],
    "nothing is hidden": ones,
    "a column for each new token only": lambda c, n: causal_mask(n),
    "rows for the cached tokens": lambda c, n: causal_mask(c + n),
    "turned round": lambda c, n: ~mask(c, n),
    "does not see itself": lambda c, n: ones(c, n).tril(c - 1),
    "one token ahead": lambda c, n: ones(c, n).tril(c + 1),
    "the cached keys are hidden": lambda c, n: torch.cat(
        [torch.zeros(1, 1, n, c, dtype=torch.bool), causal_mask(n)], -1
    ),
    "see the cache alone": lambda c, n: ones(c, n) & (torch.arange(c + n) < c),
    "of the new tokens stand in front": lambda c, n: torch.cat(
        [causal_mask(n), ones(c, n)[..., :c]], -1
    ),
    "turned round, True = may attend; and a mask must be boolean": lambda c, n: (
        torch.zeros(1, 1, n, c + n).masked_fill(~mask(c, n), -torch.inf)
    ),
    "its last two axes are swapped": lambda c, n: mask(c, n).mT,
    "the two new axes are missing": lambda c, n: mask(c, n)[0, 0],
    "an axis is missing": lambda c, n: mask(c, n)[0],
    "must be boolean, not torch.float32": lambda c, n: mask(c, n).float(),
    "must be boolean, not torch.int64": lambda c, n: mask(c, n).long(),
    "the shape is (3,)": lambda c, n: torch.ones(3),
    "return a tensor, not a list": lambda c, n: mask(c, n).tolist(),
    "compare the pictures": lambda c, n: mask(c, n) & (torch.arange(c + n) != 1),
    "cached=0, new=4": lambda c, n: mask(c, n) if c else ones(c, n),
}


@pytest.mark.parametrize("name", MASKS)
def test_mistakes_in_the_mask_are_named(name):
    assert_wrong(lesson07.continued_mask.findings(MASKS[name]), name)


def test_a_wrong_mask_is_drawn(monkeypatch):
    drawn = []
    monkeypatch.setattr(plt, "show", lambda: drawn.append(plt.close("all")))
    lesson07.continued_mask(MASKS["nothing is hidden"])
    assert len(drawn) == 1
    lesson07.continued_mask(mask)
    assert len(drawn) == 1


# ------------------------------------------------------------- 07.4 diagnoses

RIGHT = {"A": 5, "B": 4, "C": 1, "D": 6}


def seen(fault):
    """The cells with any influence: of the target, of the source."""
    return tuple(found > 0 for found in lesson07.reach(fault))


def test_the_patients_are_as_the_lesson_says():
    triangle = causal_mask(6)[0, 0]
    three = (torch.arange(6) < 3).expand(6, 6)
    eye, full, empty = torch.eye(6) > 0, torch.ones(6, 6) > 0, torch.zeros(6, 6) > 0
    for fault, due in {
        1: (triangle, three),
        2: (full, three),
        3: (triangle, full),
        4: (triangle & three | eye, full),
        5: (triangle, triangle & three),
        6: (triangle | three, empty),
    }.items():
        assert all(map(torch.equal, seen(fault), due)), fault


def test_the_words_for_the_pictures_differ_where_the_pictures_do():
    for one in lesson07.FAULTS:
        for other in lesson07.FAULTS:
            for side in (0, 1):
                same_words = lesson07.LOOKS[one][side] == lesson07.LOOKS[other][side]
                assert same_words == torch.equal(seen(one)[side], seen(other)[side])


def test_right_diagnoses():
    assert_all_right(lesson07.diagnoses.findings(RIGHT), 4)


def test_diagnoses_not_attempted():
    for answers in ({}, dict.fromkeys("ABCD"), dict.fromkeys("ABCD", ...)):
        found = lesson07.diagnoses.findings(answers)
        assert [finding.mark for finding in found] == ["○"] * 4


@pytest.mark.parametrize("letter", RIGHT)
@pytest.mark.parametrize("answer", [1, 2, 3, 4, 5, 6, 0, 7, True, "5", [5], 5.0])
def test_a_wrong_diagnosis_is_told_what_it_would_look_like(letter, answer):
    found = lesson07.diagnoses.findings(RIGHT | {letter: answer})
    if answer == RIGHT[letter] and isinstance(answer, int) and answer is not True:
        return assert_all_right(found, 4)
    wrong = [finding for finding in found if finding.mark == "✗"]
    assert len(wrong) == 1 and len(found) == 4 and wrong[0].text.startswith(letter)
    if answer in range(1, 7) and type(answer) is int:
        assert "picture would be" in wrong[0].text
    else:
        assert "a number from 1 to 6 is due" in wrong[0].text


def test_a_diagnosis_contradicts_the_right_picture():
    found = lesson07.diagnoses.findings(RIGHT | {"A": 1, "B": 3, "D": 2})
    a, b, _, d = (finding.text for finding in found)
    assert "the source's picture would be three full columns" in a
    assert "the target's picture would be a whole lower triangle" in b
    assert "the target's picture would be a full square" in d


def test_the_patients_are_drawn(monkeypatch):
    sizes = []
    monkeypatch.setattr(plt, "show", lambda: sizes.append(len(plt.gcf().axes)))
    assert lesson07.draw_patients() is None
    plt.close("all")
    assert sizes == [8]


# --------------------------------------------------------------- all of them

STRANGE = {
    "nothing": lambda *x: None,
    "a string": lambda *x: "decoder",
    "an empty tuple": lambda *x: (),
    "None twice": lambda *x: (None, None),
    "numbers": lambda *x: (1.0, 2.0),
    "a number": lambda *x: 3,
    "complex": lambda *x: torch.ones(2, 2) * 1j,
    "no elements": lambda *x: torch.zeros(0),
    "on no device": lambda *x: torch.zeros(1, 1, 4, 7, device="meta"),
    "two on no device": lambda *x: (torch.zeros(3, 4, device="meta"),) * 2,
    "a class": dict,
    "a module": torch.nn.Linear(2, 2),
    "not a function": 3,
    "no argument": lambda: 1,
    "division": lambda *x: 1 / 0,
    "unfinished": lambda *x: ...,
    "the cache spoilt": lambda *x: setattr(x[-1], "keys", 1),
}
CHECKS = [
    lesson07.shift,
    lesson07.cached_step,
    lesson07.continued_mask,
    lesson07.diagnoses,
]


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_no_answer_is_too_strange(check, name, capsys):
    assert check(STRANGE[name]) is None
    assert_answers(capsys)


@pytest.mark.parametrize("check", CHECKS[:3], ids=lambda check: check.__name__)
def test_stubs_are_not_attempted(check):
    found = check.findings(lambda *inputs: None)
    assert [finding.mark for finding in found] == ["○"]

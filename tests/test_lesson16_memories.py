"""Lesson 16: exercise 16.2 can be solved by measuring, and not by trying letters."""

from itertools import permutations

import pytest

from lessons.lesson16.exercises import EVIDENCE, WHOSE, memories, whose

PLACES = [*WHOSE]


@pytest.mark.parametrize("letters", [*permutations("abcd")])
def test_a_wrong_match_is_told_what_contradicts_it_and_no_letter(letters):
    given = dict(zip(PLACES, letters, strict=True))
    found = whose.findings(given)
    if given == WHOSE:
        assert [finding.mark for finding in found] == ["✓"] * 4
        assert whose.findings(**given) == found
    else:
        (finding,) = found
        assert finding.mark == "✗" and finding.text in EVIDENCE
        assert not any(place in finding.text for place in PLACES)


def test_nothing_is_judged_before_all_four_are_there():
    for nothing in (None, {}, dict.fromkeys(PLACES), dict.fromkeys(PLACES, ...)):
        assert [finding.mark for finding in whose.findings(nothing)] == ["○"] * 4
    three = {**WHOSE, "second": None}
    (finding,) = whose.findings(three)
    assert (finding.mark, finding.text) == ("○", "second: not attempted yet")
    for strange in (3, "d", [1]):
        assert "a dictionary" in whose.findings(strange)[0].text
    for strange in (int, [[]], b"a", "e", {1}):
        (finding,) = whose.findings({**WHOSE, "first": strange})
        assert finding.mark == "✗" and "a letter is due" in finding.text


def test_each_question_tells_its_groups_apart():
    of = {letter: made for place, made in memories().items() for letter in WHOSE[place]}
    words = {letter: made.var(-1, correction=0) for letter, made in of.items()}
    unequal, by_both, either = EVIDENCE
    for letter, variances in words.items():
        equal = (variances.max() - variances.min() < 1e-3).item()
        assert equal == (letter in EVIDENCE[unequal][1])
    assert abs(of["b"].var(correction=0) - 1) < 1e-3 < of["a"].var(correction=0) - 1.1
    assert "whole sentence" in by_both and "both definitions" in either
    assert (words["d"] - 1).abs().max() < 1e-3
    assert (of["c"].var(-1, correction=1) - 1).abs().max() < 1e-3

"""Lesson 06's stories, the guess that is ideal there, the swap, and its exercises."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from helpers import encoder as course
from lessons.lesson06 import exercises
from lessons.lesson06.stories import (
    DRINKS,
    WORDS,
    StoryReader,
    draw_stories,
    follow,
    hand_on,
    has_new_pair,
    ideal_guess,
    is_new_pair,
    places,
    right_at_asked,
)


def agree(data):
    """Whether answers and places are what the stories tell."""
    for tokens, answers, told_at in zip(*data, strict=True):
        words = [WORDS[token] for token in tokens.tolist() if token]
        told = words[: words.index("?")]
        facts = dict(zip(told[::2], told[1::2], strict=True))
        for place in (answers >= 0).nonzero()[:, 0].tolist():
            assert DRINKS[answers[place]] == facts[WORDS[tokens[place]]]
            assert told_at[place] < 0 or tokens[told_at[place]] == tokens[place]


def test_answers_are_what_the_story_tells_and_a_donor_moves_names_or_drinks():
    before = draw_stories(20, 0, new_pair=False)
    agree(before)
    at = places(before)
    for moved, kept in (("names", "drink"), ("drinks", "told")):
        after = hand_on(before, moved)
        agree(after)
        for place in ("asked", kept):
            assert torch.equal(before.tokens[at[place]], after.tokens[at[place]])
        assert (before.answers != after.answers)[at["asked"]].all()


def test_new_pairs_are_kept_apart_and_no_story_comes_twice():
    training, new = (draw_stories(50, 0, new_pair=x) for x in (False, True))
    assert not has_new_pair(training.tokens).any() and has_new_pair(new.tokens).all()
    assert len(draw_stories(50, 0, new_pair=False, unlike=training).tokens) == 0
    assert is_new_pair(new).any(dim=1).all() and not is_new_pair(training).any()


def test_a_story_that_is_put_in_whole_is_followed_and_an_own_one_changes_nothing():
    torch.manual_seed(0)
    model, data = StoryReader(2), draw_stories(20, 0, new_pair=False)
    here, at = torch.ones_like(data.tokens, dtype=torch.bool), places(data)
    own = right_at_asked(model, data)
    for moved, place in (("names", "told"), ("drinks", "drink")):
        other = hand_on(data, moved)
        theirs = right_at_asked(model, other)
        for after in (0, 1):
            assert follow(model, data, other, here, after=after) == theirs
            assert follow(model, data, data, here, after=after) == own
        assert follow(model, data, other, at[place], after=0) == theirs


def test_the_ideal_guess_counts_pairings():
    names, drinks = torch.tensor([[0, 1, 2]]), torch.tensor([[0, 1, 9]])
    # Three pairings are left: of ann with cocoa two, with the last drink one.
    due = torch.tensor([[[0, 2, 1], [2, 0, 1], [1, 1, 1]]]) / 3
    assert torch.allclose(ideal_guess(names, drinks), due)


def layer(drops):
    """An encoder layer that drops at one more place."""

    class Layer(nn.Module):
        def __init__(self, sizes):
            super().__init__()
            self.__dict__ |= course.EncoderLayer(sizes).__dict__

        def drop(self, x, here):
            return F.dropout(x, 0.2, self.training) if here == drops else x

        def forward(self, x, mask=None):
            x = self.residuals[0](x, lambda y: self.self_attention(y, y, y, mask))
            x = self.residuals[1](x, lambda y: self.feed_forward(self.drop(y, "read")))
            return self.drop(x, "end")

    return Layer


@pytest.mark.parametrize(
    ("drops", "said"), [("read", "what a sublayer reads"), ("end", "x loses numbers")]
)
def test_what_else_is_dropped_in_training_is_said(drops, said):
    assert said in exercises.encoder_layer.findings(layer(drops))[0][-1]
    assert exercises.encoder_layer.passes(layer("nothing"))

"""Lesson 06's stories, the guess that is ideal there, and the swap."""

import torch

from lessons.lesson06.stories import (
    DRINKS,
    FACTS,
    NAMES,
    WORDS,
    StoryReader,
    draw_stories,
    follow,
    guessing_level,
    hand_on,
    has_new_pair,
    ideal_guess,
    is_new_pair,
    looks,
    places,
    right_at_asked,
)


def facts_of(tokens):
    """{name: drink} of one story."""
    words = [WORDS[token] for token in tokens.tolist() if token]
    told = words[: words.index("?")]
    return dict(zip(told[::2], told[1::2], strict=True))


def test_answers_are_what_the_story_tells(seeds):
    for seed in seeds:
        found = draw_stories(20, seed, new_pair=False)
        for tokens, answers, told_at in zip(*found, strict=True):
            facts = facts_of(tokens)
            for place in (answers >= 0).nonzero()[:, 0].tolist():
                name = WORDS[tokens[place]]
                assert DRINKS[answers[place]] == facts[name]
                assert told_at[place] < 0 or tokens[told_at[place]] == tokens[place]


def test_new_pairs_are_kept_apart_and_no_story_comes_twice():
    training = draw_stories(300, 0, new_pair=False)
    assert not has_new_pair(training.tokens).any()
    assert has_new_pair(draw_stories(50, 1, new_pair=True).tokens).all()
    same = draw_stories(300, 0, new_pair=False, unlike=training)
    assert len(same.tokens) == 0


def test_handing_on_changes_what_is_asked_and_moves_names_or_drinks_alone():
    before = draw_stories(20, 0, new_pair=False)
    at = places(before)
    for moved, kept in (("names", "drink"), ("drinks", "told")):
        after = hand_on(before, moved)
        for place in ("asked", kept):
            assert torch.equal(before.tokens[at[place]], after.tokens[at[place]])
        assert (before.answers != after.answers)[at["asked"]].all()
        for tokens, answers, told_at in zip(*after, strict=True):
            facts = facts_of(tokens)
            for place in (answers >= 0).nonzero()[:, 0].tolist():
                assert DRINKS[answers[place]] == facts[WORDS[tokens[place]]]
                assert told_at[place] < 0 or tokens[told_at[place]] == tokens[place]


def test_new_pairs_are_the_pairs_that_training_leaves_out():
    data = draw_stories(50, 0, new_pair=True)
    where = is_new_pair(data)
    for story, place in where.nonzero().tolist():
        name = WORDS[data.tokens[story, place]]
        assert DRINKS.index(facts_of(data.tokens[story])[name]) == NAMES.index(name)
    assert where.any(dim=1).all() and not where.all()
    assert not is_new_pair(draw_stories(50, 0, new_pair=False)).any()


def test_a_story_that_is_put_in_whole_is_followed_and_an_own_one_changes_nothing():
    torch.manual_seed(0)
    model, data = StoryReader(2), draw_stories(20, 0, new_pair=False)
    here, at = torch.ones_like(data.tokens, dtype=torch.bool), places(data)
    for moved, place in (("names", "told"), ("drinks", "drink")):
        other = hand_on(data, moved)
        for after in (0, 1):
            assert follow(model, data, other, here, after=after) == right_at_asked(
                model, other
            )
            assert follow(model, data, data, here, after=after) == right_at_asked(
                model, data
            )
        assert follow(model, other, data, ~here) == right_in_answers(model, other, data)
        before = follow(model, data, other, at[place], after=0)
        assert before == right_at_asked(model, other)  # they differ nowhere else


def right_in_answers(model, data, other):
    with torch.no_grad():
        right = model(data.tokens).argmax(dim=-1) == other.answers
    return right[other.told_at >= 0].float().mean().item()


def test_looks_lead_to_the_words_that_they_name():
    data = draw_stories(20, 0, new_pair=False)
    found, here = looks(data), data.tokens
    for name, target in found.items():
        story, query = (target >= 0).nonzero(as_tuple=True)
        seen, word = here[story, target[story, query]], here[story, query]
        if name == "asked → told":
            assert torch.equal(seen, word)
        else:
            assert ((seen > 12) == (name != "drink → its name")).all()


def test_the_ideal_guess_counts_pairings():
    names, drinks = torch.tensor([[0, 1, 2]]), torch.tensor([[0, 1, 9]])
    # Three pairings are left: of ann with cocoa two, with the last drink one.
    due = torch.tensor([[[0, 2, 1], [2, 0, 1], [1, 1, 1]]]) / 3
    torch.testing.assert_close(ideal_guess(names, drinks), due)
    free = ideal_guess(torch.tensor([[0, 1]]), torch.tensor([[4, 5]]))
    torch.testing.assert_close(free, torch.full((1, 2, 2), 0.5))


def test_no_story_beats_the_ideal_guess_on_average():
    data = draw_stories(2000, 3, new_pair=False)
    right, loss = guessing_level(data)
    hits, losses, at = [], [], places(data)
    for facts in FACTS:
        some = at["asked"].sum(dim=1) == facts
        names, drinks = (data.tokens[some][at[x][some]] for x in ("told", "drink"))
        guess = ideal_guess(names.view(-1, facts) - 1, drinks.view(-1, facts) - 13)
        truth = guess.diagonal(dim1=1, dim2=2).flatten()  # each has the drink behind it
        losses.append(-truth.log())
        top = guess == guess.amax(dim=2, keepdim=True)
        share = top / top.sum(dim=2, keepdim=True)
        hits.append(share.diagonal(dim1=1, dim2=2).flatten())
    assert abs(torch.cat(losses).mean() - loss) < 0.02
    assert abs(torch.cat(hits).mean() - right) < 0.02

"""What lesson 10 asks of the toy corpus, how it prints sentences, and its exercises."""

from functools import partial

import pytest
import torch

from helpers.batching import bucketed_batches
from helpers.corpus import toy_corpus
from helpers.training import cosine_rate, train
from lessons.lesson10 import exercises, fresh
from lessons.lesson10.adjectives import (
    FOODS,
    has_adjective_before,
    has_de_adjective,
    new_sentences,
)
from lessons.lesson10.glossary import (
    Glossary,
    dictionary,
    mended,
    word_by_word,
)
from lessons.studies import study


@pytest.fixture(scope="module")
def pairs():
    return toy_corpus(
        train_size=3_000, validation_size=0, test_size=0, compositional_size=0
    ).train


def test_a_gloss_stands_below_its_word(pairs, capsys):
    pair = next(pair for pair in pairs if "n'" in pair.target and "not" in pair.source)
    Glossary(pairs).show(pair)
    english, above, below = capsys.readouterr().out.splitlines()
    assert english == pair.source
    assert below[above.index("n'") :].startswith("not")


def test_an_attempt_is_marked_where_it_differs(pairs, capsys):
    pair = next(pair for pair in pairs if pair.target.startswith("le chat "))
    Glossary(pairs).show_attempt("now", pair.target.replace("chat", "chien"), pair)
    above, below = capsys.readouterr().out.splitlines()
    assert "[chien]" in above and "dog" in below and "[le]" not in above


def test_differences_are_written_with_both_sides():
    assert mended("l'eau froid .", "l'eau froide .") == "l'eau [froid → froide] ."


def test_foods_are_put_into_new_sentences_alone(pairs):
    known, found = {pair.source for pair in pairs}, new_sentences(pairs)
    assert len({len(new) for new in found.values()}) == 1
    for food, new in found.items():
        noun = food.split()[-1]
        assert new and all(noun in a and a not in known for a, _ in new)
        assert all(FOODS[food] in french for _, french in new)


def test_de_is_sought_right_before_an_adjective_that_precedes_its_noun():
    assert has_de_adjective("il n'a pas de petite voiture .")
    assert not has_de_adjective("près de la petite gare .")
    assert not has_de_adjective("il n'a pas de voiture rouge .")
    assert has_adjective_before("près de la petite gare .")
    assert not has_adjective_before("la voiture rouge .")


def test_a_dictionary_has_the_most_frequent_word(pairs):
    words = dictionary(pairs)
    assert words["cat"] == "chat" and words["never"] == "jamais"
    assert word_by_word("the xyz cat.", words) == f"{words['the']} chat."


def test_every_class_begins_with_the_same_weights():
    class Mine(fresh.course.Transformer):
        def __init__(self, config):
            torch.rand(3)  # it draws other numbers
            super().__init__(config)

    one, other = fresh.model(), fresh.model(Mine)
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_predictions_are_those_of_the_study():
    found = study("good_soup")
    usual = found[found["left_out"] == "nothing"].groupby("food")
    shares = (usual["wrong"].sum() / usual["n"].sum()).to_dict()
    assert {food: shares[food] > 1 / 4 for food in exercises.FAILS} == exercises.FAILS


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (dict.fromkeys(exercises.FAILS, False), "✗"),
        ({"some good soup": True, "the good soup": "no"}, "○○○○○"),
        ({"some good soup": torch.tensor([1, 0])}, "○○○○○○"),
        (None, "○○○○○○"),
    ],
)
def test_a_prediction_is_judged_when_all_are_made(answer, says, capsys):
    exercises.prediction(answer)
    lines = capsys.readouterr().out.splitlines()
    assert "".join(line[0] for line in lines) == says


def test_wrong_predictions_are_not_told_which_they_are(capsys):
    exercises.prediction(exercises.FAILS | {"some red soup": True})
    text = capsys.readouterr().out
    assert text.startswith("✗ 5 of 6") and not any(x in text for x in exercises.FAILS)


def whole(model, pairs, epochs, peak, watch=None, *, seed=0, late=0, most=9):
    """A run with another seed, a later rate, or fewer epochs."""
    generator, batches = torch.Generator().manual_seed(seed), []
    for _ in range(min(epochs, most)):
        options = {"tokens_per_batch": 1024, "generator": generator}
        batches += bucketed_batches(pairs, **options)

    def rate(step):
        return cosine_rate((step - late) / len(batches), peak=peak, warmup=0.1)

    return train(model, batches, rate, watch)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"seed": 1}, "✗ the list of losses is "),
        ({"late": 0.5}, "✗ the list of losses is "),
        ({"most": 1}, "steps are due"),
        ({}, "✓"),
    ],
)
def test_what_is_wrong_with_a_run_is_said(change, part):
    assert part in exercises.run.findings(partial(whole, **change))[0][-1]

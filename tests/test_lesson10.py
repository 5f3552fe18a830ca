"""What lesson 10 asks of the toy corpus, how it prints sentences, and its exercises."""

from functools import partial

import pytest
import torch

from helpers.batching import bucketed_batches
from helpers.corpus import toy_corpus
from helpers.training import cosine_rate, token_loss, train
from lessons.lesson10 import exercises, fresh
from lessons.lesson10.adjectives import (
    FOODS,
    articles_before_adjectives,
    has_adjective_before,
    has_de_adjective,
    new_sentences,
    put_in,
)
from lessons.lesson10.glossary import (
    Glossary,
    columns,
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
    glossary = Glossary(pairs)
    glossary.show_attempt("now", pair.target.replace("chat", "chien"), pair)
    glossary.show_attempt("then", "", pair)
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("│") for line in lines)
    assert "[chien]" in lines[0] and "dog" in lines[1] and "[le]" not in lines[0]
    assert lines[2].endswith("(nothing)")


def test_differences_are_written_with_both_sides():
    assert (
        mended("le chat dort .", "le chat noir dort .") == "le chat [– → noir] dort ."
    )
    assert mended("l'eau froid .", "l'eau froide .") == "l'eau [froid → froide] ."
    assert columns(["un", "chat"], ["a", "cat"]) == ("un  chat", "a   cat")


def test_foods_are_put_into_new_sentences_alone(pairs):
    known, found = {pair.source for pair in pairs}, new_sentences(pairs)
    assert len({len(new) for new in found.values()}) == 1
    for food, new in found.items():
        noun = food.split()[-1]
        assert new and all(noun in a and a not in known for a, _ in new)
        assert all(FOODS[food] in french for _, french in new)


def test_articles_before_adjectives_are_what_the_grammar_says(pairs):
    assert {*articles_before_adjectives(pairs)} == {"de", "du"}


def test_de_is_sought_right_before_an_adjective_that_precedes_its_noun():
    assert has_de_adjective("il n'a pas de petite voiture .")
    assert not has_de_adjective("près de la petite gare .")
    assert not has_de_adjective("il n'a pas de voiture rouge .")
    assert has_adjective_before("près de la petite gare .")
    assert not has_adjective_before("la voiture rouge .")


def test_only_the_food_changes(pairs):
    (pair,) = [p for p in pairs if "cheese" in p.source and "any" in p.source][:1]
    english, french = put_in("some beautiful cakes", pair)
    assert english == pair.source.replace("any cheese", "any beautiful cakes")
    assert french == pair.target.replace("du fromage", "de beaux gâteaux")


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
        (exercises.FAILS, "✓✓✓✓✓✓"),
        (dict.fromkeys(exercises.FAILS, False), "✗"),
        (dict.fromkeys(exercises.FAILS, True), "✗"),
        (
            {"some good soup": True, "the good soup": "no", "some red soup": ...},
            "○○○○✗",
        ),
        ({"some good soup": torch.tensor([1, 0])}, "○○○○○✗"),
        (None, "○○○○○○"),
    ],
)
def test_a_prediction_is_judged_when_all_are_made(answer, says, capsys):
    exercises.prediction(answer)
    lines = capsys.readouterr().out.splitlines()
    assert "".join(line[0] for line in lines) == says


def test_wrong_predictions_are_not_told_which_they_are(capsys):
    foods, said = list(exercises.FAILS), set()
    for wrong in foods:
        exercises.prediction(exercises.FAILS | {wrong: not exercises.FAILS[wrong]})
        said.add(capsys.readouterr().out)
    (text,) = said
    assert text.startswith("✗ 5 of 6") and not any(food in text for food in foods)


def loop(model, batches, rate, watch, *, optimizer=torch.optim.Adam, **options):
    """A loop that is not `train`."""
    maker, losses = optimizer(model.parameters(), **options), []
    for step, batch in enumerate(batches, 1):
        maker.param_groups[0]["lr"] = rate(step)
        loss = token_loss(model, batch)[0]
        maker.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        maker.step()
        losses.append(loss.item())
        if watch:
            watch(step)
    return losses


def in_order(batches):
    return sorted(batches, key=lambda batch: batch.target.size(1))


def whole(model, pairs, epochs, peak, watch, *, part=list, same=False, by=train):
    """A run whose batches or steps can be made in another way."""
    generator, batches = torch.Generator().manual_seed(0), []
    for epoch in range(epochs):
        if same:
            generator.manual_seed(0)
        options = {"tokens_per_batch": 1024, "generator": generator}
        new = part(bucketed_batches(pairs, **options))
        batches += new[epoch:] + new[:epoch] if same else new
    return by(
        model,
        batches,
        lambda step: cosine_rate(step / len(batches), peak=peak, warmup=0.1),
        watch,
    )


def sorted_by_length(model, pairs, epochs, peak, watch=None):
    return whole(model, pairs, epochs, peak, watch, part=in_order)


def same_in_another_order(model, pairs, epochs, peak, watch=None):
    return whole(model, pairs, epochs, peak, watch, same=True)


def with_default_adam(model, pairs, epochs, peak, watch=None):
    return whole(model, pairs, epochs, peak, watch, by=loop)


def with_sgd(model, pairs, epochs, peak, watch=None):
    by = partial(loop, optimizer=torch.optim.SGD)
    return whole(model, pairs, epochs, peak, watch, by=by)


def with_frozen_embeddings(model, pairs, epochs, peak, watch=None):
    model.source_embedding.requires_grad_(False)
    return whole(model, pairs, epochs, peak, watch)


def with_the_paper_s_adam(model, pairs, epochs, peak, watch=None):
    by = partial(loop, betas=(0.9, 0.98), eps=1e-9)
    return whole(model, pairs, epochs, peak, watch, by=by)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (sorted_by_length, "✗ the batches come sorted by length"),
        (same_in_another_order, "✗ each epoch has the same batches: "),
        (with_default_adam, "✗ the losses are not those that `train` gives"),
        (with_sgd, "✗ the losses are not those that `train` gives"),
        (with_frozen_embeddings, "✗ the losses are not those that `train` gives"),
        (with_the_paper_s_adam, "✓"),
    ],
)
def test_a_run_has_new_batches_and_trains_as_train_does(answer, says):
    lines, _ = exercises.run.findings(answer)
    assert lines[-1].startswith(says)

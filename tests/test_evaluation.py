"""Scores, the decoding behind them, and where the toy translator starts from."""

import math
from functools import partial

import pytest
import torch

from helpers import EOS
from helpers.batching import pad
from helpers.decoding import beam_search, greedy_decode, translate_ids, until_end
from helpers.evaluation import bleu, bleu_signature, exact_match
from helpers.training import evaluate_loss
from helpers.translator import RECIPES, build, with_seed
from samples import small_model


def test_exact_match_is_the_share_of_equal_translations():
    assert exact_match(["a b.", "c."], ["a b.", "d."]) == 0.5
    assert exact_match([[4, 5]], [[4, 5]]) == 1.0


def test_bleu_is_sacrebleu_s():
    references = ["the cat sees a black dog.", "my friend reads the old letter."]
    assert bleu(references, references) == pytest.approx(100)
    # Every run of words is right, and the length 6 of 8.
    short = bleu(["a b c d e f"], ["a b c d e f g h"])
    assert short == pytest.approx(100 * math.exp(1 - 8 / 6))
    assert bleu_signature().startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp")


def test_bleu_without_case():
    references = ["the cat sees a black dog."]
    shouted = [references[0].upper()]
    assert bleu(shouted, references) < 20
    assert bleu(shouted, references, lowercase=True) == pytest.approx(100)
    assert bleu_signature(lowercase=True).startswith("nrefs:1|case:lc|")


@pytest.mark.parametrize("score", [exact_match, bleu])
@pytest.mark.parametrize("hypotheses, references", [(["a"], ["a", "b"]), ([], [])])
def test_scores_need_a_reference_for_each_hypothesis(score, hypotheses, references):
    expected = f"{len(hypotheses)} hypotheses for {len(references)} references"
    with pytest.raises(ValueError, match=expected):
        score(hypotheses, references)


@pytest.mark.usefixtures("seed")
@pytest.mark.parametrize("decode", [greedy_decode, partial(beam_search, beam_size=3)])
def test_translations_keep_their_order_and_do_not_depend_on_their_batch(decode):
    model, lengths = small_model(), [5, 1, 9, 3, 5, 7]
    sources = [torch.randint(4, 50, (n,)).tolist() for n in lengths]
    options = {"decode": decode, "max_length": 12}
    together = translate_ids(model, sources, sentences_per_batch=4, **options)
    for source, output in zip(sources, together, strict=True):
        alone = decode(model, pad([[*source, EOS]]), max_length=12)[0].tolist()
        assert output == until_end(alone)


def test_the_toy_translator_starts_at_the_logarithm_of_its_vocabulary(toy_text, seed):
    translator = build(with_seed(RECIPES["toy"], seed), toy_text)
    pairs = translator.encode_pairs(toy_text.validation)
    loss = evaluate_loss(translator.model, pairs)
    assert loss == pytest.approx(math.log(len(translator.target_text)), rel=0.03)

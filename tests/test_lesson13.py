"""Intervals of BLEU: the counts are sacreBLEU's, and pairing does what it is for."""

import pytest
import torch

from helpers.evaluation import bleu
from lessons.lesson13.bootstrap import (
    bleu_counts,
    bleu_of,
    draw_resamples,
    paired_interval,
)

SAID = [
    "the cat sees a black dog in the park .",
    "my friend reads an old letter to her .",
    "two men are standing at the old stove .",
]
TRUE = [
    "the cat sees the black dog in the park today .",
    "my friend reads the old letter to her .",
    "two men stand at the old stove .",
]


def test_bleu_of_the_sums_is_sacrebleu_s():
    counts = bleu_counts(SAID, TRUE)
    assert counts.shape == (3, 10)
    assert bleu_of(counts.sum(dim=0)) == pytest.approx(bleu(SAID, TRUE), abs=1e-9)
    assert bleu_of(bleu_counts(TRUE, TRUE).sum(dim=0)) == pytest.approx(100)


def test_the_counts_of_a_sentence_by_hand():
    (row,) = bleu_counts(["a b c d"], ["a b x d e"]).tolist()
    assert row == [3, 1, 0, 0, 4, 3, 2, 1, 4, 5]


def test_what_never_matches_scores_0_and_many_scores_come_at_once():
    counts = bleu_counts(["x y", *SAID], ["a b", *TRUE])
    scores = bleu_of(torch.stack([counts[0], counts.sum(dim=0)]))
    assert scores[0] == 0 and 0 < scores[1] < 100


def test_there_is_a_reference_for_each_hypothesis():
    with pytest.raises(ValueError, match="2 hypotheses for 3 references"):
        bleu_counts(SAID[:2], TRUE)


def test_resamples_are_those_of_their_seed_and_draw_with_replacement():
    draws = draw_resamples(50, resamples=20, seed=3)
    assert draws.shape == (20, 50) and 0 <= draws.min() <= draws.max() < 50
    assert torch.equal(draws, draw_resamples(50, resamples=20, seed=3))
    assert not torch.equal(draws, draw_resamples(50, resamples=20, seed=4))
    assert len({*draws[0].tolist()}) < 50


def test_a_system_differs_from_itself_by_nothing_and_pairing_narrows():
    hard = torch.rand(200, 1)
    said = torch.full((200, 1), 12.0) - torch.arange(4)
    lengths = torch.full((200, 2), 12.0)

    def system(skill):
        found = said * hard ** (1 + torch.arange(4) / 3) * skill
        return torch.cat([found, said, lengths], dim=1).double()

    better, worse, draws = system(0.9), system(0.88), draw_resamples(200)
    assert paired_interval(worse, worse, draws) == (0, 0)
    low, high = paired_interval(better, worse, draws)
    assert 0 < low < high
    apart = bleu_of(better[draws].sum(dim=1)) - bleu_of(
        worse[draws.roll(1, 0)].sum(dim=1)
    )
    assert apart.quantile(0.025) < 0 < apart.quantile(0.975)
    assert apart.std() > 5 * (high - low) / 4

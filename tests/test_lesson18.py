"""English and French in one sequence, and the models that read it."""

import copy

import pytest
import torch

import other_styles
from helpers import BOS, EOS, PAD
from helpers.caching import AttentionCache
from lessons.lesson18 import bilingual, exercises, one_sequence
from lessons.lesson18.one_sequence import join
from lessons.lesson18.with_or_without_encoder import (
    WithEncoder,
    WithoutEncoder,
    build,
)

PAIRS = [([5, 6, 7], [8, 9]), ([5], [8, 9, 10, 11])]
KINDS = [(kind, today) for kind in (WithEncoder, WithoutEncoder) for today in (0, 1)]


@pytest.mark.slow
def test_pairs_become_sequences():
    arrow = one_sequence.joint_vocabulary().ids["=>"]
    joined = join(PAIRS)
    assert joined.tokens.tolist() == [
        [BOS, 5, 6, 7, arrow, 8, 9, EOS],
        [BOS, 5, arrow, 8, 9, 10, 11, EOS],
    ]
    counted = joined.counted()
    assert joined.tokens[counted].tolist() == [8, 9, EOS, 8, 9, 10, 11, EOS]
    assert joined.counted(everything=True).sum() == 14
    padded = join([PAIRS[0], ([5], [8])])
    assert not padded.counted(everything=True)[padded.tokens == PAD].any()


def test_models_have_as_many_parameters():
    counts = [
        sum(p.numel() for p in build(kind, 0, today=today).parameters())
        for kind, today in KINDS
    ]
    assert max(counts) < 1.002 * min(counts)


@pytest.mark.parametrize(("kind", "today"), KINDS)
def test_what_is_said_depends_on_the_past_and_not_on_the_neighbours(kind, today):
    model = build(kind, 0, today=today).eval()
    for matrix in model.parameters():  # small ones would hide what is seen
        if matrix.dim() == 2:
            torch.nn.init.normal_(matrix, std=0.2)
    logits, labels, rows = model.say(PAIRS)
    assert labels.tolist() == [8, 9, EOS, 8, 9, 10, 11, EOS]
    assert rows.tolist() == [0, 0, 0, 1, 1, 1, 1, 1]
    alone = model.say(PAIRS[:1])[0]
    torch.testing.assert_close(logits[:3], alone)
    later = model.say([([5, 6, 7], [8, 12])])[0]
    torch.testing.assert_close(later[:2], alone[:2])
    assert (later[2] - alone[2]).abs().max() > 1e-4
    other = model.say([([6, 5, 7], [8, 9])])[0]
    assert (other - alone).abs().max() > 1e-4


def test_nats_by_the_word_before_are_those_of_the_counts(monkeypatch):
    pairs = {"train": [([5], [6]), ([5], [7])], "test": [([5], [7])]}
    monkeypatch.setattr(bilingual, "toy_pairs", pairs.__getitem__)
    monkeypatch.setattr(bilingual, "joint_vocabulary", lambda: range(10))
    shares = torch.tensor([1.1 / 3, 1.1 / 2])  # of 7 after BOS, of EOS after 7
    due = pytest.approx(-shares.log().mean().item())
    assert bilingual.nats_by_word_before(1) == due


# -- exercises -------------------------------------------------------------------------


class WhenFilled(other_styles.Sequenced):
    def forward(self, tokens, caches=None):
        filled = caches and len(caches[0])
        return super().forward(tokens, caches if filled else None)


class Copied(other_styles.Sequenced):
    def forward(self, tokens, caches=None):
        return super().forward(tokens, copy.deepcopy(caches))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (WhenFilled, "with empty caches: after the pass, the caches hold [0, 0]"),
        (Copied, "the caches hold [0, 0] tokens, where 6 are due"),
    ],
)
def test_what_the_logits_do_not_tell_is_seen(wrong, said):
    lines, _ = exercises.language_model.findings(wrong)
    assert lines[-1].startswith("✗") and said in lines[-1]


def test_a_cache_that_all_blocks_share_is_named():
    def shared(model, prompt, max_new):
        caches = [AttentionCache()] * len(model.blocks)
        return [model(prompt, caches)[0, -1].argmax().item()]

    lines, _ = exercises.generate.findings(shared)
    assert lines[-1].startswith("✗ all blocks share one cache")

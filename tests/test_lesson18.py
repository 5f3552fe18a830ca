"""English and French in one sequence, and the models that read it."""

import math

import pytest
import torch

from helpers import BOS, EOS, PAD
from lessons.lesson18 import one_sequence, with_or_without_encoder
from lessons.lesson18.bilingual import train_bilingual
from lessons.lesson18.letters import letter_nats
from lessons.lesson18.one_sequence import join, toy_pairs
from lessons.lesson18.studies.language_model import (
    KINDS as KINDS_OF_ALL,
)
from lessons.lesson18.studies.language_model_places import (
    KINDS as KINDS_OF_PLACES,
)
from lessons.lesson18.studies.language_model_places import LONGER
from lessons.lesson18.with_or_without_encoder import Kind, build
from lessons.lesson18.writing import generate

KINDS = {**KINDS_OF_ALL, **KINDS_OF_PLACES, **LONGER}
PAIRS = [([5, 6, 7], [8, 9]), ([5], [8, 9, 10, 11])]


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
        sum(p.numel() for p in build(kind, 0).parameters()) for kind in KINDS.values()
    ]
    assert max(counts) < 1.002 * min(counts)


@pytest.mark.parametrize("name", KINDS)
def test_what_is_said_depends_on_the_past_and_not_on_the_neighbours(name):
    model = build(KINDS[name], 0).eval()
    for matrix in model.parameters():  # small ones would hide what is seen
        if matrix.dim() == 2:
            torch.nn.init.normal_(matrix, std=0.2)
    both, alone = model.say(PAIRS), model.say(PAIRS[:1])
    assert both.labels.tolist() == [8, 9, EOS, 8, 9, 10, 11, EOS]
    assert both.rows.tolist() == [0, 0, 0, 1, 1, 1, 1, 1]
    torch.testing.assert_close(both.logits[:3], alone.logits)
    later = model.say([([5, 6, 7], [8, 12])])
    torch.testing.assert_close(later.logits[:2], alone.logits[:2])
    assert (later.logits[2] - alone.logits[2]).abs().max() > 1e-4
    other = model.say([([6, 5, 7], [8, 9])])
    assert (other.logits - alone.logits).abs().max() > 1e-4


def test_places():
    tokens, prompts = join(PAIRS).tokens, join(PAIRS).prompts
    plain = build(Kind(), 0).places(tokens, prompts)
    assert plain.tolist() == [[*range(8)], [*range(8)]]
    fixed = build(Kind(places="answers from 16"), 0).places(tokens, prompts)
    assert fixed[0].tolist() == [0, 1, 2, 3, 4, 16, 17, 18]
    assert fixed[1].tolist() == [0, 1, 2, 16, 17, 18, 19, 20]
    assert max(len(one_sequence.prompt_of(s)) for s, _ in toy_pairs("train")) == 16


def test_prompts_are_read_both_ways_only_where_asked():
    tokens, prompts = join(PAIRS[:1]).tokens, join(PAIRS[:1]).prompts
    later = tokens.clone()
    later[0, 3] = 20  # the prompt's last word
    for both_ways in (False, True):
        model = build(Kind(both_ways=both_ways), 0).eval()
        moved = (model(tokens, prompts) - model(later, prompts))[0, :3].abs().max() > 0
        assert moved == both_ways


def test_kinds_share_their_first_weights():
    plain = build(Kind(), 0).state_dict()
    for kind in (Kind(rotary=True), Kind(places="answers from 16")):
        other = build(kind, 0).state_dict()
        assert all(torch.equal(x, other[name]) for name, x in plain.items())
    another = build(Kind(draw=1), 0).state_dict()
    assert not torch.equal(plain["projection.weight"], another["projection.weight"])
    for kind, size in ((Kind(), 1.0), (Kind(small_weights=True), 0.02)):
        vectors = build(kind, 0).embedding(torch.arange(100))
        assert vectors.std().item() == pytest.approx(size, rel=0.05)


@pytest.mark.slow
def test_one_pass_finds_the_sentences_that_greedy_decoding_gets_right():
    model, pairs = build(Kind(modern=True, small_weights=True), 0), toy_pairs("train")
    options = {"steps": 12, "every": 6, "few": 3}  # by heart, all but
    looks = with_or_without_encoder.train(model, 0, pairs[:40], **options)
    pairs = pairs[:40]
    right = []
    for source, target in pairs:
        prompt = torch.tensor([one_sequence.prompt_of(source)])
        ids = generate(model.model, prompt, max_new=len(target) + 1)[0].tolist()
        right.append(ids == [*target, EOS])
    assert [look.steps for look in looks] == [6, 12]
    assert 0 < looks[0].seconds < looks[1].seconds
    assert looks[1].right == sum(right) / len(right)
    assert 0 < sum(right) < 40


def test_letters_are_counted():
    nats = letter_nats(["ab"], ["ab"], before=1)  # each (1 + 1/3) / (1 + 1)
    assert nats == pytest.approx(3 * math.log(1.5))
    unseen = letter_nats(["ab"], ["b"], before=1)  # (1/3) / 2, then (1 + 1/3) / 2
    assert unseen == pytest.approx(math.log(6) + math.log(1.5))


def test_the_bilingual_model_is_trained_to_the_same_weights_whatever_went_before():
    model = train_bilingual(steps=1)
    torch.manual_seed(5)
    again = train_bilingual(steps=1).state_dict()
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, again[name])
    assert not model.training

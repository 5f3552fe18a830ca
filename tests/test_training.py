"""Loss, schedules, batches, and a run that stops and goes on."""

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.testing import assert_close

from helpers import BOS, EOS, PAD
from helpers.averaging import WeightAverage
from helpers.batching import Batch, bucketed_batches, make_batch, pad
from helpers.training import (
    Trainer,
    TrainingConfig,
    cosine_rate,
    evaluate_loss,
    noam_rate,
    token_loss,
    train,
)
from helpers.transformer import Transformer, TransformerConfig
from samples import SIZES, average_weights, small_model


def id_pairs(count=60, seed=0):
    """A task to learn: the target is the source with every id one higher."""
    generator = torch.Generator().manual_seed(seed)
    pairs = []
    for _ in range(count):
        length = int(torch.randint(1, 9, (), generator=generator))
        source = torch.randint(4, 48, (length,), generator=generator).tolist()
        pairs.append((source, [i + 1 for i in source]))
    return pairs


def fresh_model(seed=0):
    torch.manual_seed(seed)
    config = TransformerConfig(50, 50, norm_first=True, **SIZES)
    return Transformer(config)


# --- Batches --------------------------------------------------------------------------


def test_a_batch_is_shifted_by_one():
    batch = make_batch([([5, 6], [7, 8, 9]), ([4], [5])])
    assert batch.source.tolist() == [[5, 6, EOS], [4, EOS, PAD]]
    assert batch.decoder_input.tolist() == [[BOS, 7, 8, 9], [BOS, 5, EOS, PAD]]
    assert batch.labels.tolist() == [[7, 8, 9, EOS], [5, EOS, PAD, PAD]]


def batch_rows(batches):
    rows = []
    for batch in batches:
        for source, target in zip(batch.source, batch.target, strict=True):
            ids = [x[x != PAD].tolist() for x in (source, target)]
            rows.append((tuple(ids[0][:-1]), tuple(ids[1][1:-1])))
    return rows


@pytest.mark.parametrize("shuffled", [True, False])
def test_an_epoch_holds_every_pair_once_within_the_budget(shuffled):
    pairs = id_pairs(300)
    generator = torch.Generator().manual_seed(1) if shuffled else None
    batches = list(
        bucketed_batches(pairs, tokens_per_batch=64, generator=generator, pool=5)
    )
    expected = sorted((tuple(s), tuple(t)) for s, t in pairs)
    assert sorted(batch_rows(batches)) == expected
    assert all(batch.labels.numel() <= 64 for batch in batches)


def test_bucketing_saves_padding_and_shuffling_depends_on_the_seed_alone():
    pairs = id_pairs(600)

    def epoch(seed, **options):
        generator = torch.Generator().manual_seed(seed)
        return list(
            bucketed_batches(
                pairs, tokens_per_batch=128, generator=generator, **options
            )
        )

    def padding(batches):
        cells = sum(batch.labels.numel() for batch in batches)
        return 1 - sum(int((batch.labels != PAD).sum()) for batch in batches) / cells

    assert padding(epoch(0)) < 0.05
    assert batch_rows(epoch(0)) == batch_rows(epoch(0)) != batch_rows(epoch(1))
    lengths = [batch.labels.size(1) for batch in epoch(0)]
    assert lengths != sorted(lengths)


def test_a_sentence_above_the_budget():
    with pytest.raises(ValueError, match=r"has 5 tokens, tokens_per_batch is only 4"):
        list(bucketed_batches([([4], [5, 6, 7, 8])], tokens_per_batch=4))


def test_an_empty_batch():
    with pytest.raises(ValueError, match="an empty batch"):
        pad([])


# --- Loss and schedules ---------------------------------------------------------------


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_is_the_mean_over_real_tokens_only(smoothing):
    model = small_model()
    batch = make_batch(id_pairs(7))
    loss, tokens = token_loss(model, batch, label_smoothing=smoothing)
    logits = model(batch.source, batch.decoder_input)
    expected = cross_entropy(
        logits.flatten(0, 1),
        batch.labels.flatten(),
        ignore_index=PAD,
        label_smoothing=smoothing,
    )
    assert_close(loss, expected)
    assert tokens == int((batch.labels != PAD).sum())
    longer = Batch(
        nn.functional.pad(batch.source, (0, 3)), nn.functional.pad(batch.target, (0, 5))
    )
    assert_close(token_loss(model, longer, label_smoothing=smoothing)[0], loss)


def test_evaluation_weighs_tokens_not_batches():
    model, pairs = small_model(), id_pairs(20)
    whole = token_loss(model, make_batch(pairs))[0].item()
    assert evaluate_loss(model, pairs) == pytest.approx(whole, rel=1e-5)
    small = evaluate_loss(model, pairs, tokens_per_batch=9)
    assert small == pytest.approx(whole, rel=1e-5)


def test_the_paper_s_learning_rate():
    rates = [noam_rate(step, d_model=512) for step in (1, 2000, 4000, 16000)]
    peak = 512**-0.5 * 4000**-0.5
    assert rates == pytest.approx([peak / 4000, peak / 2, peak, peak / 2])
    with pytest.raises(ValueError, match="steps are counted from 1: 0"):
        noam_rate(0, d_model=512)


def test_the_cosine_rate():
    shape = [cosine_rate(x, peak=2.0, warmup=0.2) for x in (0, 0.1, 0.2, 0.6, 1)]
    assert shape == pytest.approx([0, 1, 2, 1, 0])
    for warmup in (-0.1, 1, math.nan):
        with pytest.raises(ValueError, match=rf"warmup must lie in \[0, 1\): {warmup}"):
            cosine_rate(1, peak=1.0, warmup=warmup)


# --- Runs -----------------------------------------------------------------------------


def make_trainer(seed=0, schedule=None, model=None, **options):
    config = TrainingConfig(
        **{"epochs": 3, "tokens_per_batch": 64, "seed": seed, **options}
    )
    data = id_pairs(60), id_pairs(10, seed=9)
    return Trainer(model or fresh_model(), *data, config, schedule=schedule)


def test_a_budget_in_minutes_ends_in_time_and_with_a_report():
    trainer = make_trainer(epochs=None, minutes=0.004)
    reports = list(trainer.epochs())
    assert trainer.finished and trainer.seconds >= 0.24
    assert reports == trainer.reports and reports[-1].step == trainer.step


def test_a_minute_has_sixty_seconds():
    trainer = make_trainer(epochs=None, minutes=2.0)
    for seconds, share in ((60, 0.5), (119, 119 / 120), (120, 1), (150, 1)):
        trainer.seconds = seconds
        assert trainer.progress(10) == pytest.approx(share)
        assert trainer.finished is (share == 1)


def test_seeds_decide_the_order_of_the_batches():
    def order(seed):
        return batch_rows(make_trainer(seed=seed).epoch_batches())

    assert order(0) == order(0) != order(1)


def test_the_pool_decides_how_alike_the_lengths_of_a_batch_are():
    def places(pool):
        return sum(b.labels.numel() for b in make_trainer(pool=pool).epoch_batches())

    assert places(100) < places(1)


@pytest.mark.parametrize("options", [{}, {"epochs": 2, "minutes": 3.0}])
def test_a_budget_is_given_once(options):
    with pytest.raises(ValueError, match="either epochs or minutes"):
        TrainingConfig(**options)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("epochs", 0, "a whole number from 1 on"),
        ("epochs", 1.5, "a whole number from 1 on"),
        ("minutes", math.nan, "positive and finite"),
        ("tokens_per_batch", 0, "a whole number from 1 on"),
        ("peak_rate", 0.0, "positive and finite"),
        ("warmup", 1.0, r"lie in \[0, 1\)"),
        ("average_from", 1.1, r"lie in \[0, 1\]"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(name, value, expected):
    budget = {} if name in ("epochs", "minutes") else {"epochs": 1}
    with pytest.raises(ValueError, match=f"^{name} must .*{expected}: {value}"):
        TrainingConfig(**budget, **{name: value})


def test_a_schedule_is_given_the_step_and_the_progress():
    seen = []

    def schedule(step, progress):
        seen.append((step, progress))
        return noam_rate(step, d_model=32, warmup_steps=10)

    trainer = make_trainer(schedule=schedule)
    trainer.fit()
    steps, progress = zip(*seen, strict=True)
    assert steps == tuple(range(1, trainer.step + 1))
    assert progress[0] == 0 and sorted(progress) == [*progress] and progress[-1] < 1
    rate = trainer.optimizer.param_groups[0]["lr"]
    assert rate == noam_rate(trainer.step, d_model=32, warmup_steps=10)


@pytest.mark.parametrize("accumulate", [3, 100])
def test_a_batch_in_parts_has_the_same_gradient(accumulate):
    batch, gradients, losses, calls = make_batch(id_pairs(7)), [], [], []
    for parts in (1, accumulate):
        model = fresh_model().eval()  # without dropout
        trainer = make_trainer(model=model, accumulate=parts, clip_norm=1e9)
        trainer.loss.register_forward_hook(lambda *_: calls.append(1))
        trainer.train_step(batch, 0.5)
        gradients.append([p.grad for p in model.parameters()])
        losses.append(trainer.loss_sum.item() / trainer.loss_tokens)
    assert len(calls) == 1 + accumulate
    assert_close(gradients[1], gradients[0], atol=1e-6, rtol=1e-4)
    assert losses[1] == pytest.approx(losses[0])


def test_the_short_loop_takes_the_trainer_s_steps():
    options = {"epochs": 2, "weight_decay": 0.0, "label_smoothing": 0.1}
    model, seen = fresh_model(), []
    trainer = make_trainer(0, lambda step, _: 0.001 * step, model, **options)
    ours = fresh_model()
    ours.load_state_dict(model.state_dict())
    for module in (*model.modules(), *ours.modules()):
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    batches = trainer.epoch_batches()
    losses = train(
        ours, batches, lambda step: 0.001 * step, seen.append, label_smoothing=0.1
    )
    for batch in batches:
        trainer.train_step(batch, 0.5)
    # The softmax cancels a key's bias. Adam makes whole steps of its gradient all the
    # same, which is only rounding, and differs from machine to machine.
    same, due = (
        {
            name: w
            for name, w in m.state_dict().items()
            if "key_projection.bias" not in name
        }
        for m in (ours, model)
    )
    assert_close(same, due, atol=1e-5, rtol=1e-4)
    assert seen == [*range(1, len(batches) + 1)]
    tokens = [batch.n_tokens for batch in batches]
    total = sum(x * n for x, n in zip(losses, tokens, strict=True))
    assert trainer.loss_sum.item() == pytest.approx(total, rel=1e-4)


def test_a_stop_between_two_epochs_and_the_same_trainer_goes_on():
    trainer = make_trainer()
    for _ in trainer.epochs():
        trainer.stop_requested = True
    assert trainer.epoch == 1 and trainer.position == 0
    reports, straight = trainer.fit(), make_trainer().fit()
    assert [r.epoch for r in reports] == [1, 2, 3] and reports is trainer.reports
    assert [r.train_loss for r in reports] == [r.train_loss for r in straight]


def test_nothing_to_train_on():
    config = TrainingConfig(epochs=1)
    with pytest.raises(ValueError, match="0 training pairs, 3 validation pairs"):
        Trainer(fresh_model(), [], id_pairs(3), config)


# --- Averaged weights -----------------------------------------------------------------


def test_the_average_of_weights():
    states = [fresh_model(seed).state_dict() for seed in range(3)]
    average = average_weights(states)
    assert average.keys() == states[0].keys()
    for name, mean in average.items():
        assert mean.dtype == states[0][name].dtype
        assert_close(mean, torch.stack([state[name] for state in states]).mean(0))
    fresh_model().load_state_dict(average)


def test_the_average_is_summed_in_float64_and_leaves_its_states_alone():
    states = [{"x": torch.full((2,), 16_777_216.0)}, {"x": torch.ones(2)}]
    states.append({"x": torch.ones(2)})  # in float32 the first swallows both
    assert average_weights(states)["x"].tolist() == [5_592_406.0] * 2
    one = average_weights(states[:1])
    one["x"].zero_()
    assert states[0]["x"].tolist() == [16_777_216.0] * 2


def test_a_mean_goes_on_where_the_weights_are():
    """A run that is loaded again brings its sums on the CPU, whatever it trains on."""
    average = WeightAverage()
    average.add({"x": torch.ones(2)})
    average.add({"x": torch.ones(2, device="meta")})
    assert average.weights()["x"].device.type == "meta"


def test_whole_numbers_are_those_of_the_last_state():
    states = [{"steps": torch.tensor(n)} for n in (3, 8)]
    average = average_weights(states)
    assert average["steps"].item() == 8
    average["steps"] += 1
    assert states[1]["steps"].item() == 8


def test_nothing_to_average():
    with pytest.raises(ValueError, match="no state has entered"):
        average_weights([])


@pytest.mark.parametrize("other", [{"x": torch.ones(3)}, {}])
def test_unlike_states_are_not_averaged(other):
    with pytest.raises(ValueError, match=r"unlike models: they differ in 'x'"):
        average_weights([{"x": torch.ones(2)}, other])

"""What lesson 08 says of a training step's memory, and what its check measures."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.profiler import profile

from helpers import PAD
from helpers.batching import Batch
from helpers.encoder import Encoder
from helpers.masks import causal_mask, decoder_mask, padding_mask
from helpers.positions import PositionalEncoding
from helpers.probes import kept_numbers
from helpers.transformer import Transformer, TransformerConfig
from lessons.lesson08 import assembly, exercises
from lessons.lesson08.assembly import mean_loss
from other_styles import ProjectionFirst

SIZES = {"d_model": 32, "n_heads": 4, "d_ff": 64, "n_layers": 1, "dropout": 0.0}


def test_a_step_needs_two_gradients_of_the_logits_size_besides_what_is_kept():
    model = Transformer(TransformerConfig(3000, 3000, **SIZES))
    ids = torch.full((40, 26), 5)
    batch = Batch(ids[:, :25], ids)
    mean_loss(model, batch).backward()
    model.zero_grad(set_to_none=False)  # the weights' gradients are there already
    kept = kept_numbers(model, lambda: mean_loss(model, batch))
    with profile(profile_memory=True) as seen:
        mean_loss(model, batch).backward()
    held = peak = 0
    events = seen.profiler.kineto_results.events()
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes() if event.name() == "[memory]" else 0
        peak = max(peak, held)
    logits = 40 * 25 * 3000
    assert abs(peak / 4 - (kept + 2 * logits)) < 0.01 * kept


def test_few_normal_logits_give_a_lower_loss_than_the_formula():
    for s, predicted in ((2, 2), (4, 8), (8, 32)):
        logits = torch.empty(1000, 347).normal_(
            std=s, generator=torch.Generator().manual_seed(0)
        )
        above = logits.logsumexp(dim=-1).mean() - math.log(347)
        assert (abs(above - predicted) < 0.15) == (s == 2) and above < predicted


def test_a_causal_mask_alone_changes_no_logit_of_a_real_token():
    model = Transformer(TransformerConfig(20, 20, **SIZES)).eval()
    source, target = torch.randint(1, 20, (2, 1, 8))
    target[:, 5:] = PAD
    x, memory = model.positions(model.target_embedding(target)), model.encode(source)
    states = model.decoder(x, memory, causal_mask(8), padding_mask(source))
    far = (model.project(states) - model(source, target)).abs().amax(dim=-1)[0]
    assert far[:5].max() < 1e-5 < far[5:].min()


@pytest.mark.parametrize(("more", "mark"), [(0.0, "✓"), (0.5, "✗")])
def test_a_whole_float_is_a_count(more, mark):
    def counted(config):
        return assembly.count_parameters(config) + more

    assert exercises.count_parameters.findings(counted)[0][-1][0] == mark


def positions(model, **changes):
    sizes = {"dropout": model.config.dropout, "max_length": model.config.max_length}
    model.positions = PositionalEncoding(model.config.d_model, **{**sizes, **changes})


def redrawn(draw):
    def change(model):
        with torch.no_grad():
            draw(model)

    return change


def another_dropout(model):
    sizes = replace(model.config.layer_sizes(), dropout=0.1)
    model.encoder = Encoder(model.config.n_layers, sizes)


def two_layers(model):
    model.encoder = Encoder(2, model.config.layer_sizes())


def plain_embeddings(model):
    for name in ("source_embedding", "target_embedding"):
        rows, width = getattr(model, name).weight.shape
        plain = nn.Embedding(rows, width)
        nn.init.normal_(plain.weight, std=width**-0.5)
        setattr(model, name, plain)


FLAWS = {
    "`positions` drops less": lambda model: positions(model, dropout=0.0),
    "`positions` drops more": lambda model: positions(model, dropout=0.3),
    "`encoder` drops more": another_dropout,
    "takes a sentence of 21": lambda model: positions(model, max_length=1024),
    "refuses a sentence of 20": lambda model: positions(model, max_length=16),
    "deviation of 0, not 0.02": redrawn(lambda m: m.projection.weight.zero_()),
    "deviation of 0.08, not": redrawn(lambda m: m.projection.weight.normal_(std=0.08)),
    "0.0002, not 0.02": redrawn(lambda m: m.projection.weight.normal_(std=0.0002)),
    "`source_embedding` starts": redrawn(
        lambda m: nn.init.xavier_uniform_(m.source_embedding.weight)
    ),
    "leave the layers' matrices": redrawn(
        lambda m: m.decoder.layers[0].feed_forward.expand.weight.zero_()
    ),
    "not multiplied by √d_model": plain_embeddings,
    "with `config.n_layers` 1, `encoder` has": two_layers,
}


@pytest.mark.parametrize(("part", "change"), FLAWS.items(), ids=FLAWS)
def test_a_flaw_that_no_output_shows_is_named(part, change):
    class Flawed(ProjectionFirst):
        def __init__(self, config):
            super().__init__(config)
            change(self)

    text = exercises.transformer.findings(Flawed)[0][0]
    assert text.startswith("✗") and part in text, text


class LogProbabilities(ProjectionFirst):
    def project(self, states):
        return super().project(states).log_softmax(dim=-1)


class SoftmaxOutside(ProjectionFirst):
    def forward(self, source, target):
        return super().forward(source, target).softmax(dim=-1)


class NoPositions(ProjectionFirst):
    def encode(self, tokens):
        mask = (tokens != PAD)[:, None, None]
        return self.encoder(self.source_embedding(tokens), mask)


class ReadsTheSourcesEmbedding(ProjectionFirst):
    def decode(self, tokens, memory, source):
        x = self.positions(self.source_embedding(tokens))
        return self.decoder(x, memory, decoder_mask(tokens), padding_mask(source))


class EncodesAgain(ProjectionFirst):
    def decode(self, tokens, memory, source):
        return super().decode(tokens, self.encode(source), source)


class Copied(ProjectionFirst):
    def __init__(self, config):
        super().__init__(config)
        self.projection.weight = nn.Parameter(self.projection.weight.detach().clone())


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        (LogProbabilities, "a log_softmax stands at the end"),
        (SoftmaxOutside, "a softmax stands at the end"),
        (NoPositions, "the positions are missing: the encoder"),
        (ReadsTheSourcesEmbedding, "decoder reads `self.source_embedding`: take that"),
        (EncodesAgain, "`decode` hands the decoder another memory"),
        (Copied, "`projection.weight` is still a parameter of its own"),
    ],
)
def test_what_is_wrong_with_an_answer_is_said(answer, part):
    (text,) = [x for x in exercises.transformer.findings(answer)[0] if x[0] == "✗"]
    assert part in text


@pytest.mark.parametrize(
    ("answer", "lines"),
    [
        (exercises.FAULTS, "✓✓✓✓✓"),
        (dict.fromkeys("ABCDE", " No  Positions"), "✗✗✓✗✗"),
        ({"A": "softmax twice", "B": None, "C": 3, "D": "no position"}, "✗○✗✗○"),
        (None, "○○○○○"),
        ("no positions", "✗"),
    ],
)
def test_each_name_is_judged(answer, lines, capsys):
    exercises.diagnosis(answer)
    assert "".join(x[0] for x in capsys.readouterr().out.splitlines()) == lines

"""What lesson 08 says of a training step's memory, and what its check measures."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.profiler import profile

from helpers import PAD
from helpers.batching import Batch
from helpers.encoder import Encoder
from helpers.positions import PositionalEncoding
from helpers.probes import kept_numbers
from helpers.transformer import Transformer, TransformerConfig
from lessons.lesson08 import exercises
from lessons.lesson08.assembly import mean_loss
from other_styles import ProjectionFirst


def test_a_step_needs_two_gradients_of_the_logits_size_besides_what_is_kept():
    sizes = {"d_model": 32, "n_heads": 4, "d_ff": 64, "n_layers": 1, "dropout": 0.0}
    model = Transformer(TransformerConfig(3000, 3000, **sizes))
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
        (Copied, "`projection.weight` is still a parameter of its own"),
    ],
)
def test_what_is_wrong_with_an_answer_is_said(answer, part):
    (text,) = [x for x in exercises.transformer.findings(answer)[0] if x[0] == "✗"]
    assert part in text

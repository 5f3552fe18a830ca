"""What lesson 08 says of a training step's memory, and what its checks say."""

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
from lessons.lesson08 import exercises
from lessons.lesson08.assembly import mean_loss
from other_styles import ProjectionFirst

SIZES = {"d_model": 32, "n_heads": 4, "d_ff": 64, "n_layers": 1, "dropout": 0.0}


def test_a_step_needs_two_gradients_of_the_logits_size_besides_what_is_kept():
    model = Transformer(TransformerConfig(3000, 3000, **SIZES))
    ids = torch.full((8, 26), 5)
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
    logits = 8 * 25 * 3000
    assert abs(peak / 4 - (kept + 2 * logits)) < 0.01 * kept


def test_a_causal_mask_alone_changes_no_logit_of_a_real_token():
    model = Transformer(TransformerConfig(20, 20, **SIZES)).eval()
    source, target = torch.randint(1, 20, (2, 1, 8))
    target[:, 5:] = PAD
    x, memory = model.positions(model.target_embedding(target)), model.encode(source)
    states = model.decoder(x, memory, causal_mask(8), padding_mask(source))
    far = (model.project(states) - model(source, target)).abs().amax(dim=-1)[0]
    assert far[:5].max() < 1e-5 < far[5:].min()


def positions(model, **changes):
    sizes = {"dropout": model.config.dropout, "max_length": model.config.max_length}
    model.positions = PositionalEncoding(model.config.d_model, **{**sizes, **changes})


def another_dropout(model):
    sizes = replace(model.config.layer_sizes(), dropout=0.1)
    model.encoder = Encoder(model.config.n_layers, sizes)


def copied(model):
    model.projection.weight = nn.Parameter(model.projection.weight.detach().clone())


@torch.no_grad()
def not_drawn(model):
    model.decoder.layers[0].feed_forward.expand.weight.zero_()


FLAWS = {
    "`encode` drops less": lambda model: positions(model, dropout=0.0),
    "`encode` drops more": lambda model: positions(model, dropout=0.5),
    "in training, `encoder` drops less": another_dropout,
    "takes any length": lambda model: positions(model, max_length=1024),
    "the positional table 4": lambda model: positions(model, max_length=4),
    "not 0.02": lambda model: model.projection.reset_parameters(),
    "`source_embedding.weight` starts": lambda model: nn.init.xavier_uniform_(
        model.source_embedding.weight
    ),
    "`decoder.layers.0.feed_forward.expand.weight` starts": not_drawn,
    "not expected: projection.weight": copied,
}


@pytest.mark.parametrize(("part", "change"), FLAWS.items(), ids=FLAWS)
def test_a_flaw_that_hardly_shows_is_named(part, change):
    class Flawed(ProjectionFirst):
        def __init__(self, config):
            super().__init__(config)
            change(self)

    text = exercises.transformer.findings(Flawed)[0][-1]
    assert text.startswith("✗") and part in text, text


class ReadsTheSourcesEmbedding(ProjectionFirst):
    def decode(self, tokens, memory, source):
        x = self.positions(self.source_embedding(tokens))
        return self.decoder(x, memory, decoder_mask(tokens), padding_mask(source))


class EncodesAgain(ProjectionFirst):
    def decode(self, tokens, memory, source):
        return super().decode(tokens, self.encode(source), source)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (ReadsTheSourcesEmbedding, "✗ `decode` alone: the result is "),
        (EncodesAgain, "✗ `decode` alone: the result is "),
    ],
)
def test_what_is_wrong_is_said_of_the_method(answer, says):
    assert exercises.transformer.findings(answer)[0][0].startswith(says)


@pytest.mark.parametrize(
    ("answer", "lines"),
    [
        (dict.fromkeys("ABCDE", " No  Positions"), "✗✗✓✗✗"),
        ({"A": "softmax twice", "B": None, "C": 3, "D": "no position"}, "✗○✗✗○"),
        (None, "○○○○○"),
        ("no positions", "✗"),
    ],
)
def test_each_name_is_judged(answer, lines, capsys):
    exercises.diagnosis(answer)
    assert "".join(x[0] for x in capsys.readouterr().out.splitlines()) == lines

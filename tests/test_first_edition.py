"""What the first edition saved still loads, and its training goes the same way."""

import json
from pathlib import Path

import pytest
import torch
from samples import SIZES
from test_training import id_pairs
from torch.testing import assert_close

from helpers.training import Trainer, TrainingConfig
from helpers.transformer import Transformer, TransformerConfig
from helpers.translator import Translator

DATA = Path(__file__).parent / "data"


def test_a_saved_translator_loads_and_gives_the_same_logits():
    translator = Translator.load(DATA / "first_edition.safetensors")
    source = torch.tensor([[4, 5, 6, 3], [7, 4, 3, 0]])
    target = torch.tensor([[2, 5, 6], [2, 4, 0]])
    sums = translator.model.eval()(source, target).sum(-1)
    then = [
        [-2.683425188064575, -0.11147236824035645, -3.040083169937134],
        [-2.921060562133789, -6.306502819061279, -4.056333541870117],
    ]
    assert_close(sums, torch.tensor(then), atol=1e-5, rtol=1e-5)
    assert translator.source_text.encode("the cat runs.") == [10, 6, 8, 4]
    assert translator.target_text.decode([10, 6, 8, 5]) == "le chat court ?"


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_parameters_have_the_names_they_always_had(norm_first):
    """A saved file is read by them; a table that is computed is not among them."""
    options = {"norm_first": norm_first, "share_embeddings": False, **SIZES}
    names = [*Transformer(TransformerConfig(50, 50, **options)).state_dict()]
    kept = (DATA / "parameter_names.txt").read_text("utf-8").split()
    if not norm_first:
        kept = [name for name in kept if ".norm." not in name or "residuals" in name]
    assert names == kept


def test_training_goes_the_way_it_went():
    """58 steps without dropout: gradients, weights and reports as recorded then."""
    kept = json.loads((DATA / "first_edition_trace.json").read_text("utf-8"))
    torch.manual_seed(0)
    sizes = {"d_model": 32, "n_heads": 4, "d_ff": 64, "n_layers": 2, "dropout": 0.0}
    model = Transformer(
        TransformerConfig(50, 50, norm_first=True, max_length=64, **sizes)
    )
    config = TrainingConfig(epochs=2, tokens_per_batch=64, peak_rate=3e-3)
    trainer = Trainer(model, id_pairs(320), id_pairs(40, seed=9), config)
    found = {"gradients": [], "weights": []}

    def watch(*_):
        parameters = list(model.parameters())
        for name, tensors in (
            ("gradients", [p.grad for p in parameters]),
            ("weights", parameters),
        ):
            squares = [x.detach().double().square().sum().item() for x in tensors]
            found[name].append(sum(squares))

    trainer.optimizer.register_step_post_hook(watch)
    reports = trainer.fit()
    for name, numbers in found.items():
        assert numbers == pytest.approx(kept[name], rel=1e-3), name
    for report, (epoch, step, train_loss, validation_loss) in zip(
        reports, kept["reports"], strict=True
    ):
        assert (report.epoch, report.step) == (epoch, step)
        assert report.train_loss == pytest.approx(train_loss, rel=1e-5)
        assert report.validation_loss == pytest.approx(validation_loss, rel=1e-5)

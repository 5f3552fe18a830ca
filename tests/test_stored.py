"""The stored models are the recipes' own, and score what their table says."""

import pandas as pd
import pytest
import torch

from helpers.translator import RECIPES, STORED, TOYS, Translator, build, trained_toy
from tools import stored

TABLE = pd.read_csv(stored.TABLE, comment="#").set_index("model")


def test_at_most_five_models_and_five_megabytes_are_stored():
    files = sorted(STORED.glob("*.safetensors"))
    assert [file.stem for file in files] == sorted(TABLE.index)
    assert len(files) <= 5
    assert sum(file.stat().st_size for file in files) <= 5_000_000


@pytest.mark.slow
def test_the_stored_models_score_what_the_table_says():
    found = stored.scores(STORED).set_index("model")
    exact = ["recipe", "parameters", "bytes"]
    pd.testing.assert_frame_equal(found[exact], TABLE[exact])
    apart = (found[["right", "loss"]] - TABLE[["right", "loss"]]).abs()
    assert apart["right"].max() < 0.0035  # three sentences of 1,000
    assert apart["loss"].max() < 0.001


def test_a_stored_translator_is_what_the_recipe_builds(toy_text):
    fresh = build(RECIPES["toy"], toy_text)
    for changes in TOYS.values():
        translator = trained_toy(**changes)
        assert translator.model.config == fresh.model.config
        assert translator.source_text.words == fresh.source_text.words
        assert translator.target_text.words == fresh.target_text.words


def test_settings_choose_the_stored_model():
    student = Translator.load(STORED / "student.safetensors").model.state_dict()
    for changes in ({"epochs": 1}, {"epochs": 1, "seed": 0}):
        for name, weight in trained_toy(**changes).model.state_dict().items():
            assert torch.equal(weight, student[name])

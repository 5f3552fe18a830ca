"""How well do lesson 16's readings A to D translate, each trained in full?

The toy recipe with three seeds, learning rate included, scored as the course's own
model is in studies/toy_translator.py.
"""

from collections.abc import Iterator

import torch

from helpers.readings import build_reading
from helpers.translator.model import Translator
from helpers.translator.recipes import RECIPES, learn_texts, load_text, with_seed
from studies.toy_translator import SEEDS, train_and_score


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each seed, reading and split; `tiny` trains on a few sentences."""
    vocabularies = learn_texts(RECIPES["toy"], load_text("toy"))
    for seed in SEEDS[:1] if tiny else SEEDS:
        for key in "ABCD":
            recipe = with_seed(RECIPES["toy"], seed)
            torch.manual_seed(seed)
            model = build_reading(key, *map(len, vocabularies), **recipe.model)
            parameters = sum(p.numel() for p in model.parameters())
            translator = Translator(model, *vocabularies)
            for row in train_and_score(translator, recipe.training, tiny=tiny):
                yield {"seed": seed, "reading": key, "parameters": parameters, **row}

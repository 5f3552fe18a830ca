"""The toy translator with one part changed, trained for a short time (lesson 10)."""

from dataclasses import replace

import torch
from torch import Tensor

from helpers.masks import padding_mask
from helpers.runtime import best_device
from helpers.training import Trainer
from helpers.transformer import Transformer, TransformerConfig
from helpers.translator.model import Translator
from helpers.translator.recipes import RECIPES, learn_texts, load_text, with_seed


class NoPositionsInEncoder(Transformer):
    """A Transformer whose encoder is not told where a word stands."""

    def encode(self, source: Tensor) -> Tensor:
        """Transformer's, without adding the position encoding."""
        return self.encoder(self.source_embedding(source), padding_mask(source))


CHANGES = {
    "nothing changed": {},
    "no positions in the encoder": {"kind": NoPositionsInEncoder},
    "one head": {"n_heads": 1},
    "norm last": {"norm_first": False},
    "half the data": {"part": 2},
    "a tenth of the data": {"part": 10},
}


def short_run(
    *,
    seed: int = 0,
    kind: type[Transformer] = Transformer,
    part: int = 1,
    few: int | None = None,
    **sizes: int | bool,
) -> tuple[Translator, int]:
    """A translator after about 400 steps of 512 tokens, and how many they were.

    It reads as many sentences as one epoch holds: with 1/part of the data, each of them
    `part` times. `few` cuts the data down, for tests.
    """
    recipe, text = with_seed(RECIPES["toy"], seed), load_text("toy")
    vocabularies = learn_texts(recipe, text)
    torch.manual_seed(seed)
    options = {"norm_first": True, "share_embeddings": False, **recipe.model, **sizes}
    model = kind(TransformerConfig(*map(len, vocabularies), **options))
    translator = Translator(model.to(best_device()), *vocabularies)
    pairs = translator.encode_pairs(text.train[:few])
    checked = translator.encode_pairs(text.validation[:100])
    training = replace(recipe.training, epochs=part, tokens_per_batch=512)
    trainer = Trainer(model, pairs[: len(pairs) // part], checked, training)
    trainer.fit()
    return translator, trainer.step

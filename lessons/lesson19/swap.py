"""Another attention inside a Transformer, the learner's or the course's (lesson 19)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import torch
from torch import Size, Tensor, nn
from torch.nn import functional as F

from helpers import mine
from helpers.batching import Batch, make_batch
from helpers.corpus import toy_corpus
from helpers.translator import Translator, trained_toy


@contextmanager
def attending_by(way: Callable[..., Tensor], model: nn.Module) -> Iterator[list[Size]]:
    """In its block, `model` attends by way(query, key, value, mask).

    That is called in place of `attention` (or `my_attention`) and of PyTorch's fused
    function. Yields a list, to which each call adds the shape of its query.
    """
    calls: list[Size] = []

    def fused(
        query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None
    ) -> Tensor:
        calls.append(query.shape)
        return way(query, key, value, attn_mask)

    def with_weights(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, None]:
        return fused(query, key, value, mask), None  # there are no weights to return

    # The names that the code of the model's layers looks up.
    names = model.encoder.layers[0].self_attention.forward.__globals__
    ours = {"attention": with_weights, "my_attention": with_weights}
    with (
        patch.dict(names, ours),
        patch.object(F, "scaled_dot_product_attention", fused),
    ):
        yield calls


def with_stored_weights(transformer: type[nn.Module]) -> nn.Module:
    """A model of this class with lesson 10's stored weights, for 1,000 tokens.

    If it attends by other means than `attending_by` replaces, the course's Transformer
    with the same weights stands in, and a line says so.
    """
    stored = trained_toy().model
    model = transformer(replace(stored.config, max_length=1000)).eval()
    # Buffers may have other names in another's model: parameters must agree.
    wrong = model.load_state_dict(dict(stored.named_parameters()), strict=False)
    missing = {*wrong.missing_keys} & {name for name, _ in model.named_parameters()}
    if missing or wrong.unexpected_keys:
        raise ValueError(f"other parameters than the course's: {wrong}")
    tokens = torch.full((1, 9), 7)
    with attending_by(F.scaled_dot_product_attention, model) as calls, torch.no_grad():
        model(tokens, tokens)
    if not calls:
        print("your MultiHeadAttention calls no `attention`: the course's stands in")
        model = mine.twin(model).eval()
    return model


def batch_for(translator: Translator) -> Batch:
    """200 test sentences of the toy corpus, in the translator's numbers."""
    pairs = [(pair.source, pair.target) for pair in toy_corpus().test[:200]]
    return make_batch(translator.encode_pairs(pairs))

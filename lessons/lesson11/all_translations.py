"""Small random models, and all sentences that they can write (lesson 11)."""

import itertools

import torch
from torch import Tensor, nn

from helpers import EOS
from helpers.transformer import Transformer, TransformerConfig

WORDS = (1, 4, 5, 6)  # with EOS, PAD and BOS a vocabulary of seven


def small_model(seed: int, vocabulary: int = 7) -> tuple[Transformer, Tensor]:
    """A model that is random but sure of itself, and a source (1, 5) for it."""
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_layers": 1, "max_length": 64}
    options = {"dropout": 0.0, "share_embeddings": False}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Transformer(TransformerConfig(12, vocabulary, **sizes, **options))
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.5 if parameter.dim() > 1 else 0.3)
        return model.eval().requires_grad_(False), torch.randint(4, 12, (1, 5))


def all_sentences(longest: int) -> list[list[int]]:
    """Every sentence of WORDS that ends, or is cut off, within `longest` tokens."""
    return [
        [*some, *([EOS] if size < longest else [])]
        for size in range(longest + 1)
        for some in itertools.product(WORDS, repeat=size)
    ]

"""At which learning rates does the factor √d_model of the embedding matter?

Lesson 01's reader learns to name the first word of a sentence. Its words start with
features of size 0.09, 1 or 11, and the numbers that training changes are these features
themselves, or are multiplied by √d_model on the way out. Words of size 0.09 are also
held fixed. The positions are sinusoids of size 0.71, which are not trained.
"""

import math
from collections.abc import Iterator

import torch
from torch import nn

from helpers.first_word import (
    LENGTH,
    WORDS,
    Reader,
    first_word,
    right_first_words,
    train_reader,
)
from helpers.positions import TokenEmbedding, positional_encoding

D_MODEL = 128
RATES = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)
SEEDS = range(3)
ROOT = math.sqrt(D_MODEL)
SIZES = (1 / ROOT, 1, ROOT)  # of a word's features at the start


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each size, factor, rate and seed; `tiny` takes 5 steps at one rate."""
    kinds = [(size, factor, True) for size in SIZES for factor in (False, True)]
    kinds.append((SIZES[0], False, False))
    for size, factor, learnt in kinds[:1] if tiny else kinds:
        for rate in RATES[:1] if tiny else RATES:
            for seed in SEEDS[:1] if tiny else SEEDS:
                torch.manual_seed(seed)
                reader = make(size, factor=factor, learnt=learnt)
                train_reader(reader, first_word, rate=rate, steps=5 if tiny else 500)
                yield {
                    "size": round(size, 2),
                    "factor": int(factor),
                    "learnt": int(learnt),
                    "rate": rate,
                    "seed": seed,
                    "right": round(right_first_words(reader) / WORDS**LENGTH, 4),
                }


def make(size: float, *, factor: bool, learnt: bool) -> Reader:
    """A reader whose words come out of the embedding with features of this size."""
    words = (TokenEmbedding if factor else nn.Embedding)(WORDS, D_MODEL)
    nn.init.normal_(words.weight, std=size / ROOT if factor else size)
    words.weight.requires_grad_(learnt)
    places = nn.Embedding.from_pretrained(positional_encoding(LENGTH, D_MODEL))
    return Reader(words, places, n_answers=WORDS)

"""Which of lesson 08's five cheap checks notice which fault of a Transformer?

A sound model and eight faulty ones, norm last and norm first, five seeds: two layers of
64 features on the toy corpus's vocabulary, three of its sentences to learn by heart.
"""

import math
from collections.abc import Iterator

import torch

from helpers.batching import make_batch
from helpers.corpus import toy_corpus
from helpers.text import Vocabulary
from helpers.transformer import Transformer, TransformerConfig
from lessons.lesson08.assembly import FAULTS, five_checks


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each wiring, model and seed; `tiny`: a few, of one layer."""
    pairs = toy_corpus().train
    texts = [text for pair in pairs for text in (pair.source, pair.target)]
    vocabulary = Vocabulary.from_texts(texts)
    encoded = [
        (vocabulary.encode(p.source), vocabulary.encode(p.target)) for p in pairs
    ]
    three = make_batch(encoded[:3])
    floor = 3 * math.log(3) / three.n_tokens
    sizes = {"d_model": 64, "n_heads": 4, "d_ff": 256, "n_layers": 2, "dropout": 0.0}
    vocab, kinds, seeds = len(vocabulary), (Transformer, *FAULTS), range(5)
    if tiny:
        sizes |= {"d_model": 8, "d_ff": 8, "n_layers": 1}
        kinds, seeds = kinds[:2], range(1)
    for norm_first in (False, True):
        config = TransformerConfig(vocab, vocab, norm_first=norm_first, **sizes)
        for kind in kinds:
            for seed in seeds:
                torch.manual_seed(seed)
                passed = five_checks(kind, config, three, floor)
                where = {"norm": "first" if norm_first else "last"}
                yield where | {"model": kind.__name__, "seed": seed} | passed

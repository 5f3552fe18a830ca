"""What do wider beams and the length penalty do to a translator that is unsure?

The toy translator after one epoch, with three seeds: beams of several sizes without a
penalty, with label smoothing in the training and without; and a beam of 4 with several
penalties, on the validation and on the test sentences.
"""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import torch

from helpers.decoding import beam_search, translate_ids
from helpers.evaluation import bleu, exact_match
from helpers.translator.recipes import load_text, trained_toy
from studies.sampling import of_eight_sentences

SEEDS = range(3)
SIZES = (1, 2, 4, 16)
STRENGTHS = (0.6, 1.0, 1.5, 2.0, 3.0, 4.0)
# label smoothing, split, beam size, length penalty
WAYS = [(smoothing, "test", size, 0.0) for smoothing in (0.1, 0.0) for size in SIZES]
WAYS += [(0.1, "validation", 4, 0.0)]
WAYS += [(0.1, split, 4, a) for split in ("validation", "test") for a in STRENGTHS]


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each seed and way to search; `tiny`: a few, of another model."""
    if tiny:
        yield from (measure((0, *way), tiny=True) for way in WAYS[::6])
        return
    for seed in SEEDS:  # so that no two processes train the same model
        for smoothing in (0.1, 0.0):
            trained_toy(epochs=1, seed=seed, label_smoothing=smoothing)
    context = multiprocessing.get_context("spawn")
    one_thread = {"initializer": torch.set_num_threads, "initargs": (1,)}
    with ProcessPoolExecutor(2, mp_context=context, **one_thread) as pool:
        yield from pool.map(measure, [(seed, *way) for seed in SEEDS for way in WAYS])


def measure(where: tuple, *, tiny: bool = False) -> dict:
    """Translate a split: exact match, BLEU, and the tokens written without EOS."""
    seed, smoothing, split, size, strength = where
    if tiny:
        translator = of_eight_sentences()
    else:
        translator = trained_toy(epochs=1, seed=seed, label_smoothing=smoothing)
    pairs = getattr(load_text("toy"), split)[: 4 if tiny else None]
    sources, references = zip(*pairs, strict=True)
    ids = translate_ids(
        translator.model,
        [translator.source_text.encode(source) for source in sources],
        decode=partial(beam_search, beam_size=size, length_penalty=strength),
        max_length=30,
    )
    texts = [translator.target_text.decode(row) for row in ids]
    names = "seed", "smoothing", "split", "beam", "penalty"
    return dict(zip(names, where, strict=True)) | {
        "exact": round(exact_match(texts, references), 4),
        "bleu": round(bleu(texts, references), 2),
        "tokens": round(sum(map(len, ids)) / len(ids), 3),
    }

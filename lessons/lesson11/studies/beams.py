"""What do wider beams and the length penalty do to a translator that is unsure?

The toy translator after one epoch, with three seeds, on the first 200 test sentences:
beams of several sizes without a penalty; then beams of 4 and 16 with the penalty that
was best, by BLEU, for a beam of 16 on the first 200 validation sentences. Control: the
same, trained without label smoothing, with the beams that have no penalty.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from helpers import EOS
from helpers.batching import make_batch, pad
from helpers.decoding import beam_search, translate_ids
from helpers.evaluation import bleu, exact_match
from helpers.training import Trainer
from helpers.translator.model import Translator
from helpers.translator.recipes import RECIPES, build, load_text, trained_toy
from lessons.lesson11.search import log_probability

SEEDS = range(3)
SMOOTHINGS = (0.1, 0.0)
SIZES = (1, 2, 4, 8, 16)
STRENGTHS = (0.0, 0.6, 1.0, 1.5, 2.0, 3.0)
SENTENCES = 200
LONGEST = 30


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each model and way to search; `tiny`: of one model, on 4 sentences."""
    if tiny:
        yield from search(0.1, 0, of_eight_sentences(), sentences=4)
        return
    for smoothing in SMOOTHINGS:
        for seed in SEEDS:
            changes = {} if smoothing else {"label_smoothing": 0.0}
            translator = trained_toy(epochs=1, seed=seed, **changes)
            yield from search(smoothing, seed, translator)


def of_eight_sentences() -> Translator:
    """The toy translator, trained for an epoch on next to nothing."""
    recipe, text = RECIPES["toy"], load_text("toy")
    translator = build(recipe, text)
    pairs = translator.encode_pairs(text.train[:8])
    training = replace(recipe.training, epochs=1)
    Trainer(translator.model, pairs, pairs, training).fit()
    return translator


def search(
    smoothing: float, seed: int, translator: Translator, **options: int
) -> Iterator[dict]:
    """The rows of one model: the test split is seen with one chosen penalty only."""
    run = partial(measure, smoothing, seed, translator, **options)
    for size in SIZES:
        yield run("test", size, 0.0)
    if not smoothing:
        return
    tried = [run("validation", 16, strength) for strength in STRENGTHS]
    yield from tried
    chosen = max(tried, key=lambda row: row["bleu"])["penalty"]
    for size in (4, 16):
        yield run("test", size, chosen)


def measure(
    smoothing: float,
    seed: int,
    translator: Translator,
    split: str,
    size: int,
    strength: float,
    sentences: int = SENTENCES,
) -> dict:
    """Translate sentences of a split: exact match, BLEU, tokens written without EOS.

    missed: the share of sentences whose reference is more probable than the output;
    lone: how many outputs are a question mark alone.
    """
    pairs = getattr(load_text("toy"), split)[:sentences]
    sources, references = zip(*pairs, strict=True)
    ids = translate_ids(
        translator.model,
        [translator.source_text.encode(source) for source in sources],
        decode=partial(beam_search, beam_size=size, length_penalty=strength),
        max_length=LONGEST,
    )
    batch = make_batch(translator.encode_pairs(pairs))
    said = pad([[*row, EOS][:LONGEST] for row in ids])
    found = log_probability(translator.model, batch.source, said)
    due = log_probability(translator.model, batch.source, batch.labels)
    texts = [translator.target_text.decode(row) for row in ids]
    return {
        "smoothing": smoothing,
        "seed": seed,
        "split": split,
        "beam": size,
        "penalty": strength,
        "exact": round(exact_match(texts, references), 4),
        "bleu": round(bleu(texts, references), 2),
        "tokens": round(sum(map(len, ids)) / len(ids), 3),
        "missed": round((due > found + 1e-4).float().mean().item(), 4),
        "lone": texts.count("?"),
    }

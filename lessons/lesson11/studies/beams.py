"""What do wider beams and the length penalty do to a translator that is unsure?

The toy translator after one epoch, with three seeds, on the first 200 test sentences:
beams of several sizes without a penalty; then beams of 4 and 16 with the penalty that
was best, by BLEU, for a beam of 16 on the first 200 validation sentences. Controls: the
same models made surer, by logits times 1.5; and the same after all seven epochs, which
are sure, made less so, by logits times 0.4. A factor leaves greedy decoding as it is.
Last, how many of all new sentences, and of all new combinations of known words
(`compositional`), these last models translate rightly.
"""

from collections.abc import Iterator
from functools import partial

from helpers import EOS
from helpers.batching import make_batch, pad
from helpers.corpus import toy_corpus
from helpers.decoding import beam_search, translate_ids
from helpers.evaluation import bleu, exact_match
from helpers.translator.model import Translator
from helpers.translator.recipes import trained_toy
from lessons.lesson11.search import log_probability, scaled

SEEDS = range(3)
SURER, LESS_SURE = 1.5, 0.4  # times the logits
SIZES = (1, 2, 4, 8, 16)
STRENGTHS = (0.0, 0.6, 1.0, 1.5, 2.0, 3.0)
SENTENCES = 200
LONGEST = 30


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each model and way to search; `tiny`: of one model, on 4 sentences."""
    if tiny:
        yield from unsure(0, trained_toy(epochs=1), sentences=4)
        return
    for seed in SEEDS:
        yield from unsure(seed, trained_toy(epochs=1, seed=seed))
    for seed in SEEDS[:2]:  # these take seven times as long
        yield from sure(seed, trained_toy(seed=seed))


def unsure(seed: int, translator: Translator, **options: int) -> Iterator[dict]:
    """The rows of a student: the test split is seen with one chosen penalty only."""
    run = partial(measure, "student", seed, translator, **options)
    for size in SIZES:
        yield run(1.0, "test", size, 0.0)
    tried = [run(1.0, "validation", 16, strength) for strength in STRENGTHS]
    yield from tried
    chosen = max(tried, key=lambda row: row["bleu"])["penalty"]
    for size in (4, 16):
        yield run(1.0, "test", size, chosen)
    for size in SIZES:
        yield run(SURER, "test", size, 0.0)


def sure(seed: int, translator: Translator) -> Iterator[dict]:
    """The rows of an expert."""
    run = partial(measure, "expert", seed, translator)
    for factor in (1.0, LESS_SURE):
        for size in (1, 16):
            yield run(factor, "test", size, 0.0)
    for split in ("test", "compositional"):
        yield run(1.0, split, 1, 0.0, sentences=1_000)


def measure(
    name: str,
    seed: int,
    translator: Translator,
    factor: float,
    split: str,
    size: int,
    strength: float,
    sentences: int = SENTENCES,
) -> dict:
    """Translate sentences of a split: exact match, BLEU, tokens written without EOS.

    missed: the share of sentences whose reference is more probable than the output;
    lone: how many outputs are a question mark alone.
    """
    model = scaled(translator.model, factor)
    pairs = [(x.source, x.target) for x in getattr(toy_corpus(), split)[:sentences]]
    sources, references = zip(*pairs, strict=True)
    ids = translate_ids(
        model,
        [translator.source_text.encode(source) for source in sources],
        decode=partial(beam_search, beam_size=size, length_penalty=strength),
        max_length=LONGEST,
    )
    batch = make_batch(translator.encode_pairs(pairs))
    said = pad([[*row, EOS][:LONGEST] for row in ids])
    found = log_probability(model, batch.source, said)
    due = log_probability(model, batch.source, batch.labels)
    texts = [translator.target_text.decode(row) for row in ids]
    return {
        "model": name,
        "seed": seed,
        "factor": factor,
        "split": split,
        "beam": size,
        "penalty": strength,
        "n": len(pairs),
        "exact": round(exact_match(texts, references), 4),
        "bleu": round(bleu(texts, references), 2),
        "tokens": round(sum(map(len, ids)) / len(ids), 3),
        "missed": round((due > found + 1e-4).float().mean().item(), 4),
        "lone": texts.count("?"),
    }

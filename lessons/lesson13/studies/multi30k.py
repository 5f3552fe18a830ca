"""How far apart do three seeds lie on real captions, and how sure is each score?

Lesson 13's recipe with a quarter of its epochs, German to English. Each model is scored
on three test sets, by greedy search and by a beam, and each score has its interval.
"""

from collections.abc import Iterator
from functools import partial

from helpers.decoding import beam_search, greedy_decode
from helpers.multi30k import TextPair, load_multi30k
from helpers.training import Trainer
from helpers.translator.model import Translator
from helpers.translator.recipes import RECIPES, build, load_text, with_seed
from lessons.lesson13.bootstrap import bleu_counts, bleu_of, draw_resamples

SEEDS = (0, 1, 2)
EPOCHS = 3
TESTS = ("test_2016_flickr", "test_2017_flickr", "test_2017_mscoco")
SEARCHES = {
    "greedy": greedy_decode,
    "beam of 5": partial(beam_search, beam_size=5, length_penalty=1.5),
}


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each seed, test set and search; `tiny` learns a few toy sentences."""
    if tiny:
        text = load_text("toy")
        tests = dict.fromkeys(TESTS, text.test[:4])
    else:
        text = load_multi30k()
        tests = {name: load_multi30k(test=name).test for name in TESTS}
    for seed in SEEDS[:1] if tiny else SEEDS:
        recipe = with_seed(RECIPES["multi30k"], seed, minutes=None, epochs=EPOCHS)
        translator = build(recipe, text)
        pairs = translator.encode_pairs(text.train[: 8 if tiny else None])
        checked = translator.encode_pairs(text.validation[: 8 if tiny else None])
        Trainer(translator.model, pairs, checked, recipe.training).fit()
        for row in scores(translator, tests):
            yield {"seed": seed, **row}


def scores(translator: Translator, tests: dict[str, list[TextPair]]) -> Iterator[dict]:
    """BLEU from 0 to 100 with the interval that holds 95 % of 1,000 resamples."""
    for name, pairs in tests.items():
        sources, references = zip(*pairs, strict=True)
        draws = draw_resamples(len(pairs))
        for search, decode in SEARCHES.items():
            said = translator.translate(sources, decode=decode)
            counts = bleu_counts(said, references)
            spread = bleu_of(counts[draws].sum(dim=1))
            yield {
                "test": name,
                "search": search,
                "bleu": round(bleu_of(counts.sum(dim=0)).item(), 2),
                "low": round(spread.quantile(0.025).item(), 2),
                "high": round(spread.quantile(0.975).item(), 2),
            }

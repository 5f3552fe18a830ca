"""Translations of captions by a model that was trained before (lesson 13).

`python -m lessons.lesson13.captions` trains lesson 13's model on Multi30k, German to
English, translates the three test sets, and stores what it says in translations.tsv,
beside this file. It takes about 25 minutes on one thread; stop it, and start it again,
and it goes on. The captions themselves are not stored.
"""

import csv
import sys
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path

from helpers.decoding import beam_search, greedy_decode
from helpers.multi30k import ParallelText, TextPair, load_multi30k
from helpers.runtime import best_device, environment_report, run_kind
from helpers.scale.checkpoints import resume_run, write_atomically
from helpers.scale.runs import saved_epochs
from helpers.training import EpochReport, Trainer
from helpers.translator.model import Translator
from helpers.translator.recipes import (
    RECIPES,
    Recipe,
    build,
    load_text,
    trained_toy,
    with_seed,
)

TESTS = ("test_2016_flickr", "test_2017_flickr", "test_2017_mscoco")
SEARCHES = {
    "greedy": greedy_decode,
    "beam of 5": partial(beam_search, beam_size=5, length_penalty=1.0),
}
RECIPE = with_seed(RECIPES["multi30k"], seed=0, minutes=None, epochs=12)
STORED = Path(__file__).with_name("translations.tsv")

Said = dict[tuple[str, str], list[str]]  # (test set, search) -> its translations


def train_on(
    text: ParallelText, recipe: Recipe, translator: Translator, path: Path
) -> Iterator[EpochReport]:
    """Train the translator on the text, saved at `path`, or go on from there."""
    pairs = translator.encode_pairs(text.train)
    checked = translator.encode_pairs(text.validation)
    trainer = Trainer(translator.model, pairs, checked, recipe.training)
    settings = {**asdict(translator.model.config), **asdict(recipe.training)}
    if path.exists():
        resume_run(path, trainer, settings)
    yield from [*trainer.reports]
    yield from saved_epochs(trainer, path, settings)


def translations(translator: Translator, tests: dict[str, list[TextPair]]) -> Said:
    """What a translator says to each test set, by each search."""
    return {
        (name, search): translator.translate([s for s, _ in pairs], decode=decode)
        for name, pairs in tests.items()
        for search, decode in SEARCHES.items()
    }


def test_sets() -> dict[str, list[TextPair]]:
    """The pairs of the three test sets; in a check, some of the toy corpus for each."""
    if run_kind() == "check":
        toy = load_text("toy").test
        return {name: toy[i * 100 : (i + 1) * 100] for i, name in enumerate(TESTS)}
    return {name: load_multi30k(test=name).test for name in TESTS}


def stored_translations() -> Said:
    """What the trained model said; in a check, what a stored toy translator says."""
    if run_kind() == "check":
        return translations(trained_toy(epochs=1), test_sets())
    lines = STORED.read_text("utf-8").splitlines()[1:]  # the first names the versions
    rows = [*csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)]
    return {
        (name, search): [row[search] for row in rows if row["test"] == name]
        for name in TESTS
        for search in SEARCHES
    }


def store(said: Said) -> None:
    """Write the translations, one line for a sentence, below a line of versions."""
    report = environment_report()
    versions = ", ".join(f"{name} {version}" for name, version in report.items())
    lines = [f"# {versions}", "\t".join(("test", *SEARCHES))]
    for name in TESTS:
        columns = [said[name, search] for search in SEARCHES]
        lines += ["\t".join((name, *row)) for row in zip(*columns, strict=True)]
    text = "\n".join(lines) + "\n"
    write_atomically(STORED, lambda part: part.write_text(text, "utf-8", newline="\n"))


def main() -> None:
    """Train, translate, and store what was said."""
    text = load_multi30k()
    translator = build(RECIPE, text)
    translator.model.to(best_device())
    reports = []
    for report in train_on(text, RECIPE, translator, Path("runs/lesson-13.pt")):
        print(f"epoch {report.epoch}: validation loss {report.validation_loss:.3f}")
        reports.append(report)
    if len(reports) < RECIPE.training.epochs:
        sys.exit("stopped and saved: start it again to go on")
    store(translations(translator, test_sets()))


if __name__ == "__main__":
    main()

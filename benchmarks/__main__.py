"""`make bench`: train the toy translator with three seeds and score it.

Prints wall time of the training and exact match on the two held-out splits, a line a
seed, and stores the table with machine and versions in benchmarks/toy_translator.txt.
"""

from pathlib import Path

from helpers.corpus import toy_corpus
from helpers.evaluation import exact_match
from helpers.runtime import environment_report
from helpers.training import Trainer
from helpers.translator import RECIPES, build, load_text, with_seed

TABLE = Path(__file__).parent / "toy_translator.txt"


def measure(seed: int) -> str:
    """Train with one seed; a line of the table."""
    recipe = with_seed(RECIPES["toy"], seed)
    text, corpus = load_text("toy"), toy_corpus()
    translator = build(recipe, text)
    pairs = (
        translator.encode_pairs(text.train),
        translator.encode_pairs(text.validation),
    )
    trainer = Trainer(translator.model, *pairs, recipe.training)
    for _ in trainer.run():
        pass
    scores = []
    for split in (corpus.test, corpus.compositional):
        outputs = translator.translate([pair.source for pair in split])
        scores.append(100 * exact_match(outputs, [pair.target for pair in split]))
    return f"{seed:4} {trainer.seconds:8.1f} s {scores[0]:8.1f} % {scores[1]:14.1f} %"


def main() -> None:
    versions = ", ".join(f"{name} {v}" for name, v in environment_report().items())
    lines = [versions, "", "seed   training     test  compositional (exact match)"]
    print("\n".join(lines), flush=True)
    for seed in range(3):
        lines.append(measure(seed))
        print(lines[-1], flush=True)
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

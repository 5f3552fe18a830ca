"""`make bench ARGS=toy`: train the toy translator with three seeds and score it.

Prints wall time of the training and exact match on the two held-out splits, a line a
seed, and stores the table with machine and versions in benchmarks/toy_translator.txt.
"""

from collections.abc import Iterable
from pathlib import Path

from helpers.corpus import toy_corpus
from helpers.evaluation import exact_match
from helpers.multi30k import ParallelText
from helpers.runtime import environment_report
from helpers.training import Trainer, TrainingConfig
from helpers.translator import RECIPES, Translator, build, load_text, with_seed

TABLE = Path(__file__).parent / "toy_translator.txt"


def main() -> None:
    """Measure three seeds and store the table."""
    header = "seed   training     test  compositional (exact match)"
    print_and_store(header, map(measure, range(3)), TABLE)


def measure(seed: int) -> str:
    """Train with one seed; a line of the table."""
    recipe, text = with_seed(RECIPES["toy"], seed), load_text("toy")
    translator = build(recipe, text)
    trainer, *scores = train_and_score(translator, text, recipe.training)
    return f"{seed:4} {trainer.seconds:8.1f} s {scores[0]:8.1f} % {scores[1]:14.1f} %"


def train_and_score(
    translator: Translator, text: ParallelText, training: TrainingConfig
) -> tuple[Trainer, float, float]:
    """The finished trainer; exact match in per cent on `test` and `compositional`."""
    pairs = (
        translator.encode_pairs(text.train),
        translator.encode_pairs(text.validation),
    )
    trainer = Trainer(translator.model, *pairs, training)
    trainer.fit()
    corpus, scores = toy_corpus(), []
    for split in (corpus.test, corpus.compositional):
        outputs = translator.translate([pair.source for pair in split])
        scores.append(100 * exact_match(outputs, [pair.target for pair in split]))
    return trainer, *scores


def print_and_store(header: str, rows: Iterable[str], path: Path) -> None:
    """Print versions, header and each row as it comes; write all of it at the end."""
    versions = ", ".join(f"{name} {v}" for name, v in environment_report().items())
    lines = [versions, "", header]
    print("\n".join(lines), flush=True)
    for row in rows:
        lines.append(row)
        print(row, flush=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")

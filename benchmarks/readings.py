"""`make bench ARGS=readings`: train readings A to D on the toy corpus and score them.

Each is trained by the toy recipe of lesson 10 with seed 0, its learning rate included.
A line a reading: parameters, wall time of the training, last validation loss in nats a
token, exact match on the two held-out splits. Stored in benchmarks/readings.txt.
"""

from pathlib import Path

import torch

from benchmarks.toy import print_and_store, train_and_score
from helpers.readings import build_reading
from helpers.translator import RECIPES, Translator, learn_texts, load_text

TABLE = Path(__file__).parent / "readings.txt"


def measure(key: str) -> str:
    """Train one reading; a line of the table."""
    recipe, text = RECIPES["toy"], load_text("toy")
    vocabularies = learn_texts(recipe, text)
    torch.manual_seed(recipe.training.seed)
    model = build_reading(key, *map(len, vocabularies), **recipe.model)
    translator = Translator(model, *vocabularies)
    trainer, *scores = train_and_score(translator, text, recipe.training)
    parameters = sum(p.numel() for p in model.parameters())
    return (
        f"{key:7} {parameters:10,} {trainer.seconds:8.1f} s "
        f"{trainer.reports[-1].validation_loss:10.3f} "
        f"{scores[0]:6.1f} % {scores[1]:12.1f} %"
    )


def main() -> None:
    """Measure all four and store the table."""
    header = (
        "reading parameters   training  val. loss     test  compositional (exact match)"
    )
    print_and_store(header, map(measure, "ABCD"), TABLE)

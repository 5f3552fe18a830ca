"""`make bench`: train the toy translator with three seeds and score it.

Prints wall time of the training and exact match on the two held-out splits, a line a
seed, and stores the table with machine and versions in benchmarks/toy_translator.txt.
`make bench ARGS=readings` does what benchmarks/readings.py says instead.
"""

import argparse
from pathlib import Path

from benchmarks import readings
from benchmarks.toy import print_and_store, train_and_score
from helpers.translator import RECIPES, build, load_text, with_seed

TABLE = Path(__file__).parent / "toy_translator.txt"


def measure(seed: int) -> str:
    """Train with one seed; a line of the table."""
    recipe, text = with_seed(RECIPES["toy"], seed), load_text("toy")
    translator = build(recipe, text)
    trainer, *scores = train_and_score(translator, text, recipe.training)
    return f"{seed:4} {trainer.seconds:8.1f} s {scores[0]:8.1f} % {scores[1]:14.1f} %"


def main() -> None:
    """Run the benchmark that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    names = ("translator", "readings")
    parser.add_argument("name", nargs="?", choices=names, default="translator")
    if parser.parse_args().name == "readings":
        readings.main()
    else:
        header = "seed   training     test  compositional (exact match)"
        print_and_store(header, map(measure, range(3)), TABLE)


if __name__ == "__main__":
    main()

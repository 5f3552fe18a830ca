"""Make the stored models: python -m tools.stored, or compare them: … --check.

Lessons 11, 12 and 18 start from four trained models. This trains each of them, in six
minutes on one core, and stores them with a table of their scores on the test split in
helpers/translator/stored/. With --check, it trains them into a temporary folder and
compares: on another machine, the weights differ, and the scores a little. (The bytes of
a file differ from run to run: safetensors gives its metadata no order.)
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from tools.reproducible import make_reproducible

make_reproducible(os.environ)  # before torch is imported

import pandas as pd
from safetensors.torch import load_file, save_model
from torch.nn import functional as F

from helpers.decoding import inference
from helpers.evaluation import exact_match
from helpers.modern.language_model import LanguageModel
from helpers.runtime import environment_report
from helpers.scale.checkpoints import write_atomically
from helpers.training import evaluate_loss
from helpers.translator import STORED, TOYS, Translator, load_text
from helpers.translator.recipes import toy_recipe, train_toy
from lessons.lesson18 import bilingual
from lessons.lesson18.one_sequence import join, toy_pairs

TABLE = STORED / "models.csv"
# How far a model trained anew may lie. On another math path, the student's scores moved
# by 0.002 and 0.0003; with seeds 1 to 3, by 0.02 to 0.08 and 0.05 to 0.26.
RIGHT, LOSS = 0.02, 0.01


def train(folder: Path) -> None:
    """Train every model into the folder."""
    for name, changes in TOYS.items():
        train_toy(toy_recipe(**changes)).save(folder / f"{name}.safetensors")
    model, path = bilingual.train_bilingual(), folder / "bilingual.safetensors"
    write_atomically(path, lambda part: save_model(model, str(part)))


def scores(folder: Path) -> pd.DataFrame:
    """A row for each model of the folder, from the 1,000 sentences of the test split.

    right is the share of those translated exactly, loss is in nats per French token.
    """
    rows = []
    for name in (*TOYS, "bilingual"):
        path = folder / f"{name}.safetensors"
        if name == "bilingual":
            model = bilingual.trained_bilingual(path)
            right, loss = score_bilingual(model)
        else:
            translator, pairs = Translator.load(path), load_text("toy").test
            model, (sources, references) = translator.model, zip(*pairs, strict=True)
            right = exact_match(translator.translate(sources), references)
            loss = evaluate_loss(model, translator.encode_pairs(pairs))
        parameters = sum(p.numel() for p in model.parameters())
        sizes = {"parameters": parameters, "bytes": path.stat().st_size}
        of_test = {"right": round(right, 3), "loss": round(loss, 4)}
        rows.append({"model": name, "recipe": recipe_of(name)} | sizes | of_test)
    return pd.DataFrame(rows)


def recipe_of(name: str) -> str:
    """How a model is trained, less what is the default: "epochs=7, peak_rate=0.004"."""
    if name == "bilingual":
        rate = f"peak_rate={bilingual.PEAK}, warmup={bilingual.WARM_UP}"
        return f"steps={bilingual.STEPS}, {rate}"
    training = toy_recipe(**TOYS[name]).training
    given = {field: getattr(training, field.name) for field in fields(training)}
    return ", ".join(f"{f.name}={x}" for f, x in given.items() if x != f.default)


def score_bilingual(model: LanguageModel) -> tuple[float, float]:
    """right and loss; greedy decoding is right where each next word of a pass is."""
    test = join(toy_pairs("test"))
    labels, french = test.tokens[:, 1:], test.counted()[:, 1:]
    with inference(model):
        logits = model(test.tokens[:, :-1])
    right = ((logits.argmax(dim=-1) == labels) | ~french).all(dim=1).double().mean()
    return right.item(), F.cross_entropy(logits[french], labels[french]).item()


def compare(folder: Path) -> list[str]:
    """Print how far each model lies from the stored one; the names of those too far."""
    stored, far = pd.read_csv(TABLE, comment="#").set_index("model"), []
    for row in scores(folder).itertuples():
        due, file = stored.loc[row.model], f"{row.model}.safetensors"
        old, new = load_file(STORED / file), load_file(folder / file)
        apart = max((old[key] - new[key]).abs().max().item() for key in old)
        right, loss = row.right - due.right, row.loss - due.loss
        print(f"{row.model:10} weights differ by {apart:.1e} at most, ", end="")
        print(f"right by {right:+.3f}, loss by {loss:+.4f}")
        if abs(right) > RIGHT or abs(loss) > LOSS:
            far.append(row.model)
    return far


def main(given: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.stored")
    parser.add_argument("--check", action="store_true", help="compare, store nothing")
    if parser.parse_args(given).check:
        with tempfile.TemporaryDirectory() as folder:
            train(Path(folder))
            far = compare(Path(folder))
        sys.exit(f"not as stored: {', '.join(far)}" if far else 0)
    train(STORED)
    versions = ", ".join(f"{key} {v}" for key, v in environment_report().items())
    text = f"# {versions}\n" + scores(STORED).to_csv(index=False, lineterminator="\n")
    write_atomically(TABLE, lambda part: part.write_text(text, "utf-8", newline="\n"))


if __name__ == "__main__":
    main()

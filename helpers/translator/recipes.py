"""What to train on a corpus, and the toy translators that lessons 11 and 12 start from.

Those are stored beside this file, in `stored/`: `python -m tools.stored` makes them.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from helpers.corpus import toy_corpus
from helpers.multi30k import ParallelText, load_multi30k
from helpers.runtime import best_device
from helpers.text import SubwordTokenizer, Vocabulary
from helpers.training import Trainer, TrainingConfig
from helpers.transformer import Transformer, TransformerConfig
from helpers.translator.model import Text, Translator
from helpers.translator.small import TOY_SIZES

STORED = Path(__file__).parent / "stored"
# The stored toy translators, and what each changes in lesson 10's recipe.
TOYS = {"toy": {}, "student": {"epochs": 1}, "unsmoothed": {"label_smoothing": 0.0}}
CORPORA = ("toy", "multi30k")


@dataclass(frozen=True)
class Recipe:
    """What to train on a corpus: found by experiment on two CPU cores, but for one."""

    model: dict
    training: TrainingConfig
    subwords: int | None = None  # None: whole words, a vocabulary for each side


SMALL = {"d_model": 128, "n_heads": 4, "d_ff": 256}
RECIPES = {
    "toy": Recipe(TOY_SIZES, TrainingConfig(epochs=7, peak_rate=4e-3)),
    "multi30k": Recipe(
        model=SMALL | {"n_layers": 3, "dropout": 0.05},
        training=TrainingConfig(
            minutes=10,
            tokens_per_batch=640,
            pool=400,
            peak_rate=3e-3,
            warmup=0.05,
            average_from=0.9,
        ),
        subwords=4_000,
    ),
    # On a GPU, for many epochs: sizes and dropout after the smallest model of Wu et
    # al. 2021, "Good for misconceived reasons". On an H200: ten minutes.
    "multi30k-gpu": Recipe(
        model=SMALL | {"n_layers": 4, "dropout": 0.3},
        training=TrainingConfig(
            epochs=80, tokens_per_batch=4096, peak_rate=4e-3, average_from=0.9
        ),
        subwords=10_000,
    ),
}


def with_seed(recipe: Recipe, seed: int, **budget) -> Recipe:
    """The recipe with another seed, and with another budget if one is given."""
    return replace(recipe, training=replace(recipe.training, seed=seed, **budget))


def load_text(name: str, folder: str | None = None, **options: str) -> ParallelText:
    """The sentence pairs of a corpus by its name; the rest is for `load_multi30k`.

    ValueError for a name that is not one of CORPORA, DataError as in `load_multi30k`.
    """
    if name not in CORPORA:
        raise ValueError(f"the corpora are {', '.join(CORPORA)}: not {name!r}")
    if name == "multi30k":
        return load_multi30k(folder, **options)
    corpus = toy_corpus()
    splits = (corpus.train, corpus.validation, corpus.test)
    return ParallelText(*([(p.source, p.target) for p in split] for split in splits))


def learn_texts(recipe: Recipe, text: ParallelText) -> tuple[Text, Text]:
    """The two sides' vocabularies, learnt from the training split."""
    sources, targets = zip(*text.train, strict=True)
    if recipe.subwords:
        both = (*sources, *targets)
        joint = SubwordTokenizer.train(both, vocab_size=recipe.subwords)
        return joint, joint
    french = Vocabulary.from_texts(targets, space_before="?")
    return Vocabulary.from_texts(sources), french


def build(recipe: Recipe, text: ParallelText) -> Translator:
    """An untrained translator for a corpus, the same for the same seed."""
    torch.manual_seed(recipe.training.seed)
    source_text, target_text = learn_texts(recipe, text)
    config = TransformerConfig(
        source_vocab=len(source_text),
        target_vocab=len(target_text),
        norm_first=True,
        share_embeddings=source_text is target_text,
        **recipe.model,
    )
    return Translator(Transformer(config), source_text, target_text)


def toy_recipe(**changes) -> Recipe:
    """Lesson 10's recipe; changes are of its TrainingConfig.

    TypeError for a setting that there is not, ValueError for a value without sense.
    """
    recipe = RECIPES["toy"]
    return replace(recipe, training=replace(recipe.training, **changes))


def trained_toy(**changes) -> Translator:
    """The translator of lesson 10: loaded where it is stored, else trained now.

    Stored are the model itself, the one after epochs=1, and the one with
    label_smoothing=0.0 (TOYS). Any other changes, of its TrainingConfig, are trained:
    about a minute on two cores, on a GPU if there is one; the model comes on the CPU.
    TypeError for a setting that there is not, ValueError for a value without sense.
    """
    recipe = toy_recipe(**changes)
    for name, its_changes in TOYS.items():
        if recipe == toy_recipe(**its_changes):
            return Translator.load(STORED / f"{name}.safetensors")
    return train_toy(recipe)


def train_toy(recipe: Recipe) -> Translator:
    """Train a recipe on the toy corpus, stored or not; the model comes on the CPU."""
    text = load_text("toy")
    translator = build(recipe, text)
    translator.model.to(best_device())
    pairs = translator.encode_pairs(text.train)
    checked = translator.encode_pairs(text.validation)
    Trainer(translator.model, pairs, checked, recipe.training).fit()
    translator.model.cpu()
    return translator

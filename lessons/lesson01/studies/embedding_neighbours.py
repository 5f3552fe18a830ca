"""Which nouns are near each other in the embedding of a trained translator, and why?

The toy recipe of lesson 10 with three seeds. For every noun of seven groups, the three
nouns whose vectors have the largest cosine similarity: before training; after training
to translate into French; and after training to copy the English sentence, a task that
needs no French grammar.
"""

from collections.abc import Iterator
from dataclasses import replace

from torch.nn import functional as F

from helpers.corpus.words import NOUNS, Noun, elides
from helpers.multi30k import ParallelText
from helpers.training import Trainer
from helpers.translator.model import Translator
from helpers.translator.recipes import RECIPES, build, load_text, with_seed

SEEDS = range(3)
TASKS = ("to French", "to English")
# What a noun means, by what it can do in a sentence of the corpus.
MEANINGS = {
    "person": "person",
    "animal": "animal",
    "food": "food drink",
    "to read": "readable",
    "clothes": "wearable",
    "furniture": "furniture",
    "place": "building spot room",
}


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each seed, training and noun; `tiny` trains on a few sentences."""
    for seed in SEEDS[:1] if tiny else SEEDS:
        for task in TASKS[:1] if tiny else TASKS:
            recipe, few = with_seed(RECIPES["toy"], seed), 4 if tiny else None
            text = text_of(task)
            translator = build(recipe, text)
            if task == TASKS[0]:
                yield from neighbours(translator, seed, "untrained")
            training = replace(recipe.training, epochs=1) if tiny else recipe.training
            pairs = translator.encode_pairs(text.train[:few])
            checked = translator.encode_pairs(text.validation[:few])
            Trainer(translator.model, pairs, checked, training).fit()
            yield from neighbours(translator, seed, task)


def text_of(task: str) -> ParallelText:
    """The toy corpus; for the copying task with the English on both sides."""
    text = load_text("toy")
    if task == TASKS[0]:
        return text
    splits = (text.train, text.validation, text.test)
    return ParallelText(*([(english, english) for english, _ in x] for x in splits))


def nouns() -> dict[str, dict[str, str]]:
    """{English form: its meaning, the gender and the article of its French form}."""
    found = {}
    for noun in NOUNS:
        meaning = meaning_of(noun)
        if meaning:
            facts = {"meaning": meaning, "gender": noun.gender}
            singular = "l'" if elides(noun.french) else {"m": "le", "f": "la"}
            article = singular if singular == "l'" else singular[noun.gender]
            found[noun.english_forms[0]] = facts | {"article": article}
            if not noun.always_one:
                found[noun.english_forms[1]] = facts | {"article": "les"}
    return found


def meaning_of(noun: Noun) -> str:
    """The first of MEANINGS that fits a noun, or nothing."""
    kinds = {*noun.kinds.split()}
    fitting = (name for name, marks in MEANINGS.items() if {*marks.split()} & kinds)
    return next(fitting, "")


def neighbours(translator: Translator, seed: int, training: str) -> Iterator[dict]:
    """For every noun its three nearest, and what it shares with the first of them."""
    facts = nouns()
    words = [word for word in facts if word in translator.source_text.words]
    ids = [translator.source_text.encode(word)[0] for word in words]
    vectors = F.normalize(translator.model.source_embedding.weight.detach()[ids])
    likeness = (vectors @ vectors.T).fill_diagonal_(-1)
    for word, row in zip(words, likeness, strict=True):
        near = [words[i] for i in row.topk(3).indices.tolist()]
        same = {name: facts[word][name] == facts[near[0]][name] for name in facts[word]}
        yield {
            "training": training,
            "seed": seed,
            "word": word,
            **facts[word],
            "nearest": " ".join(near),
            **{f"same_{name}": int(value) for name, value in same.items()},
        }

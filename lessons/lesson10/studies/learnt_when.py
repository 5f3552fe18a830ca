"""What does lesson 10's translator learn when?

The toy recipe with five seeds, asked every 25 steps for its likeliest next word after
the true ones, at the places of the validation sentences that carry a difference between
the languages, and where an adjective and its noun stand side by side.
"""

from collections import defaultdict
from collections.abc import Iterator

from helpers.batching import Batch, make_batch
from helpers.corpus import SentencePair, toy_corpus
from helpers.decoding import inference
from helpers.text import split_words
from helpers.training import Trainer
from helpers.translator.recipes import RECIPES, build, load_text, with_seed
from lessons.lesson10.described_nouns import (
    FORMS,
    FRENCH_ADJECTIVES,
    FRENCH_NOUNS,
    carriers,
    described_nouns,
)

SEEDS = range(5)
EVERY, LAST = 25, 600


class Watched(Trainer):
    """A trainer that asks every 25 steps, and stops after the last time."""

    asked: list[SentencePair]
    words: list[str]
    found: dict

    def train_step(self, batch: Batch, progress: float) -> None:
        """Trainer's, and the questions."""
        super().train_step(batch, progress)
        if self.step % EVERY == 0:
            questions = make_batch(self.validation).to(self.device)
            with inference(self.model):
                logits = self.model(questions.source, questions.decoder_input)
            said = logits.argmax(dim=-1).tolist()
            self.found[self.step] = answers(said, self.asked, self.words)
        if self.step >= LAST:
            self.stop_requested = True


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each seed, step, place and question; `tiny` has few sentences."""
    text, few = load_text("toy"), 200 if tiny else None
    for seed in SEEDS[:1] if tiny else SEEDS:
        recipe = with_seed(RECIPES["toy"], seed, **({"epochs": 13} if tiny else {}))
        translator = build(recipe, text)
        pairs = translator.encode_pairs(text.train[:few])
        checked = translator.encode_pairs(text.validation[:few])
        trainer = Watched(translator.model, pairs, checked, recipe.training)
        trainer.asked = toy_corpus().validation[:few]
        trainer.words, trainer.found = translator.target_text.words, {}
        trainer.fit()
        for step, found in trainer.found.items():
            for (place, question), hits in found.items():
                where = {"seed": seed, "step": step, "place": place}
                share = round(sum(hits) / len(hits), 4)
                yield {**where, "question": question, "share": share, "n": len(hits)}


def answers(
    said: list[list[int]], pairs: list[SentencePair], words: list[str]
) -> dict[tuple[str, str], list[bool]]:
    """{(place, question): whether it is so, for each such place}."""
    found = defaultdict(list)
    for row, pair in zip(said, pairs, strict=True):
        ours = [words[i] for i in row]
        truth = split_words(pair.target)
        for name, places in carriers(pair).items():
            found[name, "right word"] += [ours[j] == truth[j] for j in places]
        for adjective, at, noun in described_nouns(pair):
            first = "noun first" if noun < at else "adjective first"
            word = ours[min(at, noun)]
            found[first, "a noun"].append(word in FRENCH_NOUNS)
            found[first, "its noun"].append(word == truth[noun])
            found[first, "an adjective"].append(word in FRENCH_ADJECTIVES)
            found[first, "its adjective"].append(word in FORMS[adjective])
            found[first, "adjective in its place"].append(ours[at] in FORMS[adjective])
            found[first, "adjective in its form"].append(ours[at] == truth[at])
    return found

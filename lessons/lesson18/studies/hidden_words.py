"""Who names a hidden word better: a reader of both sides, or of one?

One word of an English toy sentence is hidden; an encoder of two layers names it. Each
token sees the whole sentence, or, by its mask, only what stands before it (a causal
mask), or behind it, and itself. First weights, sentences and hidden words are the same
for all three. The table holds the share named right of all 6,087 words in 1,000 test
sentences, each hidden in turn; and of their parts: each sentence's first word, and of
the others nouns, verbs, adjectives and the rest. The counters name the commonest word
of the training sentences with this word before it, or with these two words around it.
"""

import time
from collections.abc import Iterator

import torch

from helpers.corpus.phenomena import ADJECTIVE_NAMES, NOUN_OF, VERB_OF
from lessons.lesson18.hidden_words import SIDES, counted, each_word, named, train_reader
from lessons.lesson18.one_sequence import vocabularies

SEEDS, STEPS = range(5), 300
COUNTERS = {"counter, word before": [-1], "counter, words on both sides": [-1, 1]}


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each reader, seed and part of the words; `tiny`: one seed, 2 steps."""
    asked, steps = each_word("test"), 2 if tiny else STEPS
    asked = asked[:200] if tiny else asked
    for name, neighbours in COUNTERS.items():
        run = {"reader": name, "seed": 0, "parameters": 0, "steps": 0, "seconds": 0.0}
        yield from (run | row for row in shares(counted(asked, neighbours), asked))
    for seed in SEEDS[:1] if tiny else SEEDS:
        for sides in SIDES:
            started = time.process_time()
            reader = train_reader(sides, seed, steps=steps)
            run = {
                "reader": sides,
                "seed": seed,
                "parameters": sum(p.numel() for p in reader.parameters()),
                "steps": steps,
                "seconds": round(time.process_time() - started, 1),
            }
            yield from (run | row for row in shares(named(reader, asked), asked))


def shares(names: torch.Tensor, asked: list) -> Iterator[dict]:
    """The share of right names among all words, and in each part of them."""
    right = names == torch.tensor([row[i] for row, i in asked])
    parts = [part(row, i) for row, i in asked]
    for name in ("all", "first", "noun", "verb", "adjective", "rest"):
        chosen = torch.tensor([name in ("all", p) for p in parts])
        share = right[chosen].double().mean().item()
        yield {"words": name, "n": int(chosen.sum()), "right": round(share, 4)}


def part(row: list[int], place: int) -> str:
    """To which part of the words a word belongs."""
    word = vocabularies()[0].words[row[place]]
    if place == 1:
        return "first"
    kinds = {"noun": NOUN_OF, "verb": VERB_OF, "adjective": ADJECTIVE_NAMES}
    return next((name for name, of_it in kinds.items() if word in of_it), "rest")

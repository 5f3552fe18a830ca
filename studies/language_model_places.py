"""Why does a decoder-only translator lag behind the encoder-decoder?

The decoder-only model of the study language_model, its loss on the answer, with one
thing changed. There an answer begins where its prompt ends; "nothing changed" is the
same with another draw. "Answers from 16" counts the places of each answer from 16 on,
whatever the prompt's length. "Both ways" lets the tokens of a prompt see each other.
"Rotary" turns queries and keys instead of adding sinusoids.
"""

from collections.abc import Iterator

from helpers.experiments.one_sequence import Kind
from studies.language_model import STEPS, measured

SEEDS = range(3)
KINDS = {
    "nothing changed": Kind(draw=1),
    "answers from 16": Kind(places="answers from 16"),
    "both ways": Kind(both_ways=True),
    "rotary": Kind(rotary=True),
    "rotary, answers from 16": Kind(rotary=True, places="answers from 16"),
}


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each kind and seed; `tiny`: one seed, 3 steps."""
    for seed in SEEDS[:1] if tiny else SEEDS:
        for name, kind in KINDS.items():
            steps, few = (3, 400) if tiny else (STEPS, None)
            yield measured(name, kind, seed, steps, few)

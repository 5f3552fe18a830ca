"""What makes a decoder-only translator of 2017's parts slow to learn?

The decoder-only model of the study language_model, trained for 300 steps, with one
thing changed, or two. "Another draw" has other first weights and another order of the
sentences; all other rows of a seed share these. "Answers from 16" counts the places of
each answer from 16 on, whatever the prompt's length. "Both ways" lets the tokens of a
prompt see each other. "Rotary" turns queries and keys instead of adding sinusoids.
"Small" first weights are those of the lesson's LanguageModel.
"""

from collections.abc import Iterator

from helpers.experiments.with_or_without_encoder import Kind
from studies.language_model import looks

SEEDS, STEPS = range(3), 300
FIXED = "answers from 16"
KINDS = {
    "as it is": Kind(),
    "another draw": Kind(draw=1),
    "both ways": Kind(both_ways=True),
    "answers from 16": Kind(places=FIXED),
    "rotary": Kind(rotary=True),
    "small first weights": Kind(small_weights=True),
    "rotary, answers from 16": Kind(rotary=True, places=FIXED),
    "rotary, small first weights": Kind(rotary=True, small_weights=True),
    "Llama's blocks": Kind(modern=True, small_weights=True),
    "Llama's blocks, 2017's first weights": Kind(modern=True),
}


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each kind and seed; `tiny`: one seed, 3 steps."""
    steps, few = (3, 400) if tiny else (STEPS, None)
    for seed in SEEDS[:1] if tiny else SEEDS:
        for name, kind in KINDS.items():
            yield from looks(name, kind, seed, steps=steps, every=steps, few=few)

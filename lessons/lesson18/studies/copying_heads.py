"""Can a language model continue a text that it has seen once, a moment ago?

A text is some different random tokens, then the same again; no text comes twice in
training. Llama's blocks, one layer or two, at equal parameters; the loss counts what
can be known. A text is repeated after 8 to 24 tokens, but never after 16; one more kind
sees 16 alone. The single layer has twice as many steps.

The table holds, for texts of each length, the share of right answers and two weights.
"previous" is that of tokens of the first half on the token before them, by the head of
layer 1 with most of it; "prefix" that of tokens of the second half on the token after
their earlier occurrence, by such a head of the last layer. Heads of two layers are
switched off: these two, the first with the next best, others of their layers (one at a
time, mean over the three, or together). "second" is the next best's weight on the token
before. These heads are chosen on other texts.
"""

import time
from collections.abc import Iterator

import torch

from helpers.modern.language_model import LanguageModel
from lessons.lesson18.copying import (
    Head,
    head_scores,
    share_right,
    texts,
    train_copier,
    without,
)

SEEDS, TEXTS, NEW, TESTED = range(5), 200, 16, (12, 16, 20)
VARIED = [length for length in range(8, 25) if length != NEW]
KINDS = {  # layers, lengths, steps
    "two layers": (2, VARIED, 400),
    "one layer": (1, VARIED, 800),
    "one layer, always 16": (1, [NEW], 200),
}


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each kind, seed, length and what is off; `tiny`: one seed, 2 steps."""
    for seed in SEEDS[:1] if tiny else SEEDS:
        for kind, (n_layers, lengths, steps) in KINDS.items():
            started, steps = time.process_time(), 2 if tiny else steps
            model = train_copier(n_layers, seed, steps=steps, lengths=lengths)
            seconds = time.process_time() - started
            run = {
                "kind": kind,
                "seed": seed,
                "parameters": sum(p.numel() for p in model.parameters()),
                "steps": steps,
                "seconds": round(seconds, 1),
            }
            for row in measured(model, seed):
                yield run | row


def measured(model: LanguageModel, seed: int) -> Iterator[dict]:
    """What a trained model gets right, with all its heads and without some."""
    generator = torch.Generator().manual_seed(10_000 + seed)
    first, second, last = best_heads(model, texts(TEXTS, NEW, generator))
    test = {length: texts(TEXTS, length, generator) for length in TESTED}
    for off, sets in switched_off(model, first, second, last).items():
        for length, tokens in test.items():
            found = []
            for heads in sets:
                with without(model, heads):
                    scores = head_scores(model, tokens)
                    found.append(
                        {
                            "right": share_right(model, tokens),
                            "prefix": scores["prefix"][last].item(),
                            "previous": scores["previous"][first].item(),
                            "second": scores["previous"][second].item(),
                        }
                    )
            means = {
                key: round(sum(row[key] for row in found) / len(found), 4)
                for key in found[0]
            }
            yield {"off": off, "length": length, **means}


def best_heads(model: LanguageModel, tokens: torch.Tensor) -> tuple[Head, Head, Head]:
    """The first layer's two best previous-token heads, the last's prefix-matching."""
    scores, last = head_scores(model, tokens), len(model.blocks) - 1
    first, second = scores["previous"][0].topk(2).indices.tolist()
    return (0, first), (0, second), (last, scores["prefix"][last].argmax().item())


def switched_off(
    model: LanguageModel, first: Head, second: Head, last: Head
) -> dict[str, list]:
    """{name: sets of heads, over which the mean is taken}."""
    if len(model.blocks) == 1:
        return {"nothing": [[]]}
    below, above = ([(i, head) for head in range(4)] for i in range(2))
    below.remove(first)
    above.remove(last)
    return {
        "nothing": [[]],
        "previous-token head": [[first]],
        "it and the next best": [[first, second]],
        "another of layer 1": [[head] for head in below],
        "the other three of layer 1": [below],
        "prefix-matching head": [[last]],
        "another of layer 2": [[head] for head in above],
        "the other three of layer 2": [above],
        "all four of layer 2": [[last, *above]],
        "all but these two heads": [below + above],
    }

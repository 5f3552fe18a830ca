"""How often is a sample the reference, with and without label smoothing?

The toy translator is trained with five seeds, with label smoothing and without. For
each way to draw, the chance of a test sentence's reference is the product of its
tokens' probabilities; their mean is the share of exact samples that is to be expected.
Two more ways change the probabilities: what smoothing asks for every token is taken
away from the smoothed model, or put into the other one.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from helpers import BOS, PAD
from helpers.batching import make_batch
from helpers.decoding import inference, likeliest_tokens
from helpers.training import Trainer
from helpers.translator.model import Translator
from helpers.translator.recipes import RECIPES, build, load_text, trained_toy

SMOOTHINGS = (0.1, 0.0)
SEEDS = range(5)
WAYS = {f"T = {t}": {"temperature": t} for t in (0.5, 1.0, 2.0)}
WAYS |= {f"top-k {k}": {"top_k": k} for k in (2, 20)}
WAYS |= {f"top-p {p}": {"top_p": p} for p in (0.8, 0.95, 0.99)}
FLOOR = 0.1  # what smoothing takes from the right token and spreads over all


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each seed, smoothing and way to draw; `tiny`: one short training."""
    if tiny:
        yield from measure(0, 0.1, of_eight_sentences())
        return
    for seed in SEEDS:
        for smoothing in SMOOTHINGS:
            translator = trained_toy(seed=seed, label_smoothing=smoothing)
            yield from measure(seed, smoothing, translator)


def of_eight_sentences() -> Translator:
    """The toy translator, trained for an epoch on next to nothing."""
    recipe, text = RECIPES["toy"], load_text("toy")
    translator = build(recipe, text)
    pairs = translator.encode_pairs(text.train[:8])
    training = replace(recipe.training, epochs=1)
    Trainer(translator.model, pairs, pairs, training).fit()
    return translator


def measure(seed: int, smoothing: float, translator: Translator) -> list[dict]:
    """The expected share of exact samples for every way to draw."""
    batch = make_batch(translator.encode_pairs(load_text("toy").test))
    with inference(translator.model):
        logits = translator.model(batch.source, batch.decoder_input)
    real = batch.labels != PAD
    scores, labels = logits[real], batch.labels[real]  # of real tokens, in rows
    scores[:, [PAD, BOS]] = -torch.inf
    scores = scores.log_softmax(dim=-1)

    def expected(change: Callable = lambda shares: shares, **options) -> float:
        tokens, shares = likeliest_tokens(scores, **options)
        of_label = torch.where(tokens == labels[:, None], change(shares), 0.0).sum(1)
        chances = torch.ones(real.shape)
        chances[real] = of_label
        return chances.prod(dim=1).mean().item()

    found = {way: expected(**options) for way, options in WAYS.items()}
    if smoothing:
        found["floor taken away"] = expected(without_floor)
    else:
        found["floor put in"] = expected(with_floor)
    where = {"seed": seed, "training": "smoothed" if smoothing else "unsmoothed"}
    return [
        where | {"way": way, "exact": round(share, 4)} for way, share in found.items()
    ]


def without_floor(shares: Tensor) -> Tensor:
    """Take from every token what label smoothing asks for it; 0 at least."""
    lower = (shares - FLOOR / shares.size(1)).clamp(min=0)
    return lower / lower.sum(dim=1, keepdim=True)


def with_floor(shares: Tensor) -> Tensor:
    """Give to every token what label smoothing would have given to it."""
    return (1 - FLOOR) * shares + FLOOR / shares.size(1)

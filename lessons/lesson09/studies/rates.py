"""Which peak rate, and what does a warm-up do that a smaller early rate does not?

The translator of lessons 08 to 12 trains for two epochs of 3,000 toy sentences. For the
first tenth of the run, the rate rises to its peak in a straight line; or it is the peak
from the first step on; or it is half the peak, without a ramp, which adds up to the
same as the ramp. After that tenth all three have the same rates, a cosine.

Does the choice hold in a longer run? With the warm-up and the first seed, four peaks
train for eight epochs, too.
"""

from collections.abc import Callable, Iterator
from itertools import product

import torch

from helpers.batching import bucketed_batches
from helpers.training import cosine_rate, evaluate_loss, train
from helpers.transformer import Transformer
from helpers.translator.small import toy_config, toy_sentences

PEAKS = (0.004, 0.008, 0.016, 0.032)
LONG_PEAKS = (0.002, 0.004, 0.008, 0.016)
STARTS = ("warm-up", "no warm-up", "half, no ramp")
SEEDS = range(3)
WARMUP = 0.1  # share of the run


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each start, peak rate and seed, then the long runs; `tiny`: a few."""
    torch.set_num_threads(1)
    peaks, seeds = (PEAKS[:1], SEEDS[:1]) if tiny else (PEAKS, SEEDS)
    runs = [(x, peak, seed, 2) for seed, peak, x in product(seeds, peaks, STARTS)]
    runs += [("warm-up", peak, 0, 8) for peak in LONG_PEAKS[: len(peaks)]]
    for run in runs:
        where = dict(zip(("start", "peak", "seed", "epochs"), run, strict=True))
        loss = learn(**where, sentences=100 if tiny else 3000)
        yield where | {"loss": round(loss, 3)}


def rate_of(start: str, peak: float, steps: int) -> Callable[[int], float]:
    """The rate of each step, counted from 1, of a run of so many steps."""
    early = {
        "warm-up": lambda share: peak * share / WARMUP,
        "no warm-up": lambda share: peak,
        "half, no ramp": lambda share: peak / 2,
    }[start]

    def rate(step: int) -> float:
        share = step / steps
        if share < WARMUP:
            return early(share)
        return cosine_rate(share, peak=peak, warmup=WARMUP)

    return rate


def learn(start: str, peak: float, seed: int, epochs: int, sentences: int) -> float:
    """Train one translator; its loss on 500 sentences that it has not seen."""
    words = toy_sentences()
    torch.manual_seed(seed)
    model = Transformer(toy_config())
    generator, batches = torch.Generator().manual_seed(seed), []
    for _ in range(epochs):
        options = {"tokens_per_batch": 512, "generator": generator}
        batches += bucketed_batches(words.train[:sentences], **options)
    train(model, batches, rate_of(start, peak, len(batches)))
    return evaluate_loss(model, words.validation[:500])

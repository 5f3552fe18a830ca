"""The exercises of lesson 10: the whole training, and a prediction."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from helpers.batching import IdPair, bucketed_batches
from helpers.exercise import Exercise, Outcome, Probe, Wrong, differs
from helpers.training import cosine_rate, train
from helpers.transformer import Transformer, TransformerConfig
from lessons.lesson10 import run as course

# ------------------------------------------------------------ 10.1 the whole training


class _Watch:
    """Notes for which steps it was called."""

    def __init__(self):
        self.steps = []

    def __call__(self, step: int) -> None:
        self.steps.append(step)


def _probe(seed: int, n: int, epochs: int, peak: float, watched: bool, **said) -> Probe:
    """A model in float64, n pairs, and a run of so many epochs."""
    generator, pairs = torch.Generator().manual_seed(seed), []
    for _ in range(n):
        lengths = torch.randint(3, 12, (2,), generator=generator).tolist()
        rows = [torch.randint(4, 24, (k,), generator=generator) for k in lengths]
        pairs.append((rows[0].tolist(), rows[1].tolist()))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes = {"d_model": 8, "n_heads": 2, "d_ff": 8, "n_layers": 1, "dropout": 0.0}
        options = {"norm_first": True, "share_embeddings": False}
        model = Transformer(TransformerConfig(24, 24, **sizes, **options)).double()
        for parameter in model.parameters():  # so that each step shows in the loss
            nn.init.normal_(parameter, std=0.5)
    return Probe(model, pairs, epochs, peak, *[_Watch()] * watched, **said)


def _traces(output: Any, model: nn.Module, *inputs: Any) -> tuple[Tensor, Tensor, list]:
    """The losses, the weights at the end, and the steps that were watched."""
    row = [output, *(output if isinstance(output, list | tuple) else [])]
    if any(getattr(loss, "requires_grad", False) for loss in row):
        raise Wrong("a loss is a number: a tensor keeps all that it was made of")
    try:
        losses = torch.tensor([float(loss) for loss in output], dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise Wrong("return the list of losses, as `train` gives it") from None
    weights = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
    return losses, weights, inputs[3].steps if len(inputs) > 3 else []


class _Run(Exercise):
    """An exercise that says what a run does first wrong."""

    def _described(self, yours: Outcome, due: Outcome) -> str:
        (losses, weights, _), (wanted, goal, _) = yours.output, due.output
        if len(losses) != len(wanted):
            return f"{len(losses)} losses, where {len(wanted)} steps are due"
        if text := differs(losses, wanted):
            made = "one generator of seed 0 makes the batches of all epochs"
            return f"the list of losses {text} ({made})"
        if text := differs(weights, goal):
            return f"the losses are right, but not all weights at the end: one {text}"
        return "`watch` is called for other steps than 1, 2, 3 …"


def _wrong(
    model: nn.Module,
    pairs: Sequence[IdPair],
    epochs: int,
    peak: float,
    watch: Callable | None = None,
    *,
    anew: bool = False,
    chance: bool = True,
    each: bool = False,
    first: int = 1,
    look: bool = True,
    of_all: bool = True,
) -> list[float]:
    """The run, and with other options what is wrong with it."""
    generator, parts = torch.Generator().manual_seed(0), []
    for _ in range(epochs):
        if anew:
            generator.manual_seed(0)
        options = {"generator": generator} if chance else {}
        parts.append([*bucketed_batches(pairs, tokens_per_batch=1024, **options)])
    runs = parts if each else [[batch for part in parts for batch in part]]
    losses = []
    for batches in runs:
        steps = len(batches) if of_all else len(parts[0])

        def rate(step: int, steps: int = steps) -> float:
            return cosine_rate((step - 1 + first) / steps, peak=peak, warmup=0.1)

        losses += train(model, batches, rate, watch if look else None)
    return losses


run = _Run(
    course.run,
    [
        _probe(0, 300, 2, 4e-3, True, praise="two epochs: each loss, and the weights"),
        _probe(
            *(1, 220, 3, 2e-3, False),
            praise="three epochs, another peak, and no `watch`",
            when="with three epochs, and without `watch`: ",
        ),
    ],
    {
        "each epoch has the same batches: make the generator once, before the loop, "
        "and new batches for each epoch": partial(_wrong, anew=True),
        "the batches come sorted by length: give `bucketed_batches` the `generator`": (
            partial(_wrong, chance=False)
        ),
        "`train` is called once an epoch, so Adam and the rate begin anew: call it "
        "once, with the batches of all epochs": partial(_wrong, each=True),
        "the first rate is 0: steps count from 1, and the last one's share is 1": (
            partial(_wrong, first=0)
        ),
        "`watch` is not handed on to `train`": partial(_wrong, look=False),
        "the rate's share is of one epoch: divide by the steps of all epochs": partial(
            _wrong, of_all=False
        ),
    },
    read=_traces,
    lesson="10",
)

# ------------------------------------------------------------ 10.2 which will fail

# {food: whether a third of its sentences go wrong, in the mean of the study's seeds}.
FAILS = {
    "some good soup": True,
    "the good soup": False,
    "some red soup": False,
    "some beautiful soup": True,
    "some beautiful bread": False,
    "some beautiful cakes": False,
}


def prediction(fails: Mapping[str, bool | None]) -> None:
    """Say how many predictions come true, once all are made. Never raises.

    Which are wrong stays open as long as any is, and what happens, too.
    """
    said = {x: fails.get(x) if isinstance(fails, Mapping) else None for x in FAILS}
    missing = [food for food in FAILS if not isinstance(said[food], bool)]
    right = sum(said[food] is due for food, due in FAILS.items())
    if missing:
        print(*(f"○ {food}: True or False?" for food in missing), sep="\n")
    elif right < len(FAILS):
        print(
            f"✗ {right} of {len(FAILS)} come true. Ask of each: does the adjective "
            "stand before its noun in French? Which word is due before it, *la*, "
            "*de la*, *du* or *de*?"
        )
    else:
        for food, due in FAILS.items():
            print(f"✓ {food} {'fails' if due else 'goes right'}")

"""The exercises of lesson 10: the whole training, and a prediction."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from itertools import accumulate, chain, pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.optim.optimizer import register_optimizer_step_pre_hook

from helpers import EOS
from helpers.batching import Batch, IdPair, bucketed_batches
from helpers.exercise import Exercise, Outcome, Probe, Wrong, differs
from helpers.training import cosine_rate, token_loss, train
from helpers.transformer import Transformer, TransformerConfig
from lessons.lesson10 import run as course

# ------------------------------------------------------------ 10.1 the whole training

STEPS = []  # (the optimizer, its rate), of each step since the last look


class Tiny(Transformer):
    """A small Transformer that notes what it is trained on, with which weights, how."""

    def encode(self, source: Tensor) -> Tensor:
        """As the Transformer's."""
        self.source = source
        return super().encode(source)

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """As the Transformer's."""
        if torch.is_grad_enabled():
            weights = parameters_to_vector(self.parameters()).detach().clone()
            step = self.source, target, weights, self.training
            self.seen = [*getattr(self, "seen", []), step]
        return super().decode(target, memory, source)


class _Watch:
    """Notes for which steps it was called."""

    def __init__(self):
        self.steps = []

    def __call__(self, step: int) -> None:
        self.steps.append(step)


def _probe(seed: int, n: int, epochs: int, peak: float, watched: bool, **said) -> Probe:
    """A model, n different pairs, and a run of so many epochs."""
    generator, pairs = torch.Generator().manual_seed(seed), []
    for number in range(n):
        lengths = torch.randint(3, 12, (2,), generator=generator).tolist()
        rows = [torch.randint(4, 24, (k,), generator=generator) for k in lengths]
        both = [row.tolist() for row in rows]
        digits = number // 400, number // 20 % 20, number % 20
        pairs.append(([*(4 + digit for digit in digits), *both[0]], both[1]))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes = {"d_model": 8, "n_heads": 2, "d_ff": 8, "n_layers": 1, "dropout": 0.0}
        options = {"norm_first": True, "share_embeddings": False}
        model = Tiny(TransformerConfig(24, 24, **sizes, **options))
        for parameter in model.parameters():  # so that each step shows in the loss
            nn.init.normal_(parameter, std=0.5)
    return Probe(model, pairs, epochs, peak, *[_Watch()] * watched, **said)


def _traces(
    output: Any,
    model: Tiny,
    pairs: list,
    epochs: int,
    peak: float,
    watch: _Watch | None = None,
) -> tuple:
    """What a run did, whatever the random order of its sentences."""
    seen, steps = getattr(model, "seen", []), STEPS[:]
    STEPS.clear()
    if not seen or len(steps) != len(seen):
        text = f"{len(seen)} batches reach the model, and {len(steps)} steps follow"
        raise Wrong(text)
    _check_losses(output, model, seen)
    number = {tuple(source): place for place, (source, _) in enumerate(pairs)}
    batches = [
        [number.get(tuple(x for x in row if x > 3), -1) for row in source.tolist()]
        for source, *_ in seen
    ]
    parts = [[]]  # the batches of each epoch
    for batch in batches:
        if sum(map(len, parts[-1])) >= len(pairs):
            parts.append([])
        parts[-1].append(batch)
    lengths = [target.size(1) for _, target, *_ in seen]
    ends = [*accumulate(map(len, parts), initial=0)]
    ranked = [lengths[a:b] for a, b in pairwise(ends)]
    rates = [rate for _, rate in steps]
    return (
        len(seen),
        [sorted(chain.from_iterable(part)) for part in parts],
        # Whichever epochs: their batches, each without its order, are not the same.
        len({frozenset(map(frozenset, part)) for part in parts}) == len(parts),
        any(part not in (sorted(part), sorted(part)[::-1]) for part in ranked),
        len({optimizer for optimizer, _ in steps}),
        torch.tensor(rates) / peak,
        _is_as_trained(output, model, seen, rates),
        watch.steps if watch else [],
    )


def _batch(source: Tensor, target: Tensor) -> Batch:
    """The batch, of what the encoder and the decoder read of it."""
    last = (target != EOS).all(dim=1, keepdim=True) * EOS  # cut off of the longest
    return Batch(source, torch.cat([target, last], dim=1))


def _is_as_trained(output: Any, model: Tiny, seen: list, rates: list[float]) -> bool:
    """Whether `train` gives the same first losses for these batches and rates."""
    other, first = deepcopy(model).requires_grad_(), seen[:6]
    vector_to_parameters(seen[0][2], other.parameters())
    batches = [_batch(source, target) for source, target, *_ in first]
    due = torch.tensor(train(other, batches, lambda step: rates[step - 1]))
    STEPS.clear()
    apart = torch.tensor([float(loss) for loss in output[: len(first)]]) - due
    return bool(apart.abs().max() < 5e-5) and all(training for *_, training in seen)


def _check_losses(output: Any, model: Tiny, seen: list) -> None:
    """Wrong unless these are the losses of the batches, with the weights of then."""
    try:
        losses = torch.tensor([float(loss) for loss in output])
    except (TypeError, ValueError):
        raise Wrong("return the list of losses, as `train` gives it") from None
    if any(getattr(loss, "requires_grad", False) for loss in output):
        raise Wrong("a loss is a number: a tensor keeps all that it was made of")
    if len(losses) != len(seen):
        raise Wrong(f"{len(losses)} losses are returned, of {len(seen)} steps")
    other = deepcopy(model)
    for step in (0, 1, len(seen) - 1):
        source, target, weights, _ = seen[step]
        vector_to_parameters(weights, other.parameters())
        with torch.no_grad():
            due = token_loss(other, _batch(source, target))[0]
        if abs(losses[step] - due) > 1e-3:
            text = f"loss {step + 1} is {losses[step]:.4g}, where its batch costs"
            raise Wrong(f"{text} {due:.4g}: return what `train` gives")


class _Run(Exercise):
    """An exercise that notes the rates, and says what a run does first wrong."""

    def _outcome(self, answer: Callable, probe: Probe) -> Outcome:
        STEPS.clear()
        noted = register_optimizer_step_pre_hook(
            lambda optimizer, *_: STEPS.append(
                (optimizer, float(optimizer.param_groups[0]["lr"]))
            )
        )
        try:
            return super()._outcome(answer, probe)
        finally:
            noted.remove()

    def _described(self, yours: Outcome, due: Outcome) -> str:
        if yours.error:
            return super()._described(yours, due)
        (a, *found), (b, *wanted) = yours.output, due.output
        if a != b:
            return f"{a} steps, where {b} are due: check epochs and `tokens_per_batch`"
        texts = (
            "an epoch must hold each sentence once",
            "two epochs have the same batches: call `bucketed_batches` for each epoch",
            "the batches come sorted by length: `bucketed_batches` with a `generator` "
            "shuffles them",
            "call `train` once: each call makes Adam anew",
        )
        for text, one, other in zip(texts, found, wanted, strict=False):
            if differs(one, other):
                return text
        one, other = found[4], wanted[4]
        if differs(one, other):
            i = int((~torch.isclose(one, other, rtol=1e-4, atol=1e-5)).nonzero()[0])
            text = f"the rate of step {i + 1} is {one[i]:.3g} · peak"
            return f"{text}, where {other[i]:.3g} · peak is due"
        if found[5] != wanted[5]:
            return (
                "the losses are not those that `train` gives for these batches and "
                "rates: train all parameters, by one call of it"
            )
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
    most: int | None = None,
    each: bool = False,
    first: int = 1,
    constant: bool = False,
    look: bool = True,
    of_all: bool = True,
) -> list[float]:
    """The run, and with other options what is wrong with it."""
    generator, parts = torch.Generator().manual_seed(0), []
    for _ in range(epochs if most is None else most):
        if anew:
            generator.manual_seed(0)
        options = {"generator": generator} if chance else {}
        parts.append([*bucketed_batches(pairs, tokens_per_batch=1024, **options)])
    runs = parts if each else [[batch for part in parts for batch in part]]
    losses = []
    for batches in runs:
        steps = len(batches) if of_all else len(parts[0])
        losses += train(
            model,
            batches,
            lambda step, steps=steps: (
                peak
                if constant
                else cosine_rate((step - 1 + first) / steps, peak=peak, warmup=0.1)
            ),
            watch if look else None,
        )
    return losses


run = _Run(
    course.run,
    [
        _probe(0, 560, 2, 4e-3, True, praise="two epochs: batches, rates and losses"),
        _probe(
            *(1, 420, 3, 2e-3, False),
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
        "it trains for one epoch only": partial(_wrong, most=1),
        "`train` is called once an epoch, so Adam and the rate begin anew: call it "
        "once, with the batches of all epochs": partial(_wrong, each=True),
        "the first rate is 0: steps count from 1, and the last one's share is 1": (
            partial(_wrong, first=0)
        ),
        "the rate stays at its peak: `cosine_rate` warms it up and lets it fall": (
            partial(_wrong, constant=True)
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
    missing = [food for food in FAILS if said[food] is None or said[food] is ...]
    unread = [x for x in FAILS if x not in missing and not isinstance(said[x], int)]
    right = sum(said[food] == due for food, due in FAILS.items())
    if missing or unread:
        lines = [f"○ {food}: not attempted yet" for food in missing]
        print(*lines, *(f"✗ {food}: True or False?" for food in unread), sep="\n")
    elif right < len(FAILS):
        print(
            f"✗ {right} of {len(FAILS)} come true. Ask of each: does the adjective "
            "stand before its noun in French? Which word is due before it, *la*, "
            "*de la*, *du* or *de*?"
        )
    else:
        for food, due in FAILS.items():
            print(f"✓ {food} {'fails' if due else 'goes right'}")

"""The exercises of lesson 09: the training loop, and three faulty trainings."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers import PAD, UNK
from helpers import training as course
from helpers.batching import Batch, make_batch
from helpers.exercise import Exercise, Outcome, Probe, Wrong, choose, differs
from helpers.transformer import Transformer, TransformerConfig
from lessons.lesson09.faulty import FAULTS

# ------------------------------------------------------------ 09.1 the training loop


class Tiny(Transformer):
    """A small Transformer that notes where a gradient is taken without dropout."""

    last = None  # the model that was called last: the one that `watch` looks at
    was_off = False

    def encode(self, source: Tensor) -> Tensor:
        """As the Transformer's."""
        Tiny.last = self
        self.was_off |= torch.is_grad_enabled() and not self.training
        return super().encode(source)


def _weights(model: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach().clone()


class Elsewhere(Tensor):
    """Ids on another device, as it were: they meet no weight before they are moved."""

    def to(self, *device: Any, **options: Any) -> Tensor:
        """The same ids, moved."""
        return torch.tensor(self.tolist())

    def __deepcopy__(self, memo: dict) -> Tensor:
        """The same ids, as far away."""
        return self.to().as_subclass(Elsewhere)

    @classmethod
    def __torch_function__(
        cls, function: Callable, kinds: Any, inputs: tuple = (), named: Any = None
    ) -> Any:
        """Stop where numbers of the model come in."""
        given = (*inputs, *(named or {}).values())
        others = [x for x in given if isinstance(x, Tensor) and type(x) is not cls]
        if any(x.is_floating_point() for x in others):
            raise Wrong(
                "on a GPU, a batch that was not moved would meet the model: "
                "`batch.to(device)`"
            )
        return super().__torch_function__(function, kinds, inputs, named)


class _Watch:
    """Notes for which steps it was called, and the model's weights then."""

    def __init__(self):
        self.steps, self.seen = [], []

    def __call__(self, step: int) -> None:
        self.steps.append(step)
        self.seen += [_weights(Tiny.last)] if Tiny.last else []


def _rate(step: int) -> float:
    """It falls with the step."""
    return 0.02 / (1 + step) ** 0.5


def _run(
    seed: int,
    d_model: int,
    steps: int,
    *,
    louder: float = 1.0,
    far: float = 1.0,
    watched: bool = True,
    **said: str,
) -> Probe:
    """A model, batches with padding, a rate, and something that watches.

    Louder logits make long gradients, far embeddings tiny ones. The model, in float64,
    is in evaluation mode, as a measurement would leave it.
    """
    generator, batches = torch.Generator().manual_seed(seed), []
    for number in range(steps):
        pairs = []
        for length in (2, 3 + number % 3, 5):
            rows = torch.randint(4, 13, (2, length), generator=generator).tolist()
            pairs.append((rows[0], rows[1]))
        pairs[0][1][0] = UNK  # a real token, too
        batch = make_batch(pairs)
        ids = (x.as_subclass(Elsewhere) for x in (batch.source, batch.target))
        batches.append(Batch(*ids))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes = {"d_model": d_model, "n_heads": 2, "d_ff": 16, "n_layers": 1}
        options = {"dropout": 0.0, "norm_first": True, "share_embeddings": False}
        model = Tiny(TransformerConfig(13, 15, **sizes, **options)).double().eval()
    with torch.no_grad():
        model.projection.weight *= louder
        model.target_embedding.weight *= far
    model.start = _weights(model)
    return Probe(model, batches, _rate, _Watch() if watched else None, **said)


def _traces(
    output: Any, model: Tiny, batches: list, rate: Callable, watch: _Watch | None
) -> tuple:
    """The losses, and how far the weights had moved after each step and at the end."""
    row = [output, *(output if isinstance(output, list | tuple) else [])]
    if any(getattr(loss, "requires_grad", False) for loss in row):
        raise Wrong("keep `loss.item()`: a tensor keeps all that it was made of")
    try:
        losses = torch.tensor([float(loss) for loss in output], dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise Wrong("return a list of losses, a number for each batch") from None
    if model.was_off:
        raise Wrong(
            "a step is taken in evaluation mode, without dropout: `model.train()`"
        )
    if watch and watch.steps != [*range(1, len(batches) + 1)]:
        found = ", ".join(map(str, watch.steps[:3])) or "nothing"
        raise Wrong(f"`watch` is called with {found} …: it wants 1, 2, 3 …, each once")
    seen = [*(watch.seen if watch else []), _weights(model)]
    return losses, tuple(weights - model.start for weights in seen)


class _Loop(Exercise):
    """An exercise that says whether losses or weights differ first."""

    def _described(self, yours: Outcome, due: Outcome) -> str:
        (losses, moved), (wanted, goal) = yours.output, due.output
        if not differs(losses, wanted):
            if differs(moved[-1], goal[-1]):
                return "the losses are right, but not all weights: what is Adam's eps?"
            return "`watch` does not see the weights after its step: call it last"
        text = f"the list of losses {differs(losses, wanted)}"
        if not differs(moved[-1], goal[-1]):
            return f"{text}, but the weights are right: each loss is from before a step"
        if not differs(losses[:1], wanted[:1]):
            far, due_far = (x[0].abs().max().item() for x in (moved, goal))
            step = "step 1" if len(moved) > 1 else "all steps"
            text += f"; {step} moved a weight by {far:.2g} at most, not {due_far:.2g}"
        return text


def _wrong(
    model: nn.Module,
    batches: Sequence[Batch],
    rate: Callable,
    watch: Callable | None = None,
    *,
    reset: bool = True,
    clip: bool = True,
    adam: tuple = ((0.9, 0.98), 1e-9),
    ignored: int = PAD,
    softmax: bool = False,
    mixed: bool = False,
) -> list[float]:
    """The loop, and with other options what is wrong with it."""
    optimizer = torch.optim.Adam(model.parameters(), 0.0, *adam)
    losses = []
    for step, batch in enumerate(batches, start=1):
        model.train()
        batch = batch.to("cpu")
        optimizer.param_groups[0]["lr"] = rate(step)
        logits = model(batch.source, batch.decoder_input)
        logits = logits.softmax(dim=-1) if softmax else logits
        logits = logits.reshape(logits.mT.shape) if mixed else logits.mT
        loss = F.cross_entropy(logits, batch.labels, ignore_index=ignored)
        if reset:
            optimizer.zero_grad()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if watch is not None:
            watch(step)
    return losses


train = _Loop(
    course.train,
    [
        _run(
            *(0, 8, 5),
            louder=12.0,
            praise="five steps: each loss, and the weights after each step",
        ),
        _run(
            *(1, 12, 6),
            watched=False,
            praise="another model, six steps, and no `watch`",
            when="with short gradients, and without `watch`: ",
        ),
        _run(
            *(2, 8, 3),
            far=1e7,
            praise="tiny gradients, which show Adam's eps",
            when="with gradients near Adam's eps, which is 1e-9 in the paper: ",
        ),
    ],
    {
        "the gradients of all steps add up: `zero_grad` before each `backward`": (
            partial(_wrong, reset=False)
        ),
        "the gradient is not clipped to norm 1 before the step: `clip_grad_norm_` "
        "between `backward` and `step`": partial(_wrong, clip=False),
        "Adam has PyTorch's own betas and eps: the paper's are (0.9, 0.98) and 1e-9": (
            partial(_wrong, adam=((0.9, 0.999), 1e-8))
        ),
        "padding counts in the loss: `ignore_index=PAD`": partial(_wrong, ignored=-100),
        "a softmax stands before the loss: `cross_entropy` wants the logits, and has "
        "the softmax": partial(_wrong, softmax=True),
        "`reshape` or `view` mixes places and tokens: `logits.mT` puts the vocabulary "
        "on axis 1": partial(_wrong, mixed=True),
    },
    read=_traces,
    lesson="09",
)

# ------------------------------------------------------------ 09.2 three trainings

# What each fault shows in these trainings: tests/test_lesson09.py makes its run.
SIGNS = {
    "too few sentences": "with 40 sentences, the training loss ends at 0.00 "
    "and the validation loss above 5",
    "sees the future": "if it saw the future, both curves would be near 0 after 100 "
    "steps, and yet it would write nothing without a fault",
    "memory is zeros": "if the memory were zeros, another's source would give the same "
    "loss, and both curves would stop at 2.6",
    "rate too high": "at ten times the rate, both curves stay above 1.9, and another's "
    "source still costs more than its own",
    "padding in the loss": "with padding in its loss, the training curve runs clearly "
    "below the other for 60 steps; but it ends as low, and writes nearly all right",
    "labels not shifted": "with labels not shifted, the training loss is 0 after 40 "
    "steps, and the validation loss climbs above 9",
}
diagnosis = partial(choose, due=FAULTS, choices=SIGNS)

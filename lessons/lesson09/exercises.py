"""The exercises of lesson 09: the training loop, and three faulty trainings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers import PAD, UNK
from helpers import training as course
from helpers.batching import Batch, IdPair, make_batch
from helpers.decoding import translate_ids
from helpers.evaluation import exact_match
from helpers.exercise import Exercise, Outcome, Probe, Wrong, choose, differs
from helpers.masks import padding_mask
from helpers.runtime import best_device
from helpers.training import cosine_rate, evaluate_loss, token_loss
from helpers.transformer import Transformer, TransformerConfig

# ------------------------------------------------------------ 09.1 the training loop


class Tiny(Transformer):
    """A small Transformer that notes where a gradient is taken without dropout."""

    last = None  # the model that was called last: the one that `watch` looks at
    was_off = False

    def encode(self, source: Tensor) -> Tensor:
        """As the Transformer's."""
        Tiny.last = self
        if torch.is_grad_enabled() and not all(x.training for x in self.modules()):
            self.was_off = True
        return super().encode(source)


def _weights(model: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach().clone()


class Elsewhere(Tensor):
    """Ids on another device, as it were: they meet no weight before they are moved."""

    def to(self, *device: Any, **options: Any) -> Tensor:
        """The same ids, moved."""
        return torch.tensor(self.tolist())

    def cpu(self) -> Tensor:
        """The same ids, moved."""
        return self.to("cpu")

    def __deepcopy__(self, memo: dict) -> Tensor:
        """The same ids, as far away."""
        return self.to().as_subclass(Elsewhere)

    @classmethod
    def __torch_function__(
        cls,
        function: Callable,
        kinds: Any,
        inputs: tuple = (),
        named: dict | None = None,
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


class _Rate:
    """A rate that falls with the step, and notes for which steps it was asked."""

    def __init__(self):
        self.steps = []

    def __call__(self, step: int) -> float:
        self.steps.append(step)
        return 0.02 / (1 + step) ** 0.5


class _Watch:
    """Notes for which steps it was called; the model's weights and gradient then."""

    def __init__(self):
        self.steps, self.seen, self.norm = [], [], 0.0

    def __call__(self, step: int) -> None:
        if Tiny.last is None:
            raise Wrong("`watch` is called before the step: call it last")
        self.steps.append(step)
        self.seen.append(_weights(Tiny.last))
        gradients = [x.grad for x in Tiny.last.parameters() if x.grad is not None]
        self.norm = max(self.norm, float(nn.utils.get_total_norm(gradients)))


def _tiny(seed: int, d_model: int, *, louder: float, far: float) -> Tiny:
    """Weights in float64. Louder logits make long gradients, far embeddings tiny ones.

    It is in evaluation mode, as a measurement would leave it.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes = {"d_model": d_model, "n_heads": 2, "d_ff": 16, "n_layers": 1}
        options = {"dropout": 0.0, "norm_first": True, "share_embeddings": False}
        model = Tiny(TransformerConfig(13, 15, **sizes, **options)).double()
    with torch.no_grad():
        model.projection.weight *= louder
        model.target_embedding.weight *= far
    model.start = _weights(model)
    model.unread = model.target_embedding.weight.detach()[-2:].clone()  # by no sentence
    return model.eval()


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
    """A model, batches with padding, a rate, and something that watches."""
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
    model = _tiny(seed, d_model, louder=louder, far=far)
    return Probe(model, batches, _Rate(), _Watch() if watched else None, **said)


def _traces(
    output: Any, model: Tiny, batches: list, rate: _Rate, watch: _Watch | None
) -> tuple:
    """The losses, what the steps added to the weights, and what `watch` has seen.

    The last, the longest gradient, is in a dictionary: no two of them differ.
    """
    due = [*range(1, len(batches) + 1)]
    Tiny.last = None  # what comes next is another run
    row = isinstance(output, list | tuple) or getattr(output, "ndim", 0) == 1
    if not row or len(output) != len(due):
        raise Wrong(f"return a list of {len(due)} losses, one for each batch")
    if any(getattr(loss, "requires_grad", False) for loss in output):
        raise Wrong("keep `loss.item()`: a tensor keeps all that it was made of")
    try:
        losses = torch.tensor([float(loss) for loss in output], dtype=torch.float64)
    except (TypeError, ValueError):
        raise Wrong("each loss of the list must be a number") from None
    asked = [*dict.fromkeys(rate.steps)]
    if asked[: len(due)] != due:
        found = ", ".join(map(str, asked[:3])) or "nothing"
        raise Wrong(f"`rate` is called with {found} …: it wants the steps 1, 2, 3 …")
    if model.was_off:
        raise Wrong(
            "a step is taken in evaluation mode, without dropout: `model.train()`"
        )
    if watch and watch.steps != due:
        found = ", ".join(map(str, watch.steps[:3])) or "nothing"
        raise Wrong(f"`watch` is called with {found} …: it wants 1, 2, 3 …, each once")
    if not torch.equal(model.target_embedding.weight[-2:], model.unread):
        raise Wrong(
            "weights move that get no gradient: take `torch.optim.Adam`, without "
            "weight decay"
        )
    seen = torch.stack(watch.seen) - model.start if watch else torch.zeros(0)
    return losses, _weights(model), seen, {"norm": watch.norm if watch else 0.0}


class _Loop(Exercise):
    """An exercise that says which of a run's traces differ first."""

    def _described(self, yours: Outcome, due: Outcome) -> str:
        if yours.error:
            return super()._described(yours, due)
        losses, weights, *_ = map(differs, yours.output, due.output)
        if losses and not weights:
            first = "the weights are right after all steps, but not the losses: "
            wanted = "; each is the mean over real tokens, from before its step"
            return first + self._first(yours, due) + wanted
        if losses:
            return self._first(yours, due) + self._cause(yours, due)
        if weights:
            return "the losses are right, but not all weights: what is Adam's eps?"
        return "`watch` does not see the weights after its step: call it last"

    def _first(self, yours: Outcome, due: Outcome) -> str:
        a, b = (x.output[0] for x in (yours, due))
        i = int((~torch.isclose(a, b, rtol=1e-4, atol=1e-5)).nonzero()[0])
        before = "the first loss is right; " if i else ""
        before = f"the first {i} losses are right; " if i > 1 else before
        return f"{before}loss {i + 1} is {a[i]:.5g} where {b[i]:.5g} is due"

    def _cause(self, yours: Outcome, due: Outcome) -> str:
        """What the first step says of a loop whose first loss is right."""
        (_, _, a, seen), (_, _, b, _) = (x.output for x in (yours, due))
        if not len(a) or differs(yours.output[0][0], due.output[0][0]):
            return ""
        if not differs(a[0], b[0]):
            if seen["norm"] > 1.001:
                return (
                    f"; Adam's gradient has the norm {seen['norm']:.3g}: it is not "
                    "clipped to norm 1, `clip_grad_norm_`"
                )
            return (
                "; the first step is right, not the second: Adam, made once, has the "
                "betas (0.9, 0.98)"
            )
        far, wanted = (x[0].abs().max() for x in (a, b))
        if not far:
            return (
                "; the weights do not move: set `lr` and call `backward` before "
                "`optimizer.step()`, with no `zero_grad` between the last two"
            )
        moved = a[0][a[0] != 0].abs()
        if moved.median() < 0.5 * far:
            return (
                "; in its first step, Adam moves nearly all weights equally far, and "
                "yours does not: `torch.optim.Adam`"
            )
        if abs(far - wanted) > 0.02 * wanted:
            return (
                f"; the first step moves a weight by {far:.2g} at most, where the rate "
                f"is {wanted:.2g}: set `lr` before `optimizer.step()`"
            )
        return ""


def _wrong(
    model: nn.Module,
    batches: Sequence[Batch],
    rate: Callable,
    watch: Callable | None = None,
    *,
    reset: bool = True,
    clip: bool = True,
    betas: tuple = (0.9, 0.98),
    eps: float = 1e-9,
    ignored: int = PAD,
    reduction: str = "mean",
    read: str = "decoder_input",
    softmax: bool = False,
    mixed: bool = False,
) -> list[float]:
    """The loop, and with other options what is wrong with it."""
    optimizer = torch.optim.Adam(model.parameters(), betas=betas, eps=eps)
    losses = []
    for step, batch in enumerate(batches, start=1):
        model.train()
        batch = batch.to("cpu")
        optimizer.param_groups[0]["lr"] = rate(step)
        logits = model(batch.source, getattr(batch, read))
        logits = logits.softmax(dim=-1) if softmax else logits
        logits = logits.reshape(logits.mT.shape) if mixed else logits.mT
        how = {"ignore_index": ignored, "reduction": reduction}
        loss = F.cross_entropy(logits, batch.labels, **how)
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
            partial(_wrong, betas=(0.9, 0.999), eps=1e-8)
        ),
        "padding counts in the loss: `ignore_index=PAD`": partial(_wrong, ignored=-100),
        "the decoder reads the labels, the tokens that it is to predict: it reads "
        "`batch.decoder_input`": partial(_wrong, read="labels"),
        "the loss is a sum: take the mean over real tokens, which is `cross_entropy`'s "
        "own `reduction`": partial(_wrong, reduction="sum"),
        "a softmax stands before the loss: `cross_entropy` wants the logits, and has "
        "the softmax": partial(_wrong, softmax=True),
        "`reshape` or `view` mixes places and tokens: `logits.mT` puts the vocabulary "
        "on axis 1": partial(_wrong, mixed=True),
    },
    read=_traces,
    lesson="09",
)

# ------------------------------------------------------------ 09.2 three trainings

VOCAB, STEPS, EVERY = 20, 280, 20
FAULTS = {"A": "sees the future", "B": "rate too high", "C": "memory is zeros"}
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


@dataclass(frozen=True)
class Training:
    """What a training of exercise 09.2 showed; losses in nats per target token."""

    steps: list[int]
    train_loss: list[float]  # of the batch of that step, as the training computed it
    validation_loss: list[float]
    exchanged_loss: float  # of validation, each source exchanged for another
    exact: float  # share of new sequences reversed without a fault, token by token


class _SeesTheFuture(Transformer):
    """A Transformer whose decoder mask hides padding only."""

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        x = self.positions(self.target_embedding(target))
        return self.decoder(x, memory, padding_mask(target), padding_mask(source))


class _NoMemory(Transformer):
    """A Transformer whose memory arrives as zeros."""

    def encode(self, source: Tensor) -> Tensor:
        return 0 * super().encode(source)


MODELS = {"sees the future": _SeesTheFuture, "memory is zeros": _NoMemory}


def trainings() -> dict[str, Training]:
    """The trainings of exercise 09.2, and a healthy one, each really run."""
    names = {"healthy": "healthy", **FAULTS}
    return {name: run_with(fault) for name, fault in names.items()}


def run_with(fault: str, seed: int = 0, *, clip: bool = False) -> Training:
    """Train a small model to write sequences backwards, with a fault or "healthy"."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _trained(fault, torch.Generator().manual_seed(seed), clip)


def _reversals(count: int, generator: torch.Generator) -> list[IdPair]:
    """Random sequences of three to eight letters, each with its reverse."""
    pairs = []
    for _ in range(count):
        length = int(torch.randint(3, 9, (), generator=generator))
        row = torch.randint(4, VOCAB, (length,), generator=generator).tolist()
        pairs.append((row, row[::-1]))
    return pairs


def _trained(fault: str, generator: torch.Generator, clip: bool) -> Training:
    sizes = {"d_model": 32, "n_heads": 4, "d_ff": 64, "n_layers": 1, "dropout": 0.0}
    config = TransformerConfig(
        VOCAB, VOCAB, **sizes, norm_first=True, share_embeddings=False
    )
    device = best_device()
    model = MODELS.get(fault, Transformer)(config).to(device)
    validation = _reversals(200, generator)
    few = fault == "too few sentences"
    pairs = _reversals(40 if few else 48 * STEPS, generator)
    peak = 1e-1 if fault == "rate too high" else 1e-2
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), fused=True)
    steps, train_loss, validation_loss = [], [], []
    for step in range(1, STEPS + 1):
        start = 48 * (step - 1) % len(pairs)
        batch = make_batch(pairs[start : start + 48]).to(device)
        for group in optimizer.param_groups:
            group["lr"] = cosine_rate(step / STEPS, peak=peak, warmup=0.1)
        loss = _loss(model, batch, fault)
        optimizer.zero_grad()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step == 1 or step % EVERY == 0:
            steps.append(step)
            train_loss.append(loss.item())
            validation_loss.append(evaluate_loss(model, validation))
    sources, targets = zip(*validation, strict=True)
    exchanged = list(zip(sources[1:] + sources[:1], targets, strict=True))
    written = translate_ids(model, sources, max_length=12)
    results = evaluate_loss(model, exchanged), exact_match(written, list(targets))
    return Training(steps, train_loss, validation_loss, *results)


def _loss(model: Transformer, batch: Batch, fault: str) -> Tensor:
    """The loss of a step, with the fault in it, if it has its place there."""
    if fault not in ("padding in the loss", "labels not shifted"):
        return token_loss(model, batch)[0]
    logits = model(batch.source, batch.decoder_input).flatten(0, 1)
    if fault == "labels not shifted":
        read = batch.decoder_input.flatten()
        return F.cross_entropy(logits, read, ignore_index=PAD)
    return F.cross_entropy(logits, batch.labels.flatten())

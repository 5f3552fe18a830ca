"""The exercises of lesson 14: gradients of a batch in parts, and the ring."""

import weakref
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F

from helpers import PAD
from helpers.batching import Batch, make_batch
from helpers.exercise import Exercise, Probe, Wrong, differs
from helpers.transformer import Transformer, TransformerConfig
from lessons.lesson14 import parts, ring
from lessons.lesson14.in_threads import Stuck, in_threads

# ------------------------------------------------------------ 14.1 a batch in parts


class Tiny(Transformer):
    """A Transformer that notes how many sentences' activations it has held at once."""

    held = most = 0  # sentences; `held`: those of the last batch

    def encode(self, source: Tensor) -> Tensor:
        """As the Transformer's."""
        alive = self.__dict__.setdefault("alive", weakref.WeakSet())
        self.held = len(source) + self.held * (len(alive) > 0)
        self.most = max(self.most, self.held)

        def pack(tensor: Tensor) -> Callable:  # `backward` frees what it gives
            tensor = tensor.detach()
            alive.add(saved := lambda: tensor)
            return saved

        with saved_tensors_hooks(pack, lambda saved: saved()):
            return super().encode(source)


def _parts(
    d_model: int, *lengths: Sequence[int], begun: bool = False, **said: str
) -> Probe:
    """A model with weights in float64, and a batch for each row of target lengths.

    With `begun`, the parameters hold a gradient before the answer is called.
    """
    sizes = {"d_model": d_model, "n_heads": 2, "d_ff": 16, "n_layers": 1}
    options = {"dropout": 0.0, "norm_first": True, "share_embeddings": False}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(d_model)
        model = Tiny(TransformerConfig(13, 15, **sizes, **options)).double().eval()
        model.begun = begun
        with torch.no_grad():
            model.projection.weight *= 5  # no two losses are alike
        batches = []
        for row in lengths:
            ids = torch.randint(4, 13, (len(row), 2, 10)).tolist()
            pairs = zip(ids, row, strict=True)  # sources are of another length
            batches.append(make_batch([(s[n:], t[:n]) for (s, t), n in pairs]))
    return Probe(model, batches, **said)


class _InParts(Exercise):
    """An exercise whose answer returns a loss, and leaves a gradient behind."""

    def _built(self, answer: Callable, probe: Probe) -> tuple[Callable, dict]:
        def careful(model: Tiny, batches: Sequence[Batch]) -> tuple | None:
            parameters = [*model.parameters()]
            for x in parameters:
                x.grad = torch.full_like(x, 0.1) if model.begun else None
            before = nn.utils.parameters_to_vector(parameters).detach().clone()
            loss = answer(model, batches)
            if loss is None:
                return None
            if differs(nn.utils.parameters_to_vector(parameters), before):
                raise Wrong("the weights have changed: take no step here")
            if model.training:
                raise Wrong("leave the model's mode as it is: no `train` or `eval`")
            if not isinstance(loss, int | float | Tensor):
                raise Wrong(f"return the mean loss, not a {type(loss).__name__}")
            if isinstance(loss, Tensor) and loss.requires_grad:
                raise Wrong("return a float, by `.item()`: this one holds its graph")
            if any(x.grad is None for x in parameters):
                raise Wrong("there is no `.grad`: call `backward` for each batch")
            most = max(model.most, *(len(batch.source) for batch in batches))
            gradient = torch.cat([x.grad.flatten() for x in parameters])
            return torch.tensor(float(loss), dtype=torch.float64), gradient, most

        return careful, {}


def _wrong(kind: str, model: Tiny, batches: Sequence[Batch]) -> float:
    """The accumulation, wrong in this way."""
    if kind == "forgets":
        model.zero_grad()
    tokens, total = sum(batch.n_tokens for batch in batches), 0.0
    for batch in batches:
        logits = model(batch.source, batch.decoder_input).mT
        ignored = -100 if kind == "padding" else PAD
        mean = F.cross_entropy(logits, batch.labels, ignore_index=ignored)
        share = batch.n_tokens / tokens
        loss = mean * (1 / len(batches) if kind == "mean of means" else share)
        if kind == "resets":
            model.zero_grad()
        loss.backward()
        total += loss.item()
    return total


accumulate = _InParts(
    parts.accumulate,
    [
        _parts(8, (6, 5, 7), (1, 2), praise="two batches of unlike length"),
        _parts(12, (1,), (4, 9), (3, 2, 1), praise="three batches, another model"),
        _parts(4, (2, 5), begun=True, when="where `.grad` already holds something: "),
    ],
    {
        "this is the mean of the batches' means: multiply each by its share of all "
        "tokens": partial(_wrong, "mean of means"),
        "padding enters the mean of a batch: give `cross_entropy` `ignore_index=PAD`": (
            partial(_wrong, "padding")
        ),
        "`zero_grad` between the batches throws the earlier gradients away": partial(
            _wrong, "resets"
        ),
        "what `.grad` held before is gone: add to it": partial(_wrong, "forgets"),
    },
    results=(
        "the mean loss",
        "the gradient",
        "how many sentences memory holds at once",
    ),
    lesson="14",
)

# ------------------------------------------------------------ 14.2 the ring


def _rows(count: int, size: int, **said: str) -> Probe:
    """What `count` processes hold."""
    chance = torch.Generator().manual_seed(count)
    return Probe([*10 * torch.randn(count, size, generator=chance)], **said)


class _InARing(Exercise):
    """An exercise whose answer runs in a thread for each process."""

    def _built(self, answer: Callable, probe: Probe) -> tuple[Callable, dict]:
        def everywhere(rows: list[Tensor]) -> tuple:
            try:
                results, sent = in_threads(answer, rows)
            except Stuck as error:
                raise Wrong(str(error)) from None
            if results[0] is None:
                return None
            if not all(isinstance(result, Tensor) for result in results):
                raise Wrong("each process returns one tensor: join the pieces")
            sums = torch.stack([result.detach() for result in results])
            return sums, torch.tensor([sum(sizes) for sizes in sent])

        return everywhere, {}


def _wrong_ring(
    wrong: str, tensor: Tensor, rank: int, count: int, exchange: Callable
) -> Tensor:
    """The ring, wrong in this way."""
    pieces = [*tensor.clone().chunk(count)]
    for step in range(count - 1 if wrong == "stops" else 2 * count - 2):
        place = rank if wrong == "stays" else (rank - step) % count
        came = exchange(pieces[place])
        kept = step < count - 1 or wrong == "adds"
        pieces[place - 1] = came + kept * pieces[place - 1]
    return torch.cat(pieces)


ring_all_reduce = _InARing(
    ring.ring_all_reduce,
    [
        _rows(4, 8, praise="four processes end with the sum"),
        _rows(2, 6, when="with two processes: "),
        _rows(3, 6, when="with three processes: "),
        _rows(6, 18, praise="two, three and six do, too; each sends 2 (n − 1) / n"),
    ],
    {
        "the second round is missing: each hands its complete piece out": partial(
            _wrong_ring, "stops"
        ),
        "the second round adds what comes: it is complete, so it replaces": partial(
            _wrong_ring, "adds"
        ),
        "the first round sends the same piece each time: send what was just added "
        "up": partial(_wrong_ring, "stays"),
    },
    results=("the sum, a row for each process,", "how many numbers each sends"),
    lesson="14",
)

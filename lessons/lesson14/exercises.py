"""The exercises of lesson 14: gradients of a batch in parts, and the ring."""

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F

from helpers import PAD
from helpers.batching import Batch, make_batch
from helpers.exercise import Exercise, Outcome, Probe, Wrong, differs
from helpers.transformer import Transformer, TransformerConfig
from lessons.lesson14 import parts, ring
from lessons.lesson14.in_threads import Stuck, in_threads

# ------------------------------------------------------------ 14.1 a batch in parts


class _Saved:
    """A tensor that the encoder has saved for `backward`, which frees it."""

    def __init__(self, tensor: Tensor):
        self.tensor = tensor.detach()


class Tiny(Transformer):
    """A Transformer that notes whether two batches' activations are there at once."""

    crowded = False

    def encode(self, source: Tensor) -> Tensor:
        """As the Transformer's."""
        alive = self.__dict__.setdefault("alive", weakref.WeakSet())
        self.crowded |= len(alive) > 0

        def pack(tensor: Tensor) -> _Saved:
            alive.add(saved := _Saved(tensor))
            return saved

        with saved_tensors_hooks(pack, lambda saved: saved.tensor):
            return super().encode(source)


def _parts(seed: int, d_model: int, *lengths: Sequence[int], **said: str) -> Probe:
    """A model with weights in float64, and a batch for each row of target lengths."""
    sizes = {"d_model": d_model, "n_heads": 2, "d_ff": 16, "n_layers": 1}
    options = {"dropout": 0.0, "norm_first": True, "share_embeddings": False}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Tiny(TransformerConfig(13, 15, **sizes, **options)).double()
        with torch.no_grad():
            model.projection.weight *= 5  # no two losses are alike
        batches = []
        for row in lengths:
            ids = [torch.randint(4, 13, (2, n)).tolist() for n in row]
            batches.append(make_batch(ids))
    return Probe(model, batches, **said)


def _left_behind(output: Any, model: Tiny, batches: Sequence[Batch]) -> tuple:
    """The loss that is returned, and the gradient that is left in the parameters."""
    try:
        loss = torch.tensor(float(output), dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        kind = type(output).__name__
        raise Wrong(f"return the mean loss, one number, not a {kind}") from None
    gradients = [parameter.grad for parameter in model.parameters()]
    if any(gradient is None for gradient in gradients):
        raise Wrong("some parameters have no `.grad`: call `backward` for each batch")
    return loss, torch.cat([g.flatten() for g in gradients]), model.crowded


class _InParts(Exercise):
    """An exercise that says whether the loss or the gradient differs."""

    def _built(self, answer: Callable, probe: Probe) -> tuple[Callable, dict]:
        def careful(model: Tiny, batches: Sequence[Batch]) -> Any:
            before = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
            output = answer(model, batches)
            if differs(nn.utils.parameters_to_vector(model.parameters()), before):
                raise Wrong("the weights have changed: take no step here")
            return output

        return careful, {}

    def _described(self, yours: Outcome, due: Outcome) -> str:
        if yours.error:
            return super()._described(yours, due)
        loss, gradient, _ = map(differs, yours.output, due.output)
        if loss:
            return f"the loss {loss}" + ", but the gradient is right" * (not gradient)
        if not gradient:
            return CROWDED
        long = yours.output[1].norm() / due.output[1].norm()
        return f"the loss is right, the gradient is not: it is {long:.3g} times as long"


CROWDED = (
    "two batches' activations are in memory at once: call `backward` for each batch "
    "before the next one is read"
)


def _wrong(
    model: Transformer,
    batches: Sequence[Batch],
    *,
    means: bool = False,
    counted: Callable = lambda batch: batch.n_tokens,
    share: Callable = lambda own, total, count: own / total,
    ignored: int = PAD,
    resets: bool = False,
    at_once: bool = False,
) -> float:
    """The accumulation, and with other options what is wrong with it."""
    count = sum(map(counted, batches))
    total, waiting = 0.0, 0.0
    for batch in batches:
        logits = model(batch.source, batch.decoder_input).flatten(0, 1)
        labels = batch.labels.flatten()
        mean = F.cross_entropy(logits, labels, ignore_index=ignored)
        loss = mean * share(counted(batch), count, len(batches))
        if resets:
            model.zero_grad()
        if at_once:
            waiting = waiting + loss
        else:
            loss.backward()
        total += loss.item()
    if at_once:
        waiting.backward()
    return total


accumulate = _InParts(
    parts.accumulate,
    [
        _parts(0, 8, (6, 5, 7), (1, 2), praise="two batches of unlike length"),
        _parts(1, 12, (1,), (4, 9), (3, 2, 1), praise="three batches, another model"),
        _parts(2, 4, (2, 5), praise="a single batch"),
        _parts(3, 8, (3, 1), (3, 1), when="with two batches of equal length: "),
    ],
    {
        "this is the mean of the batches' means: multiply each mean by its share of "
        "all tokens": partial(_wrong, share=lambda own, total, count: 1 / count),
        "the batches' means are added up: multiply each by its share of all "
        "tokens": partial(_wrong, share=lambda own, total, count: 1),
        "this is the sum over all tokens: divide it by how many they are": partial(
            _wrong, share=lambda own, total, count: own
        ),
        "each batch's mean is divided by all tokens: it is its sum that is due": (
            partial(_wrong, share=lambda own, total, count: 1 / total)
        ),
        "padding counts as tokens: count the labels that are not PAD": partial(
            _wrong, counted=lambda batch: batch.labels.numel()
        ),
        "a batch counts by its sentences: count its tokens, the labels that are not "
        "PAD": partial(_wrong, counted=lambda batch: len(batch.source)),
        "`zero_grad` between the batches throws the gradients of earlier ones "
        "away": partial(_wrong, resets=True),
        CROWDED: partial(_wrong, at_once=True),
    },
    read=_left_behind,
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
            return None if results[0] is None else (results, sent)

        return everywhere, {}

    def _described(self, yours: Outcome, due: Outcome) -> str:
        if yours.error:
            return super()._described(yours, due)
        if sums := differs(yours.output[0], due.output[0]):
            return f"the sum, a row for each process, {sums}"
        numbers, most = (int(x.output[1][0]) for x in (yours, due))
        text = f"the sums are right, but process 0 sends {numbers} numbers"
        return f"{text}: 2 (count - 1) / count of its tensor are {most}"


def _everybodys(output: Any, rows: list[Tensor]) -> tuple:
    """The sums of all processes, and how many numbers each has sent."""
    results, sent = output if isinstance(output, tuple) else ([output], [])
    for rank, result in enumerate(results):
        found, due = getattr(result, "shape", None), rows[0].shape
        if not isinstance(result, Tensor) or found != due:
            found = type(result).__name__ if found is None else tuple(found)
            text = f"process {rank} returns {found}, due is a tensor of {tuple(due)}"
            raise Wrong(f"{text}: join the pieces")
    sums = torch.stack([result.detach() for result in results])
    return sums, torch.tensor([sum(sizes) for sizes in sent])


def _wrong_ring(
    mine: Tensor,
    rank: int,
    count: int,
    exchange: Callable[[Tensor], Tensor],
    *,
    short: int = 0,
    stays: bool = False,
    second: bool = True,
    begins: int = 1,
    adds: bool = False,
    whole: bool = False,
    mean: bool = False,
) -> Tensor:
    """The ring, and with other options what is wrong with it."""
    if whole:
        total = came = mine
        for _ in range(count - 1):
            came = exchange(came)
            total = total + came
        return total
    pieces = [*mine.clone().chunk(count)]
    for step in range(count - 1 - short):
        place = rank if stays else rank - step
        came = exchange(pieces[place % count])
        pieces[(place - 1) % count] += came
    for step in range((count - 1) * second):
        came = exchange(pieces[(rank - step + begins) % count])
        place = (rank - step + begins - 1) % count
        pieces[place] = came + adds * pieces[place]
    return torch.cat(pieces) / (count if mean else 1)


ring_all_reduce = _InARing(
    ring.ring_all_reduce,
    [
        _rows(3, 6, praise="three processes end with the sum"),
        _rows(2, 6, when="with two processes: "),
        _rows(4, 4, when="with four processes: "),
        _rows(6, 18, praise="two, four and six do, too; each sends 2 (n − 1) / n"),
    ],
    {
        "the second round is missing: each process has one complete piece, and must "
        "hand it out": partial(_wrong_ring, second=False),
        "the second round adds what comes: it is complete, so it replaces": partial(
            _wrong_ring, adds=True
        ),
        "the second round begins with piece `rank`: complete is `rank + 1`": partial(
            _wrong_ring, begins=0
        ),
        "the first round is one step too short: count - 1 steps are due": partial(
            _wrong_ring, short=1
        ),
        "in the first round, each step sends the same piece: send the one that the "
        "step before has added to": partial(_wrong_ring, stays=True),
        "the sums are right, but the whole tensor goes around: cut it into count "
        "pieces, and send one at a time": partial(_wrong_ring, whole=True),
        "this is the mean: the sum is due, as of `all_reduce`": partial(
            _wrong_ring, mean=True
        ),
    },
    read=_everybodys,
    lesson="14",
)

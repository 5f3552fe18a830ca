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

CROWDED = (
    "two batches' activations are in memory at once: call `backward` for each batch "
    "before the next one is read"
)


class _Saved:
    """A tensor that the encoder has saved for `backward`, which frees it."""

    def __init__(self, tensor: Tensor):
        self.tensor = tensor.detach()


class Tiny(Transformer):
    """A Transformer that notes how many sentences' activations it has held at once."""

    held = most = 0  # sentences; `held`: those of the last batch

    def encode(self, source: Tensor) -> Tensor:
        """As the Transformer's."""
        alive = self.__dict__.setdefault("alive", weakref.WeakSet())
        self.held = len(source) + self.held * (len(alive) > 0)
        self.most = max(self.most, self.held)

        def pack(tensor: Tensor) -> _Saved:
            alive.add(saved := _Saved(tensor))
            return saved

        with saved_tensors_hooks(pack, lambda saved: saved.tensor):
            return super().encode(source)


def _parts(
    seed: int, d_model: int, *lengths: Sequence[int], begun: bool = False, **said: str
) -> Probe:
    """A model with weights in float64, and a batch for each row of target lengths.

    With `begun`, the parameters hold a gradient before the answer is called.
    """
    sizes = {"d_model": d_model, "n_heads": 2, "d_ff": 16, "n_layers": 1}
    options = {"dropout": 0.0, "norm_first": True, "share_embeddings": False}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Tiny(TransformerConfig(13, 15, **sizes, **options)).double().eval()
        model.begun = begun
        with torch.no_grad():
            model.projection.weight *= 5  # no two losses are alike
        batches = []
        for row in lengths:
            # Sources are of another length than targets.
            sizes = [(3 * n % 8 + 1, n) for n in row]
            ids = [
                [torch.randint(4, 13, (n,)).tolist() for n in pair] for pair in sizes
            ]
            batches.append(make_batch(ids))
    return Probe(model, batches, **said)


def _left_behind(output: Any, model: Tiny, batches: Sequence[Batch]) -> tuple:
    """The loss that is returned, and the gradient that is left in the parameters."""
    if isinstance(output, Tensor) and output.requires_grad:
        raise Wrong("return a float, by `.item()`: this tensor still has its graph")
    try:
        loss = torch.tensor(float(output), dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        kind = type(output).__name__
        raise Wrong(f"return the mean loss, one number, not a {kind}") from None
    gradients = [parameter.grad for parameter in model.parameters()]
    if any(gradient is None for gradient in gradients):
        raise Wrong("some parameters have no `.grad`: call `backward` for each batch")
    crowded = model.most > max(len(batch.source) for batch in batches)
    return loss, torch.cat([g.flatten() for g in gradients]), crowded


class _InParts(Exercise):
    """An exercise that says whether the loss or the gradient differs."""

    def _built(self, answer: Callable, probe: Probe) -> tuple[Callable, dict]:
        def careful(model: Tiny, batches: Sequence[Batch]) -> Any:
            for parameter in model.parameters():
                parameter.grad = (
                    torch.full_like(parameter, 0.1) if model.begun else None
                )
            before = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
            output = answer(model, batches)
            if differs(nn.utils.parameters_to_vector(model.parameters()), before):
                raise Wrong("the weights have changed: take no step here")
            if model.training:
                raise Wrong("leave the model's mode as it is: no `train` or `eval`")
            return output

        return careful, {}

    def _described(self, yours: Outcome, due: Outcome) -> str:
        if yours.error:
            return super()._described(yours, due)
        loss, gradient, _ = map(differs, yours.output, due.output)
        if loss:
            text = ", but the gradient is right: return the mean over all tokens"
            return f"the loss {loss}" + text * (not gradient)
        if not gradient:
            return CROWDED
        long = yours.output[1].norm() / due.output[1].norm()
        return f"the loss is right, the gradient is not: it is {long:.3g} times as long"


def _wrong(
    model: Transformer,
    batches: Sequence[Batch],
    *,
    counted: Callable = lambda batch: batch.n_tokens,
    share: Callable = lambda own, total, count: own / total,
    ignored: int = PAD,
    forgets: bool = False,
    resets: bool = False,
) -> float:
    """The accumulation, and with other options what is wrong with it."""
    if forgets:
        model.zero_grad()
    tokens, total = sum(map(counted, batches)), 0.0
    for batch in batches:
        logits = model(batch.source, batch.decoder_input).flatten(0, 1)
        labels = batch.labels.flatten()
        mean = F.cross_entropy(logits, labels, ignore_index=ignored)
        loss = mean * share(counted(batch), tokens, len(batches))
        if resets:
            model.zero_grad()
        loss.backward()
        total += loss.item()
    return total


accumulate = _InParts(
    parts.accumulate,
    [
        _parts(0, 8, (6, 5, 7), (1, 2), praise="two batches of unlike length"),
        _parts(1, 12, (1,), (4, 9), (3, 2, 1), praise="three batches, another model"),
        _parts(
            2,
            8,
            (3, 1),
            (3, 1),
            begun=True,
            when="where `.grad` already holds something: ",
            praise="it adds to what `.grad` already holds",
        ),
        _parts(3, 4, (2, 5), praise="a single batch"),
    ],
    {
        "this is the mean of the batches' means: multiply each mean by its share of "
        "all tokens": partial(_wrong, share=lambda own, total, count: 1 / count),
        "the batches' means are added up: multiply each by its share of all "
        "tokens": partial(_wrong, share=lambda own, total, count: 1),
        "this is the sum over all tokens: divide it by how many they are": partial(
            _wrong, share=lambda own, total, count: own
        ),
        "padding enters the mean of a batch: give `cross_entropy` `ignore_index=PAD`": (
            partial(_wrong, ignored=-100)
        ),
        "padding counts as tokens: count the labels that are not PAD": partial(
            _wrong, counted=lambda batch: batch.labels.numel()
        ),
        "a batch counts by its sentences: count its tokens, the labels that are not "
        "PAD": partial(_wrong, counted=lambda batch: len(batch.source)),
        "`zero_grad` between the batches throws the gradients of earlier ones "
        "away": partial(_wrong, resets=True),
        "what `.grad` held before is gone: add to it; `zero_grad` is the training "
        "loop's": partial(_wrong, forgets=True),
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
        pairs = zip(*(x.output[1].tolist() for x in (yours, due)), strict=True)
        rank, (found, least) = next((i, x) for i, x in enumerate(pairs) if x[0] != x[1])
        text = f"the sums are right, but process {rank} sends {found} numbers"
        return f"{text}: 2 (count - 1) / count of its tensor are {least}"


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
    tensor: Tensor,
    rank: int,
    count: int,
    exchange: Callable[[Tensor], Tensor],
    *,
    rounds: Sequence[int] = (-1, -1),
    back: int = 1,
    stays: bool = False,
    begins: int = 1,
    adds: bool = False,
) -> Tensor:
    """The ring, and with other options what is wrong with it."""
    pieces = [*tensor.clone().chunk(count)]
    first, second = (count + more for more in rounds)
    for step in range(first):
        place = rank if stays else rank - back * step
        came = exchange(pieces[place % count])
        pieces[(place - 1) % count] += came
    for step in range(second):
        place = rank - back * step + begins
        came = exchange(pieces[place % count])
        place = (place - 1) % count
        pieces[place] = came + adds * pieces[place]
    return torch.cat(pieces)


def _whole_tensor(
    tensor: Tensor, rank: int, count: int, exchange: Callable[[Tensor], Tensor]
) -> Tensor:
    """The ring without pieces."""
    total = came = tensor
    for _ in range(count - 1):
        came = exchange(came)
        total = total + came
    return total


ring_all_reduce = _InARing(
    ring.ring_all_reduce,
    [
        _rows(4, 8, praise="four processes end with the sum"),
        _rows(2, 6, when="with two processes: "),
        _rows(3, 6, when="with three processes: "),
        _rows(6, 18, praise="two, three and six do, too; each sends 2 (n − 1) / n"),
    ],
    {
        "the second round is missing: each process has one complete piece, and must "
        "hand it out": partial(_wrong_ring, rounds=(-1, -20)),
        "the second round adds what comes: it is complete, so it replaces": partial(
            _wrong_ring, adds=True
        ),
        "the first round replaces where it must add, or the second begins with piece "
        "`rank`: complete is `rank + 1`": partial(_wrong_ring, begins=0),
        "the first round is one step too short: count - 1 steps are due": partial(
            _wrong_ring, rounds=(-2, -1)
        ),
        "the first round sends the same piece each time, or adds to the piece just "
        "sent: add to the one before it, and send that next": partial(
            _wrong_ring, stays=True
        ),
        "the pieces go in the wrong direction: the next one to send is the one before, "
        "`rank - step`": partial(_wrong_ring, back=-1),
        "the sums are right, but the whole tensor goes around: cut it into count "
        "pieces, and send one at a time": _whole_tensor,
        "this is the mean: the sum is due, as of `all_reduce`": (
            lambda *given: ring.ring_all_reduce(*given) / given[2]
        ),
    },
    read=_everybodys,
    lesson="14",
)

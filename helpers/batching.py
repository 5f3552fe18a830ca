"""Sentences of like length, padded together into batches (lesson 09).

`share` cuts a batch for several processes (lesson 14), or for several passes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from helpers import BOS, EOS, PAD

IdPair = tuple[list[int], list[int]]


@dataclass(frozen=True)
class Batch:
    """source (batch, source_length) and target (batch, target_length), padded.

    Each target row is BOS … EOS. What the decoder reads and what it must say are the
    same row shifted by one, (batch, target_length - 1).
    """

    source: Tensor
    target: Tensor

    @property
    def decoder_input(self) -> Tensor:
        """What the decoder reads: the target without its last column."""
        return self.target[:, :-1]

    @property
    def labels(self) -> Tensor:
        """What it must say: the target without BOS."""
        return self.target[:, 1:]

    @property
    def n_tokens(self) -> int:
        """How many labels are real."""
        return len(self.labels[self.labels != PAD])

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        return Batch(self.source.to(device), self.target.to(device))


def pad(rows: Sequence[Sequence[int]]) -> Tensor:
    """Rows of ids -> (batch, longest row), PAD on the right; ValueError for no rows."""
    if not rows:
        raise ValueError("an empty batch: there is no sentence to pad")
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in rows])


def make_batch(pairs: Sequence[IdPair]) -> Batch:
    """Pairs of ids without BOS and EOS -> a padded Batch; ValueError for no pairs."""
    source = pad([[*source, EOS] for source, _ in pairs])
    return Batch(source, pad([[BOS, *target, EOS] for _, target in pairs]))


def share(batch: Batch, rank: int, processes: int) -> Batch:
    """Every `processes`-th sentence of the batch, from number `rank` on.

    Columns with nothing but padding are dropped. A batch of fewer sentences than
    processes leaves the last ones with none: shapes (0, …).
    """
    source, target = (x[rank::processes] for x in (batch.source, batch.target))
    return Batch(*(x[:, (x != PAD).any(dim=0)] for x in (source, target)))


def weighted_parts(
    batch: Batch, accumulate: int, *, rank: int = 0, processes: int = 1
) -> Iterator[tuple[Batch, float]]:
    """One process's parts of the batch, and the weight of the mean loss of each.

    Each process takes `accumulate` parts. The mean over the processes of the weighted
    sums is the mean over all tokens of the batch.
    """
    pieces = processes * accumulate
    if pieces == 1:
        yield batch, 1.0
        return
    for piece in range(rank, pieces, processes):
        part = share(batch, piece, pieces)
        if len(part.source):
            yield part, part.n_tokens * processes / batch.n_tokens
        else:  # the other processes wait for this one: take part, count nothing
            yield share(batch, 0, pieces), 0.0


def bucketed_batches(
    pairs: Sequence[IdPair],
    *,
    tokens_per_batch: int,
    generator: torch.Generator | None = None,
    pool: int = 100,
) -> Iterator[Batch]:
    """One epoch of batches whose sentences have about the same length.

    Each batch holds at most tokens_per_batch target tokens, padding included
    (Vaswani et al. 2017, section 5.1). With a generator the pairs are shuffled, sorted
    by length only inside pools of about `pool` batches so that chance still decides
    what meets, and the batches shuffled again; without one all are sorted, for
    evaluation. ValueError if a sentence alone is longer than tokens_per_batch.
    """
    order = list(range(len(pairs)))
    if generator is not None:
        order = torch.randperm(len(pairs), generator=generator).tolist()
    longest = max((len(target) + 1 for _, target in pairs), default=0)
    if longest > tokens_per_batch:
        raise ValueError(
            f"the longest target has {longest} tokens, tokens_per_batch is only "
            f"{tokens_per_batch}"
        )
    mean = sum(len(target) + 1 for _, target in pairs) / max(1, len(pairs))
    pool_size = len(pairs) if generator is None else int(pool * tokens_per_batch / mean)
    batches: list[list[int]] = []
    for start in range(0, len(order), max(1, pool_size)):
        members = order[start : start + pool_size]
        members.sort(key=lambda i: (len(pairs[i][1]), len(pairs[i][0])))
        batches += _split_by_tokens(members, pairs, tokens_per_batch)
    if generator is not None:
        shuffled = torch.randperm(len(batches), generator=generator).tolist()
        batches = [batches[i] for i in shuffled]
    for members in batches:
        yield make_batch([pairs[i] for i in members])


def _split_by_tokens(
    members: list[int], pairs: Sequence[IdPair], tokens_per_batch: int
) -> list[list[int]]:
    """Cut a list sorted by length where one more sentence would exceed the budget."""
    batches: list[list[int]] = [[]]
    for i in members:
        length = len(pairs[i][1]) + 1  # EOS in the labels; this is the longest so far
        if batches[-1] and (len(batches[-1]) + 1) * length > tokens_per_batch:
            batches.append([])
        batches[-1].append(i)
    return batches

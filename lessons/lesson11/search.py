"""Beam search for one sentence, and small worlds in which to try it (lesson 11)."""

import copy
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers import BOS, EOS, PAD


def beam_search(
    next_scores: Callable[[list[int]], Tensor], beam_size: int, max_length: int
) -> list[int]:
    """The ids of the best hypothesis after max_length steps, with its EOS.

    next_scores(tokens) gives the log-probabilities (target_vocab,) of the next token.
    """
    beam = [([], 0.0)]  # hypotheses: (tokens, sum of log-probabilities)
    for _ in range(max_length):
        candidates = []
        for tokens, total in beam:
            if tokens[-1:] == [EOS]:  # it stays as it is
                candidates.append((tokens, total))
            else:
                for token, score in enumerate(next_scores(tokens).tolist()):
                    candidates.append(([*tokens, token], total + score))
        candidates.sort(key=lambda candidate: candidate[1], reverse=True)
        beam = candidates[:beam_size]
    return beam[0][0]


def scores_from(
    table: Mapping[tuple, Mapping[str, float]],
) -> tuple[list[str], Callable[[list[int]], Tensor]]:
    """Words and next_scores of {words so far: {word: its share}}; then comes <eos>."""
    new = dict.fromkeys(word for row in table.values() for word in row)
    words = ["<pad>", "<unk>", "<bos>", "<eos>", *new]

    def next_scores(tokens: list[int]) -> Tensor:
        row = table.get(tuple(words[i] for i in tokens), {"<eos>": 1.0})
        return torch.tensor([row.get(word, 0.0) for word in words]).log()

    return words, next_scores


def random_scores(seed: int, vocabulary: int = 7) -> Callable[[Sequence[int]], Tensor]:
    """next_scores of a world in which every beginning has random shares of its own."""

    @cache
    def scores_after(name: str) -> Tensor:
        chance = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        logits = 1.5 * torch.randn(vocabulary, generator=chance)
        logits[[PAD, BOS]] = -torch.inf
        return logits.log_softmax(dim=0)

    return lambda tokens: scores_after(f"{seed} {[*map(int, tokens)]}").clone()


@torch.no_grad()
def log_probability(model: nn.Module, source: Tensor, said: Tensor) -> Tensor:
    """Log-probability (batch,) of each row of ids: after BOS, up to its EOS."""
    logits = model(source, F.pad(said[:, :-1], (1, 0), value=BOS))
    logits[..., [PAD, BOS]] = -torch.inf
    steps = logits.log_softmax(dim=-1).gather(2, said[..., None])[..., 0]
    return steps.masked_fill(said == PAD, 0.0).sum(dim=1)


@torch.no_grad()
def scaled(model: nn.Module, factor: float) -> nn.Module:
    """A copy of the model whose logits are multiplied by a factor."""
    other = copy.deepcopy(model)
    other.projection.weight *= factor
    return other

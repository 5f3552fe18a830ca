"""How many heads does lesson 04's task need? Which mistakes still learn it?

Every run trains attention on that task from new weights. Runs differ in the number
of heads at equal cost; in the rate and the length of the training of one head; and in
the mistakes of lesson 04. (Its fifth mistake, KeysFromTheQuery, is none where the keys
are made of the same tokens as the queries, as here.)
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from helpers.attention import MultiHeadAttention, attention
from lessons.lesson04.rings import D_MODEL, train_on_rings

HEADS = (1, 2, 3, 4, 6, 8, 12)
SEEDS = range(5)
STEPS = 600
MISTAKES = ("WrongSplit", "WrongJoin", "BothWrong", "HeadsTakeTurns")


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each run; `tiny` takes the first three runs, 12 steps each."""
    for run in list(runs())[: 3 if tiny else None]:
        steps = 12 if tiny else run["steps"]
        yield run | learn(**run | {"steps": steps})


def runs() -> Iterator[dict]:
    """What is trained: `way`, the number of heads, the seed, rate and steps."""
    for seed in SEEDS:
        plain = {"seed": seed, "rate": 0.01, "steps": STEPS}
        for heads in HEADS:
            yield {"way": "heads", "heads": heads} | plain
        for rate in (0.003, 0.03):
            yield {"way": "heads", "heads": 1} | plain | {"rate": rate}
        for heads in (2, 4, 8):
            for mistake in MISTAKES:
                yield {"way": mistake, "heads": heads} | plain
        yield {"way": "longer", "heads": 1} | plain | {"steps": 4 * STEPS}


class OneWay(MultiHeadAttention):
    """The course's module; `way` may name one of the mistakes."""

    def __init__(self, way: str, heads: int):
        super().__init__(D_MODEL, heads)
        self.way = way

    def split_heads(self, x: Tensor) -> Tensor:
        """(batch, length, d_model) -> (batch, heads, length, d_head)."""
        if self.way in ("WrongSplit", "BothWrong"):
            return x.reshape(len(x), self.n_heads, x.size(1), -1)
        return super().split_heads(x)

    def attend(
        self,
        query: Tensor,
        key_heads: Tensor,
        value_heads: Tensor,
        mask: Tensor | None = None,
    ) -> Tensor:
        """As in MultiHeadAttention, without a mask."""
        query_heads = self.split_heads(self.query_projection(query))
        context, _ = attention(query_heads, key_heads, value_heads)
        joined = context.transpose(1, 2).flatten(2)
        if self.way in ("WrongJoin", "BothWrong"):
            joined = context.reshape(query.shape)
        if self.way == "HeadsTakeTurns":
            joined = context.permute(0, 2, 3, 1).flatten(2)
        return self.output_projection(joined)


def learn(way: str, heads: int, seed: int, rate: float, steps: int) -> dict:
    """Train; the error at the end, and when it fell below 0.1.

    `error` is the mean loss of the last 50 steps. `solved` is the first step with a
    loss below 0.1, empty if there is none.
    """
    torch.manual_seed(seed)
    losses = train_on_rings(OneWay(way, heads), steps=steps, rate=rate, seed=seed)
    below = (losses < 0.1).nonzero().flatten().tolist()
    return {
        "error": round(losses[-50:].mean().item(), 4),
        "solved": below[0] if below else None,
    }

"""How many heads does lesson 04's task need? Which mistakes still learn it?

Every run trains attention on that task from new weights. Runs differ in the number
of heads at equal cost; in the rate and the length of the training; and in the mistakes
of lesson 04. One way gives 24 heads queries and keys of two features. (Lesson 04's
fifth mistake, KeysFromTheQuery, is none where the keys are made of the same tokens as
the queries, as here.)
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from helpers.attention import attention
from lessons.lesson04.rings import D_MODEL, shuffled_error, train_on_rings

HEADS = (1, 2, 3, 4, 6, 8, 12, 24)
SEEDS = range(5)
STEPS = 600
MISTAKES = ("WrongSplit", "WrongJoin", "BothWrong", "HeadsTakeTurns")


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each run; `tiny` takes the first three runs, 12 steps each."""
    for run in list(runs())[: 3 if tiny else None]:
        steps = 12 if tiny else run["steps"]
        yield run | learn(**run | {"steps": steps})


def runs() -> Iterator[dict]:
    """What is trained: `way`, the heads, widths of queries and values, and so on."""
    plain = {"rate": 0.01, "steps": STEPS}
    for seed in SEEDS:
        for heads in HEADS:
            yield sized("heads", heads, seed) | plain
        for heads in (1, 24):
            for rate in (0.003, 0.03):
                yield sized("heads", heads, seed) | plain | {"rate": rate}
        for heads in (2, 4, 8):
            for mistake in MISTAKES:
                yield sized(mistake, heads, seed) | plain
        yield sized("wider queries", 24, seed, d_query=2) | plain
        for heads, times in ((1, 4), (24, 10)):
            yield sized("longer", heads, seed) | plain | {"steps": times * STEPS}


def sized(way: str, heads: int, seed: int, d_query: int = 0) -> dict:
    """What names a run; a query has d_model / heads features unless it is said."""
    d_query = d_query or D_MODEL // heads
    return {"way": way, "heads": heads, "d_query": d_query, "seed": seed}


class AnyWidth(nn.Module):
    """Multi-head attention whose heads have queries and keys of any width.

    `way` may name one of the mistakes.
    """

    def __init__(self, way: str, heads: int, d_query: int):
        super().__init__()
        self.way, self.n_heads = way, heads
        self.query_projection = nn.Linear(D_MODEL, heads * d_query)
        self.key_projection = nn.Linear(D_MODEL, heads * d_query)
        self.value_projection = nn.Linear(D_MODEL, D_MODEL)
        self.output_projection = nn.Linear(D_MODEL, D_MODEL)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """As in MultiHeadAttention, without a mask."""
        context, _ = attention(
            self.split(self.query_projection(query)),
            self.split(self.key_projection(key)),
            self.split(self.value_projection(value)),
        )
        return self.output_projection(self.join(context))

    def split(self, x: Tensor) -> Tensor:
        """(batch, length, d_model) -> (batch, heads, length, d_head)."""
        if self.way in ("WrongSplit", "BothWrong"):
            return x.reshape(len(x), self.n_heads, x.size(1), -1)
        return x.unflatten(2, (self.n_heads, -1)).transpose(1, 2)

    def join(self, context: Tensor) -> Tensor:
        """And back."""
        if self.way in ("WrongJoin", "BothWrong"):
            return context.reshape(len(context), context.size(2), -1)
        if self.way == "HeadsTakeTurns":
            return context.permute(0, 2, 3, 1).flatten(2)
        return context.transpose(1, 2).flatten(2)


def learn(
    way: str, heads: int, d_query: int, seed: int, rate: float, steps: int
) -> dict:
    """Train; the error at the end, and when it fell below 0.1.

    `error` is the mean loss of the last 50 steps. `solved` is the first step with a
    loss below 0.1, empty if there is none. `shuffled` is the error where the tokens of
    a ring, each with its place, stand in a random order.
    """
    torch.manual_seed(seed)
    module = AnyWidth(way, heads, d_query)
    losses = train_on_rings(module, steps=steps, rate=rate, seed=seed)
    below = (losses < 0.1).nonzero().flatten().tolist()
    return {
        "error": round(losses[-50:].mean().item(), 4),
        "solved": below[0] if below else None,
        "shuffled": round(shuffled_error(module), 4),
    }

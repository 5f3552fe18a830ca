"""How many heads does lesson 04's task need, and how wide? Which mistakes still learn?

Every run trains attention on that task from new weights. Runs differ in the number
of heads at equal cost; in the rate and the length of the training; in the mistakes of
lesson 04; and in how wide 24 heads are. (Lesson 04's fifth mistake, KeysFromTheQuery,
is none where the keys are made of the same tokens as the queries, as here.)
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers.attention import attention
from lessons.lesson04.rings import (
    D_MODEL,
    EMPTY,
    random_rings,
    sentence,
    train_on_rings,
)

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
        for heads in (1, 2, 8, 24):
            for rate in (0.003, 0.03):
                yield sized("heads", heads, seed) | plain | {"rate": rate}
        for heads in (2, 4, 8):
            for mistake in MISTAKES:
                yield sized(mistake, heads, seed) | plain
        for d_query, d_value in ((2, 1), (8, 1), (1, 2), (1, 8), (8, 8)):
            yield sized("other widths", 24, seed, d_query, d_value) | plain
        for heads, times in ((1, 4), (2, 4), (24, 10)):
            yield sized("longer", heads, seed) | plain | {"steps": times * STEPS}


def sized(way: str, heads: int, seed: int, d_query: int = 0, d_value: int = 0) -> dict:
    """What names a run; without widths they are d_model / heads."""
    width = D_MODEL // heads
    sizes = {"d_query": d_query or width, "d_value": d_value or width}
    return {"way": way, "heads": heads, **sizes, "seed": seed}


class AnyWidth(nn.Module):
    """Multi-head attention whose heads have queries and values of any width.

    `way` may name one of the mistakes.
    """

    def __init__(self, way: str, heads: int, d_query: int, d_value: int):
        super().__init__()
        self.way, self.n_heads = way, heads
        self.query_projection = nn.Linear(D_MODEL, heads * d_query)
        self.key_projection = nn.Linear(D_MODEL, heads * d_query)
        self.value_projection = nn.Linear(D_MODEL, heads * d_value)
        self.output_projection = nn.Linear(heads * d_value, D_MODEL)

    def weights(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Context and weights of all heads."""
        query, key, value = (
            self.split(projection(x))
            for projection in (
                self.query_projection,
                self.key_projection,
                self.value_projection,
            )
        )
        return attention(query, key, value)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Self-attention: key and value are the query."""
        context, _ = self.weights(query)
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
    way: str, heads: int, d_query: int, d_value: int, seed: int, rate: float, steps: int
) -> dict:
    """Train; the error at the end, when it fell below 0.1, and what it rests on.

    `error` is the mean loss of the last 50 steps. `solved` is the first step with a
    loss below 0.1, empty if there is none. `shuffled` is the loss where the tokens of a
    ring, each with its place, stand in a random order. `favourites` is the number of
    different keys that get a head's largest weight, of the eight queries of the
    lesson's sentence, on average over the heads.
    """
    torch.manual_seed(seed)
    module = AnyWidth(way, heads, d_query, d_value)
    losses = train_on_rings(module, steps=steps, rate=rate, seed=seed)
    below = (losses < 0.1).nonzero().flatten().tolist()
    found = {
        "error": round(losses[-50:].mean().item(), 4),
        "solved": below[0] if below else None,
        "shuffled": round(shuffled_loss(module), 4),
        "favourites": None,
    }
    if way not in MISTAKES:
        with torch.no_grad():
            maps = module.weights(sentence())[1][0]  # (heads, query, key)
        counts = [len(set(row)) for row in maps.argmax(dim=2).tolist()]
        found["favourites"] = round(sum(counts) / heads, 2)
    return found


@torch.no_grad()
def shuffled_loss(module: nn.Module) -> float:
    """The mean squared error on 256 rings whose tokens stand in a random order."""
    generator = torch.Generator().manual_seed(100)
    rings, wanted = random_rings(256, generator)
    order = torch.rand(256, 8, 1, generator=generator).argsort(dim=1)
    tokens = rings.take_along_dim(order, dim=1)
    answer = module(tokens, tokens, tokens)[..., EMPTY]
    return F.mse_loss(answer, wanted.take_along_dim(order, dim=1)).item()

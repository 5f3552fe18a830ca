"""How many heads does lesson 04's task need, how wide, and what do their maps show?

Every run trains attention on helpers.rings from new weights. Runs differ in the number
of heads at equal cost; in the rate and the length of the training; in the mistakes of
lesson 04; and in how wide 24 heads are. (Lesson 04's fifth mistake, KeysFromTheQuery,
is none where the keys are made of the same tokens as the queries, as here.)
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from helpers.attention import attention
from helpers.rings import D_MODEL, sentence, train_on_rings

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
        for heads in (1, 2, 24):
            yield sized("longer", heads, seed) | plain | {"steps": 4 * STEPS}


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
    """Train; the error at the end, when it fell below 0.1, and where two heads look.

    `error` is the mean loss of the last 50 steps. `solved` is the first step with a
    loss below 0.1, empty if there is none. `largest` is the largest weight of any head
    and query on the lesson's sentence, `right_head` the head with more weight on right
    neighbours than on left ones, where exactly one has.
    """
    torch.manual_seed(seed)
    module = AnyWidth(way, heads, d_query, d_value)
    losses = train_on_rings(module, steps=steps, rate=rate, seed=seed)
    below = (losses < 0.1).nonzero().flatten().tolist()
    found = {
        "error": round(losses[-50:].mean().item(), 4),
        "solved": below[0] if below else None,
        "largest": None,
        "right_head": None,
    }
    if way in MISTAKES:
        return found
    with torch.no_grad():
        maps = module.weights(sentence())[1][0]
    places = torch.arange(8)
    right, left = (maps[:, places, (places + step) % 8].sum(1) for step in (1, -1))
    looks = (right > left).nonzero().flatten().tolist()
    found["largest"] = round(maps.max().item(), 3)
    found["right_head"] = looks[0] + 1 if len(looks) == 1 else None
    return found

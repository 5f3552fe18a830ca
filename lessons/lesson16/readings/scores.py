"""Reading D's table of attentions: five ways to score a key for a query (lesson 16).

All map a query state (batch, query_length, d) and keys (batch, key_length, d) to
scores (batch, query_length, key_length), before the softmax. Reading D, "Attention",
lists them by name and goes on with the last; the code is ours.
"""

import math

import torch
from torch import Tensor, nn


class AdditiveScore(nn.Module):
    """vᵀ tanh(W_q q + W_k k): a small network. Bahdanau et al. 2015, appendix A.1.2.

    A matrix for [q; k] side by side is the same as one for each, added.
    """

    def __init__(self, d: int, hidden: int):
        super().__init__()
        self.query = nn.Linear(d, hidden, bias=False)
        self.key = nn.Linear(d, hidden, bias=False)
        self.score = nn.Linear(hidden, 1, bias=False)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        hidden = self.query(query)[:, :, None] + self.key(key)[:, None]
        return self.score(hidden.tanh()).squeeze(-1)


def location_score(query: Tensor, key: Tensor, places: Tensor) -> Tensor:
    """W q: the query alone says which place it wants. Luong et al. 2015, section 3.1.

    places (max_length, d) is W; there may be no more keys than that.
    """
    return (query @ places.T)[:, :, : key.size(1)]


def dot_score(query: Tensor, key: Tensor) -> Tensor:
    """qᵀ k. Luong et al. 2015, section 3.1."""
    return torch.bmm(query, key.transpose(1, 2))


def general_score(query: Tensor, key: Tensor, between: Tensor) -> Tensor:
    """qᵀ W k, W (d, d): a matrix between. Luong et al. 2015, section 3.1."""
    return dot_score(query, key @ between.T)


def scaled_dot_score(query: Tensor, key: Tensor) -> Tensor:
    """qᵀ k / √d. Vaswani et al. 2017, section 3.2.1."""
    return dot_score(query, key) / math.sqrt(query.size(-1))

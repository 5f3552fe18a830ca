"""Sound models that hide something: no name says attention, or a start at zero.

Nothing in the plain GPT is named after what it does, and its attention is no module. In
the other two a matrix of zeros stands before what a check looks at, as in the recipes
of muP and Fixup: until the first step of training, nothing comes through.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from faults.small_decoders import HEADS, LONGEST, WIDTH, SmallGPT, lower
from faults.small_seq2seq import EinsumSeq2Seq


class PlainBlock(nn.Module):
    """Norm last; queries, keys and values are made in the block itself."""

    def __init__(self):
        super().__init__()
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.n1, self.n2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def weigh(self, scores: Tensor) -> Tensor:
        """The weights of the keys, none in the future."""
        seen = lower(scores.size(-1), scores.device)
        return scores.masked_fill(~seen, torch.finfo(scores.dtype).min).softmax(-1)

    def mix(self, x: Tensor) -> Tensor:
        """What the positions before say, (batch, length, features)."""
        parts = (part(x) for part in (self.wq, self.wk, self.wv))
        query, key, value = (
            p.unflatten(-1, (HEADS, -1)).transpose(1, 2) for p in parts
        )
        weights = self.weigh(query @ key.mT / (WIDTH // HEADS) ** 0.5)
        return self.wo((weights @ value).transpose(1, 2).flatten(2))

    def feed(self, x: Tensor) -> Tensor:
        """The feed-forward part."""
        return self.down(F.gelu(self.up(x)))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, features) -> the same shape."""
        x = self.n1(x + self.mix(x))
        return self.n2(x + self.feed(x))


class PlainGPT(nn.Module):
    """A decoder with learned positions."""

    def __init__(self, vocab: int):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.body = nn.ModuleList(PlainBlock() for _ in range(2))
        self.projection = nn.Linear(WIDTH, vocab)

    def begin(self, tokens: Tensor) -> Tensor:
        """ids (batch, length) -> (batch, length, features)."""
        return self.tok(tokens) + self.pos.weight[: tokens.size(1)]

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (batch, length, vocab)."""
        x = self.begin(tokens)
        for block in self.body:
            x = block(x)
        return self.projection(x)


def zero_head(vocab: int) -> nn.Module:
    """The small GPT with an output matrix of its own that starts at zero."""
    model = SmallGPT(vocab)
    model.projection.weight = nn.Parameter(torch.zeros(vocab, WIDTH))
    return model


def zero_start(vocab: int) -> nn.Module:
    """The encoder–decoder of einsums, every sublayer with a last matrix of zeros."""
    model = EinsumSeq2Seq(vocab)
    for layer in (*model.encoder, *model.decoder):
        for part in filter(None, (layer.att, layer.cross_att)):
            nn.init.zeros_(part.output)
        nn.init.zeros_(layer.ff[2].weight)
    return model

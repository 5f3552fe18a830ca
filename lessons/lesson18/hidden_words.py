"""Name a hidden word from both sides, or from one (lesson 18); Devlin et al. 2019."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers import BOS, EOS, PAD
from helpers.batching import pad
from helpers.encoder import Encoder
from helpers.layers import LayerSizes
from helpers.positions import TokenEmbedding, positional_encoding
from lessons.lesson18.one_sequence import toy_pairs, vocabularies

D_MODEL, LONGEST, BATCH, RATE, WARM_UP = 64, 32, 128, 2e-3, 50
SIDES = ("both sides", "what stands before", "what stands behind")


@cache
def sentences(split: str) -> list[list[int]]:
    """The different English sentences of a split: <bos> … . <eos>."""
    different = dict.fromkeys(tuple(s) for s, _ in toy_pairs(split, joint=False))
    return [[BOS, *sentence, EOS] for sentence in different]


class HiddenWordReader(nn.Module):
    """The encoder of 2017, each of whose tokens sees what `sides` says, and itself."""

    def __init__(self, sides: str):
        super().__init__()
        self.sides, self.hidden = sides, len(vocabularies()[0])  # hidden: one more id
        sizes = {"d_model": D_MODEL, "n_heads": 4, "d_ff": 128, "dropout": 0.0}
        self.embedding = TokenEmbedding(self.hidden + 1, D_MODEL)
        self.encoder = Encoder(2, LayerSizes(**sizes, norm_first=True))
        self.projection = nn.Linear(D_MODEL, self.hidden, bias=False)
        table = positional_encoding(LONGEST, D_MODEL)
        self.register_buffer("table", table, persistent=False)

    def forward(self, tokens: Tensor, places: Tensor) -> Tensor:
        """tokens (batch, length), a place to hide in each row -> logits of its word."""
        batch, length = tokens.shape
        rows, all_places = torch.arange(batch), torch.arange(length)
        back = all_places[:, None] - all_places  # (length, length)
        seen = torch.ones_like(back, dtype=torch.bool)
        if self.sides != "both sides":
            seen = back >= 0 if self.sides == "what stands before" else back <= 0
        mask = (seen & (tokens != PAD)[:, None, :]) | (back == 0)
        tokens = tokens.index_put((rows, places), torch.tensor(self.hidden))
        x = self.embedding(tokens) + self.table[:length]
        return self.projection(self.encoder(x, mask[:, None])[rows, places])


def train_reader(sides: str, seed: int, *, steps: int) -> HiddenWordReader:
    """A reader that has named one word in each of steps · BATCH sentences."""
    torch.manual_seed(seed)
    reader, known = HiddenWordReader(sides), sentences("train")
    optimizer = torch.optim.AdamW(reader.parameters(), betas=(0.9, 0.98), fused=True)
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = RATE * min(1, (step + 1) / WARM_UP)
        drawn = torch.randint(len(known), (BATCH,), generator=generator)
        chosen = [known[i] for i in drawn.tolist()]
        words = torch.tensor([len(s) - 3 for s in chosen])  # without BOS, mark and EOS
        places = 1 + (torch.rand(BATCH, generator=generator) * words).long()
        tokens = pad(chosen)
        labels = tokens[torch.arange(BATCH), places]
        optimizer.zero_grad()
        F.cross_entropy(reader(tokens, places), labels).backward()
        optimizer.step()
    return reader.eval()


def each_word(split: str) -> list[tuple[list[int], int]]:
    """Every sentence with the place of each of its words, the mark at its end apart."""
    return [(s, i) for s in sentences(split) for i in range(1, len(s) - 2)]


@torch.no_grad()
def named(reader: HiddenWordReader, asked: Sequence[tuple[list[int], int]]) -> Tensor:
    """The word that a reader finds likeliest at each place."""
    rows, places = zip(*asked, strict=True)
    return reader(pad(rows), torch.tensor(places)).argmax(dim=1)


def counted(
    asked: Sequence[tuple[list[int], int]], neighbours: Sequence[int]
) -> Tensor:
    """The commonest word of the training text between such neighbours; PAD if none.

    neighbours are the offsets of the words to count by: -1 is the word before.
    """
    counts = defaultdict(Counter)
    for row, i in each_word("train"):
        counts[tuple(row[i + j] for j in neighbours)][row[i]] += 1
    found = [counts[tuple(row[i + j] for j in neighbours)] for row, i in asked]
    return torch.tensor([max(c, key=c.get) if c else PAD for c in found])

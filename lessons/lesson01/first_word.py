"""Two questions about the order of words, and a tiny reader of them (lesson 01).

The reader looks at each token by itself and answers from the mean over all tokens, so
all that it can know of the order is what the positions tell it.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

WORDS, LENGTH = 5, 6  # sentences of six tokens, each one of five words
TRAINED, TESTED = 12, 24  # positions of the dog and the man, in training and in tests

Batch = tuple[Tensor, Tensor, Tensor]  # tokens and places (batch, length), answers


class Reader(nn.Module):
    """Reads each token by itself; answers from the mean over the tokens.

    tokens and places (batch, length) -> scores of the answers (batch, n_answers).
    """

    def __init__(self, words: nn.Embedding, positions: nn.Embedding, n_answers: int):
        super().__init__()
        self.words, self.positions = words, positions
        self.hidden = nn.Linear(words.embedding_dim, 128)
        self.answer = nn.Linear(128, n_answers)

    def forward(self, tokens: Tensor, places: Tensor) -> Tensor:
        """The scores of the answers."""
        x = self.words(tokens) + self.positions(places)  # (batch, length, d_model)
        return self.answer(self.hidden(x).relu().mean(dim=1))


def train_reader(
    reader: Reader,
    make_batch: Callable[[], Batch],
    *,
    steps: int = 500,
    rate: float = 3e-3,
) -> Reader:
    """Train a reader with Adam on so many batches, and return it."""
    optimizer = torch.optim.Adam(reader.parameters(), lr=rate)
    for _ in range(steps):
        tokens, places, answers = make_batch()
        loss = F.cross_entropy(reader(tokens, places), answers)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return reader


def first_word() -> Batch:
    """128 random sentences; the answer is the first word."""
    tokens = torch.randint(WORDS, (128, LENGTH))
    return tokens, torch.arange(LENGTH).expand(128, -1), tokens[:, 0]


def all_sentences() -> Tensor:
    """Every sentence that there is, (15625, 6)."""
    return torch.cartesian_prod(*[torch.arange(WORDS)] * LENGTH)


@torch.no_grad()
def right_first_words(reader: Reader) -> int:
    """How many of all 15,625 sentences the reader answers rightly."""
    tokens = all_sentences()
    places = torch.arange(LENGTH).expand(len(tokens), -1)
    return (reader(tokens, places).argmax(dim=1) == tokens[:, 0]).sum().item()


def who_is_first(highest: int = TRAINED) -> Batch:
    """A dog (0) and a man (1) at every pair of places below `highest`.

    The answer is 1 where the dog comes first, else 0.
    """
    places = torch.cartesian_prod(torch.arange(highest), torch.arange(highest))
    places = places[places[:, 0] != places[:, 1]]
    tokens = torch.tensor([[0, 1]]).expand(len(places), 2)
    return tokens, places, (places[:, 0] < places[:, 1]).long()

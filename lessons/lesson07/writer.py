"""A decoder that learns to write numbers in French words (lesson 07)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers import BOS, EOS, PAD
from helpers.decoder import Decoder
from helpers.layers import LayerSizes
from helpers.masks import decoder_mask, padding_mask
from helpers.positions import PositionalEncoding, TokenEmbedding
from helpers.training import fit
from lessons.lesson07.french import WORDS


class NumberWriter(nn.Module):
    """A decoder of two layers that reads digits as its memory and writes words.

    mask_of(target) is the mask of its self-attention.
    """

    def __init__(self, mask_of: Callable = decoder_mask):
        super().__init__()
        sizes = LayerSizes(d_model=64, n_heads=4, d_ff=128, dropout=0, norm_first=False)
        self.digits = TokenEmbedding(4 + 10, 64)
        self.words = TokenEmbedding(len(WORDS), 64)
        self.positions = PositionalEncoding(64, dropout=0, max_length=16)
        self.decoder = Decoder(2, sizes)
        self.projection = nn.Linear(64, len(WORDS))
        self.mask_of = mask_of

    def encode(self, source: Tensor) -> Tensor:
        """source (batch, digits) -> memory (batch, digits, 64)."""
        return self.positions(self.digits(source))

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """States (batch, target_length, 64); source says where the padding is."""
        x = self.positions(self.words(target))
        return self.decoder(x, memory, self.mask_of(target), padding_mask(source))

    def project(self, states: Tensor) -> Tensor:
        """States (…, 64) -> a logit for each word."""
        return self.projection(states)

    def forward(self, source: Tensor, read: Tensor) -> Tensor:
        """Logits (batch, length, words) after each word that is read."""
        return self.project(self.decode(read, self.encode(source), source))


def next_word_loss(logits: Tensor, say: Tensor) -> Tensor:
    """The mean cross-entropy over all words to say, padding left out."""
    return F.cross_entropy(logits.transpose(1, 2), say, ignore_index=PAD)


def train_writer(writer: nn.Module, data: tuple, *, steps: int = 300) -> nn.Module:
    """Train on batches of 64 rows of data: source, read, say."""

    def some_rows() -> list[Tensor]:
        rows = torch.randint(len(data[0]), (64,))
        return [part[rows] for part in data]

    fit(writer.train(), some_rows, next_word_loss, steps=steps, rate=3e-3)
    return writer.eval()


@torch.no_grad()
def greedy_decode(model: nn.Module, source: Tensor, *, max_length: int) -> Tensor:
    """Write the most probable token, until each row has EOS, or max_length tokens.

    source (batch, source_length) -> ids (batch, at most max_length) without BOS;
    behind its EOS, a row holds PAD. The model has encode, decode and project.
    """
    memory = model.encode(source)
    written = source.new_full((len(source), 1), BOS)
    finished = torch.zeros_like(source[:, 0], dtype=torch.bool)
    for _ in range(max_length):
        states = model.decode(written, memory, source)
        logits = model.project(states[:, -1])  # (batch, words)
        token = logits.argmax(dim=-1).masked_fill(finished, PAD)
        written = torch.cat([written, token[:, None]], dim=1)
        finished = finished | (token == EOS)
        if finished.all():
            break
    return written[:, 1:]


@torch.no_grad()
def give_initial_weights(writer: nn.Module, seed: int) -> None:
    """Set the writer's weights to those that the course's has with this seed."""
    torch.manual_seed(seed)
    weights = dict(NumberWriter().named_parameters())
    for name, weight in writer.named_parameters():
        weight.copy_(weights[name])

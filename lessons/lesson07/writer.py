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
from helpers.runtime import best_device
from lessons.lesson07.french import WORDS


class NumberWriter(nn.Module):
    """A decoder of two layers that reads digits as its memory and writes words."""

    def __init__(self, mask_of: Callable = decoder_mask):
        super().__init__()
        sizes = LayerSizes(d_model=64, n_heads=4, d_ff=128, dropout=0, norm_first=False)
        self.digits = TokenEmbedding(4 + 10, 64)
        self.words = TokenEmbedding(len(WORDS), 64)
        self.positions = PositionalEncoding(64, dropout=0, max_length=16)
        self.decoder = Decoder(2, sizes)
        self.projection = nn.Linear(64, len(WORDS))
        self.mask_of = mask_of

    def forward(self, source: Tensor, read: Tensor) -> Tensor:
        """source (batch, digits), read (batch, length) -> (batch, length, words)."""
        memory = self.positions(self.digits(source))
        x = self.positions(self.words(read))
        masks = self.mask_of(read), padding_mask(source)
        return self.projection(self.decoder(x, memory, *masks))


def next_word_loss(writer: NumberWriter, data: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """The mean cross-entropy over all words to say, padding left out."""
    source, read, say = data
    logits = writer(source, read).transpose(1, 2)  # (batch, words, length)
    return F.cross_entropy(logits, say, ignore_index=PAD)


def train_writer(
    writer: NumberWriter,
    data: tuple[Tensor, Tensor, Tensor],
    *,
    steps: int = 300,
) -> Tensor:
    """Train on (source, read, say). The loss (steps,)."""
    device, losses = best_device(), []
    writer.to(device).train()
    optimizer = torch.optim.Adam(writer.parameters(), lr=3e-3)
    for _ in range(steps):
        rows = torch.randint(len(data[0]), (64,))
        loss = next_word_loss(writer, [part[rows].to(device) for part in data])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    writer.cpu().eval()
    return torch.tensor(losses)


@torch.no_grad()
def write_words(
    logits_of: Callable[[Tensor, Tensor], Tensor],
    source: Tensor,
    *,
    start: Tensor | None = None,
    steps: int = 8,
) -> Tensor:
    """Add the most probable word to `start` until every row has said <eos>.

    logits_of(source, read) is a NumberWriter or the like; `start` is <bos>, if not
    given. Returns the new ids, (batch, at most steps): PAD behind <eos>.
    """
    read = source.new_full((len(source), 1), BOS) if start is None else start
    begun, finished = read.size(1), torch.zeros_like(source[:, 0], dtype=torch.bool)
    for _ in range(steps):
        word = logits_of(source, read)[:, -1].argmax(dim=-1)  # (batch,)
        word = word.masked_fill(finished, PAD)
        read = torch.cat([read, word[:, None]], dim=1)
        finished = finished | (word == EOS)
        if finished.all():
            break
    return read[:, begun:]

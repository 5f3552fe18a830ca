"""Token embeddings and sinusoidal positions (lesson 01)."""

import math

import torch
from torch import Tensor, nn


def positional_encoding(length: int, d_model: int) -> Tensor:
    """Sinusoids of geometrically growing wavelength, from 2π towards 10000·2π.

    Returns (length, d_model): sine in the even features, cosine in the odd ones.
    Vaswani et al. 2017, section 3.5. ValueError if d_model is odd.
    """
    if d_model % 2:
        raise ValueError(f"d_model must be even to pair sines with cosines: {d_model}")
    position = torch.arange(length, dtype=torch.float64)[:, None]
    exponent = torch.arange(0, d_model, 2, dtype=torch.float64) / d_model
    angle = position / 10000**exponent  # (length, d_model / 2)
    # Stacking the pair last and flattening puts sine and cosine side by side.
    table = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
    return table.to(torch.get_default_dtype())


class TokenEmbedding(nn.Embedding):
    """A vector per token id, scaled by √d_model.

    Vaswani et al. 2017, section 3.4. ValueError for an id outside the vocabulary.
    """

    def __init__(self, vocab_size: int, d_model: int):
        super().__init__(vocab_size, d_model)
        # Times √d_model a standard deviation of 1, beside sinusoids of size 0.71.
        nn.init.normal_(self.weight, std=d_model**-0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        """ids (batch, length) -> (batch, length, d_model)."""
        vocab_size, d_model = self.weight.shape
        try:
            embedded = super().forward(tokens)  # (batch, length, d_model)
        except IndexError:  # a CPU's; a GPU stops with an assertion of its own
            outside = tokens[(tokens < 0) | (tokens >= vocab_size)]
            raise ValueError(
                f"token id {outside[0]} is outside the vocabulary of {vocab_size} "
                f"(ids 0 to {vocab_size - 1})"
            ) from None
        return embedded * math.sqrt(d_model)


class PositionalEncoding(nn.Module):
    """Add each position's sinusoids to its embedding, then apply dropout.

    Vaswani et al. 2017, sections 3.5 and 5.4. ValueError past max_length.
    """

    def __init__(self, d_model: int, *, dropout: float, max_length: int):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        # A buffer follows the model to its device and dtype; it is made from the sizes
        # alone, so a checkpoint need not hold it.
        table = positional_encoding(max_length, d_model)
        self.register_buffer("table", table, persistent=False)

    def forward(self, embedded: Tensor, *, start: int = 0) -> Tensor:
        """(batch, length, d_model) -> the same shape.

        `start` is the first one's position, above 0 for a token decoded after others.
        """
        length, max_length = embedded.size(1), self.table.size(0)
        end = start + length
        if end > max_length:
            raise ValueError(
                f"the sequence is {end} tokens long, the positional table {max_length}"
            )
        return self.dropout(embedded + self.table[start:end])

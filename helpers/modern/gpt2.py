"""GPT-2: modules of 2017, norm first, with a GELU and learned places (lesson 18)."""

from torch import Tensor, nn
from torch.nn import functional as F

from helpers.attention import MultiHeadAttention
from helpers.caching import AttentionCache
from helpers.layers import LayerNorm
from helpers.modern.language_model import LanguageModel, LanguageModelConfig


class GPT2Block(nn.Module):
    """Multi-head attention, then a network with a GELU, each on the norm of the stream.

    Radford et al. 2019, section 2.3. The GELU is the approximation by a tanh
    (Hendrycks and Gimpel 2016, section 2), as in their code.
    """

    def __init__(self, d_model: int, n_heads: int, d_ff: int):
        super().__init__()
        self.attention_norm = LayerNorm(d_model)
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.feed_forward_norm = LayerNorm(d_model)
        self.expand = nn.Linear(d_model, d_ff)
        self.contract = nn.Linear(d_ff, d_model)

    def forward(
        self,
        x: Tensor,
        angles: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        cache: AttentionCache | None = None,
    ) -> Tensor:
        """x (batch, length, d_model) -> the same shape; nothing is turned by angles."""
        y = self.attention_norm(x)
        keys, values = self.attention.project(y, y)
        if cache is not None:
            keys, values = cache.extend(keys, values)
        x = x + self.attention.attend(y, keys, values, mask)
        y = self.feed_forward_norm(x)
        return x + self.contract(F.gelu(self.expand(y), approximate="tanh"))


class GPT2(LanguageModel):
    """A LanguageModel of GPT2Blocks; a learned vector a place is added to the token's.

    One matrix embeds and projects. Radford et al. 2018, 3.1 and 4.1; 2019, section 2.3.
    """

    def __init__(self, config: LanguageModelConfig):
        super().__init__(config)
        sizes = config.d_model, config.n_heads, config.d_ff
        self.blocks = nn.ModuleList(GPT2Block(*sizes) for _ in range(config.n_layers))
        self.norm = LayerNorm(config.d_model)
        self.position_embedding = nn.Embedding(config.max_length, config.d_model)
        self.projection.weight = self.embedding.weight
        self.initialise()

    def embed(self, tokens: Tensor, places: Tensor) -> Tensor:
        """The token's vector and its place's."""
        return self.embedding(tokens) + self.position_embedding(places)

"""A decoder-only language model: from all tokens so far to the next one (lesson 18)."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from helpers.caching import AttentionCache
from helpers.masks import causal_mask
from helpers.modern.block import ModernBlock
from helpers.modern.norm import RMSNorm
from helpers.modern.rotary import rotary_angles
from helpers.transformer import check_tokens


@dataclass(frozen=True)
class LanguageModelConfig:
    """Sizes of a language model. ValueError for one below 1."""

    vocab_size: int
    d_model: int = 64
    n_heads: int = 4
    n_kv_heads: int = 4
    d_ff: int = 172
    n_layers: int = 4
    max_length: int = 128
    rotary_base: float = 10_000.0

    def __post_init__(self):
        for name, size in vars(self).items():
            if size < 1:
                raise ValueError(f"{name} must be at least 1: {size}")


class LanguageModel(nn.Module):
    """Blocks of today between an embedding and a projection: Llama's wiring.

    Touvron et al. 2023a, section 2.2. All matrices start small, as those of the first
    GPT: Radford et al. 2018, section 4.1.
    """

    def __init__(self, config: LanguageModelConfig):
        super().__init__()
        self.config, d_model = config, config.d_model
        heads = config.n_heads, config.n_kv_heads
        self.embedding = nn.Embedding(config.vocab_size, d_model)
        self.blocks = nn.ModuleList(
            ModernBlock(d_model, *heads, config.d_ff) for _ in range(config.n_layers)
        )
        self.norm = RMSNorm(d_model)
        self.projection = nn.Linear(d_model, config.vocab_size, bias=False)
        d_head, base = d_model // config.n_heads, config.rotary_base
        angles = rotary_angles(config.max_length, d_head, base=base)
        self.register_buffer("angles", angles, persistent=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(
        self, tokens: Tensor, caches: Sequence[AttentionCache] | None = None
    ) -> Tensor:
        """tokens (batch, length) -> logits of the next, (batch, length, vocab_size).

        Caches, one a block, hold earlier tokens and take up these. ValueError if tokens
        are no ids, or with the earlier ones more than config.max_length.
        """
        check_tokens(tokens, "tokens")
        start = len(caches[0]) if caches else 0  # so many are in the caches
        end, longest = start + tokens.size(1), self.config.max_length
        if end > longest:
            text = f"the sequence is {end} tokens long, at most {longest} fit"
            raise ValueError(text)
        mask = causal_mask(end, device=tokens.device)[:, :, start:]  # rows: the new
        x = self.embedding(tokens)  # (batch, length, d_model)
        kept = caches or [None] * len(self.blocks)
        for block, cache in zip(self.blocks, kept, strict=True):
            x = block(x, self.angles[start:end], mask, cache=cache)
        return self.projection(self.norm(x))

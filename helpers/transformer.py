"""The whole model: embeddings, encoder, decoder, projection (lesson 08)."""

from dataclasses import dataclass, fields

from torch import Tensor, nn

from helpers.decoder import Decoder, LayerCache
from helpers.encoder import Encoder
from helpers.masks import causal_mask, decoder_mask, padding_mask
from helpers.positions import PositionalEncoding, TokenEmbedding


@dataclass(frozen=True)
class TransformerConfig:
    """Sizes of a Transformer; the defaults are the paper's base model.

    ValueError for sizes that do not fit each other. Vaswani et al. 2017, table 3.
    """

    source_vocab: int
    target_vocab: int
    d_model: int = 512
    n_heads: int = 8
    d_ff: int = 2048
    n_layers: int = 6
    dropout: float = 0.1
    norm_first: bool = False
    share_embeddings: bool = True
    max_length: int = 1024

    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type is int and value < 1:
                raise ValueError(f"{field.name} must be at least 1: {value}")
        if self.d_model % self.n_heads:
            raise ValueError(
                f"d_model={self.d_model} is not divisible by n_heads={self.n_heads}"
            )
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must lie in [0, 1): {self.dropout}")
        if self.share_embeddings and self.source_vocab != self.target_vocab:
            raise ValueError(
                "share_embeddings needs one vocabulary for both sides: "
                f"source_vocab={self.source_vocab}, target_vocab={self.target_vocab}"
            )

    @classmethod
    def base(cls, vocab_size: int = 37_000, **changes) -> "TransformerConfig":
        """The paper's base model, 65M parameters by its table 3."""
        return cls(vocab_size, vocab_size, **changes)

    @classmethod
    def big(cls, vocab_size: int = 37_000, **changes) -> "TransformerConfig":
        """The paper's big model, 213M by its table 3; its dropout is 0.3."""
        big = {"d_model": 1024, "n_heads": 16, "d_ff": 4096, "dropout": 0.3}
        return cls(vocab_size, vocab_size, **{**big, **changes})


class Transformer(nn.Module):
    """The encoder–decoder of the paper: token ids in, logits out.

    forward(source (batch, source_length), target (batch, target_length)) gives
    (batch, target_length, target_vocab): at each position the scores of the *next*
    token. The masks follow from PAD. Vaswani et al. 2017, section 3.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        d_model = config.d_model
        stack = (config.n_layers, d_model, config.n_heads, config.d_ff)
        options = {"dropout": config.dropout, "norm_first": config.norm_first}
        self.source_embedding = TokenEmbedding(config.source_vocab, d_model)
        self.target_embedding = TokenEmbedding(config.target_vocab, d_model)
        self.positions = PositionalEncoding(
            d_model, dropout=config.dropout, max_length=config.max_length
        )
        self.encoder = Encoder(*stack, **options)
        self.decoder = Decoder(*stack, **options)
        self.projection = nn.Linear(d_model, config.target_vocab, bias=False)
        self.initialise()
        if config.share_embeddings:  # one matrix in three places, section 3.4
            self.target_embedding = self.source_embedding
            self.projection.weight = self.source_embedding.weight

    def initialise(self) -> None:
        """Xavier's uniform initialisation for the layers' matrices, zero biases.

        A projection of its own starts small: then all logits are nearly equal and the
        first loss is the logarithm of the vocabulary's size. A shared one starts as the
        embeddings do.
        """
        nn.init.normal_(self.projection.weight, std=0.02)
        for module in (*self.encoder.modules(), *self.decoder.modules()):
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.project(self.decode(target, self.encode(source), source))

    def encode(self, source: Tensor) -> Tensor:
        """source (batch, source_length) -> memory (batch, source_length, d_model)."""
        check_tokens(source, "source")
        x = self.positions(self.source_embedding(source))
        return self.encoder(x, padding_mask(source))

    def decode(
        self,
        target: Tensor,
        memory: Tensor,
        source: Tensor,
        *,
        caches: list[LayerCache] | None = None,
    ) -> Tensor:
        """States (batch, target_length, d_model) for `project`.

        `source` gives the padding of the memory. With caches (see `new_caches`), target
        holds only the tokens that follow those already decoded.
        """
        check_tokens(target, "target")
        start = len(caches[0].self_attention) if caches else 0
        x = self.positions(self.target_embedding(target), start=start)
        if start == 0:
            mask = decoder_mask(target)
        else:  # all that is cached lies in the past
            length = start + target.size(1)
            mask = causal_mask(length, device=target.device)[:, :, start:]
        return self.decoder(x, memory, mask, padding_mask(source), caches=caches)

    def project(self, states: Tensor) -> Tensor:
        """States (…, d_model) -> logits (…, target_vocab)."""
        return self.projection(states)

    def new_caches(self) -> list[LayerCache]:
        """Empty caches for one batch of sources, one a decoder layer."""
        return [LayerCache() for _ in self.decoder.layers]


def check_tokens(tokens: Tensor, name: str) -> None:
    """ValueError unless tokens is a non-empty (batch, length) of integer ids."""
    if tokens.dim() != 2 or 0 in tokens.shape:
        raise ValueError(
            f"{name} must be a non-empty (batch, length), not {tuple(tokens.shape)}"
        )
    if tokens.is_floating_point() or tokens.is_complex():
        raise ValueError(f"{name} must hold integer ids, not {tokens.dtype}")

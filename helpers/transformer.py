"""The whole model: embeddings, encoder, decoder, projection (lesson 08)."""

from dataclasses import dataclass

from torch import Tensor, nn

from helpers.decoder import Decoder
from helpers.encoder import Encoder
from helpers.layers import LayerSizes
from helpers.masks import decoder_mask, padding_mask
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
        for name in ("source_vocab", "target_vocab", "n_layers", "max_length"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1: {getattr(self, name)}")
        self.layer_sizes()  # checks the others
        if self.share_embeddings and self.source_vocab != self.target_vocab:
            raise ValueError(
                "share_embeddings needs one vocabulary for both sides: "
                f"source_vocab={self.source_vocab}, target_vocab={self.target_vocab}"
            )

    def layer_sizes(self) -> LayerSizes:
        """What every layer of both stacks is built from."""
        return LayerSizes(
            d_model=self.d_model,
            n_heads=self.n_heads,
            d_ff=self.d_ff,
            dropout=self.dropout,
            norm_first=self.norm_first,
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

    The masks follow from PAD. Vaswani et al. 2017, section 3.
    ValueError for tokens that are not ids (batch, length) of the vocabulary.
    """

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        d_model, n_layers = config.d_model, config.n_layers
        self.source_embedding = TokenEmbedding(config.source_vocab, d_model)
        self.target_embedding = TokenEmbedding(config.target_vocab, d_model)
        self.positions = PositionalEncoding(
            d_model, dropout=config.dropout, max_length=config.max_length
        )
        self.encoder = Encoder(n_layers, config.layer_sizes())
        self.decoder = Decoder(n_layers, config.layer_sizes())
        self.projection = nn.Linear(d_model, config.target_vocab, bias=False)
        self.initialise()
        if config.share_embeddings:  # one matrix in three places, section 3.4
            self.target_embedding = self.source_embedding
            self.projection.weight = self.source_embedding.weight

    def initialise(self) -> None:
        """Xavier's uniform initialisation for the layers' matrices, zero biases.

        Embeddings have drawn their own numbers, of the size that their scale wants. A
        projection of its own starts small: then all logits are nearly equal and the
        first loss is the logarithm of the vocabulary's size. A shared one starts as the
        embeddings do.
        """
        nn.init.normal_(self.projection.weight, std=0.02)
        for module in (*self.encoder.modules(), *self.decoder.modules()):
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Scores of the *next* token, (batch, target_length, target_vocab).

        source (batch, source_length), target (batch, target_length).
        """
        memory = self.encode(source)  # (batch, source_length, d_model)
        states = self.decode(target, memory, source)  # (batch, target_length, d_model)
        return self.project(states)  # (batch, target_length, target_vocab)

    def encode(self, source: Tensor) -> Tensor:
        """source (batch, source_length) -> memory (batch, source_length, d_model)."""
        check_tokens(source, "source")
        x = self.positions(self.source_embedding(source))
        return self.encoder(x, padding_mask(source))

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """States (batch, target_length, d_model) for `project`.

        `source` (batch, source_length) says which places of the memory are padding.
        """
        check_tokens(target, "target")
        x = self.positions(self.target_embedding(target))
        return self.decoder(x, memory, decoder_mask(target), padding_mask(source))

    def project(self, states: Tensor) -> Tensor:
        """States (…, d_model) -> logits (…, target_vocab)."""
        return self.projection(states)


def check_tokens(tokens: Tensor, name: str) -> None:
    """ValueError unless tokens is a non-empty (batch, length) of integer ids."""
    if tokens.dim() != 2 or 0 in tokens.shape:
        raise ValueError(
            f"{name} must be a non-empty (batch, length), not {tuple(tokens.shape)}"
        )
    if tokens.is_floating_point() or tokens.is_complex():
        raise ValueError(f"{name} must hold integer ids, not {tokens.dtype}")

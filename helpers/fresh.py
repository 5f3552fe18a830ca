"""Changes of a fresh Transformer: what do its first logits come from (lesson 08)?"""

from torch import nn
from torch.nn import functional as F

from helpers.layers import Residual
from helpers.transformer import Transformer


def no_residual(model: Transformer) -> None:
    """A decoder's sublayer replaces the stream, instead of adding to it."""
    for module in model.decoder.modules():
        if isinstance(module, Residual):
            norm, first = module.norm, module.norm_first
            module.forward = lambda x, f, n=norm, first=first: (
                f(n(x)) if first else n(f(x))
            )


def no_positions(model: Transformer) -> None:
    """Embeddings without their positions."""
    model.positions = nn.Identity()


def no_factor(model: Transformer) -> None:
    """Embeddings without the factor √d_model."""
    for embedding in (model.source_embedding, model.target_embedding):
        weight = embedding.weight
        embedding.forward = lambda ids, weight=weight: F.embedding(ids, weight)


def the_row_alone(model: Transformer) -> None:
    """Neither positions nor sublayers: only the row is in the decoder's stream."""
    no_positions(model)
    for module in model.decoder.modules():
        if isinstance(module, Residual):
            module.forward = lambda x, f: x

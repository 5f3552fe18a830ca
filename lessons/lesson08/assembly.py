"""A whole Transformer: initial weights, loss, faulty models, and size (lesson 08)."""

import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers import PAD
from helpers.batching import Batch
from helpers.interop.pytorch import copy_stack
from helpers.masks import decoder_mask, padding_mask
from helpers.transformer import Transformer, TransformerConfig


@torch.no_grad()
def give_initial_weights(model: nn.Module, seed: int) -> None:
    """Set a model's weights to those that the course's has with this seed."""
    torch.manual_seed(seed)
    weights = dict(Transformer(model.config).named_parameters())
    for name, weight in model.named_parameters():
        weight.copy_(weights[name])


def pytorchs_model(model: Transformer) -> nn.Transformer:
    """PyTorch's with the weights of the model's stacks, without dropout.

    What PyTorch says of a fast path that it does not take is left out.
    """
    c = model.config
    shape = c.d_model, c.n_heads, c.n_layers, c.n_layers, c.d_ff
    options = {"norm_first": c.norm_first, "batch_first": True, "dropout": 0.0}
    with warnings.catch_warnings(action="ignore"):
        theirs = nn.Transformer(*shape, **options)
    copy_stack(model.encoder, theirs.encoder)
    copy_stack(model.decoder, theirs.decoder)
    return theirs


def mean_loss(model: nn.Module, batch: Batch) -> Tensor:
    """The mean of −ln p of the true next tokens, padding left out."""
    logits = model(batch.source, batch.decoder_input).flatten(0, 1)
    return F.cross_entropy(logits, batch.labels.flatten(), ignore_index=PAD)


def _with_masks(model: nn.Module, own: Callable, across: Callable) -> None:
    """Give the decoder these two masks, made of the target and of the source."""

    def forward(source: Tensor, target: Tensor) -> Tensor:
        x = model.positions(model.target_embedding(target))
        memory = model.encode(source)
        return model.project(model.decoder(x, memory, own(target), across(source)))

    model.forward = forward


def sees_the_future(model: nn.Module) -> None:
    """The decoder's own mask hides padding alone."""
    _with_masks(model, padding_mask, padding_mask)


def sees_padding(model: nn.Module) -> None:
    """The cross-attention has no mask."""
    _with_masks(model, decoder_mask, lambda source: None)


def softmax_twice(model: nn.Module) -> None:
    """It gives probabilities, which the loss takes for logits."""
    whole = model.forward
    model.forward = lambda source, target: whole(source, target).softmax(dim=-1)


def large_projection(model: nn.Module) -> None:
    """The projection's initial weights have a standard deviation of 1."""
    nn.init.normal_(model.projection.weight)


def no_positions(model: nn.Module) -> None:
    """The embeddings have no positions."""
    model.positions = nn.Identity()


# The five models of exercise 08.2: each function breaks a sound model.
FAULTY: dict[str, Callable[[nn.Module], None]] = {
    "A": large_projection,
    "B": sees_padding,
    "C": no_positions,
    "D": softmax_twice,
    "E": sees_the_future,
}


def parameters(config: TransformerConfig) -> dict[str, int]:
    """How many parameters each component has, from the sizes alone."""
    d, d_ff, layers = config.d_model, config.d_ff, config.n_layers
    attention = layers * 4 * (d * d + d)
    feed_forward = layers * (d * d_ff + d_ff + d_ff * d + d)
    rows, norms = config.target_vocab, 5 * layers
    if not config.share_embeddings:
        rows = config.source_vocab + 2 * config.target_vocab
    if config.norm_first:  # one more at the end of each stack
        norms += 2
    return {
        "token vectors": rows * d,
        "encoder self-attention": attention,
        "decoder self-attention": attention,
        "cross-attention": attention,
        "encoder feed-forward": feed_forward,
        "decoder feed-forward": feed_forward,
        "norms": norms * 2 * d,
    }


def count_parameters(config: TransformerConfig) -> int:
    """How many parameters a Transformer of this configuration has."""
    return sum(parameters(config).values())

"""Copy weights between the course's modules and PyTorch's, to compare the outputs.

Lesson 04 shows how for multi-head attention, lesson 06 for layers and stacks.
"""

import torch
from torch import nn

from helpers.attention import MultiHeadAttention
from helpers.layers import FeedForward, LayerNorm


@torch.no_grad()
def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    """PyTorch stacks the projections of query, key and value into one matrix."""
    parts = (ours.query_projection, ours.key_projection, ours.value_projection)
    theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
    theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
    theirs.out_proj.load_state_dict(ours.output_projection.state_dict())


@torch.no_grad()
def copy_norm(ours: LayerNorm, theirs: nn.LayerNorm) -> None:
    """PyTorch calls the gain weight."""
    theirs.weight.copy_(ours.gain)
    theirs.bias.copy_(ours.bias)


def copy_feed_forward(ours: FeedForward, layer: nn.Module) -> None:
    """PyTorch's layers hold the two matrices of the network themselves."""
    layer.linear1.load_state_dict(ours.expand.state_dict())
    layer.linear2.load_state_dict(ours.contract.state_dict())


def copy_layer(ours: nn.Module, theirs: nn.Module) -> None:
    """An EncoderLayer or DecoderLayer into PyTorch's."""
    copy_attention(ours.self_attention, theirs.self_attn)
    if hasattr(ours, "cross_attention"):
        copy_attention(ours.cross_attention, theirs.multihead_attn)
    copy_feed_forward(ours.feed_forward, theirs)
    for i, residual in enumerate(ours.residuals, start=1):
        copy_norm(residual.norm, getattr(theirs, f"norm{i}"))


def copy_stack(ours: nn.Module, theirs: nn.Module) -> None:
    """An Encoder or Decoder into PyTorch's.

    nn.Transformer always ends its stacks with a norm; the paper's norm-last layers
    already end with one, so there it is taken away.
    """
    for our_layer, their_layer in zip(ours.layers, theirs.layers, strict=True):
        copy_layer(our_layer, their_layer)
    if isinstance(ours.norm, LayerNorm):
        copy_norm(ours.norm, theirs.norm)
    else:
        theirs.norm = None


@torch.no_grad()
def copy_linear(theirs: nn.Module, ours: nn.Linear) -> None:
    """A linear layer, or a convolution of width 1, whose weight has one axis more.

    A bias that only one of them has is zero, or left out.
    """
    ours.weight.copy_(theirs.weight.view_as(ours.weight))
    if ours.bias is not None and theirs.bias is None:
        ours.bias.zero_()
    elif ours.bias is not None:
        ours.bias.copy_(theirs.bias)


@torch.no_grad()
def copy_layer_norm(theirs: nn.LayerNorm, ours: LayerNorm) -> None:
    """PyTorch's norm over the features."""
    ours.gain.copy_(theirs.weight)
    ours.bias.copy_(theirs.bias)
    ours.eps = theirs.eps

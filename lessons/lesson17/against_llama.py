"""Hugging Face's Llama layer at random, and ways to misread it (lesson 17).

Each misreading changes a block of 8 heads of 8 features.
"""

import torch
from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.models.llama import modeling_llama

from helpers.layers import LayerNorm
from helpers.masks import causal_mask
from helpers.modern.block import ModernBlock

EVENS_FIRST = [0, 2, 4, 6, 1, 3, 5, 7]


def random_layer(config: LlamaConfig, spread: float) -> nn.Module:
    """A LlamaDecoderLayer; the gains of its norms are spread around 1."""
    torch.manual_seed(0)
    config._attn_implementation = "eager"
    layer = modeling_llama.LlamaDecoderLayer(config, layer_idx=0).eval()
    for norm in (layer.input_layernorm, layer.post_attention_layernorm):
        nn.init.normal_(norm.weight, mean=1.0, std=spread)
    return layer


@torch.no_grad()
def layer_output(layer: nn.Module, config: LlamaConfig, x: Tensor) -> Tensor:
    """What the layer makes of x (batch, length, d_model), the future hidden."""
    n = x.size(1)
    turn = modeling_llama.LlamaRotaryEmbedding(config)
    hidden = torch.zeros(n, n).masked_fill(~causal_mask(n)[0, 0], -torch.inf)
    places = turn(x, torch.arange(n)[None])
    return layer(x, attention_mask=hidden, position_embeddings=places)


@torch.no_grad()
def pair_neighbours(block: ModernBlock) -> None:
    """Rotate features 2i and 2i + 1 together: sort the rows of each head."""
    heads = block.attention
    for projection in (heads.query_projection, heads.key_projection):
        rows = projection.weight.unflatten(0, (-1, 8))  # (heads, d_head, d_model)
        projection.weight.copy_(rows[:, EVENS_FIRST].flatten(0, 1))


@torch.no_grad()
def share_in_turns(block: ModernBlock) -> None:
    """Let query heads 0, 2, 4, 6 share the first head of keys: sort the heads."""
    query, output = block.attention.query_projection, block.attention.output_projection
    rows = query.weight.unflatten(0, (8, -1))  # (heads, d_head, d_model)
    query.weight.copy_(rows[EVENS_FIRST].flatten(0, 1))
    columns = output.weight.unflatten(1, (8, -1))  # (d_model, heads, d_head)
    output.weight.copy_(columns[:, EVENS_FIRST].flatten(1))


def swap_gate(block: ModernBlock) -> None:
    """Take the one matrix of SwiGLU for the other."""
    network = block.feed_forward
    network.gate, network.expand = network.expand, network.gate


def subtract_the_mean(block: ModernBlock) -> None:
    """Take the first norm for a LayerNorm."""
    norm = LayerNorm(64)
    norm.gain = block.attention_norm.gain
    block.attention_norm = norm


def forget_gains(block: ModernBlock) -> None:
    """Leave out the gains of both norms."""
    for norm in (block.attention_norm, block.feed_forward_norm):
        nn.init.ones_(norm.gain)


def leave_epsilon(block: ModernBlock) -> None:
    """Do not read the setting ε: leave our RMSNorm's in both norms."""
    block.attention_norm.eps = block.feed_forward_norm.eps = 1e-5


DAMAGE = {
    "neighbours paired": pair_neighbours,
    "heads shared in turns": share_in_turns,
    "gate and expand swapped": swap_gate,
    "LayerNorm": subtract_the_mean,
    "gains forgotten": forget_gains,
    "ε not read": leave_epsilon,
}

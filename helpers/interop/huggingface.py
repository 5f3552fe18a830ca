"""Copy Hugging Face's weights into the course's modules, to compare (lessons 17, 18).

Nothing is downloaded: their layers are built from a configuration, at random.
"""

import torch
from torch import nn

from helpers.interop.pytorch import copy_layer_norm, copy_linear
from helpers.modern.block import ModernBlock
from helpers.modern.gpt2 import GPT2, GPT2Block
from helpers.modern.language_model import LanguageModel, LanguageModelConfig
from helpers.modern.norm import RMSNorm


def copy_rms_norm(theirs: nn.Module, ours: RMSNorm) -> None:
    """Hugging Face calls the gain weight, and eps variance_epsilon."""
    ours.gain.data.copy_(theirs.weight.data)
    ours.eps = theirs.variance_epsilon


def copy_llama_layer(theirs: nn.Module, ours: ModernBlock) -> None:
    """A LlamaDecoderLayer into a ModernBlock of the same sizes."""
    copy_rms_norm(theirs.input_layernorm, ours.attention_norm)
    copy_rms_norm(theirs.post_attention_layernorm, ours.feed_forward_norm)
    attention, network = theirs.self_attn, theirs.mlp
    for their_linear, our_linear in (
        (attention.q_proj, ours.attention.query_projection),
        (attention.k_proj, ours.attention.key_projection),
        (attention.v_proj, ours.attention.value_projection),
        (attention.o_proj, ours.attention.output_projection),
        (network.gate_proj, ours.feed_forward.gate),
        (network.up_proj, ours.feed_forward.expand),
        (network.down_proj, ours.feed_forward.contract),
    ):
        copy_linear(their_linear, our_linear)


@torch.no_grad()
def language_model_from_llama(theirs: nn.Module) -> LanguageModel:
    """A LanguageModel with the sizes and weights of a LlamaForCausalLM."""
    sizes = theirs.config
    config = LanguageModelConfig(
        vocab_size=sizes.vocab_size,
        d_model=sizes.hidden_size,
        n_heads=sizes.num_attention_heads,
        n_kv_heads=sizes.num_key_value_heads,
        d_ff=sizes.intermediate_size,
        n_layers=sizes.num_hidden_layers,
        max_length=sizes.max_position_embeddings,
        rotary_base=sizes.rope_parameters["rope_theta"],
    )
    ours = LanguageModel(config)
    ours.embedding.weight.copy_(theirs.model.embed_tokens.weight)
    for their_layer, block in zip(theirs.model.layers, ours.blocks, strict=True):
        copy_llama_layer(their_layer, block)
    copy_rms_norm(theirs.model.norm, ours.norm)
    copy_linear(theirs.lm_head, ours.projection)
    return ours.eval()


@torch.no_grad()
def gpt2_from(theirs: nn.Module) -> GPT2:
    """A GPT2 with the sizes and weights of a GPT2LMHeadModel."""
    sizes, body = theirs.config, theirs.transformer
    config = LanguageModelConfig(
        vocab_size=sizes.vocab_size,
        d_model=sizes.n_embd,
        n_heads=sizes.n_head,
        n_kv_heads=sizes.n_head,
        d_ff=sizes.n_inner or 4 * sizes.n_embd,
        n_layers=sizes.n_layer,
        max_length=sizes.n_positions,
    )
    ours = GPT2(config)
    ours.embedding.weight.copy_(body.wte.weight)
    ours.position_embedding.weight.copy_(body.wpe.weight)
    for their_layer, block in zip(body.h, ours.blocks, strict=True):
        copy_gpt2_layer(their_layer, block)
    copy_layer_norm(body.ln_f, ours.norm)
    return ours.eval()


@torch.no_grad()
def copy_gpt2_layer(theirs: nn.Module, ours: GPT2Block) -> None:
    """A GPT2Block of theirs: Conv1D, whose weight is (in, out); q, k and v in one."""
    copy_layer_norm(theirs.ln_1, ours.attention_norm)
    copy_layer_norm(theirs.ln_2, ours.feed_forward_norm)
    both, attention = theirs.attn.c_attn, ours.attention
    weights, biases = both.weight.T.chunk(3), both.bias.chunk(3)
    names = ("query_projection", "key_projection", "value_projection")
    for name, weight, bias in zip(names, weights, biases, strict=True):
        getattr(attention, name).weight.copy_(weight)
        getattr(attention, name).bias.copy_(bias)
    for conv, linear in (
        (theirs.attn.c_proj, attention.output_projection),
        (theirs.mlp.c_fc, ours.expand),
        (theirs.mlp.c_proj, ours.contract),
    ):
        linear.weight.copy_(conv.weight.T)
        linear.bias.copy_(conv.bias)

"""Copy Hugging Face's weights into the course's modules, to compare (lessons 17, 18).

Nothing is downloaded: their layers are built from a configuration, at random.
"""

from typing import Any

import torch
from torch import nn

from helpers.interop.pytorch import copy_linear
from helpers.modern.block import ModernBlock
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


def check_settings(theirs: Any) -> None:
    """ValueError if a LlamaConfig has a setting that ours lacks."""
    found = theirs.to_dict() | theirs.rope_parameters
    for name, due in (
        ("rope_type", "default"),
        ("hidden_act", "silu"),
        ("attention_bias", False),
        ("mlp_bias", False),
    ):
        if found[name] != due:
            raise ValueError(f"{name} must be {due!r}: {found[name]!r}")


@torch.no_grad()
def language_model_from_llama(theirs: nn.Module) -> LanguageModel:
    """A LanguageModel with the sizes and weights of a LlamaForCausalLM."""
    sizes = theirs.config
    check_settings(sizes)
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

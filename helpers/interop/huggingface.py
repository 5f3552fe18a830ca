"""Copy the weights of Hugging Face's layers into the course's, to compare (lesson 17).

Nothing is downloaded: their layers are built from a configuration, at random.
"""

from torch import nn

from helpers.interop.mapping import copy_linear
from helpers.modern.block import ModernBlock
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

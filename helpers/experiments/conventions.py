"""Five attentions in five conventions, and what lesson 16 compares of a study."""

from torch import nn

from helpers.interop import mapping
from helpers.readings import annotated, d2l_blocks, lengths, pure_attention

# Runs of the study `readings` that lesson 16 compares, and their labels.
PAIRS = {
    "A, the notes": "A: embeddings smaller",
    "A, embeddings N(0, 1)": "A: embeddings N(0, 1)",
    "C, the frame": "C: embeddings smaller",
    "C, embeddings N(0, 1)": "C: embeddings N(0, 1)",
    "B, the d2l reading": "B: norm, features",
    "B, norm over both axes": "B: norm, both axes",
    "course, norm last": "norm last, Xavier's draw",
    "course, norm first": "norm first, Xavier's draw",
    "norm last, matrices × 0.58": "norm last, × 0.58",
    "norm first, matrices × 0.58": "norm first, × 0.58",
}


def five_attentions() -> tuple[nn.Module, nn.Module, nn.Module, nn.Module]:
    """The attention of A and C, of B, of D, of E: two heads, d_model 16.

    All have E's weights; E has no biases, so all biases are 0.
    """
    a_or_c = annotated.MultiHeadedAttention(2, 16, dropout=0.0)
    b = d2l_blocks.multi_head_attention(16, 16, 16, 16, 2, 0.0)
    d = lengths.MultiHeadSublayer(16, 2)
    e = pure_attention.AttentionWithNorm(2, 16, d_k=8, d_v=8, dropout=0.0)
    for module in (a_or_c, b, d):
        for empty, full in zip(linears_of(module), linears_of(e), strict=True):
            mapping.copy_linear(full, empty)
    return a_or_c, b, d, e


def linears_of(module: nn.Module) -> tuple[nn.Linear, ...]:
    """Query, key, value and output projection, under the names of a reading."""
    if isinstance(module, annotated.MultiHeadedAttention):
        return tuple(module.linears)
    if isinstance(module, lengths.MultiHeadSublayer):
        return module.linear_q, module.linear_k, module.linear_v, module.linear_final
    if isinstance(module, pure_attention.AttentionWithNorm):
        return module.w_qs, module.w_ks, module.w_vs, module.fc
    return module.W_q, module.W_k, module.W_v, module.W_o  # d2l's

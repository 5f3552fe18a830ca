"""Five attentions, slips put back, and what of a study is compared (lesson 16)."""

import pandas as pd
from torch import Tensor, nn

from helpers.transformer import TransformerConfig
from lessons.lesson16 import mapping
from lessons.lesson16.readings import annotated, d2l_blocks, lengths, pure_attention

# Runs of the study `readings` that lesson 16 compares: the label of each, and its kind.
BUILT, PRINTED = "as built here", "as the text prints it"
LAST, FIRST = "norm last", "norm first"
TEXTS = {
    "A, the notes": ("A", BUILT),
    "A, embeddings N(0, 1)": ("A: embeddings", PRINTED),
    "C, the frame": ("C", BUILT),
    "C, embeddings N(0, 1)": ("C: A's embeddings", PRINTED),
    "B, the d2l reading": ("B", BUILT),
    "B, norm over both axes": ("B: norm", PRINTED),
    "D, the tutorial": ("D", BUILT),
    "D, softmax as printed": ("D: softmax", PRINTED),
}
PLACES = {
    "course, norm last": ("course's draw, last", LAST),
    "course, norm first": ("course's draw, first", FIRST),
    "norm last, Xavier output": ("larger output, last", LAST),
    "norm first, Xavier output": ("larger output, first", FIRST),
    "norm last, matrices × 0.58": ("smaller layers, last", LAST),
    "norm first, matrices × 0.58": ("smaller layers, first", FIRST),
}


def labelled(table: pd.DataFrame, runs: dict[str, tuple[str, str]]) -> pd.DataFrame:
    """These runs of the study's table, in this order, with their labels and kinds."""
    rows = table.set_index("run").loc[[*runs]].reset_index()
    labels, kinds = ({name: pair[i] for name, pair in runs.items()} for i in (0, 1))
    return rows.assign(label=rows["run"].map(labels), kind=rows["run"].map(kinds))


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


# -- slips of the texts, put back into the repaired readings ---------------------------


def slips(config: TransformerConfig) -> dict[str, nn.Module]:
    """Three of the texts' slips, each alone in a reading that is repaired otherwise."""
    unmasked = pure_attention.AttentionOnlyTranslator(config)
    mixed, shared = lengths.lengths_model(config), lengths.lengths_model(config)
    for module in unmasked.modules():
        if isinstance(module, pure_attention.ScaledDotProductAttention):
            module.__class__ = MaskThrownAway
    for module in mixed.modules():
        if isinstance(module, lengths.MultiHeadSublayer):
            module.__class__ = HeadsByView
    for layer in shared.model.decoder.decoder_layers:
        layer.context_attention = layer.self_attention
    return {
        "E, mask thrown away": unmasked,
        "D, heads cut by view": mixed,
        "D, one attention for two": shared,
    }


class MaskThrownAway(pure_attention.ScaledDotProductAttention):
    """E as printed: what `masked_fill` returns is lost."""

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """As the repaired attention's, whatever the mask."""
        return super().forward(q, k, v)


class HeadsByView(lengths.MultiHeadSublayer):
    """D as printed: heads are cut and joined by `view`, without a transposition."""

    def forward(
        self, key: Tensor, value: Tensor, query: Tensor, attn_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """As the repaired sublayer's, with heads that mix positions."""
        if attn_mask is not None:
            attn_mask = attn_mask.repeat_interleave(self.num_heads, dim=0)
        rows = len(query) * self.num_heads
        context, attention = self.dot_product_attention(
            self.linear_q(query).view(rows, -1, self.dim_per_head),
            self.linear_k(key).view(rows, -1, self.dim_per_head),
            self.linear_v(value).view(rows, -1, self.dim_per_head),
            self.dim_per_head**-0.5,
            attn_mask,
        )
        output = self.linear_final(context.reshape(query.shape))
        return self.layer_norm(query + self.dropout(output)), attention

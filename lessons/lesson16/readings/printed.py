# ruff: noqa: ANN001, ANN201 (as the texts have them)
"""Slips of the texts D and E: their attentions as printed, and slips alone (lesson 16).

The printed ones are retyped, and hold in one class what each text has in two. Lines
with a slip are the text's own; of D's, `torch.inf` stands for `np.inf`, whose `np`
the text never imports. A slip alone is put back into a repaired attention, that of
`lengths` or of `pure_attention`.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from lessons.lesson16.readings.lengths import RepairedAttention
from lessons.lesson16.readings.pure_attention import ScaledDotProductAttention


class PrintedD(nn.Module):
    """D's attention, with the residual connection and the norm, as printed."""

    def __init__(self, model_dim, num_heads, dropout=0.0):
        super().__init__()
        self.num_heads, self.dim_per_head = num_heads, model_dim // num_heads
        self.linear_k = nn.Linear(model_dim, model_dim)
        self.linear_v = nn.Linear(model_dim, model_dim)
        self.linear_q = nn.Linear(model_dim, model_dim)
        self.linear_final = nn.Linear(model_dim, model_dim)
        self.dropout = nn.Dropout(dropout)
        self.layer_norm = nn.LayerNorm(model_dim)

    def forward(self, key, value, query, attn_mask=None):
        residual, batch_size = query, key.size(0)
        num_heads, dim_per_head = self.num_heads, self.dim_per_head
        key, value = self.linear_k(key), self.linear_v(value)
        query = self.linear_q(query)
        # split by heads
        key = key.view(batch_size * num_heads, -1, dim_per_head)
        value = value.view(batch_size * num_heads, -1, dim_per_head)
        query = query.view(batch_size * num_heads, -1, dim_per_head)
        # scaled dot-product attention
        scale = (key.size(-1) // num_heads) ** -0.5
        attention = torch.bmm(query, key.transpose(1, 2)) * scale
        if attn_mask:
            attn_mask = attn_mask.repeat(num_heads, 1, 1)
            attention = attention.masked_fill_(attn_mask, -torch.inf)
        attention = self.dropout(attention.softmax(dim=2))
        context = torch.bmm(attention, value)
        # join the heads; residual connection and norm
        context = context.view(batch_size, -1, dim_per_head * num_heads)
        output = self.dropout(self.linear_final(context))
        return self.layer_norm(residual + output), attention


class PrintedE(nn.Module):
    """E's attention as printed: it stops twice, and is silent three times."""

    def __init__(self, n_heads, d_model, d_k, d_v, dropout=0.1):
        super().__init__()
        self.n_heads, self.d_k, self.d_v = n_heads, d_k, d_v
        self.w_qs = nn.Linear(d_model, n_heads * d_k, bias=False)
        self.w_ks = nn.Linear(d_model, n_heads * d_k, bias=False)
        self.w_vs = nn.Linear(d_model, n_heads * d_v, bias=False)
        self.fc = nn.Linear(n_heads * d_v, d_model, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.layernorm = nn.LayerNorm(d_model)

    def forward(self, q, k, v, attn_mask=None):
        d_k, d_v, n_heads = self.d_k, self.d_v, self.n_head
        batch_size, len_q, _ = q.shape
        residual = q  # noqa: F841
        q = self.w_qs(q).view(batch_size, len_q, n_heads, d_k).transpose(1, 2)
        k = self.w_ks(k).view(batch_size, -1, n_heads, d_k).transpose(1, 2)
        v = self.w_vs(v).view(batch_size, -1, n_heads, d_v).transpose(1, 2)
        attn_mask = attn_mask.unsqueeze(1).repeat(1, n_heads, 1, 1)
        scores = q @ k.transpose(-1, -2) / d_k**0.5
        scores.masked_fill(attn_mask == 0, -1e9)
        attn = scores.softmax(dim=-1)
        context = (attn @ v).permute(0, 2, 1, 3)
        context = context.view(batch_size, len_q, n_heads * d_v)
        output = self.fc(context)
        return self.layernorm(output), attn


# -- one slip alone --------------------------------------------------------------------


class CutByView(RepairedAttention):
    """D: heads are cut and joined by `view`, without a transposition."""

    def fold_heads(self, x: Tensor) -> Tensor:
        return x.view(len(x) * self.num_heads, -1, self.dim_per_head)

    def join_heads(self, x: Tensor) -> Tensor:
        return x.view(len(x) // self.num_heads, -1, self.num_heads * self.dim_per_head)


class ScaledAsPrinted(RepairedAttention):
    """D: the size of a head is divided by the number of heads once more."""

    def __init__(self, *sizes: Any, **options: Any):
        super().__init__(*sizes, **options)
        self.scale = (self.dim_per_head // self.num_heads) ** -0.5


class MaskRepeated(RepairedAttention):
    """D: masks stand in another order than the folded heads."""

    def mask_of_heads(self, mask: Tensor) -> Tensor:
        return mask.repeat(self.num_heads, 1, 1)


class MaskThrownAway(ScaledDotProductAttention):
    """E: what `masked_fill` returns is lost."""

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        return super().forward(q, k, v)


def put_back(model: nn.Module, kind: type, slip: type) -> nn.Module:
    """A copy of the model in which each module of a class has become another's."""
    model = copy.deepcopy(model)
    for module in model.modules():
        if isinstance(module, kind):
            module.__class__ = slip
    return model

"""Answers to lesson 04's exercises that no table holds: right ones, and wrong ones."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from helpers.attention import attention

# ------------------------------------------------------------ 04.1 split and join


def split(x, n_heads):
    batch, length, d_model = x.shape
    return x.view(batch, length, n_heads, d_model // n_heads).permute(0, 2, 1, 3)


def join(context):
    batch, heads, length, d_head = context.shape
    return context.permute(0, 2, 1, 3).contiguous().view(batch, length, heads * d_head)


def split_into_lists(x, n_heads):
    return [[*sentence.chunk(n_heads, dim=-1)] for sentence in x]


def join_by_index(context):
    rows = torch.arange(context.size(1) * context.size(3))
    return context[:, rows // context.size(3), :, rows % context.size(3)].permute(
        1, 2, 0
    )


# ------------------------------------------------------------ 04.2 the module


class Named(nn.Module):
    """The four layers, and nothing done with them yet."""

    def __init__(self, width, count):
        super().__init__()
        self.count, self.width = count, width
        for name in ("query", "key", "value", "output"):
            setattr(self, f"{name}_projection", nn.Linear(width, width))


class WithPyTorchs(Named):
    def forward(self, query, key, value, mask=None):
        parts = self.query_projection(query), self.key_projection(key)
        heads = [split(x, self.count) for x in (*parts, self.value_projection(value))]
        while mask is not None and mask.dim() < 4:
            mask = mask[None]
        return self.output_projection(
            join(F.scaled_dot_product_attention(*heads, mask))
        )


class OneAfterTheOther(Named):
    def mask_of(self, mask, shape, head):
        return mask.expand(shape)[:, head]

    def forward(self, query, key, value, mask=None):
        q, k, v = (
            layer(x).chunk(self.count, dim=-1)
            for layer, x in (
                (self.query_projection, query),
                (self.key_projection, key),
                (self.value_projection, value),
            )
        )
        heads = []
        for i in range(self.count):
            scores = q[i] @ k[i].mT / math.sqrt(self.width / self.count)
            if mask is not None:
                own = self.mask_of(mask, (len(query), self.count, *scores.shape[1:]), i)
                scores = scores.masked_fill(~own, -math.inf)
            heads.append(scores.softmax(-1).nan_to_num() @ v[i])
        return self.output_projection(torch.cat(heads, -1))


class WithTheFirstHeadsMask(OneAfterTheOther):
    def mask_of(self, mask, shape, head):
        return mask[:, 0]


class WithEinsum(Named):
    def forward(self, query, key, value, mask=None):
        q, k, v = (
            layer(x).unflatten(-1, (self.count, -1))
            for layer, x in (
                (self.query_projection, query),
                (self.key_projection, key),
                (self.value_projection, value),
            )
        )
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / q.size(-1) ** 0.5
        if mask is not None:
            scores = scores.where(mask, torch.tensor(-1e9))
        weights = scores.softmax(-1)
        weights = weights if mask is None else weights * mask
        found = torch.einsum("bhqk,bkhd->bqhd", weights, v)
        return self.output_projection(found.flatten(2))


class Folded(Named):
    """Batch and heads as one axis; `fold` says how the mask follows."""

    def fold(self, mask, batch):
        return mask.expand(batch, self.count, -1, -1).flatten(0, 1)

    def forward(self, query, key, value, mask=None):
        q, k, v = (
            split(layer(x), self.count).flatten(0, 1)
            for layer, x in (
                (self.query_projection, query),
                (self.key_projection, key),
                (self.value_projection, value),
            )
        )
        mask = None if mask is None else self.fold(mask, len(query))
        found = F.scaled_dot_product_attention(q, k, v, mask)
        return self.output_projection(join(found.unflatten(0, (len(query), -1))))


class FoldedByRepeating(Folded):
    def fold(self, mask, batch):
        return mask.repeat(1, self.count, 1, 1).flatten(0, 1)


class MaskNeeded(Named):
    def forward(self, query, key, value, mask=None):
        q = split(self.query_projection(query), self.count)
        k = split(self.key_projection(key), self.count)
        v = split(self.value_projection(value), self.count)
        scores = q @ k.mT / math.sqrt(q.size(-1))
        scores = scores.masked_fill(~mask, -math.inf)
        return self.output_projection(join(scores.softmax(-1) @ v))


class KeysOfTheQuerysLength(Named):
    def forward(self, query, key, value, mask=None):
        batch, length, width = query.shape
        q, k, v = (
            layer(x)
            .view(batch, length, self.count, width // self.count)
            .transpose(1, 2)
            for layer, x in (
                (self.query_projection, query),
                (self.key_projection, key),
                (self.value_projection, value),
            )
        )
        return self.output_projection(
            join(F.scaled_dot_product_attention(q, k, v, mask))
        )


class JoinedByTheKeysLength(WithPyTorchs):
    def forward(self, query, key, value, mask=None):
        heads = (
            split(self.query_projection(query), self.count),
            split(self.key_projection(key), self.count),
            split(self.value_projection(value), self.count),
        )
        found = F.scaled_dot_product_attention(*heads, mask).transpose(1, 2)
        return self.output_projection(
            found.reshape(len(key), key.size(1), query.size(2))
        )


class Unmasked(Named):
    """Attention by hand; `fill` for hidden scores, nothing for a hidden row."""

    fill = -math.inf

    def forward(self, query, key, value, mask=None):
        q = split(self.query_projection(query), self.count)
        k = split(self.key_projection(key), self.count)
        v = split(self.value_projection(value), self.count)
        scores = q @ k.mT / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores.masked_fill(~mask, self.fill)
        return self.output_projection(join(scores.softmax(-1) @ v))


class AveragesWhatIsHidden(Unmasked):
    fill = -1e9


class AddsInfinity(Unmasked):
    """Right, but for the gradients where a whole row is hidden."""

    def forward(self, query, key, value, mask=None):
        q = split(self.query_projection(query), self.count)
        k = split(self.key_projection(key), self.count)
        v = split(self.value_projection(value), self.count)
        scores = q @ k.mT / math.sqrt(q.size(-1))
        if mask is not None:
            scores = scores + torch.zeros(mask.shape).masked_fill(~mask, -math.inf)
        return self.output_projection(join(scores.softmax(-1).nan_to_num() @ v))


class DetachedUnderAMask(WithPyTorchs):
    def forward(self, query, key, value, mask=None):
        found = super().forward(query, key, value, mask)
        return found if mask is None else found.detach()


class WithFourAxesOnly(WithPyTorchs):
    def forward(self, query, key, value, mask=None):
        if mask is not None and mask.dim() != 4:
            raise ValueError("a mask has four axes")
        return super().forward(query, key, value, mask)


class SentencesFirst(WithPyTorchs):
    """Three axes of a mask are read as (batch, query, key)."""

    def forward(self, query, key, value, mask=None):
        three = mask is not None and mask.dim() == 3
        return super().forward(query, key, value, mask[:, None] if three else mask)


class OneMaskForAll(WithPyTorchs):
    def forward(self, query, key, value, mask=None):
        if mask is not None and mask.dim() < 4:
            mask = mask.view(1, 1, *mask.shape[-2:])
        return super().forward(query, key, value, mask)


class EmptySentencesOnly(WithEinsum):
    """A context is 0 only where the whole sentence is hidden."""

    def forward(self, query, key, value, mask=None):
        q, k = split(self.query_projection(query), self.count), self.key_projection(key)
        scores = q @ split(k, self.count).mT / math.sqrt(q.size(-1))
        seen = torch.ones(1)
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
            four = mask.expand(scores.shape)
            seen = four.flatten(1).any(1)[:, None, None, None]
        found = scores.softmax(-1) @ split(self.value_projection(value), self.count)
        return self.output_projection(join(found * seen))


class KeysMaskOnly(WithPyTorchs):
    """A mask of queries, whose key axis is 1, is ignored."""

    def forward(self, query, key, value, mask=None):
        queries = mask is not None and mask.size(-1) == 1
        return super().forward(query, key, value, None if queries else mask)


class JoinedByView(WithPyTorchs):
    def forward(self, query, key, value, mask=None):
        parts = self.query_projection(query), self.key_projection(key)
        heads = [split(x, self.count) for x in (*parts, self.value_projection(value))]
        found = F.scaled_dot_product_attention(*heads, mask)
        found = found.contiguous().transpose(1, 2)
        return self.output_projection(found.view(query.shape))


class ByExponentials(Unmasked):
    """Its sums are 0 only for a hidden row; right as long as scores are moderate."""

    def forward(self, query, key, value, mask=None):
        q = split(self.query_projection(query), self.count)
        k = split(self.key_projection(key), self.count)
        v = split(self.value_projection(value), self.count)
        scores = q @ k.mT / math.sqrt(q.size(-1))
        shares = (scores - scores.amax(-1, keepdim=True)).exp()
        shares = shares if mask is None else shares * mask
        weights = shares / (shares.sum(-1, keepdim=True) + 1e-12)
        return self.output_projection(join(weights @ v))


class ForgetsTheWeights(Named):
    """What `attention` returns is taken for the context alone."""

    def forward(self, query, key, value, mask=None):
        q = split(self.query_projection(query), self.count)
        k = split(self.key_projection(key), self.count)
        v = split(self.value_projection(value), self.count)
        return self.output_projection(attention(q, k, v, mask).transpose(1, 2))


class ForgetsToJoin(ForgetsTheWeights):
    def forward(self, query, key, value, mask=None):
        return self.output_projection(attention(query, key, value, mask))


class MaskTransposedForSquares(WithPyTorchs):
    def forward(self, query, key, value, mask=None):
        if mask is not None and query.size(1) == key.size(1):
            mask = mask.mT
        return super().forward(query, key, value, mask)


class WithDropout(WithPyTorchs):
    def forward(self, *given):
        return F.dropout(super().forward(*given), 0.1)


class Aliased(WithPyTorchs):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.key_projection = self.query_projection


class Joint(WithPyTorchs):
    def __init__(self, width, count):
        super().__init__(width, count)
        self.query_projection = nn.Linear(width, 3 * width)


class NoBias(WithPyTorchs):
    def __init__(self, width, count):
        super().__init__(width, count)
        self.value_projection = nn.Linear(width, width, bias=False)


class Fifth(WithPyTorchs):
    def __init__(self, width, count):
        super().__init__(width, count)
        self.gate = nn.Linear(width, width)


class Unnamed(nn.Module):
    def __init__(self, width, count):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(4))

    def forward(self, query, key, value, mask=None):
        return query


class Pair(WithPyTorchs):
    def forward(self, *given):
        return super().forward(*given), None


class Constant(WithPyTorchs):
    def forward(self, *given):
        return super().forward(*given) * 0


class ForThreeHeads(WithPyTorchs):
    def __init__(self, width, count):
        super().__init__(width, 3)


class WithoutMask(WithPyTorchs):
    def forward(self, query, key, value, mask=None):
        return super().forward(query, key, value)


class WithoutArgument(WithPyTorchs):
    def forward(self, query, key, value):
        return super().forward(query, key, value)


class BothWithoutTranspose(Named):
    def forward(self, query, key, value, mask=None):
        q, k, v = (
            layer(x).view(len(x), self.count, x.size(1), -1)
            for layer, x in (
                (self.query_projection, query),
                (self.key_projection, key),
                (self.value_projection, value),
            )
        )
        found = F.scaled_dot_product_attention(q, k, v, mask)
        return self.output_projection(found.reshape(query.shape))


# ------------------------------------------------------------ 04.3 the third head


def rows(*, query=30.0, key=1.0, columns=slice(0, 8), basis=None):
    """An answer that writes these factors at these columns."""
    basis = torch.eye(8) if basis is None else basis

    def answer():
        parts = []
        for factor in (query, key):
            part = torch.zeros(8, 24)
            part[:, columns] = factor * basis
            parts.append(part)
        return tuple(parts)

    return answer


def with_six_features():
    part = torch.zeros(8, 24)
    part[:6, :6] = 6 * torch.eye(6)
    return part, part


def of_words_and_places():
    query, key = rows()()
    key[:, 8:16] = torch.linspace(0, 0.4, 8).expand(8, 8)
    return query, key


def of_words_and_more_of_places():
    words, key = rows(query=28)()
    places, keys = rows(columns=slice(8, 16))()
    return words + places, key + keys


def of_words_and_a_little_place():
    query, key = rows()()
    key[:, 8:16] = torch.linspace(0, 0.05, 8).expand(8, 8)
    return query, key


RIGHT = {
    "split_and_join": [
        (split, join),
        (
            lambda x, n: torch.stack(x.chunk(n, 2), 1),
            lambda c: torch.cat([*c.unbind(1)], -1),
        ),
        (split_into_lists, join_by_index),
        (
            lambda x, n: x.reshape(*x.shape[:2], n, -1).transpose(-2, -3),
            lambda c: c.swapaxes(1, 2).reshape(len(c), c.size(2), -1),
        ),
    ],
    "multi_head": [WithPyTorchs, OneAfterTheOther, WithEinsum, Folded, ByExponentials],
    "third_head": [
        rows(query=6, key=6),
        rows(query=36, basis=torch.eye(8).flip(0)),
        rows(query=40, basis=torch.linalg.qr(torch.arange(64.0).view(8, 8).sin())[0]),
        lambda: [part.tolist() for part in rows()()],
        lambda: torch.stack(rows()()),
        lambda: torch.stack(rows()()).numpy(),
        lambda: [nn.Parameter(part) for part in rows()()],
    ],
}
WRONG = {
    "split_and_join": [
        ((lambda x, n: x, join), "split: the shape is (2, 3, 20) where (2, 4, 3, 5)"),
        ((lambda x, n: split(x, n) * 2, join), "split: the numbers themselves have"),
        ((lambda x, n: split(x, n).flip(1), join), "split: the shape is right but"),
        (
            (lambda x, n: split(x, 4), join),
            "split: with x (3, 7, 2) and n_heads 2 it goes wrong",
        ),
        ((lambda x, n: "heads", join), "split: return a tensor, not a str"),
        (
            (lambda x, n: x.unflatten(2, (-1, n)).transpose(1, 2), join),
            "split: the shape is (2, 5, 3, 4) where (2, 4, 3, 5) is due",
        ),
        ((split, lambda c: join(c).flip(1)), "join: the shape is right but"),
        ((split, lambda c: c.view(2, 3, 20)), "join: without the transpose"),
        (
            (split, lambda c: join(c).squeeze()),
            "join: with context (1, 3, 1, 2) it goes wrong: the shape is",
        ),
        (
            (split, lambda c: c.transpose(1, 2).contiguous),
            "are its parentheses missing?",
        ),
        (
            (split, lambda c: c.transpose(1, 2).reshape(len(c), c.size(2), 20)),
            "join: with context (3, 2, 7, 1) it goes wrong: your code stopped with",
        ),
        ((split, lambda c: torch.zeros(2, 3, 20)), "join: the numbers themselves have"),
    ],
    "multi_head": [
        (WithDropout, "something random"),
        (ForgetsTheWeights, "has no attribute 'transpose'"),
        (ForgetsTheWeights, "`attention` returns two things"),
        (ForgetsToJoin, "`attention` returns two things"),
        (MaskNeeded, "bad operand type for unary ~"),
        (KeysOfTheQuerysLength, "a length is taken from the wrong input"),
        (JoinedByTheKeysLength, "a length is taken from the wrong input"),
        (Unmasked, "a query that may attend to nothing gets NaN"),
        (AveragesWhatIsHidden, "a query that may attend to nothing gets an average"),
        (FoldedByRepeating, "with a mask of shape (1, 1, 6, 6) it goes wrong: your"),
        (MaskTransposedForSquares, "with a mask of shape (1, 1, 6, 6) it goes wrong"),
        (WithTheFirstHeadsMask, "all heads use the first head's mask"),
        (AddsInfinity, "all padding it goes wrong: the result is right, its"),
        (DetachedUnderAMask, "all padding it goes wrong: the result is right, its"),
        (WithFourAxesOnly, "with a mask of shape (6, 6) it goes wrong: your code"),
        (SentencesFirst, "(2, 3, 4), heads first, it goes wrong: three axes of a mask"),
        (OneMaskForAll, "(2, 3, 4), heads first, it goes wrong: your code stopped"),
        (EmptySentencesOnly, "gets an average where others of its sentence may attend"),
        (KeysMaskOnly, "(3, 1) it goes wrong: a mask whose key axis is 1 is not used"),
        (JoinedByView, "your code stopped with RuntimeError: view size is not"),
        (Aliased, "`self.key_projection` is one of the others"),
        (Joint, "`self.query_projection` is to be `nn.Linear(d_model, d_model)`"),
        (
            NoBias,
            "`self.value_projection` is to be `nn.Linear(d_model, d_model)`, with",
        ),
        (Fifth, "the module also learns gate.bias, gate.weight"),
        (Unnamed, "`self.query_projection` is a NoneType"),
        (Pair, "return a tensor, not a tuple"),
        (Constant, "the result differs"),
        (ForThreeHeads, "it goes wrong: "),
        (WithoutMask, "with a mask it goes wrong: the mask is not used"),
        (
            WithoutArgument,
            "with a mask it goes wrong: your code stopped with TypeError",
        ),
        (BothWithoutTranspose, "split without a transpose"),
        (WithPyTorchs(12, 3), "hand over the class itself, without parentheses"),
    ],
    "third_head": [
        (rows(query=4.0), "the right words win, but get only"),
        (rows(query=math.nan), "NaN"),
        (rows(query=1e30, key=1e30), "NaN"),
        (rows(columns=slice(8, 16)), "the head compares places"),
        (rows(columns=slice(16, 24)), "all keys get the same weight"),
        (with_six_features, "“one two three four five six seven eight”: words that"),
        (of_words_and_a_little_place, "not evenly on the same words"),
        (of_words_and_more_of_places, "the head compares places, too"),
        (of_words_and_places, "not evenly on the same words"),
        (lambda: torch.eye(8), "one tensor of shape (8, 8), where two are due"),
        (lambda: [part.T for part in rows()()], "query_rows has shape (24, 8)"),
        (lambda: rows()()[0], "one tensor of shape (8, 24), where two are due"),
    ],
}

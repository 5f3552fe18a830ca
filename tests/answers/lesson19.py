"""Answers to lesson 19's exercises that no table holds: right ones, and wrong ones."""

import math

import torch

from helpers.attention import attention
from lessons.lesson19 import exercises

(STEP,) = exercises.step.parts
(OVER_KEYS,) = exercises.over_keys.parts
(TILE,) = exercises.tile_gradients.parts

# ------------------------------------------------------------ 19.1 one more key


def with_a_branch(mixed, total, maximum, score, value):
    if score == -math.inf:
        return mixed, total, maximum
    if score > maximum:
        factor = (maximum - score).exp()
        return mixed * factor + value, total * factor + 1, score
    part = (score - maximum).exp()
    return mixed + part * value, total + part, maximum


def with_max(mixed, total, maximum, score, value):
    new = max(maximum, score)
    if new == -torch.inf:
        return [mixed, total, new]
    old, fresh = torch.exp(maximum - new), torch.exp(score - new)
    return [old * mixed + fresh * value, old * total + fresh, new]


def with_a_softmax(mixed, total, maximum, score, value):
    """The logarithm of the sum, and back."""
    if total == 0 and score == -math.inf:
        return mixed, total, maximum
    new = torch.stack([maximum, score]).amax()
    both = torch.stack([maximum + total.log(), score])
    total = (both.logsumexp(0) - new).exp()
    parts = (both - new).exp()
    before = mixed * 0 if maximum == -math.inf else mixed * (maximum - new).exp()
    return before + parts[1] * value, total, new


def with_a_detached_maximum(mixed, total, maximum, score, value):
    """What is subtracted needs no gradient, if it is detached before it is used."""
    maximum = maximum.detach()
    highest = torch.maximum(maximum, score.detach())
    shift = torch.where(highest.isinf(), torch.zeros(()), highest)
    old, fresh = (maximum - shift).exp(), (score - shift).exp()
    return mixed * old + value * fresh, total * old + fresh, highest


def with_a_low_start(mixed, total, maximum, score, value):
    """A very low number in place of −∞ − (−∞)."""
    highest = torch.maximum(maximum, score)
    shift = highest.clamp(min=-1e30)
    old, fresh = (maximum - shift).exp(), (score - shift).exp()
    return mixed * old + value * fresh, total * old + fresh, highest


def with_nan_to_num(mixed, total, maximum, score, value):
    """NaN is replaced, but its gradient is not."""
    highest = torch.maximum(maximum, score)
    old = (maximum - highest).exp().nan_to_num()
    fresh = (score - highest).exp().nan_to_num()
    return mixed * old + value * fresh, total * old + fresh, highest


def with_a_maximum_detached_too_late(*given):
    mixed, total, maximum = exercises.step.reference(STEP)(*given)
    return mixed, total, maximum.detach()


def with_a_detached_total(mixed, total, maximum, score, value):
    return exercises.step.reference(STEP)(mixed, total.detach(), maximum, score, value)


def with_nan_gradients(mixed, total, maximum, score, value):
    """−∞ − (−∞) is replaced, but only after it was made."""
    highest = torch.maximum(maximum, score)
    nothing = highest == -math.inf
    old = torch.where(nothing, torch.zeros(()), (maximum - highest).exp())
    fresh = torch.where(nothing, torch.zeros(()), (score - highest).exp())
    return mixed * old + value * fresh, total * old + fresh, highest


def with_a_floor(low):
    """What is subtracted is never below `low`."""

    def answer(mixed, total, maximum, score, value):
        highest = torch.maximum(maximum, score)
        shift = highest.clamp(min=low)
        old, fresh = (maximum - shift).exp(), (score - shift).exp()
        return mixed * old + value * fresh, total * old + fresh, highest

    return answer


def with_a_detached_rescaling(mixed, total, maximum, score, value):
    """The maximum has gradients in one place, and none in the other."""
    highest = torch.maximum(maximum, score)
    shift = highest.masked_fill(highest == -math.inf, 0.0)
    old, fresh = (maximum - shift).exp().detach(), (score - shift).exp()
    return mixed * old + value * fresh, total * old + fresh, highest


def average_so_far(mixed, total, maximum, score, value):
    """The mean of the values itself, and not the sum."""
    mixed, total, new = with_a_branch(mixed * total, total, maximum, score, value)
    return mixed / total, total, new


def without_a_maximum(mixed, total, maximum, score, value):
    return mixed + score.exp() * value, total + score.exp(), maximum


def without_ties(mixed, total, maximum, score, value):
    if score == maximum:
        return mixed, total, maximum
    return with_a_branch(mixed, total, maximum, score, value)


def as_floats(mixed, total, maximum, score, value):
    """Right numbers, which carry no gradient."""
    new = max(maximum.item(), score.item())
    if new == -math.inf:
        return mixed, total, maximum
    old, fresh = math.exp(maximum.item() - new), math.exp(score.item() - new)
    return old * mixed.detach() + fresh * value.detach(), old * total + fresh, new


# ------------------------------------------------------------ 19.2 blocks of keys


def with_split(query, key, value, mask, block):
    scale = query.size(-1) ** -0.5
    mask = torch.broadcast_to(mask, (*query.shape[:-1], key.shape[-2]))
    parts = zip(
        key.split(block, -2), value.split(block, -2), mask.split(block, -1), strict=True
    )
    m = torch.full(query.shape[:-1], -1e30, dtype=query.dtype)
    total = torch.zeros(query.shape[:-1], dtype=query.dtype)
    mixed = 0
    for k, v, seen in parts:
        s = torch.einsum("bhqd,bhkd->bhqk", query * scale, k)
        s = s.masked_fill(~seen, -torch.inf)
        new = torch.maximum(m, s.max(-1).values)
        p = torch.exp(s - new[..., None])
        total = total * torch.exp(m - new) + p.sum(-1)
        mixed = mixed * torch.exp(m - new)[..., None] + p @ v
        m = new
    return mixed / total.clamp(min=1e-30)[..., None]


def with_logsumexp(query, key, value, mask, block):
    """Contexts of blocks, mixed by the sums of their exponentials."""
    mask = mask.expand(*query.shape[:-1], key.size(-2))
    context, logs = torch.zeros(1), torch.full((*query.shape[:-1], 1), -1e30)
    for i in range(0, key.size(-2), block):
        seen = mask[..., i : i + block]
        part, _ = attention(
            query, key[..., i : i + block, :], value[..., i : i + block, :], seen
        )
        scores = query @ key[..., i : i + block, :].mT / query.size(-1) ** 0.5
        new = scores.masked_fill(~seen, -1e30).logsumexp(-1, keepdim=True)
        both = torch.logaddexp(logs.to(new), new)
        context = (logs.to(new) - both).exp() * context + (new - both).exp() * part
        logs = both
    return context


def in_two_passes(query, key, value, mask, block):
    """First the maximum, then the sums; the scores are made twice, and never kept."""

    def scores():
        for k, seen in zip(key.split(block, 2), columns, strict=True):
            s = query @ k.mT / query.size(-1) ** 0.5
            yield s.masked_fill(~seen, -math.inf)

    columns = mask.expand(*query.shape[:-1], key.size(2)).split(block, 3)
    top = torch.full((*query.shape[:-1], 1), -1e30)
    for s in scores():
        top = torch.maximum(top, s.detach().amax(-1, keepdim=True).to(top))
    mixed = total = 0.0
    for s, v in zip(scores(), value.split(block, 2), strict=True):
        parts = (s - top).exp()
        mixed, total = mixed + parts @ v, total + parts.sum(-1, keepdim=True)
    return mixed / total.masked_fill(total == 0, 1.0)


def in_half_blocks(query, key, value, mask, block):
    """Fewer scores at a time than are allowed."""
    reference = exercises.over_keys.reference(OVER_KEYS)
    return reference(query, key, value, mask, max(1, block // 2))


def with_four_axes(query, key, value, mask, block):
    """The mask has to have all its axes."""
    mask = mask.expand(-1, -1, -1, key.size(-2))
    return exercises.over_keys.reference(OVER_KEYS)(query, key, value, mask, block)


def in_tiles(query, key, value, mask, block):
    """Blocks of queries as well, one map after the other."""
    mask = mask.expand(*query.shape[:-1], key.size(-2))
    reference = exercises.over_keys.reference(OVER_KEYS)
    maps = []
    flat = (x.flatten(0, 1)[:, None, None] for x in (query, key, value, mask))
    for q, k, v, m in zip(*flat, strict=True):
        pairs = zip(q.split(block, 2), m.split(block, 2), strict=True)
        rows = [reference(part, k, v, seen, block) for part, seen in pairs]
        maps.append(torch.cat(rows, 2)[0, 0])
    return torch.stack(maps).unflatten(0, query.shape[:2])


def joined_at_the_end(query, key, value, mask, block):
    """Every block has its own state; the states are joined after the last."""
    columns = mask.expand(*query.shape[:-1], key.size(2)).split(block, 3)
    mixed, total, tops = [], [], []
    parts = zip(key.split(block, 2), value.split(block, 2), columns, strict=True)
    for k, v, seen in parts:
        scores = query @ k.mT / query.size(-1) ** 0.5
        scores = scores.masked_fill(~seen, -math.inf)
        tops.append(scores.amax(-1, keepdim=True).clamp(min=-1e30))
        weights = (scores - tops[-1]).exp()
        mixed.append(weights @ v)
        total.append(weights.sum(-1, keepdim=True))
    tops = torch.stack(tops)
    factor = (tops - tops.amax(0)).exp()
    whole = (factor * torch.stack(total)).sum(0)
    return (factor * torch.stack(mixed)).sum(0) / whole.masked_fill(whole == 0, 1.0)


def with_a_kept_list(query, key, value, mask, block):
    """No tensor is large, but the scores of all blocks are kept."""
    columns = mask.expand(*query.shape[:-1], key.size(2)).split(block, 3)
    scores = [
        (query @ k.mT / query.size(-1) ** 0.5).masked_fill(~seen, -math.inf)
        for k, seen in zip(key.split(block, 2), columns, strict=True)
    ]
    top = torch.stack([s.amax(-1, keepdim=True) for s in scores]).amax(0)
    top = top.masked_fill(top == -math.inf, 0.0)
    total = sum((s - top).exp().sum(-1, keepdim=True) for s in scores)
    parts = zip(scores, value.split(block, 2), strict=True)
    mixed = sum((s - top).exp() @ v for s, v in parts)
    return mixed / total.masked_fill(total == 0, 1.0)


def in_blocks_of(size):
    """`block` is not used: `size(query, key)` is."""

    def answer(query, key, value, mask, block):
        reference = exercises.over_keys.reference(OVER_KEYS)
        return reference(query, key, value, mask, size(query, key))

    return answer


def in_blocks_of_queries(query, key, value, mask, block):
    mask = mask.expand(*query.shape[:-1], key.size(-2))
    rows = zip(query.split(block, 2), mask.split(block, 2), strict=True)
    return torch.cat([attention(q, key, value, seen)[0] for q, seen in rows], dim=2)


def in_strips(query, key, value, mask, block):
    """Blocks of queries with as many scores as a block of keys has, one at least."""
    mask = mask.expand(*query.shape[:-1], key.size(-2))
    rows = max(1, query.size(-2) * block // key.size(-2))
    parts = zip(query.split(rows, -2), mask.split(rows, -2), strict=True)
    return torch.cat([attention(q, key, value, seen)[0] for q, seen in parts], -2)


def blind_with_nan_gradients(query, key, value, mask, block):
    """0/0 is replaced, but only after it was made."""
    mask = mask.expand(*query.shape[:-1], key.size(-2))
    mixed = total = torch.zeros(1)
    top = torch.full((*query.shape[:-1], 1), -1e30)
    for i in range(0, key.size(-2), block):
        scores = query @ key[..., i : i + block, :].mT / query.size(-1) ** 0.5
        scores = scores.masked_fill(~mask[..., i : i + block], -math.inf)
        new = torch.maximum(top.to(scores), scores.amax(-1, keepdim=True))
        parts, old = (scores - new).exp(), (top - new).exp()
        mixed = old * mixed + parts @ value[..., i : i + block, :]
        total, top = old * total + parts.sum(-1, keepdim=True), new
    return torch.where(total == 0, torch.zeros(1).to(total), mixed / total)


def the_whole_table(query, key, value, mask, block):
    return attention(query, key, value, mask)[0]


def with_a_list(query, key, value, mask, block):
    """The scores of all blocks are kept, and joined."""
    scores = [
        query @ key[..., i : i + block, :].mT / query.size(-1) ** 0.5
        for i in range(0, key.size(-2), block)
    ]
    scores = torch.cat(scores, dim=-1).masked_fill(~mask, -math.inf)
    return scores.softmax(-1).masked_fill(~mask, 0.0) @ value


def with_a_start(low):
    """The maximum starts at `low`."""

    def answer(query, key, value, mask, block):
        mask = mask.expand(*query.shape[:-1], key.size(-2))
        mixed = total = 0.0
        top = torch.full((*query.shape[:-1], 1), low)
        for i in range(0, key.size(-2), block):
            scores = query @ key[..., i : i + block, :].mT / query.size(-1) ** 0.5
            scores = scores.masked_fill(~mask[..., i : i + block], -math.inf)
            new = torch.maximum(top.to(scores), scores.amax(-1, keepdim=True))
            parts, old = (scores - new).exp(), (top - new).exp()
            mixed = old * mixed + parts @ value[..., i : i + block, :]
            total, top = old * total + parts.sum(-1, keepdim=True), new
        return mixed / total.masked_fill(total == 0, 1.0)

    return answer


def one_maximum(*axes):
    """The maximum is taken over these axes, too."""

    def answer(query, key, value, mask, block):
        scores = (query @ key.mT / query.size(-1) ** 0.5).detach()
        scores = scores.masked_fill(~mask, -math.inf)
        top = scores.amax(axes, keepdim=True).clamp(min=-1e30)
        mask = mask.expand(scores.shape)
        mixed = total = 0.0
        for i in range(0, key.size(-2), block):
            scores = query @ key[..., i : i + block, :].mT / query.size(-1) ** 0.5
            scores = scores.masked_fill(~mask[..., i : i + block], -math.inf)
            parts = (scores - top).exp()
            mixed = mixed + parts @ value[..., i : i + block, :]
            total = total + parts.sum(-1, keepdim=True)
        return mixed / total.masked_fill(total == 0, 1.0)

    return answer


def mean_of_blocks(query, key, value, mask, block):
    mask = mask.expand(*query.shape[:-1], key.size(-2))
    parts = [
        attention(
            query,
            key[..., i : i + block, :],
            value[..., i : i + block, :],
            mask[..., i : i + block],
        )[0]
        for i in range(0, key.size(-2), block)
    ]
    return sum(parts) / len(parts)


def with_a_maximum_of_hidden_scores(query, key, value, mask, block):
    mask = mask.expand(*query.shape[:-1], key.size(2))
    mixed, total, maximum = 0.0, 0.0, torch.full((*query.shape[:-1], 1), -1e30)
    for i in range(0, key.size(2), block):
        part = slice(i, i + block)
        s = query @ key[..., part, :].mT / query.size(-1) ** 0.5
        new = torch.maximum(maximum, s.amax(-1, keepdim=True))
        old = (maximum - new).exp()
        parts = (s.masked_fill(~mask[..., part], -math.inf) - new).exp()
        mixed = old * mixed + parts @ value[..., part, :]
        total, maximum = old * total + parts.sum(-1, keepdim=True), new
    return mixed / (total + (total == 0))


def without_a_maximum_over_keys(query, key, value, mask, block):
    mask = mask.expand(*query.shape[:-1], key.size(-2))
    mixed = total = 0
    for i in range(0, key.size(-2), block):
        scores = query @ key[..., i : i + block, :].mT / query.size(-1) ** 0.5
        parts = scores.exp().masked_fill(~mask[..., i : i + block], 0.0)
        mixed = mixed + parts @ value[..., i : i + block, :]
        total = total + parts.sum(-1, keepdim=True)
    return mixed / total.masked_fill(total == 0, 1.0)


# ------------------------------------------------------------ 19.3 back through a tile


def with_einsum(query, key, value, mask, logsumexp, inner, grad_context):
    scores = torch.einsum("bhqd,bhkd->bhqk", query, key) / query.shape[-1] ** 0.5
    weights = torch.where(mask, (scores - logsumexp).exp(), torch.zeros(()))
    over = torch.einsum("bhqd,bhkd->bhqk", grad_context, value)
    scores = weights * over - weights * inner
    scores = scores * query.size(-1) ** -0.5
    return [
        torch.einsum("bhqk,bhkd->bhqd", scores, key),
        torch.einsum("bhqk,bhqd->bhkd", scores, query),
        torch.einsum("bhqk,bhqd->bhkd", weights, grad_context),
    ]


@torch.no_grad()
def row_by_row(query, key, value, mask, logsumexp, inner, grad_context):
    """No gradient flows through gradients, and none needs to."""
    root, keys, values = math.sqrt(key.size(-1)), 0, 0
    queries = []
    for i in range(query.size(2)):
        scores = (key @ query[:, :, i, :, None])[..., 0] / root
        seen = mask[i]
        weights = (scores - logsumexp[:, :, i]).exp().masked_fill(~seen, 0.0)
        g = grad_context[:, :, i, :, None]
        pull = weights * ((value @ g)[..., 0] - inner[:, :, i]) / root
        queries.append((pull[..., None] * key).sum(2))
        keys = keys + pull[..., None] * query[:, :, i, None]
        values = values + weights[..., None] * g.mT
    return torch.stack(queries, 2), keys, values


def through_autograd_alone(query, key, value, mask, logsumexp, inner, grad_context):
    """The gradients of a softmax over the tile's keys."""
    given = [x.clone().requires_grad_() for x in (query, key, value)]
    return torch.autograd.grad(attention(*given, mask)[0], given, grad_context)


def gradients_from(weights_of):
    """The gradients of a tile whose weights are weights_of(scores, mask, logsumexp)."""

    def answer(query, key, value, mask, logsumexp, inner, grad_context):
        root = query.size(-1) ** 0.5
        weights = weights_of(query @ key.mT / root, mask, logsumexp)
        scores = weights * (grad_context @ value.mT - inner) / root
        return scores @ key, scores.mT @ query, weights.mT @ grad_context

    return answer


def as_a_quotient(scores, mask, logsumexp):
    return scores.masked_fill(~mask, -math.inf).exp() / logsumexp.exp()


def masked_too_late(scores, mask, logsumexp):
    return (scores - logsumexp).exp() * mask


def filled_late(scores, mask, logsumexp):
    """Right: an infinite exponential is replaced."""
    return (scores - logsumexp).exp().masked_fill(~mask, 0.0)


def filled_with(low):
    """Hidden scores are a low number."""

    def weights(scores, mask, logsumexp):
        return (scores.masked_fill(~mask, low) - logsumexp).exp()

    return weights


def through_vjp(query, key, value, mask, logsumexp, inner, grad_context):
    def context(query, key, value):
        scores = (query @ key.mT / query.size(-1) ** 0.5).masked_fill(~mask, -math.inf)
        return (scores - logsumexp).exp() @ value

    return torch.func.vjp(context, query, key, value)[1](grad_context)


def through_autograd(query, key, value, mask, logsumexp, inner, grad_context):
    """Right gradients, of a context whose row sums are constants."""
    given = [x.detach().clone().requires_grad_() for x in (query, key, value)]
    q, k, v = given
    scores = (q @ k.mT / q.size(-1) ** 0.5).masked_fill(~mask, -math.inf)
    weights = (scores - logsumexp).exp()
    loss = (weights @ v * grad_context).sum() - (weights * inner).sum()
    loss.backward()
    return [x.grad for x in given]


def in_another_order(*given):
    query, key, value = exercises.tile_gradients.reference(TILE)(*given)
    return value, key, query


# ------------------------------------------------------------ 19.4 a sliding window


def from_the_full_mask(length, window, block):
    back = torch.arange(length)[:, None] - torch.arange(length)
    mask = (back >= 0) & (back < window)
    rows = [part.any(0) for part in mask.split(block)]
    return torch.stack([torch.stack([p.any() for p in r.split(block)]) for r in rows])


def in_lists(length, window, block):
    starts = range(0, length, block)
    grid = []
    for q in starts:
        first = max(0, q - window + 1) // block
        grid.append([int(first <= k // block <= q // block) for k in starts])
    return grid


def rounded_down(length, window, block):
    grid = torch.arange(math.ceil(length / block))
    back = grid[:, None] - grid
    return (back >= 0) & (back <= window // block)


def counted(length, window, block):
    return int(from_the_full_mask(length, window, block).sum())


def in_pairs(length, window, block):
    return from_the_full_mask(length, window, block).nonzero()


def in_lists_of_numbers(length, window, block):
    """The blocks' numbers, row by row."""
    grid = from_the_full_mask(length, window, block)
    return [row.nonzero()[:, 0].tolist() for row in grid]


def to_the_nearest(length, window, block):
    grid = torch.arange(math.ceil(length / block))
    back = grid[:, None] - grid
    return (back >= 0) & (back <= round((window - 1) / block))


def nearly_rounded_up(length, window, block):
    grid = torch.arange(math.ceil(length / block))
    back = grid[:, None] - grid
    return (back >= 0) & (back <= int((window - 1) / block + 0.75))


def window_to_the_nearest(length, window, block):
    grid = torch.arange(math.ceil(length / block))
    back = grid[:, None] - grid
    return (back >= 0) & (back <= round(window / block))


def right_from_blocks_of_two_on(length, window, block):
    count = math.ceil(length / block)
    back = window // block + (window % block > 1)
    return torch.ones(count, count).tril().triu(-back).bool()


def of_whole_blocks(length, window, block):
    """The window is rounded up to blocks."""
    grid = torch.arange(math.ceil(length / block))
    back = grid[:, None] - grid
    return (back >= 0) & (back <= math.ceil(window / block))


RIGHT = {
    "step": [
        with_a_branch,
        with_max,
        with_a_softmax,
        with_a_detached_maximum,
        with_a_low_start,
    ],
    "over_keys": [
        with_split,
        with_logsumexp,
        in_two_passes,
        in_half_blocks,
        in_tiles,
        joined_at_the_end,
    ],
    "tile_gradients": [with_einsum, row_by_row, gradients_from(filled_late)],
    "window_blocks": [from_the_full_mask, in_lists],
}
WRONG = {
    "step": [
        (average_so_far, "the result differs from the expected one"),
        (without_a_maximum, "lacks the maximum"),
        (with_a_floor(-100.0), "whose score is −1,000,000: "),
        (with_a_floor(-1e4), "whose score is −1,000,000: "),
        (with_a_detached_rescaling, "with rising scores: the gradients are wrong"),
        (without_ties, "with two equal scores: "),
        (as_floats, "no gradient"),
        (with_a_maximum_detached_too_late, "not all of the gradient reaches score"),
        (with_a_detached_total, "not all of the gradient reaches score"),
        (with_nan_to_num, "before three others: the gradients are wrong (NaN?)"),
        (with_nan_gradients, "before three others: the gradients are wrong (NaN?)"),
        (lambda *x: x[0], "where three are due"),
        (lambda *x: x[:3], "the result differs from the expected one"),
        (lambda *x: print(end=""), "your function returns nothing"),
    ],
    "over_keys": [
        (the_whole_table, "as many floats as the table are held at once"),
        (with_a_list, "as many floats as the table are held at once"),
        (with_a_kept_list, "as many floats as the table are held at once"),
        (in_blocks_of(lambda q, k: k.size(-2) - 1), "a tensor holds 79,900 floats"),
        (in_blocks_of_queries, "a tensor holds 32,000 floats, where"),
        (in_strips, "the work is the same whatever `block` is"),
        (in_blocks_of(lambda q, k: 1), "the work is the same whatever `block` is"),
        (in_blocks_of(lambda q, k: 64), "the work is the same whatever `block` is"),
        (in_blocks_of(lambda q, k: 200), "a tensor holds 20,000 floats, where"),
        (blind_with_nan_gradients, "attend to nothing, the gradients are wrong (NaN?)"),
        (with_a_start(0.0), "each query of each head has its own maximum"),
        (with_a_start(-3.0), "each query of each head has its own maximum"),
        (with_a_start(-100.0), "each query of each head has its own maximum"),
        (one_maximum(1, 3), "near −1,000 in one head"),
        (one_maximum(0, 1, 3), "near −1,000 in one head"),
        (with_four_axes, "with a mask of shape (query_length, key_length): "),
        (mean_of_blocks, "each block has a softmax of its own"),
        (with_a_maximum_of_hidden_scores, "where hidden scores are large: "),
        (without_a_maximum_over_keys, "where scores are large: "),
        (lambda *x: attention(*x[:4]), "return a tensor, not a tuple"),
    ],
    "tile_gradients": [
        (through_autograd_alone, "autograd is used"),
        (gradients_from(as_a_quotient), "where scores are large: "),
        (gradients_from(masked_too_late), "where scores are large: "),
        (through_autograd, "autograd is used"),
        (through_vjp, "autograd is used"),
        (gradients_from(filled_with(-100.0)), "and $L$ is −4·10⁹: hidden scores"),
        (gradients_from(filled_with(-1e4)), "and $L$ is −4·10⁹: hidden scores"),
        (gradients_from(filled_with(-1e9)), "and $L$ is −4·10⁹: hidden scores"),
        (in_another_order, "grad_query has shape (2, 3, 5, 3), not (2, 3, 4, 6)"),
        (lambda *x: x[0], "where three are due"),
    ],
    "window_blocks": [
        (counted, "the shape is () where (4, 4) is due"),
        (in_pairs, "the shape is (7, 2) where (4, 4) is due"),
        (in_lists_of_numbers, "the rows have different lengths"),
        (to_the_nearest, "the window is rounded to the nearest number of blocks"),
        (nearly_rounded_up, "blocks where"),
        (window_to_the_nearest, "blocks where"),
        (right_from_blocks_of_two_on, "length 8, window 3, block 1: "),
        (rounded_down, "the window is rounded down to whole blocks"),
        (of_whole_blocks, "the window is one too wide"),
        (
            lambda length, window, block: torch.ones(4, 4).tril(),
            "the past is not cut off",
        ),
    ],
}

"""Answers to lesson 14's exercises that no table holds: right ones, and wrong ones."""

import math

import numpy as np
import torch
from torch.nn import functional as F

from helpers import PAD

# ------------------------------------------------------------------ 14.1 a scaled step


def step_in_place(gradients, scale, streak, patience):
    for gradient in gradients:
        gradient.div_(scale)
        if not torch.isfinite(gradient).all():
            return None, scale / 2, 0
    good = (streak + 1) % patience
    return gradients, scale * (1 if good else 2), good


def step_of_a_sum(gradients, scale, streak, patience):
    total = sum(gradient.double().abs().sum().item() for gradient in gradients)
    if not math.isfinite(total):
        return (None, 0.5 * scale, torch.tensor(0))
    streak += 1
    doubled = streak >= patience
    true = tuple(gradient.numpy() / np.float32(scale) for gradient in gradients)
    return [true, torch.tensor(scale * 2**doubled), 0 if doubled else streak]


def step_that_raises(gradients, scale, streak, patience):
    if not torch.cat([gradient.flatten() for gradient in gradients]).isfinite().all():
        raise ValueError("overflow")
    good = (streak + 1) % patience
    return [gradient / scale for gradient in gradients], scale * (2 - (good > 0)), good


def step_in_whole_scales(gradients, scale, streak, patience):
    if not all(gradient.isfinite().all() for gradient in gradients):
        return None, scale // 2, 0
    good = (streak + 1) % patience
    return [gradient / scale for gradient in gradients], scale * (2 - (good > 0)), good


def step_in_one_row(gradients, scale, streak, patience):
    return torch.cat([x.flatten() for x in gradients]) / scale, scale, streak + 1


def step_by_the_largest(gradients, scale, streak, patience):
    largest = torch.stack([gradient.abs().max() for gradient in gradients]).max()
    if not largest < math.inf:  # NaN is not smaller either
        return [None, scale * 0.5, 0]
    streak = streak + 1 if streak + 1 < patience else 0
    inverse = 1 / scale
    return [g.mul(inverse) for g in gradients], scale if streak else scale * 2, streak


def step_by_one_number(gradients, scale, streak, patience):
    if not all(gradient.flatten()[0].isfinite() for gradient in gradients):
        return None, scale / 2, 0
    good = (streak + 1) % patience
    return [gradient / scale for gradient in gradients], scale * (2 - (good > 0)), good


def step_by_both_ends(gradients, scale, streak, patience):
    ends = [gradient.flatten()[[0, -1]] for gradient in gradients]
    if not torch.cat(ends).isfinite().all():
        return None, scale / 2, 0
    good = (streak + 1) % patience
    return [gradient / scale for gradient in gradients], scale * (2 - (good > 0)), good


def step_in_bounds(gradients, scale, streak, patience):
    true, scale, streak = step_by_the_largest(gradients, scale, streak, patience)
    return true, min(max(scale, 1e-6), 2.0**40), streak


def step_in_halves(gradients, scale, streak, patience):
    gradients = [gradient.half() for gradient in gradients]
    return step_by_the_largest(gradients, scale, streak, patience)


def step_that_drops_large_ones(gradients, scale, streak, patience):
    true, scale, streak = step_by_the_largest(gradients, scale, streak, patience)
    if true is not None and any((g.abs() > 65504).any() for g in true):
        return None, scale / 2, 0
    return true, scale, streak


def step_without_small_scales(gradients, scale, streak, patience):
    true, scale, streak = step_by_the_largest(gradients, scale, streak, patience)
    return true, max(1, scale), streak


def step_by_the_norm(gradients, scale, streak, patience):
    norm = torch.nn.utils.get_total_norm(gradients)
    if not norm.isfinite():
        return None, scale / 2, 0
    return step_by_the_largest(gradients, scale, streak, patience)


# ------------------------------------------------------------------ 14.2 accumulation


def accumulate_in_a_function(model, parts):
    tokens = torch.cat([labels.flatten() for _, labels in parts]).count_nonzero()

    def of(read, labels):
        losses = F.nll_loss(
            model(read).log_softmax(-1).transpose(1, 2), labels, reduction="none"
        )
        loss = (losses * (labels != PAD)).sum() / tokens
        loss.backward(retain_graph=True)  # the graph is gone with its last name
        return loss.item()

    return sum(of(*part) for part in parts)


def accumulate_by_sentences(model, parts):
    sentences, total = sum(len(read) for read, _ in parts), 0.0
    for read, labels in parts:
        mean = F.cross_entropy(model(read).mT, labels, ignore_index=PAD)
        loss = mean * len(read) / sentences
        loss.backward()
        total += loss.item()
    return total


def accumulate_a_retained_list(model, parts):
    tokens, graphs = sum((labels != PAD).sum() for _, labels in parts), []
    for read, labels in parts:
        logits = model(read).flatten(0, 1)
        sums = F.cross_entropy(
            logits, labels.flatten(), ignore_index=PAD, reduction="sum"
        )
        graphs.append(sums / tokens)
        graphs[-1].backward(retain_graph=True)
    return sum(graphs).item()


def accumulate_what_is_read(model, parts):
    tokens, total = 0, 0.0
    for read, labels in parts:
        losses = F.cross_entropy(
            model(read).mT, labels, ignore_index=PAD, reduction="sum"
        )
        losses.backward()
        total += losses.item()
        tokens += (read != PAD).sum().item()
    for weight in model.parameters():
        weight.grad /= tokens
    return total / tokens


def accumulate_weighted_means(model, parts):
    counts = [int(labels.ne(PAD).sum()) for _, labels in parts]
    loss = 0
    for (read, labels), count in zip(parts, counts, strict=True):
        mean = F.cross_entropy(model(read).mT, labels, ignore_index=PAD)
        part = mean * (count / sum(counts))
        part.backward()
        loss = loss + part.detach()
    return loss


def accumulate_by_grad(model, parts):
    weights = [*model.parameters()]
    sums, total, tokens = [0] * len(weights), 0, 0
    for read, labels in parts:
        real = labels != PAD
        log_p = model(read)[real].log_softmax(-1)
        losses = -log_p.gather(1, labels[real][:, None]).sum()
        found = torch.autograd.grad(losses, weights)
        sums = [old + new for old, new in zip(sums, found, strict=True)]
        total, tokens = total + losses.item(), tokens + int(real.sum())
    for weight, gradient in zip(weights, sums, strict=True):
        weight.grad = gradient / tokens
    return np.float64(total / tokens)


def accumulate_and_divide(model, parts):
    total, tokens = 0.0, 0
    for read, labels in parts:
        for row, due in zip(read, labels, strict=True):
            losses = F.cross_entropy(
                model(row[None])[0], due, ignore_index=PAD, reduction="sum"
            )
            losses.backward()
            total += losses.item()
            tokens += (due != PAD).sum().item()
    for weight in model.parameters():
        weight.grad /= tokens
    return total / tokens


def accumulate_means(model, parts):
    loss = 0
    for read, labels in parts:
        mean = F.cross_entropy(model(read).mT, labels, ignore_index=PAD) / len(parts)
        mean.backward()
        loss = loss + mean  # still a part of the graph
    return loss


def accumulate_all_at_once(model, parts):
    longest = max(read.size(1) for read, _ in parts)
    both = [
        torch.cat([F.pad(part[i], (0, longest - part[i].size(1))) for part in parts])
        for i in (0, 1)
    ]
    loss = F.cross_entropy(model(both[0]).mT, both[1], ignore_index=PAD)
    loss.backward()
    return loss.item()


def accumulate_the_logits(model, parts):
    logits = torch.cat([model(read).flatten(0, 1) for read, _ in parts])
    labels = torch.cat([labels.flatten() for _, labels in parts])
    loss = F.cross_entropy(logits, labels, ignore_index=PAD)
    loss.backward()
    return loss.item()


def accumulate_a_list_of_losses(model, parts):
    tokens = sum((labels != PAD).sum() for _, labels in parts)
    sums = [
        F.cross_entropy(model(read).mT, labels, ignore_index=PAD, reduction="sum")
        for read, labels in parts
    ]
    for one in sums:
        (one / tokens).backward()
    return sum(one.item() for one in sums) / tokens


def accumulate_and_clip(model, parts):
    loss = accumulate_weighted_means(model, parts)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    return loss


def accumulate_and_forget(model, parts):
    loss = accumulate_weighted_means(model, parts)
    model.zero_grad()
    return loss


def accumulate_right_loss_of_means(model, parts):
    losses, tokens = 0.0, 0
    for read, labels in parts:
        mean = F.cross_entropy(model(read).mT, labels, ignore_index=PAD)
        (mean / len(parts)).backward()
        count = (labels != PAD).sum().item()
        losses, tokens = losses + mean.item() * count, tokens + count
    return losses / tokens


def accumulate_and_adam(model, parts):
    optimizer = torch.optim.Adam(model.parameters())
    optimizer.zero_grad()
    loss = accumulate_weighted_means(model, parts)
    optimizer.step()
    return loss


def accumulate_without_gradients(model, parts):
    with torch.no_grad():
        sums = [
            F.cross_entropy(model(x).mT, y, ignore_index=PAD, reduction="sum")
            for x, y in parts
        ]
    return sum(sums) / sum((y != PAD).sum() for _, y in parts)


def accumulate_and_step(model, parts):
    loss = accumulate_weighted_means(model, parts)
    with torch.no_grad():
        for weight in model.parameters():
            weight -= 0.1 * weight.grad
    return loss


def accumulate_the_gradients_only(model, parts):
    accumulate_weighted_means(model, parts)


def accumulate_with_a_hook(model, parts):
    kept = []
    hook = model.register_forward_hook(lambda module, read, out: kept.append(out))
    loss = accumulate_weighted_means(model, parts)
    hook.remove()
    return loss


# ------------------------------------------------------------------------ 14.3 the ring


def ring_in_a_table(mine, rank, count, exchange):
    table = mine.reshape(count, -1).numpy().copy()
    at = rank
    for _ in range(count - 1):
        came = exchange(torch.tensor(table[at])).numpy()
        at = (at - 1) % count
        table[at] += came
    for _ in range(count - 1):
        came = exchange(torch.tensor(table[at]))
        at = (at - 1) % count
        table[at] = came.numpy()
    return table.reshape(-1)


def ring_in_place(mine, rank, count, exchange):
    pieces = mine.view(count, -1)
    for turn in range(2 * count - 2):
        send, receive = (rank - turn) % count, (rank - turn - 1) % count
        came = exchange(pieces[send])
        pieces[receive] = came + pieces[receive] * (turn < count - 1)
    return mine


def ring_that_carries(mine, rank, count, exchange):
    size = len(mine) // count
    parts = {i: mine[i * size : (i + 1) * size].double() for i in range(count)}
    carried = parts[rank]
    for step in range(1, count):
        carried = parts[(rank - step) % count] + exchange(carried)
    done = {(rank + 1) % count: carried}
    for step in range(count - 1):
        carried = exchange(carried)
        done[(rank - step) % count] = carried
    return torch.cat([done[i] for i in range(count)]).tolist()


def ring_from_the_next(mine, rank, count, exchange):
    """It begins with the piece of the next process, and ends with its own."""
    pieces = [*mine.clone().chunk(count)]
    for step in range(1, count):
        pieces[(rank - step) % count] += exchange(pieces[(rank - step + 1) % count])
    for step in range(1, count):
        pieces[(rank - step + 1) % count] = exchange(pieces[(rank - step + 2) % count])
    return torch.cat(pieces)


def ring_with_turned_numbers(mine, rank, count, exchange):
    """Piece number -i, and so the numbers rise."""
    pieces = [*mine.clone().chunk(count)]
    pieces = [pieces[-i % count] for i in range(count)]
    for step in range(count - 1):
        pieces[(step + 1 - rank) % count] += exchange(pieces[(step - rank) % count])
    for step in range(count - 1):
        pieces[(step - rank) % count] = exchange(pieces[(step - 1 - rank) % count])
    return torch.cat([pieces[-i % count] for i in range(count)])


def ring_backwards(mine, rank, count, exchange):
    """As if the next process were the one before."""
    pieces = [*mine.clone().chunk(count)]
    for step in range(count - 1):
        came = exchange(pieces[(rank + step) % count])
        pieces[(rank + step + 1) % count] += came
    for step in range(count - 1):
        came = exchange(pieces[(rank + step - 1) % count])
        pieces[(rank + step) % count] = came
    return torch.cat(pieces)


def ring_of_one_s_own(mine, rank, count, exchange):
    return mine * count


def ring_for_four(mine, rank, count, exchange):
    pieces = [*mine.clone().chunk(4)]
    for step in range(3):
        pieces[(rank - step - 1) % 4] += exchange(pieces[(rank - step) % 4])
    for step in range(3):
        pieces[(rank - step) % 4] = exchange(pieces[(rank - step + 1) % 4])
    return torch.cat(pieces)


def ring_with_a_chief(mine, rank, count, exchange):
    if rank == 0:
        return mine
    return exchange(mine)


def ring_without_end(mine, rank, count, exchange):
    while True:
        mine = mine + exchange(mine)


RIGHT = {
    "scaled_step": [step_in_place, step_of_a_sum, step_by_the_largest],
    "accumulate": [
        accumulate_weighted_means,
        accumulate_by_grad,
        accumulate_and_divide,
        accumulate_in_a_function,
    ],
    "ring": [
        ring_in_a_table,
        ring_in_place,
        ring_that_carries,
        ring_from_the_next,
        ring_with_turned_numbers,
    ],
}
WRONG = {
    "scaled_step": [
        (lambda g, scale, streak, patience: (g, scale), "return three things"),
        (lambda g, *rest: (None, 512.0, 0), "it gives None where gradients are due"),
        (lambda g, *rest: (g, "scale", 0), "the scale is a number, not a str"),
        (step_that_raises, "your code stopped with ValueError: overflow"),
        (step_in_whole_scales, "the next scale is 1, due is 1.5"),
        (step_in_one_row, "as many gradients, of the same shapes"),
        (step_by_one_number, "bad numbers *and* good ones"),
        (step_by_both_ends, "bad numbers *and* good ones"),
        (step_in_bounds, "the next scale is 1e-06, due is 4.5"),
        (step_in_halves, "the gradients are not the true ones"),
        (step_that_drops_large_ones, "may be larger than 65,504"),
        (step_by_the_norm, "finite numbers are taken for an overflow"),
        (step_without_small_scales, "the scale has no lower bound"),
        (
            lambda g, scale, streak, patience: (
                [x / scale for x in g],
                3 * scale if streak + 1 == patience else scale,
                (streak + 1) % patience,
            ),
            "the next scale is 24, due is 16",
        ),
    ],
    "accumulate": [
        (accumulate_with_a_hook, "the logits of earlier parts are kept"),
        (accumulate_means, "this is the mean of the parts' means"),
        (accumulate_the_logits, "more than one part is in memory"),
        (accumulate_a_list_of_losses, "more than one part is in memory"),
        (accumulate_and_clip, "the gradients are clipped"),
        (accumulate_and_forget, "leave its gradients there"),
        (accumulate_right_loss_of_means, "the returned loss is right, but"),
        (accumulate_and_adam, "take no step here"),
        (accumulate_all_at_once, "more than one part is in memory"),
        (accumulate_without_gradients, "no parameter has a gradient"),
        (accumulate_a_retained_list, "more than one part is in memory"),
        (accumulate_by_sentences, "the loss is"),
        (accumulate_what_is_read, "divided by the tokens that are read"),
        (accumulate_and_step, "take no step here"),
        (accumulate_the_gradients_only, "returns nothing"),
        (lambda model, parts: "loss", "one number, not a str"),
        (lambda model, parts: 2.5, "no parameter has a gradient"),
    ],
    "ring": [
        (ring_backwards, "the wrong way round the ring"),
        (ring_of_one_s_own, "the sum is"),
        (ring_for_four, "your code stopped with IndexError"),
        (ring_with_a_chief, "waits for a"),
        (ring_without_end, "is the loop endless"),
        (lambda mine, rank, count, exchange: mine[:1], "join the pieces"),
        (lambda mine, rank, count, exchange: 0 * mine, "the sum is"),
        (lambda mine, rank, count, exchange: exchange(3), "exchange a tensor"),
    ],
}

"""Answers to lesson 09's exercises that no table holds: right ones, and wrong ones."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from helpers import PAD
from helpers.batching import Batch
from helpers.training import token_loss

# ------------------------------------------------------------ 09.1 the masked loss


def with_ignore_index(logits, labels):
    return F.cross_entropy(logits.mT, labels, ignore_index=PAD)


def flattened(logits, labels):
    real = labels != PAD
    return F.cross_entropy(logits[real], labels[real])


def in_a_loop(logits, labels):
    losses = []
    for sentence, row in zip(logits, labels, strict=True):
        for scores, label in zip(sentence, row, strict=True):
            if label != PAD:
                losses.append(torch.logsumexp(scores, dim=0) - scores[label])
    return sum(losses) / len(losses)


def with_one_hot(logits, labels):
    wanted = F.one_hot(labels, logits.size(-1)) * (labels != PAD)[..., None]
    return -(wanted * logits.log_softmax(-1)).sum() / wanted.sum()


def with_a_float(logits, labels):
    return with_ignore_index(logits, labels).item()


def with_numpy(logits, labels):
    return np.float64(with_a_float(logits, labels))


def of_the_losses_above_0(logits, labels):
    losses = F.cross_entropy(logits.mT, labels, reduction="none", ignore_index=PAD)
    return losses.sum() / (losses > 0).sum()


def of_three_sentences(logits, labels):
    losses = F.cross_entropy(logits.mT, labels, reduction="none", ignore_index=PAD)
    return losses.sum() / 11


def through_probabilities(logits, labels):
    logs = (logits.softmax(dim=-1) + 1e-9).log()
    losses = -logs.gather(-1, labels[..., None])[..., 0]
    return losses[labels != PAD].mean()


def smoothed(logits, labels):
    real = labels != PAD
    return F.cross_entropy(logits[real], labels[real], label_smoothing=0.1)


def of_the_ids_above_2(logits, labels):
    return F.cross_entropy(logits[labels > 2], labels[labels > 2])


# ------------------------------------------------------------ 09.2 the training step

BETAS = {"betas": (0.9, 0.98), "eps": 1e-9}


def noam(d_model, step, warmup_steps):
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


def with_a_scheduler(model, batches, warmup_steps):
    return in_the_mode_it_came_in(model.train(), batches, warmup_steps)


def in_the_mode_it_came_in(model, batches, warmup_steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, **BETAS)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda n: noam(model.config.d_model, n + 1, warmup_steps)
    )
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss, _ = token_loss(model, batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1)
        optimizer.step()
        schedule.step()
        losses.append(loss)
    return losses


def by_hand(model, batches, warmup_steps):
    weights = [*model.train().parameters()]
    means = [torch.zeros_like(w) for w in weights]
    squares = [torch.zeros_like(w) for w in weights]
    losses = torch.zeros(len(batches), dtype=torch.float64)
    for step, batch in enumerate(batches, 1):
        loss = with_ignore_index(model(batch.source, batch.decoder_input), batch.labels)
        gradients = torch.autograd.grad(loss, weights, allow_unused=True)
        norm = sum(g.square().sum() for g in gradients if g is not None).sqrt()
        rate = noam(model.config.d_model, step, warmup_steps)
        with torch.no_grad():
            for w, g, m, v in zip(weights, gradients, means, squares, strict=True):
                g = g / max(1.0, norm.item())
                m.mul_(0.9).add_(0.1 * g)
                v.mul_(0.98).add_(0.02 * g.square())
                root = (v / (1 - 0.98**step)).sqrt() + 1e-9
                w -= rate * m / (1 - 0.9**step) / root
        losses[step - 1] = loss.item()
    return losses


def with_pytorchs_eps(model, batches, warmup_steps):
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    losses = np.zeros(len(batches))
    model.train()
    for i in range(len(batches)):
        rate = noam(model.config.d_model, i + 1, warmup_steps)
        optimizer.param_groups[0]["lr"] = rate
        model.zero_grad()
        logits = model(batches[i].source, batches[i].decoder_input)
        loss = with_ignore_index(logits, batches[i].labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses[i] = loss.item()
    return losses


def with_warm_up_of_three(model, batches, warmup_steps):
    return with_a_scheduler(model, batches, 3)


def with_d_model_of_eight(model, batches, warmup_steps):
    optimizer = torch.optim.Adam(model.parameters(), **BETAS)
    losses = []
    model.train()
    for step, batch in enumerate(batches, 1):
        optimizer.param_groups[0]["lr"] = noam(8, step, warmup_steps)
        optimizer.zero_grad()
        loss, _ = token_loss(model, batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return losses


def one_loss(model, batches, warmup_steps):
    return with_a_scheduler(model, batches, warmup_steps)[-1]


def losses_without_steps(model, batches, warmup_steps):
    model.train()
    return [token_loss(model, batch)[0] for batch in batches]


def trained_after_the_steps(model, batches, warmup_steps):
    losses = in_the_mode_it_came_in(model, batches, warmup_steps)
    model.train()
    return losses


def counted_from_0(model, batches, warmup_steps):
    for step, _ in enumerate(batches):
        noam(model.train().config.d_model, step, warmup_steps)


def evaluated_at_the_end(model, batches, warmup_steps):
    losses = with_a_scheduler(model, batches, warmup_steps)
    model.eval()
    return losses


def with_the_encoder_evaluated(model, batches, warmup_steps):
    model.train()
    model.encoder.eval()
    return in_the_mode_it_came_in(model, batches, warmup_steps)


def with_the_projection_trained(model, batches, warmup_steps):
    model.projection.train()
    return in_the_mode_it_came_in(model, batches, warmup_steps)


def without_the_last_step(model, batches, warmup_steps):
    losses = with_a_scheduler(model, batches[:-1], warmup_steps)
    return [*losses, token_loss(model, batches[-1])[0]]


def with_the_last_batch_first(model, batches, warmup_steps):
    return with_a_scheduler(model, batches[::-1], warmup_steps)


def through_the_training_twice(model, batches, warmup_steps):
    with_a_scheduler(model, batches, warmup_steps)
    return with_a_scheduler(model, batches, warmup_steps)


def in_pairs(model, batches, warmup_steps):
    cut = [Batch(batch.source[:2], batch.target[:2]) for batch in batches]
    return with_a_scheduler(model, cut, warmup_steps)


# ------------------------------------------------------------ 09.3 three trainings

SOUND = {"A": "sees the future", "B": "rate too high", "C": "memory is zeros"}

RIGHT = {
    "masked_loss": [with_ignore_index, flattened, in_a_loop, with_one_hot],
    "training": [
        with_a_scheduler,
        by_hand,
        with_pytorchs_eps,
        evaluated_at_the_end,
    ],
    "diagnosis": [SOUND, {name: fault.upper() for name, fault in SOUND.items()}],
}
WRONG = {
    "masked_loss": [
        (with_a_float, "no gradient"),
        (with_numpy, "no gradient"),
        (of_the_losses_above_0, "with large logits: a real token that costs 0"),
        (of_three_sentences, "is a size written as a number?"),
        (through_probabilities, "with large logits: the loss is"),
        (smoothed, "the labels are smoothed"),
        (of_the_ids_above_2, "`<unk>` does not count"),
        (lambda logits, labels: torch.tensor(True), "return one number"),
        (lambda logits, labels: torch.tensor(2.5), "the loss is 2.5"),
        (lambda logits, labels: with_ignore_index(logits, labels).detach(), "gradient"),
    ],
    "training": [
        (with_warm_up_of_three, "is a size written as a number?"),
        (with_d_model_of_eight, "is a size written as a number?"),
        (one_loss, "return a list of 5 losses, one for each batch, not: Tensor ()"),
        (losses_without_steps, "the weights do not move"),
        (in_the_mode_it_came_in, "where dropout does not act: `model.train()`"),
        (trained_after_the_steps, "where dropout does not act"),
        (with_the_encoder_evaluated, "where dropout does not act"),
        (with_the_projection_trained, "where dropout does not act"),
        (counted_from_0, "the steps are counted from 0"),
        (without_the_last_step, "after the last step the loss is"),
        (with_the_last_batch_first, "loss 1 is"),
        (through_the_training_twice, "loss 1 is"),
        (in_pairs, "loss 1 is"),
        (lambda model, batches, warmup_steps: [1.0] * len(batches), "loss 1 is 1"),
        (lambda model, batches, warmup_steps: {"losses": []}, "return a list of 5"),
        (lambda model, batches, warmup_steps: 5 * [True], "loss 1 is"),
    ],
    "diagnosis": [
        ({"A": "healthy"}, "A: 'healthy' is none of"),
        ({"B": "memory is zeros"}, "another's source would give the same"),
    ],
}

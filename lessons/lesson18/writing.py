"""Teach a language model, and let it write: prefill, then decode (lesson 18)."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from helpers import EOS, PAD
from helpers.caching import AttentionCache
from helpers.decoding import inference
from helpers.modern.language_model import LanguageModel
from helpers.transformer import check_tokens


def next_token_loss(model: LanguageModel, tokens: Tensor, counted: Tensor) -> Tensor:
    """Mean cross-entropy in nats of the counted tokens, each from those before it.

    tokens (batch, length), padded behind; counted the same shape, True for each token
    that the model is to predict. The first of a row has nothing before it, and never
    counts. ValueError if none does.
    """
    labels, counted = tokens[:, 1:], counted[:, 1:]
    if not counted.any():
        raise ValueError("no token counts, so there is no mean loss")
    logits = model(tokens[:, :-1])  # (batch, length - 1, vocab_size)
    return F.cross_entropy(logits[counted], labels[counted])


def generate(
    model: LanguageModel,
    prompts: Tensor,
    *,
    max_new: int,
    choose: Callable[[Tensor], Tensor] = lambda scores: scores.argmax(dim=-1),
) -> Tensor:
    """Write on from prompts (batch, length), padded *in front*, until EOS.

    The prompts run through the model at once (prefill), then one token at a time
    (decode). choose maps log-probabilities (batch, vocab_size) to ids (batch,).
    Returns ids (batch, ≤ max_new), PAD after EOS. ValueError for padding behind.
    """
    check_prompts(prompts, max_new)
    real, written = prompts != PAD, []
    finished = torch.zeros(len(prompts), dtype=torch.bool, device=prompts.device)
    caches = [AttentionCache() for _ in model.blocks]
    with inference(model):
        logits = model(prompts, caches, real=real)[:, -1]  # prefill
        for _ in range(max_new):
            token = choose(logits.log_softmax(dim=-1)).masked_fill(finished, PAD)
            written.append(token)
            finished |= token == EOS
            if finished.all() or len(written) == max_new:
                break
            real = torch.cat([real, ~finished[:, None]], dim=1)
            logits = model(token[:, None], caches, real=real)[:, -1]  # decode
    return torch.stack(written, dim=1)


def check_prompts(prompts: Tensor, max_new: int) -> None:
    """ValueError unless prompts are ids whose last column is real, and max_new ≥ 1."""
    check_tokens(prompts, "prompts")
    if max_new < 1:
        raise ValueError(f"max_new must be at least 1: {max_new}")
    real = prompts != PAD
    if not real[:, -1].all() or (real[:, :-1] & ~real[:, 1:]).any():
        raise ValueError("prompts are padded in front, and only there")

"""What a language model's loss counts, and how it writes (lesson 18)."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from helpers import EOS, PAD
from helpers.caching import AttentionCache
from helpers.decoding import inference
from helpers.modern.language_model import LanguageModel


def answer_loss(logits: Tensor, tokens: Tensor, prompts: Tensor) -> Tensor:
    """Mean cross-entropy in nats of the answers' tokens, EOS included.

    tokens (batch, length), PAD behind; logits (batch, length, vocab_size), after each;
    prompts (batch,): how many tokens of each row are given.
    """
    labels = tokens[:, 1:]  # logits[:, i] are held against tokens[:, i + 1]
    places = torch.arange(1, tokens.size(1))
    counted = (places >= prompts[:, None]) & (labels != PAD)
    return F.cross_entropy(logits[:, :-1][counted], labels[counted])


def generate(
    model: LanguageModel,
    prompt: Tensor,
    max_new: int,
    *,
    choose: Callable[[Tensor], Tensor] = lambda scores: scores.argmax(dim=-1),
) -> list[int]:
    """Write on from a prompt (1, length), until EOS or for max_new tokens.

    choose maps log-probabilities (1, vocab_size) to an id (1,). ValueError if max_new
    is below 1.
    """
    if max_new < 1:
        raise ValueError(f"max_new must be at least 1: {max_new}")
    caches, ids, new = [AttentionCache() for _ in model.blocks], [], prompt
    with inference(model):
        while len(ids) < max_new and EOS not in ids:
            logits = model(new, caches)[:, -1]  # first the prompt, then a token a pass
            new = choose(logits.log_softmax(dim=-1))[:, None]
            ids.append(new.item())
    return ids

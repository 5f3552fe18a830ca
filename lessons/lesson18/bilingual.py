"""A language model of the toy corpus, stored with the toy translators (lesson 18)."""

from itertools import pairwise
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

from helpers import BOS, EOS
from helpers.modern.language_model import LanguageModel
from helpers.training import cosine_rate
from helpers.translator import STORED
from lessons.lesson18.one_sequence import (
    batches,
    join,
    joint_vocabulary,
    modern_sizes,
    toy_pairs,
)

STEPS, PEAK, WARM_UP = 1_000, 4e-3, 0.1


@torch.no_grad()
def trained_bilingual(
    path: Path = STORED / "bilingual.safetensors", *, kind: type = LanguageModel
) -> nn.Module:
    """The stored weights, trained with the loss on everything, in a model of a kind.

    `python -m tools.stored` makes them, by `train_bilingual`.
    """
    model, weights = kind(modern_sizes()), load_file(path)
    for name, parameter in model.named_parameters():
        parameter.copy_(weights[name])
    return model.eval()


def train_bilingual(*, steps: int = STEPS) -> LanguageModel:
    """Train the model anew: about two minutes on one core."""
    torch.manual_seed(0)
    model, data = LanguageModel(modern_sizes()), batches(0, joint=True)
    options = {"betas": (0.9, 0.98), "eps": 1e-9, "weight_decay": 0.01, "fused": True}
    optimizer = torch.optim.AdamW(model.parameters(), **options)
    for step in range(steps):
        rate = cosine_rate((step + 1) / (steps + 1), peak=PEAK, warmup=WARM_UP)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        joined = join(next(data))
        counted = joined.counted(everything=True)[:, 1:]
        logits, labels = model(joined.tokens[:, :-1]), joined.tokens[:, 1:]
        F.cross_entropy(logits[counted], labels[counted]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


def nats_by_word_before(side: int) -> float:
    """Nats a token of English (0) or French (1) in the test, from the word before.

    How often a word follows another is counted in the training pairs, 0.1 added.
    """
    pairs = {}  # split: the words before, and those after
    for split in ("train", "test"):
        rows = [[BOS, *pair[side], EOS] for pair in toy_pairs(split)]
        pairs[split] = torch.tensor([two for r in rows for two in pairwise(r)]).T
    counts = torch.full([len(joint_vocabulary())] * 2, 0.1)
    counts.index_put_((*pairs["train"],), torch.ones(()), accumulate=True)
    shares = counts / counts.sum(dim=1, keepdim=True)
    return -shares[(*pairs["test"],)].log().mean().item()

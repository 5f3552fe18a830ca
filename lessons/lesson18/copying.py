"""Texts that come twice, and the heads that help to copy them (lesson 18).

The second time, each token but the first can be known: it follows the present token
where that stood the first time. Elhage et al. 2021; Olsson et al. 2022.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from helpers import SPECIAL_TOKENS
from helpers.modern.language_model import LanguageModel, LanguageModelConfig
from helpers.modern.rotary import rotate
from lessons.lesson18.writing import next_token_loss

FIRST, VOCABULARY, BATCH = len(SPECIAL_TOKENS), 64, 64  # ids below FIRST are not drawn
D_FF = {1: 256, 2: 86}  # layers: the feed-forward width for as many parameters
RATE, WARM_UP = 4e-3, 60

Head = tuple[int, int]  # layer and head, both from 0


def texts(n: int, length: int, generator: torch.Generator) -> Tensor:
    """`length` different random tokens, then the same again, (n, 2 · length)."""
    order = torch.rand(n, VOCABULARY - FIRST, generator=generator).argsort(dim=1)
    return (FIRST + order[:, :length]).repeat(1, 2)


def known(tokens: Tensor) -> Tensor:
    """Which tokens can be known from those before them: the shape of tokens."""
    places = torch.arange(tokens.size(1))
    return (places > tokens.size(1) // 2).expand_as(tokens)


def train_copier(
    n_layers: int, seed: int, *, steps: int, lengths: Sequence[int]
) -> LanguageModel:
    """A language model, with new texts at each step, its loss on what can be known."""
    torch.manual_seed(seed)
    sizes = {"d_ff": D_FF[n_layers], "n_layers": n_layers}
    model = LanguageModel(LanguageModelConfig(VOCABULARY, **sizes))
    options = {"betas": (0.9, 0.98), "eps": 1e-9, "weight_decay": 0.01, "fused": True}
    optimizer = torch.optim.AdamW(model.parameters(), **options)
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = RATE * min(1, (step + 1) / WARM_UP)
        length = lengths[torch.randint(len(lengths), (), generator=generator)]
        tokens = texts(BATCH, length, generator)
        optimizer.zero_grad()
        next_token_loss(model, tokens, known(tokens)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.eval()


@torch.no_grad()
def share_right(model: LanguageModel, tokens: Tensor) -> float:
    """The share of the tokens that can be known which the model finds likeliest."""
    hits = model(tokens[:, :-1]).argmax(dim=2) == tokens[:, 1:]
    return hits[known(tokens)[:, 1:]].double().mean().item()


@torch.no_grad()
def head_weights(model: LanguageModel, tokens: Tensor) -> Tensor:
    """tokens (n, length) -> weights (layers, n, n_heads, length, length)."""
    found, hooks = [], []
    length = tokens.size(1)
    future = torch.ones(length, length, dtype=torch.bool).triu(1)

    def look(module: nn.Module, given: tuple) -> None:
        x, angles = given[:2]
        query, key = (
            rotate(module.split_heads(projection(x)), angles)
            for projection in (module.query_projection, module.key_projection)
        )
        scores = query @ key.mT / math.sqrt(module.d_head)
        found.append(scores.masked_fill(future, -math.inf).softmax(dim=-1))

    for block in model.blocks:
        hooks.append(block.attention.register_forward_pre_hook(look))
    model(tokens)
    for hook in hooks:
        hook.remove()
    return torch.stack(found)


def head_scores(model: LanguageModel, tokens: Tensor) -> dict[str, Tensor]:
    """Each head's mean weight on one key, (layers, n_heads).

    "previous": of tokens of the first half, on the token before them; "prefix": of
    those of the second, on the token after their earlier occurrence.
    """
    length = tokens.size(1) // 2
    weights, queries = head_weights(model, tokens), torch.arange(1, length)
    previous = weights[..., queries, queries - 1]
    prefix = weights[..., queries + length - 1, queries]
    return {
        "previous": previous.mean(dim=(1, 3)),
        "prefix": prefix.mean(dim=(1, 3)),
    }


@contextmanager
def without(model: LanguageModel, heads: Iterable[Head]) -> Iterator[None]:
    """Switch heads off for a block: their contexts are 0."""

    def switch_off(head: int, module: nn.Linear, given: tuple[Tensor]) -> tuple:
        context = given[0].unflatten(2, (model.config.n_heads, -1)).clone()
        context[:, :, head] = 0.0
        return (context.flatten(2),)

    outputs = [block.attention.output_projection for block in model.blocks]
    hooks = [
        outputs[layer].register_forward_pre_hook(partial(switch_off, head))
        for layer, head in heads
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()

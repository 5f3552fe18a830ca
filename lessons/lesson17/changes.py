"""The toy translator of 2017 with what came after it, one thing at a time (lesson 17).

The parts are those of helpers/modern, put into a Transformer once it is built. All
variants have about the same number of parameters: the feed-forward networks are as wide
as that allows.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from helpers import PAD
from helpers.batching import Batch, IdPair, bucketed_batches
from helpers.decoding import inference
from helpers.layers import LayerNorm
from helpers.modern.feed_forward import SwiGLU
from helpers.modern.norm import RMSNorm
from helpers.modern.retrofit import GroupedHeads, NoPositions, RotaryAttention
from helpers.positions import positional_encoding
from helpers.training import token_loss
from helpers.transformer import Transformer
from helpers.translator.small import small_transformer, toy_sentences

RATE, WARM_UP = 4e-3, 40


@dataclass(frozen=True)
class Change:
    """What a variant has of today's block, and its rate; as it stands, nothing.

    With `places`, nothing is added to the embeddings: queries and keys are told their
    positions, by "sinusoids" or "rotary" ones. In cross-attention, a query counts its
    place in the target, and a key its place in the source, if it is told at all.
    """

    rms_norm: bool = False
    norm_first: bool = False
    biases: bool = True
    places: str = ""
    cross: bool = True  # whether cross-attention is told them, too
    gated: bool = False
    n_kv_heads: int = 4
    d_ff: int = 128
    rate: float = RATE


N_HEADS = 4
ALL = {"rms_norm": True, "norm_first": True, "biases": False, "places": "rotary"}
ALL |= {"gated": True, "n_kv_heads": 2, "d_ff": 116}
CHANGES = {
    "2017": Change(),
    "nothing changed": Change(),  # trained with another draw
    "norm first": Change(norm_first=True),
    "RMSNorm": Change(rms_norm=True),
    "no biases": Change(biases=False),
    "SwiGLU": Change(gated=True, d_ff=85),
    "grouped queries": Change(n_kv_heads=2, d_ff=176),
    "multi-query": Change(n_kv_heads=1, d_ff=200),
    "sinusoids in q and k": Change(places="sinusoids"),
    "rotary": Change(places="rotary"),
    "rotary, not in cross": Change(places="rotary", cross=False),
    "all together": Change(**ALL),
    "2017, half the rate": Change(rate=RATE / 2),
    "rotary, half the rate": Change(places="rotary", rate=RATE / 2),
}


class PlacedAttention(GroupedHeads):
    """GroupedHeads, with sinusoids in its queries and keys alone."""

    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, max_length: int):
        super().__init__(d_model, n_heads, n_kv_heads)
        waves = positional_encoding(max_length, d_model)
        self.register_buffer("waves", waves, persistent=False)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        """MultiHeadAttention's; the values are told no places."""
        query = query + self.waves[: query.size(1)]
        return super().forward(query, key + self.waves[: key.size(1)], value, mask)


PLACED = {"sinusoids": PlacedAttention, "rotary": RotaryAttention}


def variant(change: Change, seed: int) -> Transformer:
    """The translator with a change, its weights drawn as Transformer draws them."""
    sizes = {"n_heads": N_HEADS, "d_ff": change.d_ff, "n_layers": 1}
    model = small_transformer(seed, norm_first=change.norm_first, **sizes)
    d_model, max_length = model.config.d_model, model.config.max_length
    heads = d_model, N_HEADS, change.n_kv_heads
    layers = *model.encoder.layers, *model.decoder.layers
    # The order of what is built decides which weights a seed draws.
    first = "cross" if change.places == "sinusoids" else "self"
    for layer in layers:
        if change.gated:
            layer.feed_forward = SwiGLU(d_model, change.d_ff)
        for name in ("self_attention", "cross_attention"):
            if not hasattr(layer, name):
                continue
            if change.places and name.startswith(first):
                setattr(layer, name, PLACED[change.places](*heads, max_length))
            elif change.n_kv_heads < N_HEADS:
                setattr(layer, name, GroupedHeads(*heads))
    for stack in (model.encoder, model.decoder):
        _change_everywhere(stack, change)
    if change.places:
        model.positions = NoPositions()
    for layer in layers:
        for name, attention in [*layer.named_children()]:
            told = change.places and (change.cross or name == "self_attention")
            if told and name.endswith("_attention"):
                placed = PLACED[change.places](*heads, max_length)
                for part, projection in attention.named_children():
                    setattr(placed, part, projection)
                setattr(layer, name, placed)
    return model


def _change_everywhere(stack: nn.Module, change: Change) -> None:
    """Norms and biases, and the initial weights of what is new."""
    for module in [*stack.modules()]:
        for name, part in [*module.named_children()]:
            if isinstance(part, LayerNorm) and change.rms_norm:
                setattr(module, name, RMSNorm(len(part.gain)))
            elif isinstance(part, LayerNorm) and not change.biases:
                del part.bias
                part.register_buffer("bias", torch.zeros_like(part.gain))
            elif isinstance(part, nn.Linear):
                nn.init.xavier_uniform_(part.weight)
                if part.bias is not None:
                    nn.init.zeros_(part.bias)
                if not change.biases:
                    part.bias = None


EVERY = 20  # steps between two looks at the validation sentences
OPTIONS = {"betas": (0.9, 0.98), "eps": 1e-9, "weight_decay": 0.01, "fused": True}


def train(
    model: Transformer,
    seed: int,
    *,
    steps: int,
    rate: float = RATE,
    few: int | None = None,
) -> list[tuple[int, float]]:
    """Train by AdamW, at one rate after a warm-up; `few` cuts the data down.

    Every EVERY steps, it notes the step and the share of words that are right.
    """
    words, looks = toy_sentences(), []
    batches = _batches(words.train[:few], seed)
    held_out = [*bucketed_batches(words.validation[:200], tokens_per_batch=1024)]
    optimizer = torch.optim.AdamW(model.parameters(), **OPTIONS)
    for step in range(1, steps + 1):
        optimizer.param_groups[0]["lr"] = rate * min(1, step / WARM_UP)
        train_step(model, next(batches), optimizer)
        if step % EVERY == 0:
            looks.append((step, share_right(model, held_out)))
    return looks


def train_step(model: Transformer, batch: Batch, optimizer: torch.optim.AdamW) -> None:
    """One step down the gradient of the batch's loss."""
    optimizer.zero_grad()
    token_loss(model, batch, label_smoothing=0.1)[0].backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def _batches(pairs: list[IdPair], seed: int) -> Iterator[Batch]:
    """Batches of 512 target tokens, epoch upon epoch."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield from bucketed_batches(pairs, tokens_per_batch=512, generator=generator)


def share_right(model: Transformer, batches: list[Batch]) -> float:
    """The share of words that are right, by teacher forcing."""
    hits, words = 0, 0
    with inference(model):
        for batch in batches:
            real = batch.labels != PAD
            said = model(batch.source, batch.decoder_input).argmax(dim=-1)
            hits += int((said == batch.labels)[real].sum())
            words += int(real.sum())
    return hits / words

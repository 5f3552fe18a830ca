"""Models as `properties` takes them: the course's own and PyTorch's (lesson 15).

`of_reading` takes the five readings of lesson 16.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from helpers import PAD
from helpers.attention import record_attention
from helpers.checks.properties import Subject
from helpers.positions import PositionalEncoding
from helpers.transformer import Transformer

KINDS = {
    "encoder": ("encoder", "self_attention"),
    "decoder": ("decoder", "self_attention"),
    "cross": ("decoder", "cross_attention"),
}


def of_course(model: Transformer, **options) -> Subject:
    """A Transformer of the course, with its caches and its attention maps."""

    def attention(source: Tensor, target: Tensor) -> dict[str, list[Tensor]]:
        with record_attention(model) as maps:
            model(source, target)
        return {
            kind: [
                maps[name] for name in maps if name.startswith(stack) and part in name
            ]
            for kind, (stack, part) in KINDS.items()
        }

    return _subject(model, attention, options)


def of_reading(model: nn.Module, **options) -> Subject:
    """One of lesson 16's five readings, with the maps that it keeps or returns.

    model is what `helpers.readings.build_reading` gives for A to D, or an
    AttentionOnlyTranslator, which is E.
    """

    def attention(source: Tensor, target: Tensor) -> dict[str, list[Tensor]]:
        return attention_of_reading(model, source, target)

    return _subject(model, attention, options)


def attention_of_reading(
    model: nn.Module, source: Tensor, target: Tensor
) -> dict[str, list[Tensor]]:
    """Every map of a batch in the form that Subject's `attention` has."""
    kind = type(model).__name__
    if kind == "LengthsTranslator":  # D returns them
        lengths = [(tokens != PAD).sum(dim=1) for tokens in (source, target)]
        return dict(
            zip(
                KINDS,
                model.model(source, lengths[0], target, lengths[1])[1:],
                strict=True,
            )
        )
    if kind == "AttentionOnlyTranslator":  # so does each of E's blocks
        blocks = (model.encoder, model.self_attention, model.cross_attention)
        return dict(zip(KINDS, _returned(model, blocks, source, target), strict=True))
    model(source, target)
    if kind == "BlocksTranslator":  # B keeps them, heads folded into the batch
        heads = model.config.n_heads
        kept = (model.encoder.attention_weights, *model.decoder.attention_weights)
        return {
            name: [weights.unflatten(0, (-1, heads)) for weights in maps]
            for name, maps in zip(KINDS, kept, strict=True)
        }
    encoder, decoder = model.model.encoder.layers, model.model.decoder.layers
    return {  # A and C keep them
        "encoder": [layer.self_attn.attn for layer in encoder],
        "decoder": [layer.self_attn.attn for layer in decoder],
        "cross": [layer.src_attn.attn for layer in decoder],
    }


def _returned(model, stacks, source, target) -> list[list[Tensor]]:
    """What the modules of each stack return second while the model runs."""
    maps = {module: None for stack in stacks for module in stack}
    handles = [
        module.register_forward_hook(
            lambda module, _, output: maps.__setitem__(module, output[1].detach())
        )
        for module in maps
    ]
    model(source, target)
    for handle in handles:
        handle.remove()
    return [[maps[module] for module in stack] for stack in stacks]


def _subject(model: nn.Module, attention: Callable, options: dict) -> Subject:
    """A model with the course's interface, which can be run step by step."""

    def steps(source: Tensor, target: Tensor) -> Tensor:
        memory, caches = model.encode(source), model.new_caches()
        states = [
            model.decode(token, memory, source, caches=caches)
            for token in target.split(1, dim=1)
        ]
        return model.project(torch.cat(states, dim=1))

    config = model.config
    sizes = {"source_vocab": config.source_vocab, "target_vocab": config.target_vocab}
    seen = {"steps": steps, "attention": attention}
    return Subject(model, **{**sizes, **seen, **options})


class TorchTranslator(nn.Module):
    """nn.Transformer with what it leaves out: embeddings, positions, projection.

    forward(source, target) takes ids and gives logits, as the course's Transformer. The
    masks are PyTorch's for this module: True = hidden.
    """

    def __init__(
        self,
        source_vocab: int,
        target_vocab: int,
        *,
        d_model: int,
        n_heads: int,
        d_ff: int,
        n_layers: int,
        dropout: float = 0.0,
        norm_first: bool = False,
        max_length: int = 1024,
    ):
        super().__init__()
        self.d_model = d_model
        self.source_embedding = nn.Embedding(source_vocab, d_model)
        self.target_embedding = nn.Embedding(target_vocab, d_model)
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=d_model**-0.5)
        self.positions = PositionalEncoding(
            d_model, dropout=dropout, max_length=max_length
        )
        options = {"batch_first": True, "norm_first": norm_first}
        layer = nn.TransformerEncoderLayer(d_model, n_heads, d_ff, dropout, **options)
        # PyTorch's default, nested tensors, warns with norm first and fails under
        # autocast on a CPU with norm last.
        encoder = nn.TransformerEncoder(
            layer, n_layers, nn.LayerNorm(d_model), enable_nested_tensor=False
        )
        self.core = nn.Transformer(
            d_model,
            n_heads,
            n_layers,
            n_layers,
            d_ff,
            dropout,
            custom_encoder=encoder,
            **options,
        )
        self.projection = nn.Linear(d_model, target_vocab)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        hidden = source == PAD
        length, device = target.size(1), target.device
        future = torch.ones(length, length, dtype=torch.bool, device=device).triu(1)
        states = self.core(
            self.embed(self.source_embedding, source),
            self.embed(self.target_embedding, target),
            tgt_mask=future,
            src_key_padding_mask=hidden,
            tgt_key_padding_mask=target == PAD,
            memory_key_padding_mask=hidden,
        )
        return self.projection(states)

    def embed(self, embedding: nn.Embedding, tokens: Tensor) -> Tensor:
        """Embedded ids with their positions, (batch, length, d_model)."""
        return self.positions(embedding(tokens) * math.sqrt(self.d_model))

"""Faults in the course's own Transformer."""

import math
from types import MethodType

import torch
from torch import Tensor, nn

from faults.listing import fault
from helpers.masks import decoder_mask, padding_mask
from lessons.lesson15 import mutants
from lessons.lesson15.breaking import MUTANTS, swap

FIRST, LAST = "the course, norm first", "the course, norm last"


def _as_mutant(
    mutant: str, base: str, where: str, cause: str, unseen: str = ""
) -> None:
    """List one of lesson 15's mutants."""
    fault(mutant, base, where, cause, unseen)(MUTANTS[mutant].damage)


_as_mutant("no causal mask", FIRST, "decoder.layers.0.self_attention", "causal")
_as_mutant(
    "causal mask one place too wide", LAST, "decoder.layers.0.self_attention", "causal"
)
_as_mutant(
    "heads split by view alone",
    FIRST,
    "encoder.layers.0.self_attention",
    "heads mixed axes",
)
_as_mutant(
    "softmax over the queries",
    LAST,
    "encoder.layers.0.self_attention decoder.layers.0.self_attention",
    "softmax mask",
)
_as_mutant(
    "one layer, listed twice",
    FIRST,
    "encoder.layers.1 encoder.layers.0 decoder.layers.1 decoder.layers.0",
    "same shared",
)
_as_mutant(
    "the memory is ignored",
    FIRST,
    "encoder decoder.layers.0.cross_attention source_embedding -",
    "source memory",
)
_as_mutant(
    "hidden scores filled with -1e9",
    FIRST,
    "encoder.layers.0.self_attention",
    "16 half -1e9 finfo",
)
_as_mutant(
    "the positional table is no buffer", LAST, "positions", "buffer plain register"
)
_as_mutant(
    "dropout stays on in eval mode", FIRST, "encoder.layers.0.feed_forward", "dropout"
)
_as_mutant("positions restart with the cache", FIRST, "positions -", "cache position")
_as_mutant("batch and length swapped", LAST, "encoder encoder.layers.0", "batch axes")
_as_mutant(
    "no scale",
    FIRST,
    "encoder.layers.0.self_attention",
    "scale",
    "the scores' size is a choice like any other; only a reference tells",
)
_as_mutant(
    "heads interleaved",
    FIRST,
    "encoder.layers.0.self_attention",
    "heads",
    "another order of the features is as good, until weights come from elsewhere",
)


@fault(
    "0 · -inf as padding mask",
    FIRST,
    "encoder.layers.0.self_attention encoder.layers.0",
    "mask inf",
)
def zero_times_infinity(model: nn.Module) -> None:
    """`(source == 0) * -inf`: 0 · -inf is NaN wherever there is no padding."""

    class Added(mutants.OpenAttention):
        """Adds the mask to the scores."""

        def weigh(self, scores: Tensor, mask: Tensor) -> Tensor:
            return (scores + (~mask) * -math.inf).softmax(dim=-1)

    swap(model.encoder, Added)


@fault(
    "no positions in the decoder",
    FIRST,
    "target_embedding decoder.layers.0",
    "position",
)
def no_target_positions(model: nn.Module) -> None:
    """The line that adds them is there on the source's side only."""

    def decode(
        self: nn.Module, target: Tensor, memory: Tensor, source: Tensor
    ) -> Tensor:
        x = self.target_embedding(target)
        return self.decoder(x, memory, decoder_mask(target), padding_mask(source))

    model.decode = MethodType(decode, model)


@fault(
    "one lost residual, norm first",
    FIRST,
    "decoder.layers.1.cross_attention decoder.layers.1.residuals.1",
    "residual",
)
def one_lost_residual(model: nn.Module) -> None:
    """Around one of ten sublayers, x + is missing."""
    swap(model.decoder.layers[1].residuals[1], mutants.NothingAdded)


@fault(
    "one lost residual, norm last",
    LAST,
    "encoder.layers.0.feed_forward encoder.layers.0.residuals.1",
    "residual",
)
def one_lost_residual_norm_last(model: nn.Module) -> None:
    """strutive07/transformer-tensorflow2.0, issue 14: norm(output), nothing added."""
    residual = model.encoder.layers[0].residuals[1]
    residual.forward = lambda x, sublayer: residual.norm(sublayer(x))


@fault("logits one place late", FIRST, "-", "late shift")
def late_logits(model: nn.Module) -> None:
    """The target is shifted once outside and once more inside."""

    def forward(source: Tensor, target: Tensor) -> Tensor:
        late = torch.cat([target[:, :1], target[:, :-1]], dim=1)
        return model.project(model.decode(late, model.encode(source), source))

    model.forward = forward


@fault(
    "weights untied that should be shared",
    "the course, shared embeddings",
    "projection source_embedding",
    "tied share",
)
def untied(model: nn.Module) -> None:
    """A copy in place of the one matrix; the configuration still says shared."""
    model.projection.weight = nn.Parameter(
        model.source_embedding.weight.detach().clone()
    )


@fault("memory detached", LAST, "encoder source_embedding", "gradient")
def detached(model: nn.Module) -> None:
    """`.detach()`, left over from an experiment: the encoder never learns."""
    inner = model.encode
    model.encode = lambda source: inner(source).detach()

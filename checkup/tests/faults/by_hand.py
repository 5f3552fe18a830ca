"""Faults in decoders and an encoder–decoder that were written without a library."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from faults.listing import fault
from faults.patching import become
from faults.small_decoders import LONGEST, WIDTH, lower

LLAMA, EXPERTS, GPT = "small Llama", "small mixture of experts", "small GPT"
EINSUM, TORCH = "einsum", "nn.Transformer"


# --- A small Llama --------------------------------------------------------------------


@fault("rotary angles by the head", LLAMA, "layers.0.attn", "position")
def angles_by_head(model: nn.Module) -> None:
    """`x.size(1)` behind the transpose: every position of a head has one angle."""

    def angles(self: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.cos[: x.size(1), None], self.sin[: x.size(1), None]

    for layer in model.layers:
        become(layer.attn.rotary, angles=angles)


@fault("a gate taken by .data", LLAMA, "layers.1.mlp.gate", "gradient")
def gate_by_data(model: nn.Module) -> None:
    """The gate opens and shuts, and never learns to."""
    part = model.layers[1].mlp
    part.forward = lambda x: part.down(F.silu(part.gate(x)).data * part.up(x))


@fault("one norm in both places of a layer", LLAMA, "layers.1.norm2", "shared same")
def one_norm(model: nn.Module) -> None:
    """`self.norm2 = self.norm1`: two names, one module."""
    model.layers[1].norm2 = model.layers[1].norm1


@fault("one matrix for keys and values", LLAMA, "layers.1.attn.value", "shared same")
def key_is_value(model: nn.Module) -> None:
    """`self.value = self.key`, a slip where lines are copied."""
    model.layers[1].attn.value = model.layers[1].attn.key


@fault("a softmax without its maximum", LLAMA, "layers.1.attn", "maximum overflow")
def naive_softmax(model: nn.Module) -> None:
    """exp(s) / Σ exp(s): the same function, until training makes a score large."""

    def weigh(self: nn.Module, scores: Tensor) -> Tensor:
        seen = lower(scores.size(-1), scores.device)
        grown = scores.exp() * seen
        return grown / grown.sum(-1, keepdim=True)

    become(model.layers[1].attn, weigh=weigh)


@fault("values of the last call are added", LLAMA, "layers.1.attn", "state kept cache")
def cache_left_over(model: nn.Module) -> None:
    """A cache that nobody empties between two batches."""
    attention, before = model.layers[1].attn, []

    def project(self: nn.Module, x: Tensor) -> list[Tensor]:
        query, key, value = type(self).__mro__[1].project(self, x)
        kept = value[:1, :, :1].detach()
        last, before[:] = (before or [kept])[0], [kept]
        return [query, key, value + last.to(value)]

    become(attention, project=project)


# --- Its mixture of experts -----------------------------------------------------------


@fault(
    "experts choose among all tokens", EXPERTS, "layers.1.mlp", "length capacity top-k"
)
def experts_choose(model: nn.Module) -> None:
    """Zhou et al., 2022, say so: who is chosen depends on the tokens that follow."""

    def shares(self: nn.Module, x: Tensor) -> Tensor:
        liked = self.router(x).softmax(-1)
        best = liked.topk(max(1, x.size(1) // 2), 1).indices
        return liked * torch.zeros_like(liked).scatter(1, best, 1.0)

    become(model.layers[1].mlp, shares=shares)


@fault("a router by argmax alone", EXPERTS, "layers.1.mlp.router", "gradient")
def hard_router(model: nn.Module) -> None:
    """What the router likes does not weigh the expert's output, so it cannot learn."""

    def shares(self: nn.Module, x: Tensor) -> Tensor:
        return F.one_hot(self.router(x).argmax(-1), 4).to(x.dtype)

    become(model.layers[1].mlp, shares=shares)


@fault(
    "a capacity for the whole batch", EXPERTS, "layers.1.mlp", "capacity top-k length"
)
def capacity_of_batch(model: nn.Module) -> None:
    """Who comes after an expert is full is dropped; the batch before it decides."""
    experts = model.layers[1].mlp
    everyone = experts.shares

    def shares(x: Tensor) -> Tensor:
        flat = everyone(x).flatten(0, 1)
        room = (flat > 0).cumsum(0) <= max(1, len(flat) * 2 // 5)
        return (flat * room).view(*x.shape[:2], -1)

    experts.shares = shares


# --- A small GPT ----------------------------------------------------------------------


@fault("causal in eval mode alone", GPT, "blocks.1.attn", "train mode")
def causal_in_eval(model: nn.Module) -> None:
    """`is_causal=not self.training`: the flag of the cache, turned round."""
    attention = model.blocks[1].attn
    attend = F.scaled_dot_product_attention
    attention.attend = lambda q, k, v: attend(q, k, v, is_causal=not attention.training)


class BatchNorm(nn.BatchNorm1d):
    """A batch norm that takes (batch, length, features)."""

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, features) -> the same shape."""
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


@fault("batch norm in a block with dropout", GPT, "blocks.1.ln_2", "batch norm")
def batch_norm(model: nn.Module) -> None:
    """A habit from images."""
    model.blocks[1].ln_2 = BatchNorm(WIDTH)


@fault("positions counted from the end", GPT, "- wpe", "end")
def from_the_end(model: nn.Module) -> None:
    """What follows a word, padding for one, moves its position."""
    model.places = lambda tokens: torch.arange(tokens.size(1) - 1, -1, -1)


@fault("a squeeze of the batch's axes", GPT, "blocks.1.attn", "squeeze axis axes")
def squeezed(model: nn.Module) -> None:
    """`squeeze()` takes every axis of one: right until a sentence has one token."""
    attention = model.blocks[1].attn
    forward = attention.forward
    attention.forward = lambda x: forward(x).squeeze()


class RandomTable(nn.Module):
    """Positions drawn once, in a buffer that no state holds."""

    def __init__(self):
        super().__init__()
        table = torch.randn(LONGEST, WIDTH) * 0.2
        self.register_buffer("table", table, persistent=False)

    def forward(self, places: Tensor) -> Tensor:
        """(length,) -> (length, features)."""
        return self.table[places]


@fault("a random table that is not saved", GPT, "wpe", "random saved state")
def not_saved(model: nn.Module) -> None:
    """`persistent=False` of what cannot be computed again."""
    model.wpe = RandomTable()


# --- An encoder–decoder of einsums ----------------------------------------------------


@fault("padding looked for by another id", EINSUM, "encoder.0.att", "padding mask")
def wrong_pad(model: nn.Module) -> None:
    """The id of another tokenizer: no word is hidden, and no PAD."""
    model.words = lambda tokens: (tokens != 1)[:, None, None]


@fault("the padding mask lies on the queries", EINSUM, "encoder.1.att", "padding mask")
def mask_on_queries(model: nn.Module) -> None:
    """mask[..., None] for mask[:, None]: PADs see nothing, and all see them."""
    layer = model.encoder[1]
    mix = layer.mix
    layer.mix = lambda x, seen: mix(x, seen.mT)


@fault("the decoder begins with a mean over padding", EINSUM, "-", "mean")
def mean_with_padding(model: nn.Module) -> None:
    """`memory.mean(1)`, as a summary of the source."""
    begin = model.begin
    model.begin = lambda t, memory: begin(t, memory) + memory.mean(1, keepdim=True)


@fault("a layer's output thrown away", EINSUM, "decoder.1", "read")
def thrown_away(model: nn.Module) -> None:
    """`layer(x, …)` for `x = layer(x, …)`."""
    layer = model.decoder[1]
    feed = layer.feed
    layer.forward = lambda x, seen, *memory: (feed(layer.mix(x, seen)), x)[1]


@fault("a temperature that falls at every call", EINSUM, "encoder.1.att", "state kept")
def cooling(model: nn.Module) -> None:
    """Annealed by a buffer in forward, in eval mode too."""
    attention = model.encoder[1].att
    attention.register_buffer("temperature", torch.ones(()))
    weigh = attention.weigh

    def cooler(scores: Tensor, seen: Tensor) -> Tensor:
        attention.temperature.mul_(0.9)
        return weigh(scores / attention.temperature, seen)

    attention.weigh = cooler


@fault(
    "one decoder layer without its last residual",
    EINSUM,
    "decoder.1.ff decoder.1",
    "residual",
)
def lost_in_one_layer(model: nn.Module) -> None:
    """The layer is of a class of its own, and returns ff(norm(x))."""
    become(model.decoder[1], feed=lambda self, x: self.ff(self.norms[-1](x)))


@fault(
    "cross-attention with keys of the target", EINSUM, "decoder.1.cross_att", "target"
)
def keys_of_target(model: nn.Module) -> None:
    """`cross(x, x)` in one layer: it reads its own side, future and all."""
    layer = model.decoder[1]

    def read(x: Tensor, memory: Tensor, words: Tensor) -> Tensor:
        normed, all_of_it = layer.norms[1](x), torch.ones_like(words[:1, ..., :1])
        return x + layer.cross_att(normed, normed, all_of_it)

    layer.read = read


@fault("a mask of -15", EINSUM, "decoder.0.att", "effect causal")
def faint_fill(model: nn.Module) -> None:
    """A finite fill that is not low enough: the future whispers, by exp(-15)."""
    model.decoder[0].att.weigh = lambda scores, seen: scores.masked_fill(
        ~seen, -15.0
    ).softmax(-1)


@fault("the target embedded by the source's table", TORCH, "target_embedding", "read")
def wrong_table(model: nn.Module) -> None:
    """It runs where the vocabularies have one size, or the source's is larger."""
    embed = model.embed
    model.embed = lambda embedding, tokens: embed(model.source_embedding, tokens)

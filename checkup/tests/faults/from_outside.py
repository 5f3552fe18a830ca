"""Faults thought of by people who had not read the checks.

They were written down before any check was run on them. The first six were missed or
placed wrongly by the checks of that time; the next four were not judged, or hidden by a
matrix of zeros; the last two were found.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from faults.listing import fault
from faults.patching import become, wrap
from faults.small_decoders import EACH, lower

GPT, LLAMA, EINSUM = "small GPT", "small Llama", "einsum"
PLAIN, ZERO_HEAD, ZERO_START = "plain GPT", "small GPT, zero head", "einsum, zero start"


# --- Missed ---------------------------------------------------------------------------


@fault(
    "a block adds to what came in, not to what stands",
    GPT,
    "blocks.1.attn blocks.1",
    "residual",
)
def stale_residual(model: nn.Module) -> None:
    """y = x + attn(x); `return x + mlp(y)`: attention reaches the mlp alone."""

    def forward(self: nn.Module, x: Tensor) -> Tensor:
        return x + self.mlp(self.ln_2(x + self.attn(self.ln_1(x))))

    become(model.blocks[1], forward=forward)


@fault("rotary angles start anew with the cache", "Llama", "- model.rotary_emb", "anew")
def rotary_without_past(model: nn.Module) -> None:
    """Each step of decoding turns its token as if it were the first."""

    def from_zero(inner, x, position_ids):
        return inner(x, position_ids - position_ids[:, :1])

    wrap(model.model.rotary_emb, from_zero)


@fault(
    "one cross-attention is handed the target twice",
    EINSUM,
    "decoder.1.cross_att",
    "target",
)
def cross_on_itself(model: nn.Module) -> None:
    """`cross(x, x, seen)`: with the causal mask it is one more self-attention."""
    layer = model.decoder[1]

    def forward(x: Tensor, seen: Tensor, *_: Tensor) -> Tensor:
        x = layer.mix(x, seen)
        return layer.feed(layer.read(x, layer.norms[1](x), seen))

    layer.forward = forward


@fault("half of each key is the query's", LLAMA, "layers.1.attn.key", "read")
def half_a_key(model: nn.Module) -> None:
    """`torch.cat([key_turned, query_rest])`: half of the keys' rows are not read."""

    def project(self: nn.Module, x: Tensor) -> list[Tensor]:
        query, key, value = type(self).__mro__[1].project(self, x)
        half = EACH // 2
        return [query, torch.cat([key[..., :half], query[:, :2, :, half:]], -1), value]

    become(model.layers[1].attn, project=project)


# --- Placed wrongly -------------------------------------------------------------------


@fault("a softmax over the queries in a plain block", PLAIN, "body.1", "softmax")
def plain_softmax(model: nn.Module) -> None:
    """`softmax(-2)`; nothing in the block is called attention."""

    def weigh(self: nn.Module, scores: Tensor) -> Tensor:
        seen = lower(scores.size(-1), scores.device)
        return scores.masked_fill(~seen, torch.finfo(scores.dtype).min).softmax(-2)

    become(model.body[1], weigh=weigh)


@fault("the mask of the first batch of a size", EINSUM, "-", "kept")
def mask_kept(model: nn.Module) -> None:
    """It is made once for each size, and the next batch has other words."""
    model.kept = None

    def encode(tokens: Tensor) -> Tensor:
        if model.kept is None or model.kept.shape[::3] != tokens.shape:
            model.kept = model.words(tokens)
        x = model.source(tokens) + model.table[: tokens.size(1)]
        for layer in model.encoder:
            x = layer(x, model.kept)
        return model.norms[0](x)

    model.encode = encode


# --- Not judged, or behind zeros ------------------------------------------------------


@fault("no positions in a plain decoder", PLAIN, "tok body.0", "position")
def plain_without_positions(model: nn.Module) -> None:
    """`x.add(positions)`, whose result is thrown away."""
    model.begin = lambda tokens: model.tok(tokens) + 0 * model.pos.weight[:1]


@fault("one plain block without its last residual", PLAIN, "body.1", "residual")
def plain_residual(model: nn.Module) -> None:
    """`x = n2(feed(x))`."""

    def forward(self: nn.Module, x: Tensor) -> Tensor:
        return self.n2(self.feed(self.n1(x + self.mix(x))))

    become(model.body[1], forward=forward)


@fault("no causal mask behind a head of zeros", ZERO_HEAD, "blocks.1.attn", "causal")
def open_behind_zeros(model: nn.Module) -> None:
    """Until the first step of training, the logits are 0 whatever it sees."""
    attend = F.scaled_dot_product_attention
    model.blocks[1].attn.attend = lambda q, k, v: attend(q, k, v)


@fault("padding seen behind zeros", ZERO_START, "encoder.1.att", "padding")
def padding_behind_zeros(model: nn.Module) -> None:
    """No mask in an attention that hands on nothing yet."""
    layer = model.encoder[1]
    mix = layer.mix
    layer.mix = lambda x, seen: mix(x, torch.ones_like(seen))


# --- Found ----------------------------------------------------------------------------


@fault("a norm over all axes", LLAMA, "layers.1.norm2", "length positions")
def norm_over_all(model: nn.Module) -> None:
    """`x.pow(2).mean()` without `-1`: batch and future are in it."""

    def forward(self: nn.Module, x: Tensor) -> Tensor:
        return self.gain * x * torch.rsqrt(x.pow(2).mean() + 1e-6)

    become(model.layers[1].norm2, forward=forward)


@fault(
    "a boolean mask that keeps what it should hide",
    "nn.Transformer",
    "core.decoder.layers.0",
    "causal",
)
def mask_turned(model: nn.Module) -> None:
    """`tril` where nn.Transformer means by True: hidden."""
    future = model.future
    model.future = lambda target: ~future(target)

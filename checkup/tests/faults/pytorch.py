"""Faults in a translator and a language model made of PyTorch's modules."""

from types import MethodType

import torch
from torch import Tensor, nn

from faults.listing import fault
from helpers import PAD

BATCH, NORM_FIRST = "nn.Transformer", "nn.Transformer, norm first"
CAUSAL, ENCODER = "nn.TransformerEncoder, causal", "nn.TransformerEncoder"


@fault(
    "batch_first forgotten", BATCH, "core.encoder core.encoder.layers.0", "batch axes"
)
def batch_first_forgotten(model: nn.Module) -> None:
    """Exorust/TorchLeet, issue 5: sentences attend to each other, not words."""
    for layer in model.core.encoder.layers:
        layer.self_attn.batch_first = False

    def encode(self: nn.Module, source: Tensor) -> Tensor:
        return self.core.encoder(self.embed(self.source_embedding, source))

    model.encode = MethodType(encode, model)


@fault("tgt_mask forgotten", NORM_FIRST, "core.decoder.layers.0.self_attn", "causal")
def no_target_mask(model: nn.Module) -> None:
    """nn.Transformer makes none of its own."""
    model.future = lambda target: None


@fault(
    "positions added along the batch, PyTorch",
    BATCH,
    "source_embedding positions core.encoder.layers.0 -",
    "position batch",
)
def positions_along_batch(model: nn.Module) -> None:
    """songyangco/GETNext, issue 2, and the tutorial's class under batch first."""

    def embed(self: nn.Module, embedding: nn.Module, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.size(0), device=tokens.device)
        return embedding(tokens) + self.positions(places)[:, None]

    model.embed = MethodType(embed, model)


@fault(
    "padding mask turned round",
    NORM_FIRST,
    "core.encoder.layers.0.self_attn core.encoder.layers.0",
    "padding mask",
)
def padding_turned_round(model: nn.Module) -> None:
    """`source != PAD` as key_padding_mask, where True means hide."""

    def encode(self: nn.Module, source: Tensor) -> Tensor:
        x = self.embed(self.source_embedding, source)
        hidden = source != PAD
        hidden[:, 0] = False
        return self.core.encoder(x, src_key_padding_mask=hidden)

    model.encode = MethodType(encode, model)


def _decode_with(model: nn.Module, **changes) -> None:
    """Change what the decoder is handed; a callable is given target and source."""

    def decode(
        self: nn.Module, target: Tensor, memory: Tensor, source: Tensor
    ) -> Tensor:
        given = {
            "memory": memory,
            "tgt_mask": self.future(target),
            "tgt_key_padding_mask": target == PAD,
            "memory_key_padding_mask": source == PAD,
        }
        x = self.embed(self.target_embedding, target)
        given |= {name: make(x, target, source) for name, make in changes.items()}
        return self.core.decoder(x, **given)

    model.decode = MethodType(decode, model)


@fault(
    "memory_key_padding_mask forgotten",
    BATCH,
    "core.decoder.layers.0.multihead_attn",
    "padding mask",
)
def no_memory_mask(model: nn.Module) -> None:
    """Three masks to pass, and the third has the longest name."""
    _decode_with(model, memory_key_padding_mask=lambda x, target, source: None)


@fault(
    "a 0/1 float as mask",
    NORM_FIRST,
    "core.decoder.layers.0.multihead_attn",
    "padding mask",
)
def float_mask(model: nn.Module) -> None:
    """A float mask is added to the scores: 1 in place of -inf hides nothing."""
    mask = "memory_key_padding_mask"
    _decode_with(model, **{mask: lambda x, target, source: (source == PAD).float()})


@fault(
    "the decoder's own states as memory",
    NORM_FIRST,
    "core.encoder core.decoder.layers.0.multihead_attn source_embedding -",
    "source memory",
)
def own_memory(model: nn.Module) -> None:
    """`decoder(x, x)`: both have the same shape if the lengths agree."""
    _decode_with(
        model,
        memory=lambda x, target, source: x[:, :1],
        memory_key_padding_mask=lambda x, target, source: None,
    )


@fault(
    "an encoder layer without its second residual",
    NORM_FIRST,
    "core.encoder.layers.1 core.encoder.layers.1.linear2",
    "residual",
)
def lost_in_encoder(model: nn.Module) -> None:
    """`x = self._ff_block(…)` for `x = x + self._ff_block(…)`."""
    layer = model.core.encoder.layers[1]

    def forward(src: Tensor, src_key_padding_mask: Tensor, **_: object) -> Tensor:
        x = src + layer._sa_block(layer.norm1(src), None, src_key_padding_mask)
        return layer._ff_block(layer.norm2(x))

    layer.forward = forward


@fault("a causal mask for 16 tokens", BATCH, "- core.decoder", "length longer fixed")
def fixed_mask(model: nn.Module) -> None:
    """Made once, for the longest sentence so far, and cut to the length."""
    mask = torch.ones(16, 16).triu(1).bool()
    model.future = lambda target: mask[: target.size(1), : target.size(1)]


@fault(
    "the mask is float32 for ever",
    NORM_FIRST,
    "core.decoder.layers.0.self_attn core.decoder.layers.0",
    "dtype float32",
    "PyTorch's attention moves a float mask to the query's dtype, so that all is well",
)
def mask_of_one_dtype(model: nn.Module) -> None:
    """`generate_square_subsequent_mask` without dtype, in a model moved to double."""
    model.future = lambda target: nn.Transformer.generate_square_subsequent_mask(
        target.size(1), device=target.device, dtype=torch.float32
    )
    _decode_with(model, tgt_key_padding_mask=lambda x, target, source: None)


@fault("softmax before the loss, PyTorch", BATCH, "projection -", "softmax logits")
def probabilities(model: nn.Module) -> None:
    """Ends in nn.Softmax, as a model “that gives probabilities” does."""
    model.projection = nn.Sequential(model.projection, nn.Softmax(dim=-1))


class BatchNorm(nn.Module):
    """nn.BatchNorm1d over the features."""

    def __init__(self, features: int):
        super().__init__()
        self.inner = nn.BatchNorm1d(features)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, features) -> the same shape."""
        return self.inner(x.transpose(1, 2)).transpose(1, 2)


@fault(
    "batch norm for layer norm",
    NORM_FIRST,
    "core.decoder.layers.0.norm1",
    "train batch norm",
)
def batch_norm(model: nn.Module) -> None:
    """In train mode every sentence, and its padding, moves all others."""
    model.core.decoder.layers[0].norm1 = BatchNorm(32)


@fault(
    "padding mask not passed",
    ENCODER,
    "stack.layers.0.self_attn stack.layers.0",
    "padding mask",
)
def no_padding_mask(model: nn.Module) -> None:
    """jingyaogong/minimind-v, issue 76: padding is left out of the loss only."""
    model.forward = lambda tokens: model.projection(model.stack(model.embed(tokens)))


@fault("the layers in a plain list, PyTorch", CAUSAL, "stack.layers layers -", "list")
def layers_in_a_list(model: nn.Module) -> None:
    """`self.layers = [layer, layer]` where nn.ModuleList belongs."""
    layers = [*model.stack.layers]
    del model.stack.layers
    model.stack.layers = layers

    def forward(x: Tensor, mask: Tensor, src_key_padding_mask: Tensor) -> Tensor:
        for layer in model.stack.layers:
            x = layer(x, mask, src_key_padding_mask)
        return model.stack.norm(x)

    model.stack.forward = forward


@fault(
    "positions forgotten in a language model",
    CAUSAL,
    "embedding stack.layers.0 -",
    "position",
)
def no_positions(model: nn.Module) -> None:
    """The causal mask alone tells a deep stack something of the order."""
    model.embed = lambda tokens: model.embedding(tokens)

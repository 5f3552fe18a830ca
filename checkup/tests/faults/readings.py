"""Faults in readings: the Annotated Transformer, d2l's blocks, the long tutorial."""

import torch
from torch import Tensor, nn

from faults.listing import fault
from lessons.lesson16.readings.annotated import make_tgt_mask

A, B = "reading A", "reading B, d2l's blocks"
C, D = "reading C, the Annotated Transformer", "reading D"


@fault(
    "the annotated layers start as copies",
    C,
    "model.encoder.layers.1 model.encoder.layers.0 model.encoder.layers",
    "copies same equal",
)
def clones_kept(model: nn.Module) -> None:
    """harvardnlp/annotated-transformer, issue 9; pytorch/pytorch, issue 86274."""
    for stack in (model.model.encoder, model.model.decoder):
        for layer in stack.layers[1:]:
            layer.load_state_dict(stack.layers[0].state_dict())


@fault(
    "the annotated -1e9", A, "model.encoder.layers.0.self_attn", "16 half -1e9 finfo"
)
def minus_a_billion(model: nn.Module) -> None:
    """As the text has it: right in 32 bits, no number in 16."""
    for layer in (*model.model.encoder.layers, *model.model.decoder.layers):
        for name in ("self_attn", "src_attn"):
            if hasattr(layer, name):
                getattr(layer, name).forward = _filled(getattr(layer, name), -1e9)


def _filled(attention: nn.Module, hidden: float):
    """The annotated attention with another filling."""

    def forward(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        batch = len(query)
        query, key, value = (
            linear(x).view(batch, -1, attention.h, attention.d_k).transpose(1, 2)
            for linear, x in zip(attention.linears, (query, key, value), strict=False)
        )
        scores = query @ key.transpose(-2, -1) / attention.d_k**0.5
        scores = scores.masked_fill(mask.unsqueeze(1) == 0, hidden)
        weights = scores.softmax(dim=-1)
        attention.attn = weights.detach()
        return attention.linears[3]((weights @ value).transpose(1, 2).flatten(2))

    return forward


@fault(
    "src_mask not handed to the annotated decoder",
    C,
    "model.decoder.layers.0.src_attn",
    "padding mask",
)
def no_source_mask(model: nn.Module) -> None:
    """The encoder gets it, the decoder's second attention does not."""

    def write(tokens: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        mask = torch.ones_like(source, dtype=torch.bool).unsqueeze(1)
        return model.model.decode(memory, mask, tokens, make_tgt_mask(tokens))

    model.write = write


@fault(
    "one annotated sublayer without x +",
    C,
    "model.encoder.layers.0.self_attn model.encoder.layers.0.sublayer.0",
    "residual",
)
def lost_sublayer(model: nn.Module) -> None:
    """`return self.dropout(sublayer(self.norm(x)))`."""
    part = model.model.encoder.layers[0].sublayer[0]
    part.forward = lambda x, sublayer: part.dropout(sublayer(part.norm(x)))


@fault(
    "one feed-forward for all annotated layers",
    C,
    "model.encoder.layers.0.feed_forward model.encoder.layers.1.feed_forward",
    "same shared",
)
def one_feed_forward(model: nn.Module) -> None:
    """habla-liaa/encodecmae, issue 3: made once, outside the loop over the layers."""
    layers = model.model.encoder.layers
    layers[1].feed_forward = layers[0].feed_forward


@fault("probabilities for log-probabilities", C, "model.generator -", "softmax logits")
def probabilities(model: nn.Module) -> None:
    """`F.softmax` in the generator, and a loss that takes another softmax."""
    generator = model.model.generator
    generator.forward = lambda x: generator.proj(x).softmax(dim=-1)


@fault(
    "the annotated dropout is made and not used",
    C,
    "model.encoder.layers.0 model.src_embed model.encoder.layers.0.sublayer.0 -",
    "dropout",
)
def idle_dropout(model: nn.Module) -> None:
    """It is set in every constructor, and no forward calls it."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.forward = lambda x: x


@fault(
    "d2l's table is no buffer",
    B,
    "encoder.pos_encoding decoder.pos_encoding encoder.pos_encoding.P",
    "buffer plain dtype",
)
def plain_table(model: nn.Module) -> None:
    """As d2l has it: moved by hand to the device, never to another dtype."""
    for part in (model.encoder.pos_encoding, model.decoder.pos_encoding):
        table = part.P
        del part.P
        part.P = table

        def forward(X: Tensor, start: int = 0, part: nn.Module = part) -> Tensor:
            rows = part.P[:, start : start + X.size(1), :].to(X.device)
            return part.dropout(X + rows)

        part.forward = forward


class WholeNorm(nn.Module):
    """One mean and one variance for a whole sentence."""

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, features) -> the same shape."""
        return nn.functional.layer_norm(x, x.shape[1:])


@fault(
    "norm over length and features, d2l",
    B,
    "encoder.blks.0.addnorm1 encoder.blks.0.addnorm1.ln decoder.blks.0.addnorm1 "
    "decoder.blks.0.addnorm1.ln",
    "norm",
)
def whole_norm(model: nn.Module) -> None:
    """norm_shape = [num_steps, num_hiddens], as the reading printed it."""
    for block in (*model.encoder.blks, *model.decoder.blks):
        for name in ("addnorm1", "addnorm2", "addnorm3"):
            if hasattr(block, name):
                getattr(block, name).ln = WholeNorm()


@fault(
    "the long tutorial's masks in another order than its heads",
    D,
    "model.encoder.encoder_layers.0.attention model.encoder.encoder_layers.0",
    "batch mask",
)
def repeated_masks(model: nn.Module) -> None:
    """`attn_mask.repeat(num_heads, 1, 1)` where the heads are folded row by row."""
    for layer in model.model.encoder.encoder_layers:
        inner = layer.attention.forward

        def rolled(*args, inner=inner, **kwargs) -> Tensor:
            given = [
                x.roll(1, 0) if isinstance(x, Tensor) and x.dtype == torch.bool else x
                for x in args
            ]
            return inner(*given, **kwargs)

        layer.attention.forward = rolled


@fault(
    "cross-attention's values are the keys' projection, A",
    A,
    "model.decoder.layers.0.src_attn model.decoder.layers.0.src_attn.linears.2",
    "gradient value",
)
def keys_for_values(model: nn.Module) -> None:
    """`self.linears[1]` twice: the third is there and never called."""
    for layer in model.model.decoder.layers:
        attention = layer.src_attn
        filled = _filled(attention, torch.finfo(torch.float32).min)

        def forward(*args, attention=attention, filled=filled) -> Tensor:
            kept = attention.linears
            query, key, _, output = kept
            attention._modules["linears"] = nn.ModuleList([query, key, key, output])
            try:
                return filled(*args)
            finally:
                attention._modules["linears"] = kept

        attention.forward = forward

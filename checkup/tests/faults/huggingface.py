"""Faults in Hugging Face's decoders, put in by patching."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from faults.listing import fault
from faults.patching import become, wrap
from faults.small_decoders import LONGEST


def _see_ahead(attention: nn.Module, places: int) -> None:
    """Let an attention see that many places of the future, whatever it is told."""

    def seeing(inner, hidden_states, *args, attention_mask=None, **kwargs):
        batch, length, _ = hidden_states.shape
        allowed = torch.ones(length, length, dtype=torch.bool).tril(places)
        allowed = allowed.to(hidden_states.device).expand(batch, 1, length, length)
        return inner(hidden_states, *args, attention_mask=allowed, **kwargs)

    wrap(attention, seeing)


@fault(
    "GPT-2's second layer sees the future",
    "GPT-2",
    "transformer.h.1.attn transformer.h.1",
    "causal",
)
def gpt2_future(model: nn.Module) -> None:
    """huggingface/transformers, issues 48745 and 48748; facebookresearch/xformers 103.

    Where no mask is passed, none is made.
    """
    _see_ahead(model.transformer.h[1].attn, LONGEST)


@fault(
    "Llama's mask is triu(2)",
    "Llama",
    "model.layers.0.self_attn model.layers.0",
    "causal",
)
def llama_wide(model: nn.Module) -> None:
    """`triu(diagonal=2)`: one place of the future stays open."""
    for layer in model.model.layers:
        _see_ahead(layer.self_attn, 1)


@fault(
    "GPT-2's positions are all 0",
    "GPT-2",
    "transformer.wte transformer.h.0 transformer.wpe",
    "position",
)
def gpt2_positions(model: nn.Module) -> None:
    """position_ids made by zeros_like."""
    wrap(model.transformer.wpe, lambda inner, ids: inner(torch.zeros_like(ids)))


@fault("GPT-2's head untied", "GPT-2", "lm_head transformer.wte", "tied share")
def gpt2_untied(model: nn.Module) -> None:
    """tie_word_embeddings is true, and the head has a matrix of its own."""
    model.lm_head.weight = nn.Parameter(model.lm_head.weight.detach().clone())


@fault(
    "GPT-2's blocks are one block",
    "GPT-2",
    "transformer.h.1 transformer.h.0",
    "same shared",
)
def gpt2_same_block(model: nn.Module) -> None:
    """`nn.ModuleList([Block(config)] * n_layer)`."""
    model.transformer.h[1] = model.transformer.h[0]


@fault(
    "Llama keeps its cache between calls",
    "Llama",
    "model model.layers.0.self_attn model.layers.0 -",
    "remember cache state",
)
def llama_cache(model: nn.Module) -> None:
    """The first batch's keys are still there when the second comes."""
    offset = []

    def remembering(inner, *args, **kwargs):
        output = inner(*args, **kwargs)
        offset.append(1)
        output.last_hidden_state = output.last_hidden_state * (1 + 0.1 * len(offset))
        return output

    wrap(model.model, remembering)


@fault(
    "Llama's rotary angles leave in float32",
    "Llama",
    "model.rotary_emb model.layers.0.self_attn model.layers.0",
    "dtype float32",
)
def llama_float32(model: nn.Module) -> None:
    """huggingface/transformers 24262, EleutherAI/gpt-neox 1305: q and v differ."""

    def single(inner, x, position_ids):
        cos, sin = inner(x, position_ids)
        return cos.float(), sin.float()

    wrap(model.model.rotary_emb, single)


@fault(
    "Llama turns the queries alone",
    "Llama",
    "model.layers.0.self_attn",
    "position rotary",
)
def llama_queries_only(model: nn.Module) -> None:
    """The keys' line is missing: scores depend on the query's own place."""
    for layer in model.model.layers:
        attention = layer.self_attn

        def forward(
            hidden_states,
            position_embeddings,
            attention_mask=None,
            attention=attention,
            **_,
        ):
            from transformers.models.llama.modeling_llama import rotate_half

            split = (*hidden_states.shape[:-1], -1, attention.head_dim)
            query, key, value = (
                project(hidden_states).view(split).transpose(1, 2)
                for project in (attention.q_proj, attention.k_proj, attention.v_proj)
            )
            cos, sin = (x[:, None] for x in position_embeddings)
            query = query * cos + rotate_half(query) * sin
            key, value = (x.repeat_interleave(2, 1) for x in (key, value))
            given = {"attn_mask": attention_mask, "is_causal": attention_mask is None}
            mixed = F.scaled_dot_product_attention(query, key, value, **given)
            return attention.o_proj(mixed.transpose(1, 2).flatten(2)), None

        attention.forward = forward


@fault(
    "GPT-2 takes the norm's output for the residual",
    "GPT-2",
    "transformer.h.0",
    "residual",
    "a block that adds to its normed input is a sound block of another design",
)
def gpt2_normed_residual(model: nn.Module) -> None:
    """Howuhh/faster-trajectory-transformer, issue 3: norm_x + attn(norm_x)."""
    for block in model.transformer.h:

        def normed(inner, hidden_states, *args, block=block, **kwargs):
            return inner(block.ln_1(hidden_states), *args, **kwargs)

        wrap(block, normed)


@fault(
    "one block of GPT-2 without its second residual",
    "GPT-2",
    "transformer.h.1.mlp transformer.h.1",
    "residual",
)
def gpt2_block(model: nn.Module) -> None:
    """In one block, which is of a class of its own, `residual +` is missing."""

    def forward(self: nn.Module, x: Tensor, cache: object, mask: Tensor, *_, **__):
        given = {"past_key_values": cache, "attention_mask": mask}
        x = x + self.attn(self.ln_1(x), **given)[0]
        return self.mlp(self.ln_2(x))

    become(model.transformer.h[1], forward=forward)


@fault(
    "Llama's feed-forward takes the mean away",
    "Llama",
    "model.layers.0.mlp",
    "mean length",
)
def llama_centred(model: nn.Module) -> None:
    """`x - x.mean(1)`: the second axis is the length, and its end the future."""
    part = model.model.layers[0].mlp
    wrap(part, lambda inner, x: inner(x - x.mean(1, keepdim=True)))

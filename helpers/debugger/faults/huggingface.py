"""Faults in Hugging Face's models, put in by patching."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers import PAD
from helpers.debugger.faults.listing import fault
from helpers.debugger.faults.specimens import LONGEST


class Nothing(nn.Module):
    """Stands in for an embedding of positions: zeros of the same shape."""

    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, *args, **kwargs) -> Tensor:
        """Zeros in place of the inner module's output."""
        return 0 * self.inner(*args, **kwargs)


def _wrap(module: nn.Module, change) -> None:
    """module(…) becomes change(module's own forward, …)."""
    inner = module.forward
    module.forward = lambda *args, **kwargs: change(inner, *args, **kwargs)


# --- Encoder–decoders -----------------------------------------------------------------


@fault(
    "no positions in Marian's decoder",
    "Marian",
    "model.decoder.embed_tokens model.shared model.decoder.layers.0 "
    "model.decoder.embed_positions",
    "position",
)
def marian_positions(model: nn.Module) -> None:
    """The table is made, and zeros are added."""
    model.model.decoder.embed_positions = Nothing(model.model.decoder.embed_positions)


@fault("Marian's encoder under no_grad", "Marian", "model.encoder", "gradient")
def frozen_encoder(model: nn.Module) -> None:
    """Frozen for a first stage of training, and never thawed."""
    _wrap(model.model.encoder, torch.no_grad()(lambda inner, *a, **k: inner(*a, **k)))


@fault(
    "BART's cross-attention without residual",
    "BART",
    "model.decoder.layers.0.encoder_attn model.decoder.layers.0",
    "residual",
)
def bart_residual(model: nn.Module) -> None:
    """`hidden_states = residual + hidden_states` is one line among fourteen like it."""
    layer = model.model.decoder.layers[0]
    asked = []

    def keep(inner, hidden_states, *args, **kwargs):
        asked[:] = [hidden_states]
        output, *rest = inner(hidden_states, *args, **kwargs)
        return (output - hidden_states, *rest)

    _wrap(layer.encoder_attn, keep)


@fault("BART's target shifted twice", "BART", "-", "late shift")
def bart_shifted(model: nn.Module) -> None:
    """decoder_input_ids go through shift_tokens_right, which labels should."""
    from transformers.models.bart.modeling_bart import shift_tokens_right

    def shifted(inner, *args, decoder_input_ids, **kwargs):
        ids = shift_tokens_right(decoder_input_ids, PAD, 2)
        return inner(*args, decoder_input_ids=ids, **kwargs)

    _wrap(model, shifted)


@fault(
    "T5's decoder ignores the source's mask",
    "T5",
    "decoder.block.0.layer.1.EncDecAttention decoder.block.0.layer.1",
    "padding mask",
)
def t5_cross_mask(model: nn.Module) -> None:
    """huggingface/transformers, issue 36293: lost between two refactorings."""

    def without(inner, *args, encoder_attention_mask=None, **kwargs):
        return inner(*args, **kwargs)

    _wrap(model.decoder, without)


@fault(
    "T5's decoder without its relative bias",
    "T5",
    "decoder.embed_tokens shared decoder.block.0",
    "position",
)
def t5_bias(model: nn.Module) -> None:
    """The first block alone has the bias, for all."""
    attention = model.decoder.block[0].layer[0].SelfAttention
    attention.relative_attention_bias = Nothing(attention.relative_attention_bias)


@fault(
    "Pegasus's feed-forward never added",
    "Pegasus",
    "model.encoder.layers.1.fc2 model.encoder.layers.1",
    "residual",
)
def pegasus_residual(model: nn.Module) -> None:
    """The sublayer's output stands for the sum."""
    layer = model.model.encoder.layers[1]
    kept = []

    def before(inner, x):
        kept[:] = [x]
        return inner(x)

    def after(inner, x):
        return inner(x) - kept[0]

    _wrap(layer.final_layer_norm, before)
    _wrap(layer.fc2, after)


# --- Decoders -------------------------------------------------------------------------


def _see_ahead(attention: nn.Module, places: int) -> None:
    """Let an attention see that many places of the future, whatever it is told."""

    def seeing(inner, hidden_states, *args, attention_mask=None, **kwargs):
        batch, length, _ = hidden_states.shape
        allowed = torch.ones(length, length, dtype=torch.bool).tril(places)
        allowed = allowed.to(hidden_states.device).expand(batch, 1, length, length)
        return inner(hidden_states, *args, attention_mask=allowed, **kwargs)

    _wrap(attention, seeing)


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
    _wrap(model.transformer.wpe, lambda inner, ids: inner(torch.zeros_like(ids)))


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

    _wrap(model.model, remembering)


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

    _wrap(model.model.rotary_emb, single)


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

        _wrap(block, normed)


# --- Encoders -------------------------------------------------------------------------


def _with_mask(layer: nn.Module, change) -> None:
    """Hand another mask to an attention; change(mask) may be called with None."""

    def masked(inner, hidden_states, attention_mask=None, *args, **kwargs):
        return inner(hidden_states, change(attention_mask), *args, **kwargs)

    _wrap(layer, masked)


BERT_ATTENTION = "bert.encoder.layer.0.attention.self bert.encoder.layer.0.attention"


@fault("BERT's mask is added as 0 and 1", "BERT", BERT_ATTENTION, "padding mask")
def bert_unextended(model: nn.Module) -> None:
    """The mask of the tokenizer goes in as it came, and is added to the scores."""
    for layer in model.bert.encoder.layer:
        _with_mask(layer.attention, lambda m: None if m is None else m.float())


@fault("BERT's masks belong to other sentences", "BERT", BERT_ATTENTION, "batch mask")
def bert_rolled(model: nn.Module) -> None:
    """Sorted by length, and the masks were not."""
    for layer in model.bert.encoder.layer:
        _with_mask(layer.attention, lambda m: None if m is None else m.roll(1, 0))


@fault(
    "BERT without positions",
    "BERT",
    "bert.embeddings bert.embeddings.position_embeddings bert.encoder.layer.0",
    "position",
)
def bert_positions(model: nn.Module) -> None:
    """position_ids given, and all of them 0."""
    embeddings = model.bert.embeddings
    _wrap(embeddings.position_embeddings, lambda inner, ids: inner(0 * ids))


@fault(
    "BERT's output without input_tensor",
    "BERT",
    "bert.encoder.layer.1.output bert.encoder.layer.1",
    "residual",
)
def bert_residual(model: nn.Module) -> None:
    """`self.LayerNorm(hidden_states)`, where `+ input_tensor` belongs."""
    output = model.bert.encoder.layer[1].output
    output.forward = lambda x, _: output.LayerNorm(output.dropout(output.dense(x)))


@fault(
    "BERT drops in eval mode",
    "BERT",
    "bert.embeddings.dropout bert.embeddings",
    "dropout",
)
def bert_dropout(model: nn.Module) -> None:
    """F.dropout(x, p) drops unless it is told not to."""
    model.bert.embeddings.dropout.forward = lambda x: F.dropout(x, 0.1)


@fault(
    "DistilBERT hides with -inf, row by row",
    "DistilBERT",
    "distilbert.transformer.layer.0.attention",
    "nan -inf empty hidden",
)
def distilbert_infinity(model: nn.Module) -> None:
    """pytorch/pytorch, issues 24816 and 41508: a softmax over nothing is NaN."""
    for layer in model.distilbert.transformer.layer:
        attention = layer.attention

        def forward(hidden_states, attention_mask=None, attention=attention, **_):
            split = (*hidden_states.shape[:-1], 4, 8)
            query, key, value = (
                project(hidden_states).view(split).transpose(1, 2)
                for project in (attention.q_lin, attention.k_lin, attention.v_lin)
            )
            scores = query @ key.transpose(-2, -1) / math.sqrt(8)
            if attention_mask is not None:
                scores = scores.masked_fill(~attention_mask, -math.inf)
            mixed = scores.softmax(-1) @ value
            return attention.out_lin(mixed.transpose(1, 2).flatten(2)), None

        attention.forward = forward

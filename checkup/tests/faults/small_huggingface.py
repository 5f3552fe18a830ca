"""Small models of `transformers`, drawn at random from a configuration.

Nothing is downloaded.
"""

from collections.abc import Callable
from types import MethodType

import torch
from torch import Tensor, nn

from faults.small_decoders import LONGEST
from helpers import PAD

SEQ2SEQ = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": LONGEST,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
}
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
SWITCH = {
    **T5,
    "num_decoder_layers": 2,
    "num_experts": 4,
    "num_sparse_encoder_layers": 1,
    "num_sparse_decoder_layers": 1,
    "expert_capacity": 64,
}
GPT2 = {"n_positions": LONGEST, "n_embd": 32, "n_layer": 2, "n_head": 4}
STACK = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": LONGEST,
}
GROUPED = {**STACK, "num_key_value_heads": 2}


def hugging_face(kind: str, config: str, **sizes) -> Callable[[int, int], nn.Module]:
    """A function of vocabulary and seed that builds transformers' class `kind`."""

    def build(vocab: int, seed: int) -> nn.Module:
        import transformers  # takes seconds

        torch.manual_seed(seed)
        ids = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
        made = getattr(transformers, config)(vocab_size=vocab, **ids, **sizes)
        return getattr(transformers, kind)(made)

    return build


def seq2seq_logits(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    """Of an encoder–decoder of Hugging Face."""
    given = {"attention_mask": (source != PAD).long(), "decoder_input_ids": target}
    return model(input_ids=source, **given, use_cache=False).logits


def causal_logits(model: nn.Module, tokens: Tensor) -> Tensor:
    """Of a causal language model of Hugging Face."""
    mask = (tokens != PAD).long()
    return model(input_ids=tokens, attention_mask=mask, use_cache=False).logits


def masked_logits(model: nn.Module, tokens: Tensor) -> Tensor:
    """Of a masked language model of Hugging Face."""
    return model(input_ids=tokens, attention_mask=(tokens != PAD).long()).logits


def prophetnet(vocab: int, seed: int) -> nn.Module:
    """ProphetNet with two mistakes of the library's put right.

    The scores of relative positions and the distances that they are looked up by come
    in one order, and the mask has the model's own dtype.
    """
    config = {"hidden_size": 32, "decoder_start_token_id": 2}
    for side in ("encoder", "decoder"):
        config |= {f"{side}_ffn_dim": 64, f"num_{side}_layers": 2}
        config[f"num_{side}_attention_heads"] = 4
    kind = "ProphetNetForConditionalGeneration", "ProphetNetConfig"
    config["max_position_embeddings"] = LONGEST
    model = hugging_face(*kind, **config)(vocab, seed)
    for layer in model.prophetnet.decoder.layers:
        looked_up = MethodType(by_distance, layer.self_attn)
        layer.self_attn.get_predict_relative_pos_embeddings = looked_up
    forward = model.forward

    def of_one_dtype(*, attention_mask: Tensor, **given) -> object:
        return forward(attention_mask=attention_mask.to(model.dtype), **given)

    model.forward = of_one_dtype
    return model


def deberta(vocab: int, seed: int) -> nn.Module:
    """DeBERTa with relative positions alone; its attention is left out of autocast.

    There the library fills scores of 16 bits with the least number of 32, and stops.
    """
    sizes = {**STACK, "type_vocab_size": 0, "position_biased_input": False}
    sizes |= {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
    kind = "DebertaForMaskedLM", "DebertaConfig"
    model = hugging_face(*kind, **sizes)(vocab, seed)
    for layer in model.deberta.encoder.layer:
        outside = torch.autocast("cpu", enabled=False)
        layer.attention.self.forward = outside(layer.attention.self.forward)
    return model


def t5gemma(vocab: int, seed: int) -> nn.Module:
    """T5Gemma, which has a configuration for each side and ties the decoder's table."""
    ids = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    heads = {"head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 8}
    side = {**GROUPED, **heads, **ids, "vocab_size": vocab}
    kind = "T5GemmaForConditionalGeneration", "T5GemmaConfig"
    return hugging_face(*kind, encoder=side, decoder=side)(vocab, seed)


def by_distance(
    self: nn.Module, states: Tensor, weights: Tensor, places: Tensor, buckets: Tensor
) -> Tensor:
    """ProphetNet's scores of the keys' distances, (batch, ngram, heads, …, keys)."""
    scores = self.relative_pos_embeddings(states.transpose(1, 2))
    scores = scores.unflatten(-1, (self.num_buckets, self.num_attn_heads))
    scores = scores.movedim(-1, 2)  # (batch, ngram, heads, length, buckets)
    index = buckets[:, None, None].expand(*scores.shape[:3], -1, -1)
    return scores.gather(-1, index.long())

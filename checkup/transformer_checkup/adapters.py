"""Models of several interfaces as a `Subject`.

An adapter is a function of three lines: what the model is called with, the sizes of its
vocabularies, and that is a `Subject`. For another interface, write another.
"""

import inspect
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_checkup.subject import PAD, TRIED, Subject, Unknown

# Of Hugging Face's models: parts that the logits do not go through.
UNUSED = ("pooler", "contact_head")

# --- PyTorch's modules ----------------------------------------------------------------


def of_torch(
    model: nn.Module,
    embed_source: Callable[[Tensor], Tensor],
    embed_target: Callable[[Tensor], Tensor],
    project: nn.Module,
    **options,
) -> Subject:
    """An nn.Transformer between embeddings (with positions) and a projection.

    embed_…(ids) gives (batch, length, d_model), project(states) logits. The masks are
    made here, as nn.Transformer makes none. `source_vocab` is needed, `target_vocab`
    where it is another.
    """
    parts = {"core": model, "project": project}
    parts |= {"embed_source": embed_source, "embed_target": embed_target}
    modules = {name: p for name, p in parts.items() if isinstance(p, nn.Module)}
    turn = (lambda x: x) if model.batch_first else (lambda x: x.transpose(0, 1))

    def logits(source: Tensor, target: Tensor) -> Tensor:
        length = target.size(1)
        future = torch.ones(length, length, device=target.device).triu(1).bool()
        states = model(
            turn(embed_source(source)),
            turn(embed_target(target)),
            tgt_mask=future,
            src_key_padding_mask=source == PAD,
            tgt_key_padding_mask=target == PAD,
            memory_key_padding_mask=source == PAD,
        )
        return project(turn(states))

    return Subject(logits, module=nn.ModuleDict(modules), **options)


# --- Hugging Face's -------------------------------------------------------------------


def of_hugging_face(model: nn.Module, **options) -> Subject:
    """A model of `transformers`: encoder–decoder, causal or masked language model.

    Which one follows from its configuration and its class. Padding is told by the mask,
    so that 0 may be an ordinary token of its own. Built from a configuration or loaded;
    say `trained=True` of a loaded one. ValueError for what is no such model, and for an
    encoder–decoder without the head that makes logits.
    """
    config, given = getattr(model, "config", None), {"module": model}
    kind = type(model).__name__
    if not hasattr(config, "is_encoder_decoder"):
        raise ValueError(f"a {kind} is no model of transformers: hand it to `Subject`")
    if config.is_encoder_decoder and model.get_output_embeddings() is None:
        raise ValueError(
            f"{kind} gives states, no logits: take the class with a head, as "
            "T5ForConditionalGeneration"
        )
    given["kind"] = _kind_of(model)
    given["source_vocab"] = config.vocab_size
    if 0 < (getattr(config, "max_position_embeddings", None) or 0) < TRIED:
        given["longest"] = config.max_position_embeddings
    given["unused"] = tuple(n for n, _ in model.named_modules() if n.endswith(UNUSED))
    given["tied"] = _tied(model)
    if given["kind"] == "decoder":
        given["steps"] = _by_cache(model)
    function = _of_both if given["kind"] == "encoder-decoder" else _of_one
    return Subject(function(model), **{**given, **options})


def _kind_of(model: nn.Module) -> str:
    if model.config.is_encoder_decoder:
        return "encoder-decoder"
    name, config = type(model).__name__, model.config
    # XLM's and XLNet's heads look both ways, unless their configurations say otherwise.
    one_way = getattr(config, "causal", True) and (
        getattr(config, "attn_type", "uni") != "bi"
    )
    causal = "CausalLM" in name or ("LMHead" in name and one_way)
    return "decoder" if causal or getattr(config, "is_decoder", False) else "encoder"


def _tied(model: nn.Module) -> tuple[tuple[str, str], ...]:
    """What the library itself ties, as the output matrix to an embedding."""
    names = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    pairs = dict(getattr(model, "all_tied_weights_keys", None) or {}).items()
    return tuple(pair for pair in pairs if names.issuperset(pair))


def _seen_by_all(model: nn.Module, mask: Tensor) -> dict[str, Tensor]:
    """Longformer's and LED's global attention, for the first word."""
    if "global_attention_mask" not in inspect.signature(model.forward).parameters:
        return {}
    return {"global_attention_mask": mask * F.one_hot(mask.new_tensor(0), mask.size(1))}


def _by_cache(model: nn.Module) -> Callable[[Tensor], Tensor]:
    """Token by token, with the cache that the model returns."""

    def steps(tokens: Tensor) -> Tensor:
        cache, parts = None, []
        for end, token in enumerate(tokens.split(1, dim=1), start=1):
            given = {"attention_mask": (tokens[:, :end] != PAD).long()}
            given |= {"past_key_values": cache, "use_cache": True}
            output = model(input_ids=token, **given)
            cache = getattr(output, "past_key_values", None)
            if cache is None:
                raise Unknown("the model returns no cache")
            parts.append(output.logits)
        return torch.cat(parts, dim=1)

    return steps


def _of_both(model: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    def logits(source: Tensor, target: Tensor) -> Tensor:
        mask = (source != PAD).long()
        given = {"attention_mask": mask, "decoder_input_ids": target}
        given |= _seen_by_all(model, mask)
        return model(input_ids=source, **given, use_cache=False).logits

    return logits


def _of_one(model: nn.Module) -> Callable[[Tensor], Tensor]:
    options = {"use_cache": False} if _kind_of(model) == "decoder" else {}

    def logits(tokens: Tensor) -> Tensor:
        mask = (tokens != PAD).long()
        given = {**options, **_seen_by_all(model, mask)}
        output = model(input_ids=tokens, attention_mask=mask, **given)
        found = getattr(output, "logits", None)
        return output.last_hidden_state if found is None else found

    return logits


# --- d2l's and the Annotated Transformer's --------------------------------------------


def of_d2l(model: nn.Module, source_vocab: int, **options) -> Subject:
    """An EncoderDecoder of d2l: model(source, target, valid_lens) -> (logits, …)."""

    def logits(source: Tensor, target: Tensor) -> Tensor:
        return model(source, target, (source != PAD).sum(1))[0]

    return Subject(logits, source_vocab, module=model, **options)


def of_annotated(model: nn.Module, source_vocab: int, **options) -> Subject:
    """An EncoderDecoder of the Annotated Transformer, its generator applied."""

    def logits(source: Tensor, target: Tensor) -> Tensor:
        length, words = target.size(1), (source != PAD).unsqueeze(-2)
        seen = torch.ones(length, length, device=target.device).tril().bool()
        mask = (target != PAD).unsqueeze(-2) & seen
        return model.generator(model(source, target, words, mask))

    return Subject(logits, source_vocab, module=model, **options)

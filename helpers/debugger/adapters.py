"""Models of several interfaces as `properties` takes them (lesson 15).

An adapter is a function of three lines: what the model is called with, the sizes of its
vocabularies, and that is a `Subject`. For another interface, write another.
"""

import re
from collections.abc import Callable

import torch
from torch import Tensor, nn

from helpers import PAD
from helpers.attention import record_attention
from helpers.debugger.subject import Subject
from helpers.decoding import start_decoding
from helpers.plots.pages import KINDS
from helpers.readings.interface import Translator
from helpers.transformer import Transformer

# What Subject calls the kinds of attention, and what the pages of maps call them.
NAMES = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "cross-attention",
}


def of_course(model: Transformer, **options) -> Subject:
    """A Transformer of the course, with its caches and its attention maps."""
    if model.config.share_embeddings:
        pairs = (("projection.weight", "source_embedding.weight"),)
        options = {"tied": pairs, **options}

    def attention(source: Tensor, target: Tensor) -> dict[str, list[Tensor]]:
        with record_attention(model) as maps:
            model(source, target)
        modules = {kind: KINDS[name].module for kind, name in NAMES.items()}
        return {
            kind: [maps[name] for name in maps if _numbered(name, module)]
            for kind, module in modules.items()
        }

    return _subject(model, attention, options)


def of_reading(model: Translator, **options) -> Subject:
    """One of lesson 16's five readings, with the maps that it keeps or returns.

    model is what `helpers.readings.build_reading` gives for A to D, or an
    AttentionOnlyTranslator, which is E.
    """
    return _subject(model, model.attention_maps, options)


def _numbered(name: str, module: str) -> bool:
    """Whether name is that of the module with some number for its {}."""
    return re.fullmatch(module.replace("{}", r"\d+"), name) is not None


def _subject(model: nn.Module, attention: Callable, options: dict) -> Subject:
    """A model with the course's interface, which can be run step by step."""

    def steps(source: Tensor, target: Tensor) -> Tensor:
        decoding = start_decoding(model, source)
        return torch.stack([decoding.step(token) for token in target.unbind(1)], dim=1)

    config = model.config
    sizes = {"source_vocab": config.source_vocab, "target_vocab": config.target_vocab}
    seen = {"steps": steps, "attention": attention}
    return Subject(model, **{**sizes, **seen, **options})


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
    say `trained=True` of a loaded one. ValueError for a model that gives neither logits
    nor states.
    """
    config, given = model.config, {"module": model}
    given["kind"] = _kind_of(model)
    given["source_vocab"] = config.vocab_size
    longest = getattr(config, "max_position_embeddings", None) or 40
    given["longest"] = min(40, longest)
    given["unused"] = tuple(n for n, _ in model.named_modules() if n.endswith("pooler"))
    given["tied"] = _tied(model)
    function = _of_both if given["kind"] == "encoder-decoder" else _of_one
    return Subject(function(model), **{**given, **options})


def _kind_of(model: nn.Module) -> str:
    if model.config.is_encoder_decoder:
        return "encoder-decoder"
    name = type(model).__name__
    causal = (
        "CausalLM" in name
        or "LMHead" in name
        or getattr(model.config, "is_decoder", False)
    )
    return "decoder" if causal else "encoder"


def _tied(model: nn.Module) -> tuple[tuple[str, str], ...]:
    """The output matrix and the embedding, if the configuration says they are one."""
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    if head is None or not getattr(model.config, "tie_word_embeddings", False):
        return ()
    names = {id(part): name for name, part in model.named_modules()}
    return ((f"{names[id(head)]}.weight", f"{names[id(embedding)]}.weight"),)


def _of_both(model: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    def logits(source: Tensor, target: Tensor) -> Tensor:
        mask = (source != PAD).long()
        given = {"attention_mask": mask, "decoder_input_ids": target}
        return model(input_ids=source, **given, use_cache=False).logits

    return logits


def _of_one(model: nn.Module) -> Callable[[Tensor], Tensor]:
    options = {"use_cache": False} if _kind_of(model) == "decoder" else {}

    def logits(tokens: Tensor) -> Tensor:
        mask = (tokens != PAD).long()
        output = model(input_ids=tokens, attention_mask=mask, **options)
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

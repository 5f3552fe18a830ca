"""Models of `transformers` as a `Subject`."""

import inspect
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .subject import TRIED, Subject, Unknown, says

UNUSED = ("pooler", "contact_head")  # parts that the logits do not go through


def of_hugging_face(model: nn.Module, **options) -> Subject:
    """A model of `transformers`: encoder–decoder, causal or masked language model.

    Which one follows from its configuration and its class, and so do the ids of padding
    and of the start. Padding is told by the mask. Built from a configuration or loaded;
    say `trained=True` of a loaded one. ValueError for what is no such model, and for an
    encoder–decoder without the head that makes logits.
    """
    config, name = getattr(model, "config", None), type(model).__name__
    if not hasattr(config, "is_encoder_decoder"):
        raise ValueError(f"a {name} is no model of transformers: hand it to `Subject`")
    if config.is_encoder_decoder and model.get_output_embeddings() is None:
        raise ValueError(
            f"{name} gives states, no logits: take the class with a head, as "
            "T5ForConditionalGeneration"
        )
    given = {"module": model, "kind": _kind_of(model), "tied": _tied(model)}
    given |= {"source_vocab": config.vocab_size, **_ids(config)}
    if 0 < (getattr(config, "max_position_embeddings", None) or 0) < TRIED:
        given["longest"] = config.max_position_embeddings
    given["unused"] = tuple(n for n, _ in model.named_modules() if n.endswith(UNUSED))
    calls = _Calls(model, options.get("pad", given["pad"]), given["kind"])
    if given["kind"] != "encoder":
        given |= {"steps": calls.steps, "beams": calls.beams, "loss": calls.loss}
    return Subject(calls.logits, **{**given, **options})


def _kind_of(model: nn.Module) -> str:
    name, config = type(model).__name__, model.config
    if config.is_encoder_decoder:
        return "encoder-decoder"
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


def _ids(config: object) -> dict[str, object]:
    """The ids that are no words, as far as the configuration says."""
    names = ("pad", "decoder_start", "bos", "eos")
    found = [getattr(config, f"{name}_token_id", None) for name in names]
    pad, start, *ends = (
        i if isinstance(i, int) and 0 <= i < config.vocab_size else None for i in found
    )
    pad, start = pad or 0, ends[0] if start is None else start
    special = {0, 1, 2, 3, *(i for i in ends if i is not None)}
    bos = 2 if start in (None, pad) else start
    return {"pad": pad, "bos": bos, "special": tuple(sorted(special))}


class _Calls:
    """How a model of `transformers` is called."""

    def __init__(self, model: nn.Module, pad: int, kind: str):
        self.model, self.pad, self.kind = model, pad, kind

    def logits(self, *sides: Tensor) -> Tensor:
        """All at once; an encoder's states if it has no head."""
        options = {} if self.kind == "encoder" else {"use_cache": False}
        output = self.model(**self._named(*sides), **options)
        found = getattr(output, "logits", None)
        return output.last_hidden_state if found is None else found

    def loss(self, *sides: Tensor) -> Tensor:
        """The model's own."""
        *source, target = sides
        labels = target.masked_fill(target == self.pad, -100)
        if source:
            target, labels = target[:, :-1], labels[:, 1:].contiguous()
        named = self._named(*source, target)
        return self.model(**named, labels=labels, use_cache=False).loss

    def steps(self, *sides: Tensor) -> Tensor:
        """With the model's cache: three tokens at once, then one by one."""
        *source, target = sides
        parts = target[:, :3], *target[:, 3:].split(1, dim=1)
        return self._with_cache(source, target, [p for p in parts if p.numel()])

    def beams(self, *sides: Tensor) -> Tensor:
        """One by one; the cache's rows are put in another order before each step."""
        *source, target, parents = sides
        return self._with_cache(source, target, target.split(1, dim=1), parents)

    def _with_cache(
        self,
        source: list,
        target: Tensor,
        parts: Sequence,
        parents: Tensor | None = None,
    ) -> Tensor:
        cache, end, logits = None, 0, []
        for part in parts:
            if cache is not None and parents is not None:
                if not hasattr(cache, "reorder_cache"):
                    raise Unknown("the model's cache cannot be put in another order")
                cache.reorder_cache(parents[:, end])
            end += part.size(1)
            named = self._named(*source, part)
            if not source:
                named["attention_mask"] = (target[:, :end] != self.pad).long()
            try:
                output = self.model(**named, past_key_values=cache, use_cache=True)
            except Exception as error:
                said = f"the adapter finds no way to its cache: {says(error)}"
                raise Unknown(said) from error
            cache = getattr(output, "past_key_values", None)
            if cache is None:
                raise Unknown("the model returns no cache")
            logits.append(output.logits)
        return torch.cat(logits, dim=1)

    def _named(self, first: Tensor, target: Tensor | None = None) -> dict[str, Tensor]:
        """The arguments of `forward`, with Longformer's and LED's global attention."""
        mask = (first != self.pad).long()
        named = {"input_ids": first, "attention_mask": mask}
        if target is not None:
            named["decoder_input_ids"] = target
        if "global_attention_mask" in inspect.signature(self.model.forward).parameters:
            first_word = F.one_hot(mask.new_tensor(0), mask.size(1))
            named["global_attention_mask"] = mask * first_word
        return named

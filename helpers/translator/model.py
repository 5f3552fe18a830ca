"""A model with its vocabularies, saved in one file."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import safetensors
import torch
from safetensors.torch import load_model, save_model
from torch import Tensor, nn

from helpers.batching import IdPair
from helpers.decoding import greedy_decode, translate_ids
from helpers.multi30k import TextPair
from helpers.scale.checkpoints import CheckpointError, write_atomically
from helpers.text import SubwordTokenizer, Vocabulary
from helpers.transformer import Transformer, TransformerConfig

Text = Vocabulary | SubwordTokenizer
TEXT_KINDS = {kind.__name__: kind for kind in (Vocabulary, SubwordTokenizer)}
MODEL_FILE = "translator.safetensors"


@dataclass
class Translator:
    """A Transformer and what turns text into its ids and back."""

    model: Transformer
    source_text: Text
    target_text: Text

    def translate(
        self,
        sentences: Sequence[str],
        *,
        decode: Callable[..., Tensor] = greedy_decode,
        max_length: int | None = None,
    ) -> list[str]:
        """Translate sentences; max_length as in `translate_ids`.

        UnknownWordError if a Vocabulary lacks a word; ValueError for a sentence that
        is longer than the positional table; TypeError for one string, not a list.
        """
        if isinstance(sentences, str):
            raise TypeError("translate takes a list of sentences; put this one in [ ]")
        sources = [self.source_text.encode(sentence) for sentence in sentences]
        longest = self.model.config.max_length - 1  # EOS is read as well
        for sentence, ids in zip(sentences, sources, strict=True):
            if len(ids) > longest:
                raise ValueError(
                    f"“{sentence:.40}…” is {len(ids)} tokens long; the model reads "
                    f"{longest} at most"
                )
        outputs = translate_ids(
            self.model, sources, decode=decode, max_length=max_length
        )
        return [self.target_text.decode(ids) for ids in outputs]

    def encode_pairs(self, pairs: Sequence[TextPair]) -> list[IdPair]:
        """Text pairs -> pairs of ids, for batching."""
        encode_source, encode_target = self.source_text.encode, self.target_text.encode
        return [
            (encode_source(source), encode_target(target)) for source, target in pairs
        ]

    def save(self, path: str | Path) -> None:
        """Write weights, configuration and vocabularies into one safetensors file."""
        metadata = {"config": json.dumps(asdict(self.model.config))}
        for side, text in (("source", self.source_text), ("target", self.target_text)):
            metadata[f"{side}_kind"] = type(text).__name__
            metadata[f"{side}_text"] = text.to_json()
        write_atomically(
            path, lambda part: save_model(self.model, str(part), metadata=metadata)
        )

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        device: str | torch.device = "cpu",
        model: Callable[[TransformerConfig], nn.Module] = Transformer,
    ) -> "Translator":
        """Read what `save` wrote; CheckpointError if the file is missing or damaged.

        `model` builds another Transformer, such as your own, whose parameters have the
        course's names.
        """
        if not Path(path).exists():
            raise CheckpointError(f"there is no saved translator at {path}")
        try:
            with safetensors.safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
            config = TransformerConfig(**json.loads(metadata["config"]))
            weights = Transformer(config)
            load_model(weights, str(path), device="cpu")
        except KeyError as error:
            raise CheckpointError(
                f"{path} is no saved translator: no {error}"
            ) from None
        except TypeError as error:  # a configuration with other fields
            raise CheckpointError(f"{path} is of another version: {error}") from None
        except (safetensors.SafetensorError, RuntimeError) as error:
            raise CheckpointError(
                f"{path} is damaged or cut short, or of another configuration: {error}"
            ) from error
        texts = [
            TEXT_KINDS[metadata[f"{side}_kind"]].from_json(metadata[f"{side}_text"])
            for side in ("source", "target")
        ]
        filled = weights if model is Transformer else _filled(model(config), weights)
        return cls(filled.to(device), *texts)


@torch.no_grad()
def _filled(model: nn.Module, other: nn.Module) -> nn.Module:
    """The model with the other's parameters, by name; CheckpointError for others."""
    yours, due = (dict(x.named_parameters()) for x in (model, other))
    if strange := sorted(yours.keys() ^ due.keys()):
        raise CheckpointError(f"the model has other parameters: {', '.join(strange)}")
    for name, weight in due.items():
        yours[name].copy_(weight)
    return model

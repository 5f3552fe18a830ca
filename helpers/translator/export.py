"""A trained translator for CTranslate2, an engine that serves such models.

The engine is not among the course's packages, since only this module uses it:
`python -m pip install ctranslate2`. It must translate as the course does, token by
token, before anything is written.
"""

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor, nn

from helpers import SPECIAL_TOKENS
from helpers.attention import MultiHeadAttention
from helpers.decoding import translate_ids
from helpers.layers import FeedForward, LayerNorm
from helpers.text import Vocabulary
from helpers.translator.model import TEXT_KINDS, Text, Translator

PAD_TOKEN, UNK_TOKEN, BOS_TOKEN, EOS_TOKEN = SPECIAL_TOKENS
NEVER = [[PAD_TOKEN], [BOS_TOKEN]]  # no words, so neither engine chooses them
SIDES = ("source_text", "target_text")  # each in a file, its kind in config.json


class ExportError(ValueError):
    """The engine is missing, or translates otherwise than the course."""


def engine() -> ModuleType:
    """The package ctranslate2; ExportError, which says how to get it, without it."""
    try:
        import ctranslate2
        import ctranslate2.specs
    except ImportError as error:
        raise ExportError(
            "this needs CTranslate2, which is not among the course's packages "
            f"({error}): python -m pip install ctranslate2"
        ) from None
    return ctranslate2


def export(translator: Translator, folder: str | Path, sentences: Sequence[str]) -> int:
    """Write the model into a folder for CTranslate2; the number of sentences compared.

    Both translate the sentences greedily first. ExportError, and nothing is written, if
    one comes out otherwise.
    """
    with tempfile.TemporaryDirectory() as name:
        part = Path(name)
        specification(translator).save(str(part))
        for side in SIDES:
            text = getattr(translator, side).to_json()
            (part / f"{side}.json").write_text(text, "utf-8")
        compare(translator, ServedTranslator(part), sentences)
        shutil.copytree(part, folder, dirs_exist_ok=True)
    return len(sentences)


def compare(
    translator: Translator, served: "ServedTranslator", sentences: Sequence[str]
) -> None:
    """ExportError, with the first difference, unless both write the same tokens."""
    sources = [translator.source_text.encode(sentence) for sentence in sentences]
    longest = min(100, translator.model.config.max_length)
    ours = translate_ids(translator.model, sources, max_length=longest)
    theirs = served.translate_ids(sources, max_length=longest)
    different = [i for i in range(len(sources)) if ours[i] != theirs[i]]
    if different:
        first = different[0]
        texts = (translator.target_text.decode(ids[first]) for ids in (ours, theirs))
        raise ExportError(
            "CTranslate2 writes {} of {} sentences otherwise; the first is “{}”: the "
            "course writes “{}”, CTranslate2 “{}”. Nothing was written".format(
                len(different), len(sources), sentences[first], *texts
            )
        )


class ServedTranslator:
    """An exported model in CTranslate2, on the processor, in float32."""

    def __init__(self, folder: str | Path):
        self.translator = engine().Translator(
            str(folder), compute_type="float32", intra_threads=torch.get_num_threads()
        )
        self.source_text, self.target_text = read_texts(Path(folder))
        self.source_tokens, self.target_tokens = map(
            tokens_of, (self.source_text, self.target_text)
        )
        self.target_ids = {token: i for i, token in enumerate(self.target_tokens)}

    def translate(self, sentences: Sequence[str], **options) -> list[str]:
        """Translate sentences; the options are those of `translate_ids`."""
        sources = [self.source_text.encode(sentence) for sentence in sentences]
        outputs = self.translate_ids(sources, **options)
        return [self.target_text.decode(ids) for ids in outputs]

    def translate_ids(
        self,
        sources: Sequence[Sequence[int]],
        *,
        beam_size: int = 1,
        length_penalty: float = 1.0,
        sentences_per_batch: int = 100,
        max_length: int = 100,
    ) -> list[list[int]]:
        """Decode many sources, in the order given; ids on both sides without EOS.

        CTranslate2 divides a hypothesis's score by its length ** length_penalty.
        """
        results = self.translator.translate_batch(
            [[self.source_tokens[i] for i in source] for source in sources],
            beam_size=beam_size,
            length_penalty=length_penalty,
            max_batch_size=sentences_per_batch,
            max_decoding_length=max_length,
            suppress_sequences=NEVER,
        )
        best = [result.hypotheses[0] for result in results]
        return [[self.target_ids[token] for token in tokens] for tokens in best]


def read_texts(folder: Path) -> list[Text]:
    """The vocabularies of both sides, as `export` wrote them."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    return [
        TEXT_KINDS[config[side]].from_json((folder / f"{side}.json").read_text("utf-8"))
        for side in SIDES
    ]


def tokens_of(text: Text) -> list[str]:
    """A name for every id, no two alike, the special tokens first."""
    if isinstance(text, Vocabulary):
        return text.words
    return [text.tokenizer.id_to_token(i) for i in range(len(text))]


# -- conversion ------------------------------------------------------------------------


def specification(translator: Translator) -> object:
    """The model in CTranslate2's own terms, with its vocabularies."""
    model, config = translator.model, translator.model.config
    spec = engine().specs.TransformerSpec.from_config(
        config.n_layers, config.n_heads, pre_norm=config.norm_first
    )
    table = model.positions.table
    for side, embedding, stack in (
        (spec.encoder, model.source_embedding, model.encoder),
        (spec.decoder, model.target_embedding, model.decoder),
    ):
        tables = side.embeddings  # the encoder may have several, for factors of a word
        put(tables[0] if isinstance(tables, list) else tables, embedding)
        side.scale_embeddings = True
        side.position_encodings.encodings = array(table)
        if config.norm_first:
            put_norm(side.layer_norm, stack.norm)
    for part, layer in zip(spec.encoder.layer, model.encoder.layers, strict=True):
        norms = [residual.norm for residual in layer.residuals]
        put_attention(part.self_attention, layer.self_attention, norms[0])
        put_feed_forward(part.ffn, layer.feed_forward, norms[1])
    for part, layer in zip(spec.decoder.layer, model.decoder.layers, strict=True):
        norms = [residual.norm for residual in layer.residuals]
        put_attention(part.self_attention, layer.self_attention, norms[0])
        put_attention(part.attention, layer.cross_attention, norms[1])
        put_feed_forward(part.ffn, layer.feed_forward, norms[2])
    put(spec.decoder.projection, model.projection)
    spec.config.unk_token, spec.config.add_source_eos = UNK_TOKEN, True
    spec.config.bos_token = spec.config.decoder_start_token = BOS_TOKEN
    spec.config.eos_token = EOS_TOKEN
    spec.config.layer_norm_epsilon = stack.layers[0].residuals[0].norm.eps
    for side in SIDES:
        spec.config.add_attribute(side, type(getattr(translator, side)).__name__)
    spec.register_source_vocabulary(tokens_of(translator.source_text))
    spec.register_target_vocabulary(tokens_of(translator.target_text))
    spec.validate()
    return spec


def put_attention(part: object, attention: MultiHeadAttention, norm: LayerNorm) -> None:
    """Fill an attention; the projections that read the same input are one matrix."""
    query, key, value = (
        attention.query_projection,
        attention.key_projection,
        attention.value_projection,
    )
    of_self = len(part.linear) == 2
    together = [(query, key, value)] if of_self else [(query,), (key, value)]
    together.append((attention.output_projection,))
    for linear, layers in zip(part.linear, together, strict=True):
        put(linear, *layers)
    put_norm(part.layer_norm, norm)


def put_feed_forward(part: object, network: FeedForward, norm: LayerNorm) -> None:
    """Fill a feed-forward network."""
    put(part.linear_0, network.expand)
    put(part.linear_1, network.contract)
    put_norm(part.layer_norm, norm)


def put_norm(part: object, norm: LayerNorm) -> None:
    """Fill a layer normalisation."""
    part.gamma, part.beta = array(norm.gain), array(norm.bias)


def put(part: object, *layers: nn.Module) -> None:
    """Fill a matrix, and its bias if there is one, from layers one below the other."""
    part.weight = array(torch.cat([layer.weight for layer in layers]))
    biases = [getattr(layer, "bias", None) for layer in layers]
    if biases[0] is not None:
        part.bias = array(torch.cat(biases))


def array(tensor: Tensor) -> object:
    """The numbers in float32, as CTranslate2 takes them."""
    return tensor.detach().float().cpu().numpy()

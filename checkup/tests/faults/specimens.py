"""Sound models of several code bases, by vocabulary and seed, and how each is called.

All are tiny: 32 features, four heads, two layers a side. Hugging Face's are drawn at
random from a configuration; nothing is downloaded.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from faults.small_cached import CachedGPT
from faults.small_decoders import LONGEST, SmallGPT, SmallLlama
from faults.small_huggingface import (
    GPT2,
    GROUPED,
    SEQ2SEQ,
    STACK,
    SWITCH,
    T5,
    causal_logits,
    deberta,
    hugging_face,
    masked_logits,
    prophetnet,
    seq2seq_logits,
    t5gemma,
)
from faults.small_plain import PlainGPT, zero_head, zero_start
from faults.small_seq2seq import EinsumSeq2Seq
from faults.torch_models import TorchSeq2Seq, TorchStack
from helpers.transformer import Transformer, TransformerConfig
from lessons.lesson16.readings import build_reading

COURSE, PYTORCH, BY_HAND = "the course", "PyTorch", "by hand"
HUGGING_FACE, READING = "Hugging Face", "reading"
SIZES = {"d_model": 32, "n_heads": 4, "d_ff": 64, "n_layers": 2}


@dataclass(frozen=True)
class Specimen:
    """A sound model: who wrote it, what it takes, how it is built and called.

    build(vocab, seed) gives the model; call(model, source, target) its logits, or
    call(model, tokens) where `kind` is "decoder" or "encoder".
    """

    name: str
    code_base: str
    kind: str
    build: Callable[[int, int], nn.Module]
    call: Callable[..., Tensor]


def plainly(model: nn.Module, *tokens: Tensor) -> Tensor:
    """Ids in, logits out."""
    return model(*tokens)


def drawn(kind: Callable[..., nn.Module], **options) -> Callable[[int, int], nn.Module]:
    """A function of vocabulary and seed that builds a model of this class."""

    def build(vocab: int, seed: int) -> nn.Module:
        torch.manual_seed(seed)
        with warnings.catch_warnings():  # that nested tensors do not fit norm first
            warnings.filterwarnings("ignore", "enable_nested_tensor is True")
            return kind(vocab, **options)

    return build


# --- The course's, and the readings' --------------------------------------------------


def course_model(vocab: int, seed: int, **changes) -> nn.Module:
    """The course's Transformer with one vocabulary for both sides."""
    torch.manual_seed(seed)
    changes = {"dropout": 0.0, "norm_first": True, **SIZES, **changes}
    changes = {"share_embeddings": False, **changes}
    return Transformer(TransformerConfig(vocab, vocab, **changes))


def reading(key: str, dropout: float = 0.0) -> Callable[[int, int], nn.Module]:
    """A function of vocabulary and seed that builds one of lesson 16's readings."""

    def build(vocab: int, seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return build_reading(key, vocab, vocab, dropout=dropout, **SIZES)

    return build


# --- All of them ----------------------------------------------------------------------

BOTH, DECODER, ENCODER = "encoder-decoder", "decoder", "encoder"


def of_pytorch() -> list[Specimen]:
    """PyTorch's modules."""
    torch_s = partial(Specimen, code_base=PYTORCH, call=plainly)
    stack, seq2seq = partial(drawn, TorchStack), partial(drawn, TorchSeq2Seq)
    return [
        torch_s(name="nn.Transformer", kind=BOTH, build=seq2seq()),
        torch_s(
            name="nn.Transformer, norm first", kind=BOTH, build=seq2seq(norm_first=True)
        ),
        torch_s(
            name="nn.Transformer, length first",
            kind=BOTH,
            build=seq2seq(batch_first=False),
        ),
        torch_s(
            name="nn.TransformerEncoder",
            kind=ENCODER,
            build=stack(causal=False, norm_first=False),
        ),
        torch_s(
            name="nn.TransformerEncoder, causal",
            kind=DECODER,
            build=stack(causal=True, norm_first=True),
        ),
    ]


def of_hugging_face() -> list[Specimen]:
    """Models of `transformers`, three kinds."""
    face, theirs = hugging_face, partial(Specimen, code_base=HUGGING_FACE)
    both = partial(theirs, kind=BOTH, call=seq2seq_logits)
    decoder = partial(theirs, kind=DECODER, call=causal_logits)
    encoder = partial(theirs, kind=ENCODER, call=masked_logits)
    return [
        both(name="Marian", build=face("MarianMTModel", "MarianConfig", **SEQ2SEQ)),
        both(
            name="BART",
            build=face("BartForConditionalGeneration", "BartConfig", **SEQ2SEQ),
        ),
        both(
            name="Pegasus",
            build=face("PegasusForConditionalGeneration", "PegasusConfig", **SEQ2SEQ),
        ),
        both(name="ProphetNet, put right", build=prophetnet),
        both(name="T5", build=face("T5ForConditionalGeneration", "T5Config", **T5)),
        both(name="T5Gemma", build=t5gemma),
        both(
            name="SwitchTransformers",
            build=face(
                "SwitchTransformersForConditionalGeneration",
                "SwitchTransformersConfig",
                **SWITCH,
            ),
        ),
        decoder(name="GPT-2", build=face("GPT2LMHeadModel", "GPT2Config", **GPT2)),
        decoder(
            name="GPT-J",
            build=face("GPTJForCausalLM", "GPTJConfig", rotary_dim=4, **GPT2),
        ),
        decoder(name="Llama", build=face("LlamaForCausalLM", "LlamaConfig", **GROUPED)),
        decoder(
            name="Mistral, window of 8",
            build=face(
                "MistralForCausalLM", "MistralConfig", sliding_window=8, **GROUPED
            ),
        ),
        decoder(
            name="BLOOM",
            build=face(
                "BloomForCausalLM", "BloomConfig", hidden_size=32, n_layer=2, n_head=4
            ),
        ),
        encoder(name="BERT", build=face("BertForMaskedLM", "BertConfig", **STACK)),
        encoder(
            name="ALBERT",
            build=face("AlbertForMaskedLM", "AlbertConfig", embedding_size=16, **STACK),
        ),
        encoder(
            name="DistilBERT",
            build=face(
                "DistilBertForMaskedLM",
                "DistilBertConfig",
                dim=32,
                hidden_dim=64,
                n_layers=2,
                n_heads=4,
                max_position_embeddings=LONGEST,
            ),
        ),
        encoder(name="DeBERTa, put right", build=deberta),
        encoder(
            name="Longformer",
            build=face(
                "LongformerForMaskedLM",
                "LongformerConfig",
                attention_window=[8, 8],
                **STACK,
            ),
        ),
        encoder(
            name="ESM",
            build=face(
                "EsmForMaskedLM",
                "EsmConfig",
                mask_token_id=4,
                position_embedding_type="rotary",
                **STACK,
            ),
        ),
    ]


def of_the_course() -> list[Specimen]:
    """The readings, and the course's own."""
    read = partial(Specimen, code_base=READING, kind=BOTH, call=plainly)
    ours = partial(Specimen, code_base=COURSE, kind=BOTH, call=plainly)
    return [
        read(name="reading A", build=reading("A")),
        read(name="reading B, d2l's blocks", build=reading("B")),
        read(name="reading C, the Annotated Transformer", build=reading("C", 0.1)),
        read(name="reading D", build=reading("D")),
        ours(name="the course, norm first", build=course_model),
        ours(
            name="the course, norm last", build=partial(course_model, norm_first=False)
        ),
        ours(
            name="the course, shared embeddings",
            build=partial(course_model, share_embeddings=True),
        ),
    ]


def of_hands() -> list[Specimen]:
    """Small models without a library."""
    own = partial(Specimen, code_base=BY_HAND, kind=DECODER, call=plainly)
    return [
        own(name="small Llama", build=drawn(SmallLlama)),
        own(name="small mixture of experts", build=drawn(SmallLlama, experts=True)),
        own(name="small GPT", build=drawn(SmallGPT)),
        own(name="small GPT, zero head", build=drawn(zero_head)),
        own(name="plain GPT", build=drawn(PlainGPT)),
        own(name="cached GPT", build=drawn(CachedGPT)),
        own(name="cached rotary", build=drawn(CachedGPT, places="rotary")),
        own(name="cached ALiBi", build=drawn(CachedGPT, places="ALiBi")),
        own(name="einsum", kind=BOTH, build=drawn(EinsumSeq2Seq)),
        own(name="einsum, zero start", kind=BOTH, build=drawn(zero_start)),
    ]


EVERY = [*of_pytorch(), *of_hugging_face(), *of_hands(), *of_the_course()]
SOUND = {specimen.name: specimen for specimen in EVERY}

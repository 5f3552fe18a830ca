"""Sound models of several code bases, by vocabulary and seed, and how each is called.

All are tiny: 32 features, four heads, two layers a side. Hugging Face's are drawn at
random from a configuration; nothing is downloaded.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from helpers import PAD
from helpers.readings import build_reading
from helpers.transformer import Transformer, TransformerConfig

COURSE, PYTORCH = "the course", "PyTorch"
HUGGING_FACE, READING = "Hugging Face", "reading"
SIZES = {"d_model": 32, "n_heads": 4, "d_ff": 64, "n_layers": 2}
LONGEST = 64


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


# --- PyTorch's modules, as a user completes them --------------------------------------


class TorchSeq2Seq(nn.Module):
    """nn.Transformer with embeddings, learned positions and a projection."""

    def __init__(self, vocab: int, *, batch_first: bool = True, **options):
        super().__init__()
        self.batch_first = batch_first
        self.source_embedding = nn.Embedding(vocab, 32)
        self.target_embedding = nn.Embedding(vocab, 32)
        self.positions = nn.Embedding(LONGEST, 32)
        sizes = {"dim_feedforward": 64, "dropout": 0.1, "batch_first": batch_first}
        self.core = nn.Transformer(32, 4, 2, 2, **sizes, **options)
        self.projection = nn.Linear(32, vocab)

    def embed(self, embedding: nn.Module, tokens: Tensor) -> Tensor:
        """ids (batch, length) -> vectors, laid out as the core wants them."""
        places = torch.arange(tokens.size(1), device=tokens.device)
        x = embedding(tokens) + self.positions(places)
        return x if self.batch_first else x.transpose(0, 1)

    def encode(self, source: Tensor) -> Tensor:
        """source (batch, length) -> memory."""
        x = self.embed(self.source_embedding, source)
        return self.core.encoder(x, src_key_padding_mask=source == PAD)

    def future(self, target: Tensor) -> Tensor:
        """(length, length), True above the diagonal."""
        ones = torch.ones(target.size(1), target.size(1), device=target.device)
        return ones.triu(1).bool()

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """target (batch, length) -> states, laid out as the core does."""
        return self.core.decoder(
            self.embed(self.target_embedding, target),
            memory,
            tgt_mask=self.future(target),
            tgt_key_padding_mask=target == PAD,
            memory_key_padding_mask=source == PAD,
        )

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits (batch, target_length, vocab)."""
        states = self.decode(target, self.encode(source), source)
        return self.projection(states if self.batch_first else states.transpose(0, 1))


class TorchStack(nn.Module):
    """nn.TransformerEncoder as an encoder, or with a causal mask as a language model.

    As PyTorch leaves it, all layers start as copies of the first.
    """

    def __init__(self, vocab: int, *, causal: bool, norm_first: bool):
        super().__init__()
        self.causal = causal
        self.embedding = nn.Embedding(vocab, 32)
        self.positions = nn.Embedding(LONGEST, 32)
        layer = nn.TransformerEncoderLayer(
            32, 4, 64, 0.1, batch_first=True, norm_first=norm_first
        )
        self.stack = nn.TransformerEncoder(
            layer, 2, nn.LayerNorm(32), enable_nested_tensor=not norm_first
        )
        self.projection = nn.Linear(32, vocab)

    def embed(self, tokens: Tensor) -> Tensor:
        """ids (batch, length) -> (batch, length, 32)."""
        places = torch.arange(tokens.size(1), device=tokens.device)
        return self.embedding(tokens) * math.sqrt(32) + self.positions(places)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (batch, length, vocab)."""
        mask = None
        if self.causal:
            ones = torch.ones(tokens.size(1), tokens.size(1), device=tokens.device)
            mask = ones.triu(1).bool()
        padding = tokens == PAD
        states = self.stack(self.embed(tokens), mask, src_key_padding_mask=padding)
        return self.projection(states)


def torch_seq2seq(vocab: int, seed: int, **options) -> nn.Module:
    """A TorchSeq2Seq."""
    torch.manual_seed(seed)
    with warnings.catch_warnings():  # that nested tensors do not fit norm first
        warnings.filterwarnings("ignore", "enable_nested_tensor is True")
        return TorchSeq2Seq(vocab, **options)


def torch_stack(vocab: int, seed: int, **options) -> nn.Module:
    """A TorchStack."""
    torch.manual_seed(seed)
    return TorchStack(vocab, **options)


# --- Hugging Face's -------------------------------------------------------------------

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
    stack, seq2seq = partial(partial, torch_stack), partial(partial, torch_seq2seq)
    return [
        torch_s(name="nn.Transformer", kind=BOTH, build=seq2seq()),
        torch_s(
            name="nn.Transformer, norm first",
            kind=BOTH,
            build=seq2seq(norm_first=True),
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
        both(name="T5", build=face("T5ForConditionalGeneration", "T5Config", **T5)),
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


EVERY = [*of_pytorch(), *of_hugging_face(), *of_the_course()]
SOUND = {specimen.name: specimen for specimen in EVERY}

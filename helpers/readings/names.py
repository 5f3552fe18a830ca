"""Every name that the five texts define, and what became of it here (lesson 16).

A row says what the text has, what had to be repaired, and what is our own; between
quotation marks stands the text itself. A row without a name is of something that the
text does not have. Each row has a test, which runs what the name stands for:
tests/test_readings_names.py. `python -m helpers.readings.names` prints the page
notebooks/five_readings.md.
"""

import re
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from helpers.readings import READINGS

HEADER = "name in the text → here", "the text says", "repaired", "added by us"
PAGE = """\
# The five readings, name by name

Every class and function that the five texts of [lesson 16](16_five_readings.ipynb)
define, and what became of it in `helpers.readings`. Quotation marks hold the text's own
characters. Whatever is *repaired* or *added by us* is not the text's. Each row has a
test, which runs what the name stands for: `tests/test_readings_names.py`.
"""


@dataclass(frozen=True)
class Named:
    """A name of a text: what it is called here, and how far it is the text's own."""

    reading: str
    name: str  # in the text, or nothing
    here: str  # below helpers.readings, or below helpers
    says: str
    repaired: str = ""
    added: str = ""

    @property
    def id(self) -> str:
        """The reading and the name; without a name, what it is called here."""
        return f"{self.reading}-{self.name or self.here.rpartition('.')[2]}"

    @property
    def test(self) -> str:
        """The test that runs what the name stands for."""
        return f"tests/test_readings_names.py::test_the_name_runs[{self.id}]"

    def get(self) -> Any:
        """What the name stands for: a class or a function."""
        module, _, name = self.here.rpartition(".")
        place = "helpers" if module == "layers" else "helpers.readings"
        return getattr(import_module(f"{place}.{module}"), name)


NAMES = (
    # -- A: the notes ------------------------------------------------------------------
    Named(
        "A",
        "Embeddings",
        "annotated.Embeddings",
        "“self.lut(x) * math.sqrt(self.d_model)”; PyTorch draws N(0, 1)",
        added="the whole model draws it smaller",
    ),
    Named(
        "A",
        "clones",
        "annotated.clones",
        "“copy.deepcopy(module)”: copies start equal",
        added="the whole model draws them anew",
    ),
    Named(
        "A",
        "attention",
        "annotated.attention_with_dropout",
        "“scores.masked_fill(mask == 0, -1e9)”",
        "the lowest number of the type: half precision has no -1e9",
    ),
    Named(
        "A",
        "MultiHeadedAttention",
        "annotated.MultiHeadedAttention",
        "four cloned linears; in the notes “d_model = length * d_k”",
        "d_model = h · d_k, as its code has it",
        "a ValueError for the assert",
    ),
    Named(
        "A",
        "LayerNorm",
        "annotated.StdLayerNorm",
        "“(std + self.eps)”; “be equal to nn.LayerNorm”: it is a factor apart",
    ),
    Named(
        "A",
        "SublayerConnection",
        "annotated.SublayerConnection",
        "“x + self.dropout(sublayer(self.norm(x)))”: norm first; its docstring has "
        "both, “followed by a layer norm” and “the norm is first”",
    ),
    Named(
        "A",
        "PositionwiseFeedForward",
        "annotated.PositionwiseFeedForward",
        "dropout between the two linears",
    ),
    Named(
        "A",
        "",
        "annotated.parts_model",
        "no stack, no positions, no masks, no output",
        added="C's frame without its last norms; plain logits",
    ),
    # -- B: the d2l reading ------------------------------------------------------------
    Named(
        "B",
        "PositionWiseFNN",
        "d2l_blocks.PositionWiseFFN",
        "“ffn = PositionWiseFNN(4, 4, 8)”",
        "the letters of its name",
    ),
    Named(
        "B",
        "AddNorm",
        "d2l_blocks.AddNorm",
        "“AddNorm([3, 4], dropout=0.5)”: a norm over length and features; in its "
        "prose, over the features",
        added="the whole model norms over the features",
    ),
    Named(
        "B",
        "EncoderBlock",
        "d2l_blocks.EncoderBlock",
        "“EncoderBlock(24, 24, 24, 24, [100, 24], 24, 48, 8, 0.5)”",
        added="a ValueError if the heads do not fit",
    ),
    Named(
        "B",
        "TransformerEncoder",
        "d2l_blocks.TransformerEncoder",
        "“X = self.attention_weights = [None] * len(self.blks)”; “self.blks.add(”",
        "tokens are embedded, with positions; nn.ModuleList; all nine arguments",
        "max_len",
    ),
    Named(
        "B",
        "DecoderBlock",
        "d2l_blocks.DecoderBlock",
        "“if state[2][self.i] is None:”, “key_values = X”, then a bare “return”",
        "ffn for fnn",
        "all that follows: three sublayers, the state",
    ),
    Named(
        "B",
        "d2l.PositionalEncoding",
        "d2l_blocks.SteppedPositions",
        "“d2l.PositionalEncoding(num_hiddens, dropout)”",
        "the table is a buffer",
        "start, for one token at a time",
    ),
    Named(
        "B",
        "d2l.MultiHeadAttention",
        "d2l_blocks.multi_head_attention",
        "seven arguments by place",
        "arguments by name",
        "a ValueError if the heads do not fit",
    ),
    Named(
        "B",
        "",
        "d2l_blocks.TransformerDecoder",
        "no decoder",
        added="all of it, in the style of its encoder",
    ),
    Named(
        "B",
        "",
        "d2l_blocks.blocks_model",
        "no training, no prediction",
        added="both; embeddings drawn smaller",
    ),
    # -- C: the frame ------------------------------------------------------------------
    Named(
        "C",
        "EncoderDecoder",
        "annotated.EncoderDecoder",
        "“self.decode(self.encode(src, src_mask), src_mask,”; a comment calls the "
        "encoder auto-regressive",
        "the comment: only the decoder is",
    ),
    Named(
        "C",
        "Generator",
        "annotated.Generator",
        "“F.log_softmax(self.proj(x), dim=-1)”",
    ),
    Named(
        "C",
        "clones",
        "annotated.clones",
        "a docstring, and bare prose behind it: a syntax error",
        "the prose is gone",
        "the whole model draws its copies anew",
    ),
    Named(
        "C",
        "Encoder",
        "annotated.NormFirstEncoder",
        "“return self.norm(x)”: a norm closes the stack",
    ),
    Named(
        "C",
        "LayerNorm",
        "annotated.StdLayerNorm",
        "“(std + self.eps)”",
    ),
    Named(
        "C",
        "SublayerConnection",
        "annotated.SublayerConnection",
        "“the norm is first as opposed to last”",
    ),
    Named(
        "C",
        "EncoderLayer",
        "annotated.NormFirstEncoderLayer",
        "“clones(SublayerConnection(size, dropout), 2)”",
    ),
    Named(
        "C",
        "Decoder",
        "annotated.NormFirstDecoder",
        "as the encoder, with two masks",
    ),
    Named(
        "C",
        "DecoderLayer",
        "annotated.NormFirstDecoderLayer",
        "“self.src_attn(x, m, m, src_mask)”",
    ),
    Named(
        "C",
        "subsequent_mask",
        "annotated.subsequent_mask",
        "“np.triu(np.ones(attn_shape), k=1)”; np is not imported",
        "torch's triu",
    ),
    Named(
        "C",
        "attention",
        "annotated.attention_with_dropout",
        "“masked_fill(mask == 0, -1e9)”; a comment: additive attention is faster for "
        "large d_k",
        "as A's; the paper says better, not faster",
    ),
    Named(
        "C",
        "MultiHeadedAttention",
        "annotated.MultiHeadedAttention",
        "a comment: the view seems to need as many queries as keys",
        "it does not: each view has its own -1",
    ),
    Named(
        "C",
        "PositionwiseFeedForward",
        "annotated.PositionwiseFeedForward",
        "“self.w_2(self.dropout(F.relu(self.w_1(x))))”",
    ),
    Named(
        "C",
        "",
        "annotated.make_src_mask",
        "masks are the caller's",
        added="False where the source is padding",
    ),
    Named(
        "C",
        "",
        "annotated.make_tgt_mask",
        "masks are the caller's",
        added="padding and subsequent_mask",
    ),
    Named(
        "C",
        "",
        "annotated.frame_model",
        "nothing puts the parts together",
        added="positions, sizes, the first weights",
    ),
    # -- D: the tutorial ---------------------------------------------------------------
    Named(
        "D",
        "ScaledDotProductAttention",
        "lengths.BatchedDotProductAttention",
        "“if attn_mask:”; “masked_fill_(attn_mask, -np.inf)”",
        "is not None; the lowest number, since -inf can give NaN",
    ),
    Named(
        "D",
        "MultiHeadAttention",
        "lengths.MultiHeadSublayer",
        "“key.view(batch_size * num_heads, -1, dim_per_head)”; "
        "“(key.size(-1) // num_heads) ** -0.5”; “attn_mask.repeat(num_heads, 1, 1)”",
        "a transposition first; dim_per_head ** -0.5; repeat_interleave",
        "a ValueError if the heads do not fit",
    ),
    Named(
        "D",
        "residual",
        "lengths.residual",
        "“return sublayer_fn(x)+x”",
    ),
    Named(
        "D",
        "LayerNorm",
        "lengths.EpsilonLayerNorm",
        "“(std + self.epsilon)”; in the formula above it a root of σ² + ε, and not a "
        "word on which variance",
    ),
    Named(
        "D",
        "padding_mask",
        "lengths.hidden_padding_mask",
        "“pad_mask = seq_k.eq(0)”; the text: False is what gets hidden",
        "True is, as in its code",
    ),
    Named(
        "D",
        "sequence_mask",
        "lengths.hidden_sequence_mask",
        "“dtype=torch.uint8”",
        "boolean",
    ),
    Named(
        "D",
        "PositionalEncoding",
        "lengths.LengthPositions",
        "“torch.cat((pad_row, position_encoding))”: a tensor and an array",
        "tensors only; the table is a buffer",
        "padded_len",
    ),
    Named(
        "D",
        "seq_embedding",
        "lengths.SequenceEmbedding",
        "“seq_embedding(inputs)*np.sqrt(d_model)”; in the model “vocab_size + 1” rows, "
        "and no factor",
        "the factor, in the model, too",
        "drawn smaller",
    ),
    Named(
        "D",
        "PositionalWiseFeedForward",
        "lengths.PositionalWiseFeedForward",
        "“self.w2 = nn.Conv1d(model_dim, ffn_dim, 1)”",
        "from ffn_dim to model_dim",
    ),
    Named(
        "D",
        "EncoderLayer",
        "lengths.SelfAttentionLayer",
        "“(inputs, inputs, inputs, padding_mask)”: a function; “ffn_dim=2018”",
        "attn_mask; 2048",
    ),
    Named(
        "D",
        "Encoder",
        "lengths.LengthEncoder",
        "“output += self.pos_embedding(inputs_len)”",
        added="padding beyond the longest sentence",
    ),
    Named(
        "D",
        "DecoderLayer",
        "lengths.ContextAttentionLayer",
        "“self.attention” is called twice",
        "two attentions",
    ),
    Named(
        "D",
        "Decoder",
        "lengths.LengthDecoder",
        "“torch.gt((self_attention_padding_mask + seq_mask), 0)”",
        "joined by or",
    ),
    Named(
        "D",
        "Transformer",
        "lengths.LengthTransformer",
        "“padding_mask(tgt_seq, src_seq)”; “self.softmax(output)”",
        "source first",
        "softmax=False",
    ),
    Named(
        "D",
        "additive attention",
        "scores.AdditiveScore",
        "in a list, without code; “$[s_t;h_i]$”",
        "that alone is no score: it needs a network",
        "the code",
    ),
    Named(
        "D",
        "local-base",
        "scores.LocationScore",
        "in a list, without code",
        "location-based",
        "the code",
    ),
    Named(
        "D",
        "general",
        "scores.GeneralScore",
        "in a list, without code",
        added="the code",
    ),
    Named(
        "D",
        "dot-product",
        "scores.dot_score",
        "in a list, without code",
        added="the code",
    ),
    Named(
        "D",
        "scaled dot-product",
        "scores.scaled_dot_score",
        "in a list; the paper, it says, gives no reason for the root",
        "a footnote of the paper does",
        "the code",
    ),
    Named(
        "D",
        "",
        "lengths.lengths_model",
        "no training",
        added="lengths from PAD; no softmax",
    ),
    # -- E: attention alone ------------------------------------------------------------
    Named(
        "E",
        "PositionalEncoding",
        "pure_attention.SinusoidTable",
        "“self.pe = torch.zeros(1, max_len, d_model)”",
        "a buffer",
        "a ValueError past max_len",
    ),
    Named(
        "E",
        "ScaledDotProductAttention",
        "pure_attention.ScaledDotProductAttention",
        "“scores.masked_fill(attn_mask == 0, -1e9)”, the result thrown away; in the "
        "formula, weights · K",
        "the result is kept; weights · V, as in its code; the dropout is used",
    ),
    Named(
        "E",
        "MultiHeadAttention",
        "pure_attention.AttentionWithNorm",
        "“residual = q”, and no sum; “self.n_head”; a view of what was permuted",
        "the sum, with dropout; n_heads; flatten; no mask may be given",
    ),
    Named(
        "E",
        "nn.LayerNorm",
        "layers.LayerNorm",
        "“nn.LayerNorm(normalized_shape=4)(x)”",
    ),
    Named(
        "E",
        "",
        "pure_attention.AttentionOnlyTranslator",
        "no blocks, no model",
        added="a stack of its attention between embeddings and logits",
    ),
)


def names_of(reading: str) -> tuple[Named, ...]:
    """The rows of one reading."""
    return tuple(row for row in NAMES if row.reading == reading)


def names_table(reading: str) -> str:
    """The rows of one reading as a table in Markdown."""
    lines = [HEADER, ["---"] * len(HEADER), *map(_cells, names_of(reading))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def names_page() -> str:
    """The tables of all readings, one below the other."""
    tables = (f"## {READINGS[key].name}\n\n{names_table(key)}\n" for key in READINGS)
    return "\n".join([PAGE, *tables])


def _cells(row: Named) -> list[str]:
    here = row.here.rpartition(".")[2]
    name = f"`{row.name}`" if row.name else "*(nothing)*"
    name = name if row.name == here else f"{name} → `{here}`"
    texts = (row.says, row.repaired or "–", row.added or "–")
    return [name, *(re.sub("“(.+?)”", r"“`\1`”", text) for text in texts)]


if __name__ == "__main__":
    print(names_page(), end="")

"""Faults in Hugging Face's encoders, put in by patching."""

import math
from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from faults.listing import fault
from faults.patching import wrap


def _with_mask(model: nn.Module, change: Callable[[Tensor], Tensor]) -> None:
    """Hand change(mask) to each attention of BERT, where there is a mask."""

    def masked(inner, hidden_states, attention_mask=None, *args, **kwargs):
        mask = None if attention_mask is None else change(attention_mask)
        return inner(hidden_states, mask, *args, **kwargs)

    for layer in model.bert.encoder.layer:
        wrap(layer.attention, masked)


BERT_ATTENTION = "bert.encoder.layer.0.attention.self bert.encoder.layer.0.attention"


@fault("BERT's mask is added as 0 and 1", "BERT", BERT_ATTENTION, "padding mask")
def bert_unextended(model: nn.Module) -> None:
    """The mask of the tokenizer goes in as it came, and is added to the scores."""
    _with_mask(model, lambda mask: mask.float())


@fault("BERT's masks belong to other sentences", "BERT", BERT_ATTENTION, "batch mask")
def bert_rolled(model: nn.Module) -> None:
    """Sorted by length, and the masks were not."""
    _with_mask(model, lambda mask: mask.roll(1, 0))


@fault(
    "BERT without positions",
    "BERT",
    "bert.embeddings bert.embeddings.position_embeddings bert.encoder.layer.0",
    "position",
)
def bert_positions(model: nn.Module) -> None:
    """position_ids given, and all of them 0."""
    embeddings = model.bert.embeddings
    wrap(embeddings.position_embeddings, lambda inner, ids: inner(0 * ids))


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

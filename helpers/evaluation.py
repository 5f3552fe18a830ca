"""How good a translation is: exact match, BLEU, and the decoding that both need."""

from collections.abc import Callable, Sequence

import sacrebleu
from torch import Tensor

from helpers import EOS
from helpers.batching import pad
from helpers.decoding import greedy_decode
from helpers.transformer import Transformer


def translate_ids(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    *,
    decode: Callable[..., Tensor] = greedy_decode,
    sentences_per_batch: int = 100,
    max_length: int = 100,
) -> list[list[int]]:
    """Decode many sources (ids without EOS), in the order given.

    Returns target ids up to EOS, without it. Sentences of like length share a batch, so
    that little of the work is padding. `decode` is greedy_decode or a beam search with
    its options bound.
    """
    device = next(model.parameters()).device
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    outputs: list[list[int]] = [[] for _ in sources]
    for start in range(0, len(order), sentences_per_batch):
        rows = order[start : start + sentences_per_batch]
        batch = pad([[*sources[i], EOS] for i in rows]).to(device)
        decoded = decode(model, batch, max_length=max_length).tolist()
        for i, ids in zip(rows, decoded, strict=True):
            outputs[i] = until_end(ids)
    return outputs


def until_end(ids: Sequence[int]) -> list[int]:
    """The ids before the first EOS, or all of them."""
    ids = list(ids)
    return ids[: ids.index(EOS)] if EOS in ids else ids


def exact_match(hypotheses: Sequence, references: Sequence) -> float:
    """The share of hypotheses, from 0 to 1, that equal their reference."""
    check_lengths(hypotheses, references)
    pairs = zip(hypotheses, references, strict=True)
    return sum(hypothesis == reference for hypothesis, reference in pairs) / len(
        references
    )


def bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Corpus BLEU from 0 to 100: sacreBLEU's default, 13a tokens, cased.

    Papineni et al. 2002; Post 2018, whose signature `bleu_signature` gives.
    """
    check_lengths(hypotheses, references)
    return sacrebleu.BLEU().corpus_score(list(hypotheses), [list(references)]).score


def bleu_signature() -> str:
    """The settings behind `bleu`, in the form that papers quote."""
    metric = sacrebleu.BLEU()
    metric.corpus_score(["a"], [["a"]])  # a signature exists only after a score
    return str(metric.get_signature())


def check_lengths(hypotheses: Sequence, references: Sequence) -> None:
    """ValueError unless there is one reference for each of at least one hypothesis."""
    if not references or len(hypotheses) != len(references):
        raise ValueError(
            f"{len(hypotheses)} hypotheses for {len(references)} references"
        )

"""How good a translation is: exact match and BLEU."""

from collections.abc import Sequence


def exact_match(hypotheses: Sequence, references: Sequence) -> float:
    """The share of hypotheses, from 0 to 1, that equal their reference.

    ValueError unless there are as many of both, and at least one.
    """
    check_lengths(hypotheses, references)
    pairs = zip(hypotheses, references, strict=True)
    return sum(ours == theirs for ours, theirs in pairs) / len(references)


def bleu(
    hypotheses: Sequence[str], references: Sequence[str], *, lowercase: bool = False
) -> float:
    """Corpus BLEU from 0 to 100: sacreBLEU's default, 13a tokens, cased.

    With lowercase "A" equals "a", as in most published scores on Multi30k.
    Papineni et al. 2002; Post 2018, whose signature `bleu_signature` gives.
    ValueError unless there are as many hypotheses as references, and at least one.
    """
    import sacrebleu  # here: half a second that exact_match does without

    check_lengths(hypotheses, references)
    metric = sacrebleu.BLEU(lowercase=lowercase)
    return metric.corpus_score(list(hypotheses), [list(references)]).score


def bleu_signature(*, lowercase: bool = False) -> str:
    """The settings behind `bleu`, in the form that papers quote."""
    import sacrebleu

    metric = sacrebleu.BLEU(lowercase=lowercase)
    metric.corpus_score(["a"], [["a"]])  # a signature exists only after a score
    return str(metric.get_signature())


def check_lengths(
    given: Sequence, references: Sequence, what: str = "hypotheses"
) -> None:
    """ValueError unless there is one reference for each of at least one `given`."""
    if not references or len(given) != len(references):
        raise ValueError(f"{len(given)} {what} for {len(references)} references")

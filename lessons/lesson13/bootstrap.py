"""How sure a BLEU is: sentences drawn again and again, with replacement (lesson 13)."""

from collections.abc import Sequence

import sacrebleu
import torch
from torch import Tensor

from helpers.evaluation import check_lengths


def bleu_counts(hypotheses: Sequence[str], references: Sequence[str]) -> Tensor:
    """The ten numbers of each sentence that BLEU adds up: (sentences, 10), float64.

    For n from 1 to 4 the n-grams that the reference has, too, then all that were said,
    then the tokens said and those of the reference. Tokens and case as in `bleu`.
    ValueError as in `bleu`.
    """
    check_lengths(hypotheses, references)
    metric, rows = sacrebleu.BLEU(effective_order=True), []
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        score = metric.sentence_score(hypothesis, [reference])
        rows.append([*score.counts, *score.totals, score.sys_len, score.ref_len])
    return torch.tensor(rows, dtype=torch.float64)


def bleu_of(sums: Tensor) -> Tensor:
    """BLEU from summed counts: (..., 10) -> (...), from 0 to 100.

    It is 0 where no run of one length is right; there `bleu` smooths.
    Papineni et al. 2002, section 2.3.
    """
    found, said, lengths = sums.split((4, 4, 2), dim=-1)
    precisions = (found / said.clamp(min=1)).log().mean(dim=-1)
    brevity = (1 - lengths[..., 1] / lengths[..., 0]).clamp(max=0)
    return 100 * (precisions + brevity).exp()


def paired_interval(
    ours: Tensor, theirs: Tensor, draws: Tensor
) -> tuple[Tensor, Tensor]:
    """Between which bounds 95 % of the differences in BLEU lie, ours less theirs.

    ours and theirs are two systems' `bleu_counts` (sentences, 10) of the same
    sentences; draws (resamples, sentences) are the rows of each resample, which both
    systems get. Koehn 2004, section 4.
    """
    our_scores = bleu_of(ours[draws].sum(dim=1))
    their_scores = bleu_of(theirs[draws].sum(dim=1))
    difference = our_scores - their_scores
    return difference.quantile(0.025), difference.quantile(0.975)


def draw_resamples(sentences: int, *, resamples: int = 1000, seed: int = 0) -> Tensor:
    """Rows drawn with replacement: (resamples, sentences), int64."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(sentences, (resamples, sentences), generator=generator)

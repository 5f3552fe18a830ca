"""Does the check-up raise false alarms on sound models that are not the course's own?

Every check on small random models of PyTorch, Hugging Face, the readings, and some in
other styles, with three seeds and three sizes of vocabulary. A sound model should fail
none, in any of the runs. The last row is a GPT-2 of 20 million parameters.
"""

import time
from collections.abc import Iterator

from faults import SOUND
from faults.evidence import subject_of
from faults.small_huggingface import GPT2, causal_logits, hugging_face
from faults.specimens import COURSE, DECODER, HUGGING_FACE, Specimen
from transformer_checkup.report import report_on
from transformer_checkup.verdict import Verdict

SEEDS, VOCABULARIES = (0, 1, 2), (20, 200, 2000)
FOREIGN = [specimen for specimen in SOUND.values() if specimen.code_base != COURSE]
SIZES = {**GPT2, "n_embd": 384, "n_layer": 10, "n_head": 6}
LARGE = Specimen(
    "GPT-2, 20 million parameters",
    HUGGING_FACE,
    DECODER,
    hugging_face("GPT2LMHeadModel", "GPT2Config", **SIZES),
    causal_logits,
)


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each model, seed and vocabulary; `tiny` takes one of each.

    `fails` names the checks that fail, `untold` those that could not be judged although
    the model has what they need; `seconds` are of processor time.
    """
    for specimen in FOREIGN[:1] if tiny else FOREIGN:
        for vocab in VOCABULARIES[:1] if tiny else VOCABULARIES:
            for seed in SEEDS[:1] if tiny else SEEDS:
                yield _row(specimen, vocab, seed)
    if not tiny:
        yield _row(LARGE, 8000, 0)


def _row(specimen: Specimen, vocab: int, seed: int) -> dict:
    """What the checks say of one model."""
    model = specimen.build(vocab, seed)
    started = time.process_time()
    report = report_on(subject_of(specimen, model, seed=seed))
    verdicts = [v for v in report if not _not_asked(v)]
    return {
        "model": specimen.name,
        "code_base": specimen.code_base,
        "kind": specimen.kind,
        "vocabulary": vocab,
        "seed": seed,
        "hold": sum(v.holds is True for v in verdicts),
        "fails": "; ".join(v.name for v in report.failed),
        "untold": "; ".join(v.name for v in verdicts if v.holds is None),
        "seconds": round(time.process_time() - started, 1),
    }


def _not_asked(verdict: Verdict) -> bool:
    """Whether a check wants what the model does not give."""
    words = verdict.sentence.split()
    return verdict.holds is None and "given" in words

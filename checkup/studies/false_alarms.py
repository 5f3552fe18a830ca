"""Does the check-up raise false alarms on sound models that are not the course's own?

Every check on small random models of PyTorch, Hugging Face, the readings, and some in
other styles, with three seeds and three sizes of vocabulary. A sound model should fail
none, in any of the runs.
"""

import time
from collections.abc import Iterator

from faults import SOUND
from faults.evidence import subject_of
from faults.specimens import COURSE
from transformer_checkup.report import report_on
from transformer_checkup.verdict import Verdict

SEEDS, VOCABULARIES = (0, 1, 2), (20, 200, 2000)
FOREIGN = [specimen for specimen in SOUND.values() if specimen.code_base != COURSE]


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each model, seed and vocabulary; `tiny` takes one of each.

    `fails` names the checks that fail, `untold` those that could not be judged although
    the model has what they need; `seconds` are of processor time.
    """
    for specimen in FOREIGN[:1] if tiny else FOREIGN:
        for vocab in VOCABULARIES[:1] if tiny else VOCABULARIES:
            for seed in SEEDS[:1] if tiny else SEEDS:
                model = specimen.build(vocab, seed)
                started = time.process_time()
                report = report_on(subject_of(specimen, model, seed=seed))
                verdicts = [v for v in report if not _not_asked(v)]
                yield {
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

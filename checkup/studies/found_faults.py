"""Which single faults does the check-up find, and does it name the right place?

The faults of `checkup/tests/faults`, each in a small random model. A fault is found if
a check fails that the sound model passes. It is placed if the module in which it sits,
and what is wrong there, are among the first two suspects of the report.
"""

import re
from collections.abc import Iterator

from faults import FAULTS
from faults.evidence import examined, names_it
from transformer_checkup.report import Report, report_on

# It trains, and finds none of these faults that others miss.
SLOW = ("overfits one batch",)


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each fault; `tiny` takes two.

    `from_outside` are those of people who did not know the checks.
    """
    faults = [*FAULTS.values()]
    for fault in faults[:2] if tiny else faults:
        report = report_on(examined(fault, skip=SLOW))
        yield {
            "fault": fault.name,
            "code_base": fault.specimen.code_base,
            "model": fault.base,
            "from_outside": fault.from_outside,
            "found": not report.sound,
            "placed": names_it(fault, report.suspects[:2]),
            "first_check": report.failed[0].name if report.failed else "",
            **_suspects(report),
            "out_of_reach": fault.unseen,
        }


def _suspects(report: Report) -> dict[str, str]:
    """The first two suspects, as they are printed, but for the numbers of lines."""
    texts = [re.sub(r":\d+\)", ")", suspect.text) for suspect in report.suspects[:2]]
    return dict(zip(("first", "second"), (*texts, "", ""), strict=False))

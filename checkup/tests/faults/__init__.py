"""Single faults in other people's code, and the sound models that they are made in.

`SOUND` holds small models of several code bases, `FAULTS` what was done to one of them,
and where it sits. Both are evidence for the property checks: a sound model must pass
them all, and a fault must be found, with the right place among the first two suspects.
The studies `false_alarms` and `found_faults` count. Many faults are drawn from reports
on published code, which their docstrings name; the rest are mistakes that anybody may
make. Those of `from_outside` were thought of by people who had not read the checks, and
those of `from_reports` were written down before the checks were tried on them.
"""

from faults import (  # noqa: F401  they list what they do
    by_hand,
    course,
    from_outside,
    from_reports,
    huggingface,
    huggingface_encoders,
    huggingface_seq2seq,
    pytorch,
    readings,
)
from faults.listing import FAULTS, Fault
from faults.specimens import SOUND, Specimen

__all__ = ["FAULTS", "SOUND", "Fault", "Specimen"]

"""What a check says, and how a function becomes a check."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

from helpers.debugger.state import as_before
from helpers.debugger.subject import KINDS, Fails, Subject, Suspect, Unknown

# Changes of the logits are measured in their own standard deviation. Rounding moves
# them by about a millionth of it; what a model means to say moves them by far more.
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Verdict:
    """Whether a property holds, in a sentence; None where it cannot be judged.

    `suspects` says where to look if it does not hold, most likely first.
    """

    name: str
    holds: bool | None
    sentence: str
    draw: Callable[[], None] | None = field(default=None, repr=False)
    suspects: tuple[Suspect, ...] = ()

    @property
    def mark(self) -> str:
        """✓, ✗ or ○, as the exercises' checks print it."""
        return {True: "✓", False: "✗", None: "○"}[self.holds]

    @property
    def text(self) -> str:
        """The line that is printed: the property's name and the sentence."""
        return f"{self.name}: {self.sentence}"


Check = Callable[[Subject], Verdict]

REGISTERED: dict[str, Check] = {}
KINDS_OF: dict[str, tuple[str, ...]] = {}


def property_check(*needs: str, kinds: tuple[str, ...] = KINDS) -> Callable:
    """Turn a function that returns a sentence, or raises, into a check; list it.

    `needs` names the checks without which this one cannot be trusted: where one of them
    fails, the property is not judged, and the sentence says why.
    """

    def make(check: Callable[[Subject], str]) -> Check:
        name = check.__name__.replace("_", " ")

        @functools.wraps(check)
        def judge(
            subject: Subject, earlier: dict[str, Verdict] | None = None
        ) -> Verdict:
            if name in subject.skip:
                return Verdict(name, None, "skipped, as was asked")
            for need in needs:
                first = (earlier or {}).get(need) or REGISTERED[need](subject)
                if first.holds is False:
                    return Verdict(name, None, f"cannot be told while “{need}” fails")
            return _judged(name, check, subject)

        REGISTERED[name], KINDS_OF[name] = judge, kinds
        return judge

    return make


def _judged(name: str, check: Callable[[Subject], str], subject: Subject) -> Verdict:
    """Ask one check; what it does to the model is undone."""
    try:
        with as_before(subject.module, subject.seed):
            if subject.kind not in KINDS_OF[name]:
                raise Unknown(f"not asked of a model of the kind {subject.kind!r}")
            return Verdict(name, True, check(subject))
    except Fails as failure:
        return Verdict(name, False, str(failure), failure.draw, failure.suspects)
    except Unknown as reason:
        return Verdict(name, None, str(reason))


def module_of(subject: Subject):  # noqa: ANN201
    """The subject's module; Unknown if it has none."""
    if subject.module is None:
        raise Unknown("no `module` given, so there are no parameters to look at")
    return subject.module

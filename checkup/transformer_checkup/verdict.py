"""What a check says, and how a function becomes a check."""

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from .given import KINDS
from .state import as_before, awake, converted
from .subject import Fails, Subject, Suspect, Unknown

# Changes of the logits are measured in their own standard deviation. Rounding moves
# them by about a millionth of it; what a model means to say moves them by far more.
TOLERANCE = 1e-4
CANNOT_BE_TOLD = "cannot be told while"
SKIPPED = "skipped, as was asked"
BASIS = ("runs", "finite", "same twice")  # what most checks rest on
DECODES = ("encoder-decoder", "decoder")
WIDER = "; its weights of 16 bits are examined in 32"
NARROW = (torch.float16, torch.bfloat16)


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
        """✓ where the property holds, ✗ where it does not, ○ where nobody can tell."""
        return {True: "✓", False: "✗", None: "○"}[self.holds]

    @property
    def text(self) -> str:
        """The line that is printed: the property's name and the sentence."""
        return f"{self.name}: {self.sentence}"


Check = Callable[..., Verdict]
REGISTERED: dict[str, Check] = {}


def property_check(
    *needs: str, kinds: tuple[str, ...] = KINDS, rouse: bool = False
) -> Callable:
    """Turn a function that returns a sentence, or raises, into a check; list it.

    `needs` names the checks without which this one cannot be trusted: where one of them
    fails, the property is not judged, and the sentence says why. Those that were asked
    before are in `earlier`, which grows by what this one has to ask. With `rouse`,
    parameters that are all zero get a little noise while it is asked: see `awake`.
    """

    def make(check: Callable[[Subject], str]) -> Check:
        name = check.__name__.replace("_", " ")

        @functools.wraps(check)
        def judge(subject: Subject, earlier: dict | None = None) -> Verdict:
            if name in subject.skip:
                return Verdict(name, None, SKIPPED)
            if subject.kind not in kinds:
                return Verdict(name, None, not_asked_of(subject.kind))
            known = {} if earlier is None else earlier
            for need in needs:
                if need not in known:
                    known[need] = REGISTERED[need](subject, known)
                if known[need].holds is False:
                    return Verdict(name, None, f"{CANNOT_BE_TOLD} “{need}” fails")
            # What the check does to the model is undone.
            with (
                as_before(subject.module, subject.seed),
                in_32_bits(subject) as wider,
                awake(subject.module) if rouse else nullcontext(),
            ):
                try:
                    told = check(subject) + WIDER * (wider and not needs)
                    return Verdict(name, True, told)
                except Fails as failure:
                    why = failure.draw, failure.suspects
                    return Verdict(name, False, str(failure), *why)
                except Unknown as reason:
                    return Verdict(name, None, str(reason))

        judge.kinds = kinds
        REGISTERED[name] = judge
        return judge

    return make


def not_asked_of(kind: str) -> str:
    """Why a check is not asked."""
    return f"not asked of a model of the kind {kind!r}"


@contextmanager
def in_32_bits(subject: Subject) -> Iterator[bool]:
    """A block in which weights of 16 bits have 32, if the model runs so.

    Tolerances are those of 32 bits; 16 bits round to a hundredth.
    """
    parameters = subject.module.parameters() if subject.module is not None else ()
    if not any(p.dtype in NARROW for p in parameters):
        yield False
        return
    with if_it_runs(subject, lambda t: t.float() if t.dtype in NARROW else t) as runs:
        yield runs


@contextmanager
def if_it_runs(subject: Subject, change: Callable[[Tensor], Tensor]) -> Iterator[bool]:
    """A block with all tensors changed, if the model gives numbers so."""
    with ExitStack() as stack:
        stack.enter_context(converted(subject.module, change))
        try:
            runs = bool(subject.logits(*subject.sentences()).isfinite().all())
        except Fails:
            runs = False
        if not runs:
            stack.close()
        yield runs


def module_of(subject: Subject) -> nn.Module:
    """The subject's module; Unknown if it has none."""
    if subject.module is None:
        raise Unknown("no `module` given, so there are no parameters to look at")
    return subject.module

"""The engine of the exercises' checks: a lesson's table in, findings out.

A table holds the reference answer of each exercise as text, and its known mistakes as
patches of that text. The learner's answer is right where it does what the reference
answer does. Where it does not, but does what a patched reference does, with one patch
or with two, the mistake has a name. What counts is the outcome, never the style.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from numbers import Number
from typing import Any

from torch import Tensor

from lessons.checking.comparing import plain, same
from lessons.checking.findings import (
    Check,
    Finding,
    Stop,
    collected,
    right,
    says,
    wrong,
)
from lessons.checking.running import Outcome, definitions, gradients, run, stopped

Patch = Mapping[str, str]  # {text of the reference answer: what stands there instead}
Row = tuple[str, Patch]  # the message, and the patch that makes the mistake
RANDOM = (
    "two calls with the same inputs differ: something random (dropout?) is left in, or "
    "something is kept from one call to the next"
)
MIXED_UP = "it is right only where all axes have the same size: two are mixed up"
CUT = "no `detach`, `no_grad`, `.data`, numpy or `torch.tensor(…)` on the way"
NO_CHANGE = "change nothing in place that the gradient needs (`+=`, `x[…] = …`, `mul_`)"


def patched(text: str, patches: Sequence[Patch]) -> str | None:
    """The text with all patches at once; None if two of them touch the same place.

    ValueError where the text of a patch does not stand there exactly once.
    """
    places = []
    for old, new in (change for patch in patches for change in patch.items()):
        if text.count(old) != 1:
            raise ValueError(f"{old!r} stands {text.count(old)} times in\n{text}")
        start = text.index(old)
        places.append((start, start + len(old), new))
    places.sort()
    if any(one[1] > other[0] for one, other in pairwise(places)):
        return None
    for start, end, new in reversed(places):
        text = text[:start] + new + text[end:]
    return text


@dataclass(frozen=True, eq=False)
class Trial:
    """Inputs on which an answer is run, and what is said of it then.

    What is said may have {fields}: those of `facts(value, due)`. Where no mistake of
    the table is recognised, `otherwise` is said. `picture(value, due)` gives a function
    that draws what is wrong, or None. With `gradients`, these are compared here, too,
    and that is said where they differ.
    """

    inputs: tuple
    praise: Sequence[str] = ()
    before: str = ""  # in front of what is wrong
    otherwise: str = ""
    accepts: Callable[[Any, Any], bool] = same  # (value, due)
    facts: Callable[[Any, Any], dict] = lambda value, due: {}
    picture: Callable[[Any, Any], Callable | None] = lambda value, due: None
    gradients: str = ""


@dataclass(frozen=True, eq=False)
class Part:
    """One function of an answer: how it is tried, and its known mistakes.

    `mistakes` maps messages to patches, one or several. `probes(seed)` gives inputs:
    first ones, for which there is `praise`, and others, of other sizes; then come the
    `trials`. `lenient(seed)` are inputs whose sizes let wrong code run: they give names
    to mistakes that stop it, `only_lenient` is said of an answer that is right on these
    alone, and `runs` of any other that stops on all but these. `results` names what the
    function returns, if that is more than one thing. `measure(output, *inputs)` is what
    is compared of an output: `Trial.accepts` decides what is right, and
    `outline(value)` is what must agree to name a mistake. Where no name fits,
    `describe(value, due)` is said, and `aside(value, answers, *inputs)` is added.
    """

    name: str
    mistakes: Mapping[str, Patch | Sequence[Patch]]
    probes: Callable[[int], Sequence[tuple]] = lambda seed: ()
    praise: Sequence[str] = ()
    others: str = "other sizes work too"
    doubt: str = "is a size written as a number? "
    gradients: bool = True  # whether they are praised; they are demanded anyway
    trials: Sequence[Trial] = ()
    lenient: Callable[[int], tuple] | None = None
    only_lenient: str = MIXED_UP
    runs: str = ""
    results: Sequence[str] = ()
    label: str = ""  # in front of every line
    shown: Callable | None = None  # the course's own, which the lesson shows later
    in_place: bool = False  # the function is to change what it is given
    at_once: int = 2  # so many mistakes together are recognised; 1 where runs take long
    use: Callable = lambda answer: answer  # the answer as a function of the inputs
    measure: Callable = lambda output, *inputs: output
    outline: Callable = lambda value: value
    describe: Callable[[Any, Any], str] = lambda value, due: ""
    aside: Callable[..., str] = lambda value, answers, *inputs: ""
    picture: Callable[[Any, Any], Callable | None] = lambda value, due: None

    def all_trials(self, seed: int, names: Sequence[str]) -> list[Trial]:
        """The probes and the trials; `names` are the function's arguments."""
        probes, found = self.probes(seed), []
        for place, inputs in enumerate(probes):
            sizes = " and ".join(map(_size, names[:2], inputs))
            before = f"with {sizes} it goes wrong: {self.doubt}" if place else ""
            praise = [self.others] if place == len(probes) - 1 else []
            praise = praise if place else self.praise
            found.append(Trial(inputs, praise, before, picture=self.picture))
        return [*found, *self.trials]

    def rows(self) -> list[Row]:
        """Every patch with its message."""
        return [
            (message, patch)
            for message, patches in self.mistakes.items()
            for patch in ([patches] if isinstance(patches, Mapping) else patches)
        ]

    def value(self, function: Callable, inputs: Sequence, seed: int = 0) -> Outcome:
        """What is compared of the function's output, in plain form."""
        function = self.use(function) if callable(function) else function
        outcome = run(function, inputs, in_place=self.in_place, seed=seed)
        if outcome.error is not None or outcome.finding is not None:
            return outcome
        try:
            return Outcome(self.read(outcome.output, outcome.inputs))
        except Stop as stop:
            return Outcome(finding=stop.finding)

    def read(self, output: Any, inputs: Sequence) -> Any:
        """What is compared of an output, in plain form; `inputs` as they are then."""
        output = several(output, self.results) if self.results else output
        return plain(self.measure(output, *inputs))

    def alike(self, one: Outcome, other: Outcome) -> bool:
        """Whether two outcomes cannot be told apart, as far as names go."""
        if one.finding is not None or other.finding is not None:
            return one.finding == other.finding
        if one.error is not None or other.error is not None:
            errors = type(one.error), type(other.error)
            return issubclass(*errors) or issubclass(*reversed(errors))
        return same(plain(self.outline(one.output)), plain(self.outline(other.output)))

    def fits(self, other: Outcome, seen: "Seen") -> bool:
        """Whether another outcome in the same trial is like what was seen."""
        trial, due, outcome = seen
        if outcome.error is not None or outcome.finding is not None:
            return self.alike(outcome, other)
        return self.alike(outcome, other) and (
            self.accepts(trial, outcome.output, due)
            == self.accepts(trial, other.output, due)
        )

    def accepts(self, trial: Trial, value: Any, due: Any) -> bool:
        """Whether a value is right in a trial."""
        return not misshapen(value, due, self.results) and trial.accepts(value, due)


Seen = tuple[Trial, Any, Outcome]  # the trial, what is due in it, and what came instead


class Exercise(Check):
    """An exercise whose answer is a function, or several: the parts."""

    def __init__(
        self,
        answer: str,
        *parts: Part,
        uses: Mapping[str, Any] | None = None,
        praise: str = "",
    ):
        """The reference answer, as the solutions notebook shows it, and its parts.

        `uses` are the names that the answer needs besides math, torch, nn and F;
        `praise` is the last line where all is right.
        """
        self.answer, self.parts, self.praise = answer, parts, praise
        self.uses = uses or {}
        self.made: dict[tuple, Callable | None] = {}  # what `reference` has made
        self.tried: dict[tuple, Any] = {}  # trials, as `known` refers to them
        self.known: dict[tuple, Outcome] = {}  # what `outcome` has seen

    def reference(self, part: Part, *rows: Row) -> Callable | None:
        """The reference answer with these mistakes; None if they exclude each other."""
        key = part.name, *(id(patch) for _, patch in rows)
        if key not in self.made:
            text = patched(self.answer, [patch for _, patch in rows])
            made = None if text is None else definitions(text, self.uses)[part.name]
            self.made[key] = made
        return self.made[key]

    def trials(self, part: Part, seed: int) -> list[Trial]:
        """A part's trials; the same ones each time."""
        if (part, seed) not in self.tried:
            names = [*inspect.signature(part.use(self.reference(part))).parameters]
            self.tried[part, seed] = part.all_trials(seed, names)
        return self.tried[part, seed]

    def lenient(self, part: Part, seed: int) -> Trial:
        """A trial of the sizes that let wrong code run; the same one each time."""
        if (part, seed, "lenient") not in self.tried:
            trial = Trial(part.lenient(seed), accepts=lambda value, due: True)
            self.tried[part, seed, "lenient"] = trial
        return self.tried[part, seed, "lenient"]

    def outcome(self, part: Part, trial: Trial, *rows: Row) -> Outcome:
        """What the reference with these mistakes does in a trial; it runs once."""
        key = part, trial, *(id(patch) for _, patch in rows)
        if key not in self.known:
            outcome = part.value(self.reference(part, *rows), trial.inputs)
            if outcome.error is not None:
                outcome.error.__traceback__ = None  # it would keep all that was in use
            self.known[key] = outcome
        return self.known[key]

    def names(
        self, part: Part, seen: Sequence["Seen"], most: int = 2
    ) -> Iterator[tuple[str, ...]]:
        """The mistakes, so many at most, that make the reference do what was seen."""
        if not any(_tells(outcome) for *_, outcome in seen):
            return
        for count in range(1, most + 1):
            for rows in combinations(part.rows(), count):
                if self.reference(part, *rows) and all(
                    part.fits(self.outcome(part, one[0], *rows), one) for one in seen
                ):
                    yield tuple(message for message, _ in rows)

    def _findings(
        self, *answers: Any, seed: int = 0, **named: Any
    ) -> Iterator[Finding]:
        names = [part.name for part in self.parts]
        if named.keys() == {*names}:
            answers = (*answers, *(named.pop(name) for name in names))
        if len(answers) != len(names) or named:
            raise Stop(wrong(f"hand over {_listed([f'`{name}`' for name in names])}"))
        all_right = bool(self.praise)
        for part, answer in zip(self.parts, answers, strict=True):
            label = part.label and f"{part.label}: "
            attempt = _Attempt(self, part, answer, answers)
            for finding in collected(attempt.findings(seed)):
                all_right &= finding.mark == "✓"
                yield Finding(finding.mark, label + finding.text, finding.draw)
        if all_right:
            yield right(self.praise)


@dataclass(frozen=True, eq=False)
class _Attempt:
    """A learner's answer to one part of an exercise, with those to the others."""

    exercise: Exercise
    part: Part
    answer: Any
    answers: Sequence

    def findings(self, seed: int) -> Iterator[Finding]:
        if _is_the_courses(self.answer, self.part):
            text = f"this is the course's own `{self.answer.__name__}`: hand over yours"
            yield wrong(f"{text}, `{self.part.name}`")
            return
        reference, seen = self.exercise.reference(self.part), []
        names = [*inspect.signature(self.part.use(reference)).parameters]
        trials, flows = self.exercise.trials(self.part, seed), True
        learns_in = trials[(len(self.part.probes(seed)) or len(trials)) - 1]
        for trial in trials:
            fault = self.fault(trial, seed, seen)
            if isinstance(fault, Finding):
                yield fault
                return
            yield from map(right, fault)
            if trial is learns_in:
                found = [*self.on_gradients(trial.inputs, names)]
                yield from found
                flows = not any(finding.mark == "✗" for finding in found)
            elif trial.gradients and flows:
                found = self.on_gradients(trial.inputs, names)
                if any(finding.mark == "✗" for finding in found):
                    yield wrong(trial.before + trial.gradients)
                    flows = False  # one name for it is enough

    def fault(self, trial: Trial, seed: int, seen: list[Seen]) -> Finding | list[str]:
        """What is wrong on the trial's inputs; where nothing is, the praise.

        `seen` is of earlier trials, and takes up this one: a mistake has to fit all.
        """
        part, inputs = self.part, trial.inputs
        outcome = part.value(self.answer, inputs)
        due = self.exercise.outcome(part, trial).output
        seen.append((trial, due, outcome))
        if outcome.finding is not None and outcome.finding.mark != "✗":
            return outcome.finding
        if outcome.finding is not None:
            return wrong(trial.before + (self.named(seen) or outcome.finding.text))
        if outcome.error is not None:
            text, stop = self.on_error(trial, seed, seen), stopped(outcome.error)
            return wrong(trial.before + (f"{text} ({stop})" if text else stop))
        value = outcome.output
        if odd := misshapen(value, due, part.results):
            text = self.named(seen) or odd
        elif part.alike(outcome, outcome) and not part.alike(
            outcome, part.value(self.answer, inputs, seed=1)
        ):
            text = RANDOM
        elif trial.accepts(value, due):
            return [line.format(**trial.facts(value, due)) for line in trial.praise]
        else:
            text, facts = self.named(seen) or trial.otherwise, trial.facts(value, due)
            text = text.format(**facts) if facts else text
            text = text or part.describe(value, due) or different(value)
        text = trial.before + text + part.aside(value, self.answers, *inputs)
        same_kind = type(value) is type(due)
        return wrong(text, trial.picture(value, due) if same_kind else None)

    def named(self, seen: Sequence[Seen]) -> str:
        """The names of the mistakes that do what was seen, or nothing."""
        return "; and ".join(
            next(self.exercise.names(self.part, seen, self.part.at_once), ())
        )

    def on_error(self, trial: Trial, seed: int, seen: Sequence[Seen]) -> str:
        """What is wrong with code that stops, by what it does where it does not."""
        part = self.part
        if part.lenient is None:
            return self.named(seen)
        lenient = self.exercise.lenient(part, seed)
        outcome = part.value(self.answer, lenient.inputs)
        due = self.exercise.outcome(part, lenient)
        if outcome.error is not None or outcome.finding is not None:
            return ""
        if text := self.named([*seen, (lenient, due.output, outcome)]):
            facts = trial.facts(outcome.output, due.output)
            return text.format(**facts) if facts else text
        only = len(seen) == 1 and part.alike(outcome, due)
        return part.only_lenient if only else part.runs

    def on_gradients(self, inputs: tuple, names: list[str]) -> Iterator[Finding]:
        """Whether the gradients are those of the reference, where it has any."""
        part, reference = self.part, self.exercise.reference(self.part)
        found = gradients(part.use(reference), inputs, names, part.read)
        due = _above_rounding({k: g for k, g in found.items() if g is not None})
        if not due:
            return
        try:
            yours = gradients(part.use(self.answer), inputs, names, part.read)
        except Exception as error:  # of numpy(), or of what was changed in place
            yield wrong(f"no gradient can flow ({says(error)}): {NO_CHANGE}; {CUT}")
            return
        lost = [name for name in due if yours[name] is None or not yours[name].any()]
        bent = [name for name in due if not same(plain(yours[name]), plain(due[name]))]
        if lost:
            text = f"no gradient reaches {_first(lost)}, so nothing could be learnt"
            yield wrong(f"{text}: {CUT}")
        elif bent:
            yield wrong(f"not all of the gradient reaches {_first(bent)}: {CUT}")
        elif part.gradients:
            arguments = dict.fromkeys(name.split(".")[0] for name in due)
            yield right(f"gradients reach {_listed([*arguments])}")


def _above_rounding(found: dict[str, Tensor]) -> dict[str, Tensor]:
    """The gradients that are there, without those that are 0 but for rounding.

    Behind a softmax over one key, say, the gradient is 0, or 1e-9 on another processor.
    """
    sizes = {name: float(gradient.norm()) for name, gradient in found.items()}
    least = 1e-6 * max(sizes.values(), default=0.0)
    return {name: found[name] for name, size in sizes.items() if size > least}


def _tells(outcome: Outcome) -> bool:
    """Whether an outcome has anything by which to know a mistake: all NaN has not."""
    tensors = outcome.output if isinstance(outcome.output, tuple) else [outcome.output]
    return outcome.error is None and any(
        not isinstance(x, Tensor) or bool(x.isfinite().any()) for x in tensors
    )


def _size(name: str, value: Any) -> str:
    shown = tuple(value.shape) if isinstance(value, Tensor) else value
    return f"{name} {shown}" if isinstance(shown, tuple | Number | str) else name


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + ", …" * (len(names) > 4)


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _is_the_courses(answer: Any, part: Part) -> bool:
    """Whether the answer is what the course shows or keeps, not the learner's own."""
    if (getattr(answer, "__module__", None) or "").startswith(("helpers.", "lessons.")):
        return hasattr(answer, "__name__")
    both = [inspect.unwrap(x) for x in (answer, part.shown) if inspect.isfunction(x)]
    return len(both) == 2 and len({(x.__name__, x.__code__.co_code) for x in both}) == 1


def several(output: Any, names: Sequence[str]) -> tuple[Tensor, ...]:
    """The tensors of these names, in plain form; Stop if the output is no such."""
    parts = output if isinstance(output, list | tuple) else [output]
    values = tuple(map(plain, parts))
    if len(values) == len(names) and all(isinstance(x, Tensor) for x in values):
        return values
    number = {2: "two", 3: "three"}[len(names)]
    if len(values) == 1 and isinstance(values[0], Tensor):
        text = f"one tensor of shape {tuple(values[0].shape)}, where {number} are due"
        raise Stop(wrong(f"{text}: `return {', '.join(names)}`, in this order"))
    kinds = ", ".join(type(part).__name__ for part in parts) or "nothing"
    raise Stop(wrong(f"return {number} tensors, {_listed(names)}, not: {kinds}"))


def misshapen(value: Any, due: Any, names: Sequence[str]) -> str:
    """What kind of thing or which shape is due instead of this value, if another is."""
    if names and isinstance(value, tuple):
        for name, part, wanted in zip(names, value, due, strict=True):
            if part.shape != wanted.shape:
                shapes = tuple(part.shape), tuple(wanted.shape)
                return f"{name} has shape {shapes[0]}, not {shapes[1]}"
    elif type(value) is not type(due):
        kinds = (type(thing).__name__.lower() for thing in (due, value))
        calls = " (are its parentheses missing?)" if callable(value) else ""
        return "return a {}, not a {}".format(*kinds) + calls
    elif isinstance(value, Tensor) and value.shape != due.shape:
        return f"the shape is {tuple(value.shape)} where {tuple(due.shape)} is due"
    return ""


def different(value: Any) -> str:
    """What can be said of any wrong value of the right shape."""
    parts = value if isinstance(value, tuple) else (value,)
    if any(isinstance(part, Tensor) and not part.isfinite().all() for part in parts):
        return "the result holds NaN or infinity"
    return "the result differs from the expected one"

"""Run a learner's answer beside the course's own, and name the mistake.

An exercise is plain Python: the course's component, probes to try an answer on, and
mistakes that learners make, each a wrong function or class with what is said of it. An
answer is right if its outputs and gradients are the component's on every probe.
"""

import copy
import dis
import inspect
import sysconfig
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from helpers import mine
from helpers.comparing import (
    Outcome,
    cut,
    differs,
    gradients,
    listed,
    shapes,
    tidy,
    unlike,
)

IN_PLACE = (
    "your code changes its inputs, and with them the caller's tensors: no `+=`, "
    "`x[…] = …` or method ending in `_` (`div_`, `masked_fill_`) on what came in"
)
RANDOM = "two calls with the same inputs differ: something random is left in, or kept"
UNTRIED = "○ not attempted yet"


class Probe:
    """Inputs on which answers are tried, and what is said of them there.

    `inputs` and `named` are the arguments; `build` makes a module of a class. `praise`
    is said where all is right, `when` in front of what is wrong. With `alike`, all
    sizes are equal, so that wrong code runs: that only helps to name the mistake. A
    module is tried in evaluation mode, if it is not `training`.
    """

    def __init__(
        self,
        *inputs: Any,
        build: Callable = lambda component: component,
        praise: str = "",
        when: str = "",
        alike: bool = False,
        training: bool = False,
        **named: Any,
    ):
        self.inputs, self.named, self.build = inputs, named, build
        self.praise, self.when, self.alike = praise, when, alike
        self.training = training

    def leaves(self) -> tuple[list, dict]:
        """The arguments; tensors of floats, copied, ask for gradients."""

        def leaf(value: Any) -> Any:
            floats = isinstance(value, Tensor) and value.is_floating_point()
            return value.detach().clone().requires_grad_() if floats else value

        return [*map(leaf, self.inputs)], {k: leaf(x) for k, x in self.named.items()}


class Wrong(Exception):
    """What is wrong with an answer, where there is no output to compare."""


@dataclass(frozen=True, eq=False)
class Exercise:
    """Called with a learner's answer, it prints what is right or wrong. Never raises.

    `results` names what a component returns, if that is more than one thing.
    `mistakes` maps what is said to the wrong version. `attributes` are names that other
    code reads of the module; numbers must be the course's. `read(output, *inputs)` is
    what is compared of an output, where more than one is right. `initial(module)` is
    what is wrong with a module just built, in training mode, or "".
    `picture(yours, due)` draws outputs that differ. With the number of a `lesson`, an
    answer that passes is kept (helpers.mine).
    """

    component: Callable
    probes: Sequence[Probe]
    mistakes: Mapping[str, Callable]
    _: KW_ONLY
    results: Sequence[str] = ()
    attributes: Sequence[str] = ()
    read: Callable = lambda output, *inputs: output
    initial: Callable[[nn.Module], str] = lambda module: ""
    picture: Callable[[Any, Any], None] | None = None
    lesson: str = ""
    _seen: dict = field(default_factory=dict, init=False, repr=False)

    def __call__(self, answer: Any) -> None:
        """Print a line for each finding: ✓ right, ✗ wrong and why, ○ not attempted."""
        lines, drawn = self.findings(answer)
        name, last = self.component.__name__, lines[-1][0]
        if self.lesson and last == "✓":
            lines.append(mine.keep(name, answer, self.lesson, self.passes))
        elif self.lesson and last == "✗" and name in mine.parts():
            lines.append(f"  {mine.path().name} still has your earlier {name}")
        print(*filter(None, lines), sep="\n")
        if drawn:
            self.picture(*drawn)

    @property
    def is_class(self) -> bool:
        """Whether the component is a module's class, not a function."""
        return inspect.isclass(self.component)

    def passes(self, answer: Any) -> bool:
        """Whether all is right with the answer."""
        return self.findings(answer)[0][-1][0] == "✓"

    def findings(self, answer: Any) -> tuple[list[str], tuple]:
        """The lines that a call prints, and the two outputs that it draws, if any."""
        try:
            if answer is None or answer is Ellipsis or _is_stub(answer):
                return [UNTRIED], ()
            self._refuse_what_is_no_answer(answer)
            with torch.random.fork_rng(devices=[]), torch.enable_grad():
                return self._compared(answer)
        except Wrong as wrong:
            return [f"✗ {wrong}"], ()
        except Exception as error:  # whatever was handed in, the notebook goes on
            return [f"✗ this check cannot read your answer: {mine.says(error)}"], ()

    def _refuse_what_is_no_answer(self, answer: Any) -> None:
        what = "class" if self.is_class else "function"
        if not (inspect.isclass(answer) if self.is_class else callable(answer)):
            raise Wrong(f"hand over the {what} itself, not what a call of it gives")
        own = self.is_class and issubclass(answer, self.component)
        if own or str(answer.__module__).startswith(("helpers.", "lessons.")):
            raise Wrong("this is the course's own, or inherits it: write it yourself")

    def _compared(self, answer: Callable) -> tuple[list[str], tuple]:
        """What is right, up to the first probe where something is wrong."""
        tried = [(x, self._outcome(answer, x)) for x in self.probes]
        lines, reached = [], {}
        for place, (probe, yours) in enumerate(tried):
            if probe.alike or "meta tensor" in str(yours.error):
                continue  # right code may read a tensor's numbers
            due = self._known(self.component, probe)
            if due.error:  # the exercise itself is wrong
                raise due.error
            if not yours.alike(due):
                if not (text := self._named(tried, place)):
                    error = yours.error and _stopped(yours.error)
                    text = probe.when + (error or self._described(yours, due))
                fits = self.picture and shapes(yours.output) == shapes(due.output)
                drawn = (yours.output, due.output) if fits else ()
                return [*lines, f"✗ {text}"], drawn
            if text := cut(yours.gradients, due.gradients):
                return [*lines, f"✗ {probe.when}{text}"], ()
            lines += [f"✓ {probe.praise}"] * bool(probe.praise)
            reached |= {k: g for k, g in due.gradients.items() if g is not None}
        names = [name for name in reached if not name.startswith("self.")]
        if names:
            every = ["every parameter"] * (len(names) < len(reached))
            lines.append(f"✓ gradients reach {listed(every + names)}")
        return lines or ["✓ right"], ()

    def _known(self, version: Callable, probe: Probe) -> Outcome:
        """What the course's version does, or a mistake: each check needs it again."""
        if (version, probe) not in self._seen:
            self._seen[version, probe] = self._outcome(version, probe)
        return self._seen[version, probe]

    def _outcome(self, answer: Callable, probe: Probe) -> Outcome:
        """What the answer does on a probe, in two calls with other random numbers."""
        try:
            function, leaves = self._built(answer, probe)
            (inputs, named), outputs = probe.leaves(), []
            for seed in (0, 1):
                torch.manual_seed(seed)
                given = tuple(map(_copy, inputs))
                output = function(*given, **{k: _copy(x) for k, x in named.items()})
                self._refuse_what_is_no_output(output)
                outputs.append(tidy(self.read(output, *given)))
                if differs(tidy(given), tidy(inputs)):
                    raise Wrong(IN_PLACE)
            if differs(*outputs):
                raise Wrong(RANDOM)
            forward = self.component.forward if self.is_class else self.component
            names = [*inspect.signature(forward).parameters][self.is_class :]
            leaves |= named | dict(zip(names, inputs, strict=False))
            return Outcome(outputs[1], gradients(outputs[1], leaves))
        except (Exception, SystemExit) as error:
            return Outcome(error=error)

    def _refuse_what_is_no_output(self, output: Any) -> None:
        if output is None or output is Ellipsis:
            raise Wrong("it returns nothing: does it end with a line `return …`?")
        several = isinstance(output, tuple | list) and len(output) == len(self.results)
        if self.results and not several:
            raise Wrong(f"return all results: `return {', '.join(self.results)}`")

    def _built(self, answer: Callable, probe: Probe) -> tuple[Callable, dict]:
        """A function; or a module with the course's weights, and its parameters."""
        if not self.is_class:
            return answer, {}
        torch.manual_seed(0)
        course, module = probe.build(self.component), probe.build(answer)
        due, yours = (dict(x.named_parameters()) for x in (course, module))
        if text := unlike(yours, due):
            raise Wrong(text)
        torch.manual_seed(1)  # whatever numbers the two have drawn
        with torch.no_grad():  # a gain of 1 or a bias of 0 would hide its misuse
            for name, weight in due.items():
                yours[name].copy_(weight + 0.3 * torch.randn_like(weight))
        if text := self.initial(probe.build(answer)):
            raise Wrong(text)
        for name in self.attributes:
            wanted, found = (getattr(x, name, ...) for x in (course, module))
            number = isinstance(wanted, int | float)
            if found is ... or (number and found != wanted):
                to = f" to {wanted}" * number
                raise Wrong(f"set `self.{name}`{to}: other code of the course reads it")
        module.train(probe.training)
        return module, {f"self.{name}": x for name, x in yours.items()}

    def _named(self, tried: Sequence[tuple[Probe, Outcome]], last: int) -> str:
        """What is said of the mistake that does the same, or nothing.

        It has to do the same up to the probe `last`, where the answer first goes wrong;
        and, if it stops there, on the probes that let wrong code run.
        """
        error = tried[last][1].error
        seen = tried[: last + 1] + [x for x in tried if x[0].alike and error]
        if isinstance(error, Wrong) or all(yours.error for _, yours in seen):
            return ""
        for text, wrong in self.mistakes.items():
            if all(yours.alike(self._known(wrong, probe)) for probe, yours in seen):
                return text
        return ""

    def _described(self, yours: Outcome, due: Outcome) -> str:
        """Where an output that no known mistake gives differs first."""
        if not isinstance(due.output, tuple) or not self.results:
            return f"the result {differs(yours.output, due.output)}"
        if not differs(yours.output[::-1], due.output):
            return f"return {listed(self.results)} in this order, not the other"
        several = zip(self.results, map(differs, yours.output, due.output), strict=True)
        return next(f"{name} {text}" for name, text in several if text)


def choose(answers: Any, due: Mapping[str, str], choices: Mapping[str, str]) -> None:
    """Print for each name of `due` whether its choice is right. Never raises.

    `choices` are what there is to choose from, with what is said where one is wrong.
    """
    if answers is not None and not isinstance(answers, Mapping):
        print(f"✗ hand over a dictionary, not a {type(answers).__name__}")
        return
    for name, right in due.items():
        said = answers.get(name) if answers else None
        said = " ".join(said.casefold().split()) if isinstance(said, str) else said
        if said is None or said is ...:
            print(f"○ {name}: not attempted yet")
        elif said == right:
            print(f"✓ {name}: {right}")
        elif isinstance(said, str) and said in choices:
            print(f"✗ {name}: {choices[said]}")
        else:
            print(f"✗ {name}: choose one of {', '.join(choices)}")


def _is_stub(answer: Any) -> bool:
    """Whether there is nothing in it but `return None`, `pass` or `...`."""
    function = getattr(answer, "forward", answer)
    if function is nn.Module.forward or not hasattr(function, "__code__"):
        return function is nn.Module.forward
    steps = [x for x in dis.get_instructions(function) if x.opname != "RESUME"]
    return all(x.argval is None or x.argval is Ellipsis for x in steps)


def _stopped(error: BaseException) -> str:
    """The exception in words, with the last line of the learner's that it came by."""
    if isinstance(error, Wrong):
        return str(error)
    ours = str(Path(__file__).parent)
    libraries = sysconfig.get_path("purelib"), sysconfig.get_path("stdlib"), ours
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(libraries)]
    line = f" in the line `{own[-1].line}`" if own and own[-1].line else ""
    return f"your code stopped with {mine.says(error)}{line}"


def _copy(value: Any) -> Any:
    """A copy; through that of a tensor, gradients flow."""
    return value.clone() if isinstance(value, Tensor) else copy.deepcopy(value)

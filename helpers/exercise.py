"""Run a learner's answer beside the course's own, and name the mistake.

An exercise is plain Python: the course's component, probes to try an answer on, and
mistakes that learners make, each a wrong function or class with what is said of it. An
answer is right if its outputs and gradients are the component's on every probe. A
mistake has a name if the answer does, on every probe, what its wrong version does.
"""

import copy
import dis
import inspect
import sysconfig
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from types import EllipsisType, NoneType
from typing import Any

import torch
from torch import Tensor, nn

from helpers import mine

CUT = "no `detach`, `no_grad`, `.data`, numpy or `torch.tensor(…)` on the way"
IN_PLACE = (
    "your code changes its inputs, and with them the caller's tensors: no `+=`, "
    "`x[…] = …` or method ending in `_` (`div_`, `masked_fill_`) on what came in"
)
RANDOM = "two calls with the same inputs differ: something random is left in, or kept"
MIXED_UP = "it is right only where all axes have the same size: two are mixed up"
NOTHING = "it returns nothing: does a line with `return` stand at its end?"
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
        self.training = training
        self.inputs, self.named, self.build = inputs, named, build
        self.praise, self.when, self.alike = praise, when, alike

    def leaves(self) -> tuple[list, dict]:
        """The arguments; tensors of floats, copied, ask for gradients."""

        def leaf(value: Any) -> Any:
            floats = isinstance(value, Tensor) and value.is_floating_point()
            return value.detach().clone().requires_grad_() if floats else value

        return [*map(leaf, self.inputs)], {k: leaf(x) for k, x in self.named.items()}


class Wrong(Exception):
    """What is wrong with an answer, where there is no output to compare."""


@dataclass
class Outcome:
    """What came of an answer on a probe: an output with its gradients, or an error."""

    output: Any = None
    gradients: dict[str, Tensor | None] = field(default_factory=dict)
    error: BaseException | None = None

    def alike(self, other: "Outcome") -> bool:
        """Whether two outcomes cannot be told apart."""
        if self.error or other.error:
            return type(self.error) is type(other.error)
        return not differs(self.output, other.output)


@dataclass(frozen=True, eq=False)
class Exercise:
    """Called with a learner's answer, it prints what is right or wrong. Never raises.

    `results` names what a component returns, if that is more than one thing.
    `mistakes` maps what is said to the wrong version. `attributes` are names that other
    code reads of the module; numbers must be the course's. `read(output, *inputs)` is
    what is compared of an output, where more than one is right. `initial(module)` is
    what is wrong with a module just built, in training mode, or "".
    `picture(yours, due)` draws outputs that differ.
    With the number of a `lesson`, an answer that passes is kept (helpers.mine).
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

    def __call__(self, answer: Any) -> None:
        """Print a line for each finding: ✓ right, ✗ wrong and why, ○ not attempted."""
        lines, drawn = self.findings(answer)
        print(*lines, sep="\n")
        if drawn:
            self.picture(*drawn)
        name, said = self.component.__name__, ""
        if self.lesson and lines[-1][0] == "✓":
            said = mine.keep(name, answer, self.lesson, self.passes)
        elif self.lesson and lines[-1][0] == "✗" and name in mine.parts():
            said = f"  {mine.path().name} still has your earlier {name}"
        print(said, end="\n" * bool(said))

    @property
    def is_class(self) -> bool:
        """Whether the component is a module's class, not a function."""
        return inspect.isclass(self.component)

    def passes(self, answer: Any) -> bool:
        """Whether all is right with the answer."""
        return self.findings(answer)[0][-1][0] == "✓"

    def findings(self, answer: Any) -> tuple[list[str], tuple]:
        """The lines that a call prints, and the two outputs that it draws, if any."""
        dtype = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)
        try:
            with torch.random.fork_rng(devices=[]), torch.enable_grad():
                return self._findings(answer)
        except Wrong as wrong:
            return [f"✗ {wrong}"], ()
        except Exception as error:  # whatever was handed in, the notebook goes on
            return [f"✗ this check cannot read your answer: {mine.says(error)}"], ()
        finally:
            torch.set_default_dtype(dtype)

    def _findings(self, answer: Any) -> tuple[list[str], tuple]:
        if answer is None or answer is Ellipsis or _is_stub(answer):
            return [UNTRIED], ()
        self._refuse_what_is_no_answer(answer)
        yours = [self._outcome(answer, probe) for probe in self.probes]
        due = [self._outcome(self.component, probe) for probe in self.probes]
        lines, reached = [], {}
        for place, probe in enumerate(self.probes):
            one, other = yours[place], due[place]
            if other.error:  # the exercise itself is wrong
                raise other.error
            if probe.alike:
                continue
            if isinstance(one.error, NotImplementedError) and not one.error.args:
                return [UNTRIED], ()
            if "meta tensor" in str(one.error):  # right code may read its numbers
                continue
            if isinstance(one.error, Wrong):
                return [*lines, f"✗ {probe.when}{one.error}"], ()
            if not one.alike(other):
                text = self._named(yours, due, place)
                text = text or probe.when + self._described(one, other)
                fits = self.picture and shapes(one.output) == shapes(other.output)
                drawn = (one.output, other.output) if fits else ()
                return [*lines, f"✗ {text}"], drawn
            if text := cut(one.gradients, other.gradients):
                return [*lines, f"✗ {probe.when}{text}"], ()
            lines += [f"✓ {probe.praise}"] * bool(probe.praise)
            reached |= {k: g for k, g in other.gradients.items() if g is not None}
        names = [name for name in reached if not name.startswith("self.")]
        if names:
            every = ["every parameter"] * (len(names) < len(reached))
            lines.append(f"✓ gradients reach {listed(every + names)}")
        return lines or ["✓ right"], ()

    def _refuse_what_is_no_answer(self, answer: Any) -> None:
        module = str(getattr(answer, "__module__", ""))
        codes = [getattr(x, "__code__", x) for x in (answer, self.component)]
        if module.startswith(("helpers.", "lessons.")) or codes[0] == codes[1]:
            raise Wrong("this is the course's own: hand over yours")
        if self.is_class and not inspect.isclass(answer):
            raise Wrong("hand over the class itself, without parentheses")
        if self.is_class and not issubclass(answer, nn.Module):
            raise Wrong(f"{answer.__name__} must be an `nn.Module`")
        if self.is_class and issubclass(answer, self.component):
            raise Wrong("this class inherits the course's own: write it yourself")
        if not callable(answer):
            kind = type(answer).__name__
            raise Wrong(f"hand over the function itself, not what it gives (a {kind})")

    def _outcome(self, answer: Callable, probe: Probe) -> Outcome:
        """What the answer does on a probe, in two calls with other random numbers."""
        try:
            function, leaves = self._built(answer, probe)
            (inputs, named), outputs = probe.leaves(), []
            for seed in (0, 1):
                torch.manual_seed(seed)
                given = [*map(_copy, inputs)]
                output = function(*given, **{k: _copy(x) for k, x in named.items()})
                self._check_number(output)
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

    def _check_number(self, output: Any) -> None:
        if output is None or output is Ellipsis:
            raise Wrong(NOTHING)
        several = isinstance(output, tuple | list) and len(output) == len(self.results)
        if self.results and not several:
            text = f"return {listed(self.results)}, in this order: "
            raise Wrong(f"{text}`return {', '.join(self.results)}`")

    def _built(self, answer: Callable, probe: Probe) -> tuple[Callable, dict]:
        """A function; or a module with the course's weights, and its parameters."""
        if not self.is_class:
            return answer, {}
        torch.manual_seed(0)
        course, module = probe.build(self.component), probe.build(answer)
        due, yours = (dict(m.named_parameters()) for m in (course, module))
        if due.keys() != yours.keys():
            missing, more = sorted(due.keys() - yours), sorted(yours.keys() - due)
            if (
                due.keys()
                == dict(module.named_parameters(remove_duplicate=False)).keys()
            ):
                text = f"{few(missing)}: each needs numbers of its own"
                raise Wrong(f"these parameters are others' under a second name: {text}")
            found = [("missing", missing), ("not expected", more)]
            text = "; ".join(f"{what}: {few(names)}" for what, names in found if names)
            others = "the parameters have other names than the course's, or are shared"
            raise Wrong(f"{others}: {text}")
        torch.manual_seed(1)  # whatever numbers the two have drawn
        for name, weight in due.items():
            if weight.shape != yours[name].shape:
                found, wanted = tuple(yours[name].shape), tuple(weight.shape)
                raise Wrong(f"{name} has shape {found}, not {wanted}")
            with torch.no_grad():  # a gain of 1 or a bias of 0 would hide its misuse
                yours[name].copy_(weight + 0.3 * torch.randn_like(weight))
        if text := self.initial(probe.build(answer)):
            raise Wrong(text)
        for name in self.attributes:
            if not hasattr(module, name):
                raise Wrong(f"set `self.{name}`: other code of the course reads it")
            wanted, found = getattr(course, name), getattr(module, name)
            if isinstance(wanted, int | float | str) and found != wanted:
                text = f"`self.{name}` is {found!r:.60}, not {wanted!r}"
                raise Wrong(f"{text}: other code of the course reads it")
        module.train(probe.training)
        return module, {f"self.{name}": x for name, x in yours.items()}

    def _named(
        self, yours: Sequence[Outcome], due: Sequence[Outcome], last: int
    ) -> str:
        """What is said of the mistake that does the same, or nothing.

        It has to do the same up to the probe `last`, where the answer first goes wrong;
        and, if it stops there, on the probes that let wrong code run.
        """
        stops = yours[last].error is not None
        alike = [i for i, probe in enumerate(self.probes) if probe.alike and stops]
        chosen = [*range(last + 1), *alike]
        if any(yours[i].error is None for i in chosen):
            for text, wrong in self.mistakes.items():
                if all(
                    yours[i].alike(self._outcome(wrong, self.probes[i])) for i in chosen
                ):
                    return text
        mixed = alike and not last and all(yours[i].alike(due[i]) for i in alike)
        return MIXED_UP if mixed else ""

    def _described(self, yours: Outcome, due: Outcome) -> str:
        """Where an output that no known mistake gives differs first."""
        if yours.error:
            return stopped(yours.error)
        if not isinstance(due.output, tuple) or not self.results:
            return f"the result {differs(yours.output, due.output)}"
        if not differs(yours.output[::-1], due.output):
            return f"return {listed(self.results)} in this order, not the other"
        several = zip(self.results, map(differs, yours.output, due.output), strict=True)
        return next(f"{name} {text}" for name, text in several if text)


def choose(
    answers: Any, due: Mapping[str, str], choices: Mapping[str, str] | Sequence[str]
) -> None:
    """Print for each name of `due` whether its choice is right. Never raises.

    `choices` are what there is to choose from; a mapping says why each would be wrong.
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
            why = choices[said] if isinstance(choices, Mapping) else f"not {said!r}"
            print(f"✗ {name}: {why}")
        else:
            print(f"✗ {name}: choose one of {', '.join(choices)}")


def _is_stub(answer: Any) -> bool:
    """Whether there is nothing in it but `return None`, `pass` or `...`."""
    function = getattr(answer, "forward", answer)
    code = getattr(function, "__code__", None)
    if code is None or function is nn.Module.forward:
        return code is not None
    nothing = {"RESUME", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST"}
    constants = {type(x) for x in code.co_consts} <= {NoneType, EllipsisType, str}
    return constants and {x.opname for x in dis.get_instructions(code)} <= nothing


def _copy(value: Any) -> Any:
    """A copy; through that of a tensor, gradients flow."""
    return value.clone() if isinstance(value, Tensor) else copy.deepcopy(value)


def tidy(output: Any) -> Any:
    """Lists as tuples: which of the two holds the results does not matter."""
    return tuple(map(tidy, output)) if isinstance(output, list | tuple) else output


def shapes(output: Any) -> list:
    """The shapes of an output's tensors."""
    parts = output if isinstance(output, tuple) else (output,)
    return [part.shape if isinstance(part, Tensor) else None for part in parts]


def differs(yours: Any, due: Any) -> str:
    """In which way, and where first, two outputs differ; "" if they do not.

    Floats agree up to rounding, NaN with NaN; modules with themselves alone.
    """
    kinds = [Tensor if isinstance(x, Tensor) else type(x) for x in (yours, due)]
    if kinds[0] is not kinds[1]:
        a, b = (x.__name__.replace("tuple", "list or tuple") for x in kinds)
        return f"is a {a} where a {b} is due"
    if isinstance(due, tuple):
        if len(yours) != len(due):
            return f"holds {len(yours)} things where {len(due)} are due"
        return next(filter(None, map(differs, yours, due)), "")
    if not isinstance(due, Tensor):
        plain = isinstance(due, int | float | str)  # of others, the kind must do
        return f"is {yours!r:.60}, not {due!r:.60}" if plain and yours != due else ""
    for what in ("shape", "dtype", "device"):
        a, b = (getattr(x, what) for x in (yours, due))
        if a != b:
            a, b = (tuple(x) if what == "shape" else x for x in (a, b))
            return f"has {what} {a} where {b} is due"
    if due.is_meta:
        return ""
    a, b = (x.detach().to_dense() for x in (yours, due))
    apart = ~torch.isclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
    if not apart.any():
        return ""
    place = apart.nonzero()[0].tolist()
    a, b = (f"{x[tuple(place)].item():.5g}" for x in (a, b))
    return f"is {a}{f' at {place}' * bool(place)} where {b} is due"


def gradients(output: Any, leaves: Mapping[str, Any]) -> dict[str, Tensor | None]:
    """What reaches each leaf from the output, its numbers weighted at random."""
    parts = output if isinstance(output, tuple) else (output,)
    chance, total = torch.Generator().manual_seed(0), torch.zeros(())
    for part in parts:
        if getattr(part, "requires_grad", False) and not part.is_meta:
            weights = torch.randn(part.shape, generator=chance, dtype=part.dtype)
            total = total + (part * weights).sum()
    learn = {k: x for k, x in leaves.items() if getattr(x, "requires_grad", False)}
    if not total.requires_grad:
        return dict.fromkeys(learn)
    found = torch.autograd.grad(total, [*learn.values()], allow_unused=True)
    return dict(zip(learn, found, strict=True))


def cut(yours: Mapping, due: Mapping) -> str:
    """Which of the gradients that are due are missing or wrong, in words."""
    sizes = {name: abs(g).max() for name, g in due.items() if g is not None}
    # Rounding is no gradient: with one key, its weight is 1 whatever the query says.
    least = 1e-5 * max(sizes.values(), default=0)
    due = {name: due[name] for name, size in sizes.items() if size > least}
    lost = [name for name in due if yours[name] is None or not yours[name].any()]
    if lost:
        return f"no gradient reaches {few(lost)}, so nothing could be learnt: {CUT}"
    if broken := [name for name in due if yours[name].isnan().any()]:
        return f"the gradient that reaches {few(broken)} holds NaN"
    scale = {name: sizes[name].clamp(min=1) for name in due}
    bent = [k for k, by in scale.items() if differs(yours[k] / by, due[k] / by)]
    return f"not all of the gradient reaches {few(bent)}: {CUT}" if bent else ""


def listed(names: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def few(names: Sequence[str]) -> str:
    """The first three, and how many more."""
    more = len(names) - 3
    return listed([*names[:3], f"{more} more"] if more > 0 else names)


def stopped(error: BaseException) -> str:
    """The exception in words, with the last line of the learner's that it came by."""
    ours = str(Path(__file__).parent)
    libraries = sysconfig.get_path("purelib"), sysconfig.get_path("stdlib"), ours
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(libraries)]
    line = f" in the line `{own[-1].line}`" if own and own[-1].line else ""
    return f"your code stopped with {mine.says(error)}{line}"

"""Every exercise that has a table: each mistake is named, nothing right is blamed.

What a table does not hold stands in tests/answers: right answers in another style, and
wrong ones that are no patch of the reference answer.
"""

import inspect
import re
from importlib import import_module
from itertools import combinations

import pytest
import torch

from lessons.checking.comparing import plain
from lessons.checking.engine import Exercise
from lessons.checking.findings import Check
from lessons.checking.running import definitions
from lessons.checking.values import Values
from tools import notebooks
from tools.reproducible import ROOT

LESSONS = sorted(path.parent.name for path in ROOT.glob("lessons/*/exercises.py"))
TABLES = {
    f"{lesson}-{name}": value
    for lesson in LESSONS
    for name, value in vars(import_module(f"lessons.{lesson}.exercises")).items()
    if isinstance(value, Check)
}
CODE = {name: x for name, x in TABLES.items() if isinstance(x, Exercise)}
VALUES = {name: x for name, x in TABLES.items() if isinstance(x, Values)}
ROWS = [
    pytest.param(exercise, part, row, id=f"{name}-{part.name}-{row[0][:50]}-{number}")
    for name, exercise in CODE.items()
    for part in exercise.parts
    for number, row in enumerate(part.rows())
]
FEW = 3  # seeds, with which a row or an answer is tried with one of them, in turn


def each(exercises):
    return pytest.mark.parametrize("exercise", exercises.values(), ids=[*exercises])


def others(kind):
    """The answers of tests/answers: for each exercise its RIGHT or its WRONG ones."""
    for name, exercise in TABLES.items():
        lesson, attribute = name.split("-")
        known = getattr(import_module(f"answers.{lesson}"), kind)[attribute]
        for number, answer in enumerate(known):
            yield pytest.param(exercise, answer, id=f"{name}-{number}")


def that_matter(exercise, seeds, number=None):
    """The first seed alone, where an exercise draws nothing at random.

    Of a few seeds, one for each `number`: so a table tries them all, row by row.
    """
    if not any(part.probes(0) for part in getattr(exercise, "parts", ())):
        return seeds[:1]
    if number is not None and len(seeds) <= FEW:
        return [seeds[number % len(seeds)]]
    return seeds


def number_of(request):
    """The number at the end of a test's name."""
    return int(request.node.callspec.id.rpartition("-")[2])


def ask(exercise, answer, seed):
    """The findings for an answer: a function, or several, or values by name."""
    if isinstance(exercise, Values):
        return exercise.findings(exercise.due() | answer)
    several = answer if isinstance(answer, tuple) else (answer,)
    return exercise.findings(*several, seed=seed)


def references(exercise, part=None, *rows):
    """The reference's functions; that of `part` with mistakes."""
    return tuple(
        exercise.reference(each, *(rows if each is part else ()))
        for each in exercise.parts
    )


def with_answer(exercise, part, answer):
    """The reference's functions, with this answer for one part."""
    return [answer if p is part else exercise.reference(p) for p in exercise.parts]


def arguments(exercise, part):
    return [*inspect.signature(part.use(exercise.reference(part))).parameters]


def marks(found):
    return "".join(finding.mark for finding in found)


def drawn(found, seed):
    """The findings; with the first seed their pictures are drawn, too."""
    for finding in found:
        if finding.draw is not None and seed == 0:
            finding.draw()
    return found


# ------------------------------------------------------------------ the tables' rows


@each(CODE)
def test_the_reference_answer_is_right(exercise, seeds):
    for seed in that_matter(exercise, seeds):
        found = exercise.findings(*references(exercise), seed=seed)
        assert {*marks(found)} == {"✓"}, found


@pytest.mark.parametrize(("exercise", "part", "row"), ROWS)
def test_a_mistake_is_named_by_its_own_row(exercise, part, row, seeds, request):
    for seed in that_matter(exercise, seeds, number_of(request)):
        answers = references(exercise, part, row)
        found = drawn(exercise.findings(*answers, seed=seed), seed)
        (text,) = (finding.text for finding in found if finding.mark == "✗")
        message = re.sub(r"\\\{.*?\\\}", ".+", re.escape(row[0]))
        trials = exercise.trials(part, seed)
        before = "|".join(re.escape(trial.before) for trial in trials)
        label = re.escape(part.label and f"{part.label}: ")
        after = r"(\. .*| \(your code stopped with .*\))?"
        assert re.fullmatch(f"{label}({before}){message}{after}", text), text


@pytest.mark.long
@pytest.mark.parametrize(("exercise", "part", "row"), ROWS)
def test_no_other_row_fits(exercise, part, row):
    trials = [*exercise.trials(part, 0)]
    trials += [exercise.lenient(part, 0)] if part.lenient else []
    due = [exercise.outcome(part, trial).output for trial in trials]
    came = [exercise.outcome(part, trial, row) for trial in trials]
    seen = [*zip(trials, due, came, strict=True)]
    assert {*exercise.names(part, seen, most=1)} == {(row[0],)}


@each(CODE)
def test_two_mistakes_at_once_are_not_praised(exercise):
    for part in exercise.parts:
        pairs = [*combinations(part.rows(), 2)]
        for rows in pairs[:: max(1, len(pairs) // 12)]:
            answers = references(exercise, part, *rows)
            if None not in answers:
                assert "✗" in marks(exercise.findings(*answers)), rows


@each(VALUES)
def test_every_wrong_value_has_its_reason(exercise):
    due = exercise.due()
    assert marks(exercise.findings(due)) == "✓" * len(due)
    assert marks(exercise.findings(**due)) == "✓" * len(due)
    for name, reasons in exercise.mistakes.items():
        words = dict.fromkeys(x for x in exercise.choices if x != due[name])
        for value in {**reasons, **words}:
            found = exercise.findings({**due, name: value})
            (text,) = (finding.text for finding in found if finding.mark == "✗")
            assert text.startswith(name)
            assert text.endswith(reasons.get(value) or exercise.otherwise[name])
        for value in exercise.also.get(name, ()):
            assert marks(exercise.findings({**due, name: value})) == "✓" * len(due)


@each(VALUES)
def test_values_are_not_attempted_or_strange(exercise):
    due = exercise.due()
    for nothing in (None, {}, dict.fromkeys(due), dict.fromkeys(due, ...)):
        assert marks(exercise.findings(nothing)) == "○" * len(due)
    for name in due:
        for strange in (int, object(), [[]], {}, "?", b"?", 3j, torch.ones(2, 2), {1}):
            assert marks(exercise.findings({**due, name: strange})).count("✗") == 1
    for strange in ("error", 3, [1]):
        (finding,) = exercise.findings(strange)
        assert finding.mark == "✗" and "a dictionary" in finding.text
    assert "misspelt is none of" in exercise.findings(misspelt=1)[0].text


# ------------------------------------------------------------------ other answers


@pytest.mark.parametrize(("exercise", "answer"), [*others("RIGHT")])
def test_another_right_answer_is_right(exercise, answer, seeds):
    for seed in that_matter(exercise, seeds):
        found = ask(exercise, answer, seed)
        assert {*marks(found)} == {"✓"}, found


@pytest.mark.parametrize(("exercise", "case"), [*others("WRONG")])
def test_another_wrong_answer_is_wrong(exercise, case, seeds, request):
    answer, part = case
    for seed in that_matter(exercise, seeds, number_of(request)):
        found = drawn(ask(exercise, answer, seed), seed)
        texts = [finding.text for finding in found if finding.mark == "✗"]
        assert len(texts) == 1 and part in texts[0], found


def spoilt(part, reference, first):
    """Answers that give what is right, but not for every input, or not for learning."""
    constant, sizes = part.value(reference, first).output, shapes(first)
    if inspect.isclass(reference):
        return spoilt_class(reference, constant)
    found = {
        "a constant": lambda *given: constant,
        "for the first sizes": lambda *given: (
            reference(*given) if shapes(given) == sizes else constant
        ),
    }
    parts = constant if isinstance(constant, tuple) else (constant,)
    if all(map(is_float, (first[0], parts[0]))) and learns(part, reference, first):
        found["without gradients"] = torch.no_grad()(lambda *x: reference(*x))
    if isinstance(first[0], torch.Tensor) and first[0].dtype != torch.bool:
        found["in place"] = lambda x, *rest: reference(x.add_(1).sub(1), *rest)
    return found


def learns(part, reference, first):
    """Whether what is compared of the reference's output carries gradients."""
    given = [x.clone().requires_grad_() if is_float(x) else x for x in first]
    value = part.read(reference(*given), given)
    parts = value if isinstance(value, tuple) else (value,)
    return any(isinstance(x, torch.Tensor) and x.requires_grad for x in parts)


def is_float(x):
    return isinstance(x, torch.Tensor) and x.is_floating_point()


def spoilt_class(reference, constant):
    """The same of a module: its forward spoilt."""
    forward = reference.forward
    ways = {
        "a constant": lambda self, *x: constant,
        "without gradients": torch.no_grad()(lambda self, *x: forward(self, *x)),
        "in place": lambda self, x, *rest: forward(self, x.add_(1).sub(1), *rest),
    }
    return {way: type(way, (reference,), {"forward": f}) for way, f in ways.items()}


def shapes(inputs):
    return [getattr(x, "shape", x) for x in inputs]


def restyled(reference):
    """The reference's answer, as somebody else would write it."""
    if inspect.isclass(reference):
        return {"in a function": lambda *sizes: reference(*sizes)}
    return {
        "in a lambda": lambda *x: reference(*x),
        "in float64": lambda *given: reference(*doubled(given)),
        "in lists": lambda *given: listed(reference(*given)),
    }


def doubled(given):
    """Numbers in float64, and the modules that are to take them."""
    numbers = [isinstance(x, torch.Tensor) and x.is_floating_point() for x in given]
    moved = zip(given, numbers, strict=True)
    return [
        x.double() if number or (any(numbers) and isinstance(x, torch.nn.Module)) else x
        for x, number in moved
    ]


def listed(output):
    if isinstance(output, tuple):
        return [*map(listed, output)]
    return [*output] if isinstance(output, torch.Tensor) and output.dim() else output


@each(CODE)
def test_answers_are_tried_on_inputs_of_different_shapes(exercise):
    for part in exercise.parts:
        probes = [shapes(inputs) for inputs in part.probes(0)]
        assert len(probes) == len({*map(str, probes)}) != 1
        assert probes or len(part.all_trials(0, [])) > 1


@each(CODE)
def test_what_the_reference_gives_is_not_enough(exercise):
    for part in exercise.parts:
        first = part.all_trials(0, arguments(exercise, part))[0].inputs
        if first and not part.in_place:
            answers = spoilt(part, exercise.reference(part), first)
            for kind, answer in answers.items():
                found = exercise.findings(*with_answer(exercise, part, answer))
                assert "✗" in marks(found), kind


@each(CODE)
def test_the_style_does_not_matter(exercise):
    for part in exercise.parts:
        for kind, answer in restyled(exercise.reference(part)).items():
            found = exercise.findings(*with_answer(exercise, part, answer))
            assert {*marks(found)} == {"✓"}, (kind, found)


STRANGE = {
    "a string": lambda *x: "attention",
    "an empty tuple": lambda *x: (),
    "None twice": lambda *x: (None, None),
    "numbers": lambda *x: (1.0, 2.0),
    "a generator": lambda *x: (y for y in x),
    "complex": lambda *x: 1j,
    "sparse": lambda *x: torch.eye(3).to_sparse(),
    "on no device": lambda *x: torch.zeros(2, device="meta"),
    "no dimension": lambda *x: torch.tensor(1.0),
    "no elements": lambda *x: torch.zeros(0),
    "a dictionary": lambda *x: {"context": 1},
    "deep": lambda *x: [[[x]]],
    "itself": lambda *x: STRANGE,
    "a class": dict,
    "a module": torch.nn.Linear(2, 2),
    "a number": 3,
    "no argument": lambda: 1,
    "division": lambda *x: 1 / 0,
    "leaves": lambda *x: exit(),
}


# An eighth of the pairs each time: what is strange is the engine's matter.
STRANGE_ANSWERS = [
    pytest.param(
        exercise,
        strange,
        id=f"{name}-{kind}",
        marks=[pytest.mark.long] if (i + j) % 8 else [],
    )
    for i, (name, exercise) in enumerate(CODE.items())
    for j, (kind, strange) in enumerate(STRANGE.items())
]


@pytest.mark.parametrize(("exercise", "strange"), STRANGE_ANSWERS)
def test_no_answer_is_too_strange(exercise, strange, capsys):
    for part in exercise.parts:
        answers = with_answer(exercise, part, strange)
        assert exercise(*answers) is None
        lines = capsys.readouterr().out.splitlines()
        assert any(line.startswith("✗ ") for line in lines), lines


@each(CODE)
def test_nothing_attempted_is_no_mistake(exercise):
    for nothing in (None, lambda *x: None, lambda *x: ...):
        found = exercise.findings(*[nothing] * len(exercise.parts))
        assert {*marks(found)} == {"○"}


@each({name: x for name, x in CODE.items() if len(x.parts) > 1})
def test_one_part_is_judged_without_the_others(exercise):
    for part in exercise.parts:
        alone = [
            None if p is not part else exercise.reference(p) for p in exercise.parts
        ]
        found = exercise.findings(*alone)
        for finding in found:
            mine = finding.text.startswith(f"{part.label}: ")
            assert finding.mark == ("✓" if mine else "○"), found
        assert "✓" in marks(found)


@each(CODE)
def test_the_courses_own_is_told_to_be_so(exercise):
    for part in exercise.parts:
        assert part.shown is None or part.shown.__name__ != part.name
        for own in filter(None, (plain, part.shown)):
            answers = with_answer(exercise, part, own)
            assert any("course's own" in f.text for f in exercise.findings(*answers))


# ------------------------------------------------------------------ the notebooks


@each(TABLES)
def test_the_solutions_show_the_reference_answer(exercise, request):
    lesson = request.node.callspec.id.split("-")[0]
    (path,) = (notebooks.NOTEBOOKS / "solutions").glob(f"{lesson[-2:]}_*.ipynb")
    cells = notebooks.code_cells(notebooks.read(path))
    assert exercise.answer.rstrip("\n") in [cell.source for cell in cells]


@each(TABLES)
def test_the_lesson_asks_for_the_names_of_the_reference_answer(exercise, request):
    lesson = request.node.callspec.id.split("-")[0]
    (path,) = notebooks.NOTEBOOKS.glob(f"{lesson[-2:]}_*.ipynb")
    uses = getattr(exercise, "uses", {})
    due = [*definitions(exercise.answer, uses)]
    cells = [
        c
        for c in notebooks.code_cells(notebooks.read(path))
        if "exercise" in c.metadata.get("tags", [])
    ]
    assert due in [
        [*definitions(cell.source, uses)] for cell in cells if runs(cell, uses)
    ]


def runs(cell, uses):
    """Whether the cell needs nothing of the lesson's cells above it."""
    try:
        definitions(cell.source, uses)
    except NameError:
        return False
    return True

"""A check says something useful about any answer, and never raises."""

import pytest
import torch

from helpers.attention import attention
from helpers.checks import core
from helpers.checks.core import Finding, Mistake, Stop, attempt, check, recognise, same


def finding_of(function, *inputs):
    """What `attempt` stops with."""
    with pytest.raises(Stop) as stop:
        attempt(function, *inputs)
    return stop.value.finding


def test_attempt_gives_what_the_function_returns():
    assert attempt(lambda x: x + 1, 2) == 3


@pytest.mark.parametrize("nothing", [None, lambda: None, lambda: ...])
def test_nothing_attempted(nothing):
    assert finding_of(nothing).mark == "○"


def test_not_implemented_is_not_attempted():
    def later():
        raise NotImplementedError

    assert finding_of(later).mark == "○"


def test_what_pytorch_has_not_implemented_is_an_attempt():
    found = finding_of(lambda: torch.tensor(True) & torch.tensor(1.0))
    assert found.mark == "✗" and "not implemented for 'Float'" in found.text


def test_the_line_is_the_learners_and_not_the_courses():
    def broken():
        return attention(*[torch.ones(2, 3)] * 3, torch.ones(2, 2))

    assert "`return attention(*[torch.ones(2, 3)] * 3" in finding_of(broken).text


def test_a_result_in_place_of_the_function():
    found = finding_of(torch.ones(2))
    assert found.mark == "✗" and "hand over the function itself" in found.text
    assert "Tensor" in found.text


def test_an_exception_is_told_with_its_line_and_message():
    def broken(x):
        y = x.shape
        return torch.zeros(2, 3) @ torch.zeros(len(y), 7)

    found = finding_of(broken, torch.ones(4))
    line = broken.__code__.co_firstlineno + 2
    assert found.mark == "✗" and "\n" not in found.text
    assert "RuntimeError: mat1 and mat2 shapes cannot be multiplied" in found.text
    assert f"(line {line}: `return torch.zeros(2, 3) @ torch.zeros(len(y), 7)`)" in (
        found.text
    )


def test_the_line_is_the_learners_and_not_the_librarys():
    def broken():
        return torch.nn.functional.mse_loss("one", "two")

    assert "`return torch.nn.functional.mse_loss(" in finding_of(broken).text


def test_an_exception_without_a_message():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("not even a message")

    def broken():
        raise Mute

    assert "Mute" in finding_of(broken).text


@pytest.mark.parametrize("leave", [exit, lambda: recurse()], ids=["exit", "recursion"])
def test_leaving_and_endless_recursion_are_findings(leave):
    assert finding_of(lambda: leave()).text.startswith("your code stopped with")


def recurse():
    return recurse()


def test_a_wrong_number_of_arguments():
    found = finding_of(lambda x: x, 1, 2)
    assert "takes 1 positional argument but 2 were given" in found.text


@pytest.mark.parametrize("change", [lambda x: x.mul_(2), lambda x: x.resize_(1)])
def test_changing_an_input_is_found_and_harmless(change):
    x = torch.ones(3)
    assert "changes its inputs in place" in finding_of(change, x).text
    assert x.tolist() == [1, 1, 1]


def test_interrupting_is_left_to_the_learner():
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attempt(interrupted)


def test_a_check_prints_and_returns_nothing(capsys):
    @check
    def two_lines(answer):
        """What it checks."""
        yield core.right("a")
        yield core.wrong(f"b {answer}")

    assert two_lines(3) is None
    assert capsys.readouterr().out == "✓ a\n✗ b 3\n"
    assert two_lines.findings(3) == [Finding("✓", "a"), Finding("✗", "b 3")]
    assert two_lines.__doc__ == "What it checks."


def test_a_check_that_breaks_keeps_what_it_found(capsys):
    @check
    def breaks(answer):
        yield core.right("first")
        yield core.right(f"{answer.size}")

    breaks("no tensor")
    breaks()
    first, second, third = capsys.readouterr().out.splitlines()
    assert first == "✓ first"
    assert second.startswith("✗ this check cannot read your answer: AttributeError")
    assert third.startswith("✗ this check cannot read your answer: TypeError")


def test_a_picture_is_drawn_below_its_finding(capsys):
    core.print_findings([core.wrong("text", lambda: print("picture"))])
    assert capsys.readouterr().out == "✗ text\npicture\n"


def test_same_forgives_format_and_rounding_only():
    x = torch.tensor([1.0, float("nan")])
    assert same(x, x.double()) and same((x, x), (x + 1e-6, x))
    assert not same(x, x + 0.01) and not same(x, x[:1])
    assert not same((x,), (x, x)) and not same(x, (x,)) and not same(None, x)
    assert not same(x, x.tolist()) and not same(torch.zeros(2), torch.tensor([0, x[1]]))


def test_recognise_names_one_mistake_or_several():
    def version(x, *, add=1, times=2, less=0):
        return (torch.tensor(float(x)) + add) * times - less

    added = Mistake("added 5", "", {"add": 5})
    twice = Mistake("three times", "", {"times": 3})
    other = Mistake("seven times", "", {"times": 7})
    lost = Mistake("lost 11", "", {"less": 11})
    mistakes = [added, twice, other, lost]

    def named(value):
        return recognise(torch.tensor(float(value)), version, mistakes, [10])

    assert named(30) == [added]
    assert named(45) == [added, twice]
    assert named(94) == [added, other, lost]
    assert named(22) == [twice, lost]
    assert named(23) == named(1000) == []


def test_recognise_skips_what_the_shapes_do_not_allow():
    def version(x, *, turn=lambda x: x):
        return x @ turn(x)

    impossible = Mistake("not turned", "", {"turn": lambda x: x})
    turned = Mistake("turned", "", {"turn": lambda x: x.mT})
    x = torch.rand(2, 3)
    assert recognise(x @ x.mT, version, [impossible, turned], [x]) == [turned]

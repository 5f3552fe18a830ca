"""The hunt of lesson 15: each planted fault can be told from the others."""

from functools import partial

import pytest

from lessons.lesson15 import exercises, hunt
from lessons.lesson15.breaking import small_model
from transformer_checkup.properties import CHECKS, Subject, failing

PLANTED = [(fault, place) for fault, f in hunt.FAULTS.items() for place in f.places]
FINGERPRINTS = {name for fault in hunt.FAULTS.values() for name in fault.seen_by}


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "place"), PLANTED)
def test_a_planted_fault_is_told_from_the_others_by_its_checks(fault, place):
    model = hunt.plant(small_model(0).eval(), place.format(1), fault)
    subject = Subject(model, 50, 60, steps=partial(hunt.step_by_step, model))
    asked = [name for name in CHECKS if name in FINGERPRINTS]
    assert {*failing(subject, only=asked)} == {*hunt.FAULTS[fault].seen_by}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "○ not attempted yet"),
        (7, "✗ give two texts: (module, fault)"),
        (("decoder", "is tired"), "✗ the fault is one of these: sees the future, "),
        (("decoder", "sees padding"), "“sees padding”, PADs behind a source would "),
        (
            ("decoder.layers.0.cross_attention", "hides words"),
            "✓ this is the fault\n✗ it sits in another module",
        ),
        (
            ("decoder.layers.1.cross_attention.banana", "hides words"),
            "✓ this is the fault\n✗ no module has this name",
        ),
        (
            ["decoder.layers.1.cross_attention.output_projection", "hides words"],
            "✓ found: ",
        ),
    ],
)
def test_a_finding_is_right_or_gets_a_hint(answer, said, capsys):
    exercises.blind_hunt(7, answer)
    assert said in capsys.readouterr().out

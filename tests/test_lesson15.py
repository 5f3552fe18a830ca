"""The hunt of lesson 15: each planted fault can be told from the others."""

import pytest

from lessons.lesson15 import exercises, hunt
from lessons.lesson15.breaking import small_model
from transformer_checkup import properties
from transformer_checkup.properties import CHECKS, Subject, failing

PLANTED = [(fault, place) for fault, f in hunt.FAULTS.items() for place in f.places]
FINGERPRINTS = {fault.seen_by for fault in hunt.FAULTS.values()} - {""}


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "place"), PLANTED)
def test_a_planted_fault_is_told_from_the_others_by_its_check(fault, place):
    model = hunt.plant(small_model(0).eval(), place.format(1), fault)
    subject = Subject(model, 50, 60)
    asked = [name for name in CHECKS if name in FINGERPRINTS]
    seen_by = hunt.FAULTS[fault].seen_by
    assert failing(subject, only=asked) == (seen_by,) * bool(seen_by)


def test_a_fault_without_a_check_differs_from_the_reference():
    reference = small_model(0).eval()
    model = hunt.plant(small_model(0).eval(), *hunt.secret(5))
    assert hunt.secret(5) == ("decoder.layers.1.cross_attention", "does not scale")
    batch = Subject(reference, 50, 60).sentences()
    place = properties.first_difference(model, reference, *batch)
    assert place.startswith("decoder.layers.1.cross_attention")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "○ not attempted yet"),
        (7, "✗ give two texts: (module, fault)"),
        (("decoder", "is tired"), "✗ the fault is one of these: sees the future, "),
        (("decoder", "sees padding"), "“sees padding”, *padding invariant* would fail"),
        (("decoder", "does not scale"), "“does not scale”, no check would fail"),
        (
            ("decoder.layers.1.feed_forward", "stops the gradient"),
            "✓ this is the fault\n✗ it sits in another module",
        ),
        (("encoder.layers.1.feed_forward", "stops the gradient"), "✓ found: "),
        (["encoder.layers.1.feed_forward.expand", "stops the gradient"], "✓ found: "),
    ],
)
def test_a_finding_is_right_or_gets_a_hint(answer, said, capsys):
    exercises.blind_hunt(7, answer)
    assert said in capsys.readouterr().out

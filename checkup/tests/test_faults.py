"""Each fault is found, with its place; no sound model is accused."""

import csv
from pathlib import Path

import pytest
import torch

from faults import FAULTS, SOUND
from faults.evidence import examined, names_it, subject_of
from helpers import BOS, PAD
from transformer_checkup.report import report_on

# It trains for seconds, and finds none of these faults that others miss.
SLOW = "overfits one batch"
STUDIES = Path(__file__).parents[1] / "studies"
# One sound model of each code base trains; the study `false_alarms` trains them all.
LEARN = [*{specimen.code_base: specimen for specimen in SOUND.values()}.values()]
UNSEEN = {name: fault for name, fault in FAULTS.items() if fault.unseen}


def rows(name):
    """The rows of a stored study."""
    lines = (STUDIES / f"{name}.csv").read_text("utf-8").splitlines()[1:]
    return [*csv.DictReader(lines)]


# The check that finds a fault, and for two faults the one that knows the place. The
# study `found_faults` asks all checks of every fault.
BESIDE = {
    "the mask of the first length": ["length generic"],
    "the layers in a plain list, PyTorch": ["state moves"],
}
FOUND = {r["fault"]: r["first_check"] for r in rows("found_faults") if r["first_check"]}


@pytest.mark.parametrize("name", FOUND)
def test_a_fault_is_found_with_the_right_place_among_the_first_two(name):
    report = report_on(
        examined(FAULTS[name]), only=[FOUND[name], *BESIDE.get(name, [])]
    )
    assert FOUND[name] in [verdict.name for verdict in report.failed], report.text
    assert names_it(FAULTS[name], report.suspects[:2]), report.text


@pytest.mark.parametrize("specimen", SOUND.values(), ids=SOUND)
def test_no_sound_model_is_accused(specimen):
    skip = () if specimen in LEARN else (SLOW,)
    report = report_on(subject_of(specimen, specimen.build(20, 0), skip=skip))
    assert report.judged and report.sound, report.text


@pytest.mark.parametrize("fault", UNSEEN.values(), ids=UNSEEN)
def test_what_is_out_of_reach_passes_although_it_changes_the_model(fault):
    assert report_on(examined(fault, skip=(SLOW,))).sound
    source, target = torch.randint(4, 60, (2, 4, 9))
    target[:, 0] = BOS
    source[1, -3:] = target[2, -2:] = PAD
    both = fault.specimen.kind == "encoder-decoder"
    given = (source, target) if both else (target,)
    sound, damaged = (
        fault.specimen.call(model.eval(), *given)
        for model in (fault.specimen.build(60, 0), fault.build())
    )
    assert (sound - damaged).abs().max() > 1e-3


def test_the_stored_tables_are_of_these_faults_and_models():
    alarms, found = rows("false_alarms"), rows("found_faults")
    foreign = {s.name for s in SOUND.values() if s.code_base != "the course"}
    assert {row["model"] for row in alarms[:-1]} == foreign  # the last is a large one
    assert {row["fails"] for row in alarms} == {""}
    assert [row["fault"] for row in found] == [*FAULTS]
    for row in found:
        seen = str(row["fault"] not in UNSEEN)
        assert (row["found"], row["placed"]) == (seen, seen), row["fault"]

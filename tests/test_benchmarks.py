"""The benchmarks run, compare equal work only, and say when a bar is missed."""

import pytest

from benchmarks import __main__ as benchmarks
from lessons.lesson19 import on_a_gpu


def test_a_bar_that_is_missed_is_said_and_what_is_not_measured_is_no_figure(
    monkeypatch, capsys
):
    rows = [
        benchmarks.row("quick", "rival", (1.0, 2.0), 1.5, "ids"),
        benchmarks.row("memory", "rival", (float("nan"), 2.0), 1.0, "work"),
    ]
    monkeypatch.setattr(benchmarks, "speed", lambda tiny: rows)
    assert benchmarks.main(["speed", "--tiny"]) == 0
    assert "not measured" in capsys.readouterr().out
    rows += [benchmarks.row("slow", "rival", (1.0, 1.4), 1.5, "ids")]
    assert benchmarks.main(["speed", "--tiny"]) == 1


@pytest.mark.long
def test_every_row_can_be_measured():
    rows = [*benchmarks.speed(tiny=True)]
    assert len(rows) >= 8
    assert all(row["ours"] > 0 and row["theirs"] > 0 for row in rows)


@pytest.mark.long
def test_unequal_work_is_not_compared(monkeypatch):
    def other_rate(model, name="fp32"):
        step = benchmarks.course_step(model)
        return lambda batch: 1.001 * step(batch)

    monkeypatch.setattr(benchmarks, "plain_step", other_rate)
    with pytest.raises(AssertionError, match="not close"):
        next(benchmarks.speed(tiny=True))


@pytest.mark.slow
def test_every_way_of_attention_on_a_gpu_gives_the_same_context():
    found = [*on_a_gpu.rows([96])]
    assert {"table", "tiles of 64"} <= {row["way"] for row in found}
    most = {"fp32": 1e-5, "bf16": 0.05}
    assert all(row["error"] < most[row["precision"]] for row in found)

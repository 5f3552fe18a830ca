"""The benchmarks run, compare equal work only, and say when a bar is missed."""

import pytest

from benchmarks import __main__ as benchmarks


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

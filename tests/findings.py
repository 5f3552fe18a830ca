"""What the tests of the exercises' checks demand of findings."""

MARKS = ("✓ ", "✗ ", "○ ")


def assert_all_right(found, count):
    """So many findings, and nothing but ✓."""
    assert [finding.mark for finding in found] == ["✓"] * count, found


def assert_wrong(found, *parts):
    """The last finding, and it alone, is wrong; it says all of the parts and draws."""
    assert found[-1].mark == "✗", found
    assert all(finding.mark == "✓" for finding in found[:-1]), found
    for part in parts:
        assert part in found[-1].text, found[-1].text
    if found[-1].draw is not None:
        found[-1].draw()


def assert_answers(capsys):
    """What the check has printed are findings, and not all of them ✓."""
    lines = capsys.readouterr().out.splitlines()
    assert lines and all(line.startswith(MARKS) for line in lines), lines
    assert not all(line.startswith("✓") for line in lines), lines

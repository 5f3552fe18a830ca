"""Write the minutes of the lessons wherever they are said: python -m tools.minutes

They are computed (tools.laws.minutes), and stand in each lesson's opening, in lesson
00's table, and in README's table, total and routes.
"""

import re

from nbformat import NotebookNode

from tools import laws, notebooks
from tools.reproducible import ROOT

README = ROOT / "README.md"
OPENING = r"About \d+ minutes(?:, \d+ of them for the exercises)?"
ROW = r"^(\| (\d\d) \| .*\| )\d+( \|.*)$"
TOTAL = r"[\d,]+ minutes, about \d+ hours"
ROUTE = r"^(\| .+ \| (\d\d(?:(?:, | to )\d\d)+) \| ).*$"


def lessons() -> dict[str, NotebookNode]:
    """{number: lesson}"""
    paths = sorted(notebooks.NOTEBOOKS.glob("*.ipynb"))
    return {path.name[:2]: notebooks.read(path) for path in paths}


def renew_lesson(lesson: NotebookNode, known: dict[str, NotebookNode]) -> None:
    """Put the minutes into a lesson's opening, and into its table of the lessons."""
    said = laws.said_minutes(lesson)
    for cell in lesson.cells:
        if cell is lesson.cells[0]:
            cell.source = re.sub(OPENING, said, cell.source, count=1)
        elif cell.cell_type == "markdown" and "| minutes |" in cell.source:
            cell.source = renew_rows(cell.source, known)


def renew_readme(text: str, known: dict[str, NotebookNode]) -> str:
    """README's text with the minutes in its table, its total and its routes."""
    total, _ = times(known)
    hours = round(total / 60)
    text = re.sub(TOTAL, f"{total:,} minutes, about {hours} hours", text)

    def route(match: re.Match) -> str:
        numbers = re.findall(r"\d\d", match[2])
        if "to" in match[2]:
            numbers = [n for n in known if numbers[0] <= n <= numbers[1]]
        all_of_it, reading = times({number: known[number] for number in numbers})
        return f"{match[1]}{all_of_it:,} | {reading:,} |"

    return renew_rows(re.sub(ROUTE, route, text, flags=re.MULTILINE), known)


def renew_rows(text: str, known: dict[str, NotebookNode]) -> str:
    """The text of a page with the minutes in each row "| 02 | … | 125 |"."""

    def row(match: re.Match) -> str:
        return f"{match[1]}{laws.minutes(known[match[2]])}{match[3]}"

    return re.sub(ROW, row, text, flags=re.MULTILINE)


def times(chosen: dict[str, NotebookNode]) -> tuple[int, int]:
    """The minutes of these lessons together, and without their exercises."""
    total = sum(map(laws.minutes, chosen.values()))
    within = sum(laws.exercise_minutes(laws.core(n)) for n in chosen.values())
    return total, total - within


def write() -> None:
    """Renew all of them in place."""
    known = lessons()
    for number, lesson in known.items():
        renew_lesson(lesson, known)
        (path,) = notebooks.NOTEBOOKS.glob(f"{number}_*.ipynb")
        notebooks.write(lesson, path)
    README.write_text(renew_readme(README.read_text("utf-8"), known), "utf-8")


if __name__ == "__main__":
    write()

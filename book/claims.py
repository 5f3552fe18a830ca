"""The index of claims: what each lesson found, its figures, and the commands.

All of it comes from the lessons: the closing section's questions and answers, the
titles of the figures, the studies that the cells read. Which figure belongs to which
answer is told by their words, and only where that is clear.
"""

import html
import math
import re
from collections import Counter
from dataclasses import dataclass

from nbformat import NotebookNode

from book.figures import BookError, Figure, plain, studies

CLEARLY = 1.5  # times as near as the second nearest; tried on the course's figures
INTRODUCTION = """# What the course finds

Here stand the questions of all lessons with their answers, and the figures and studies
behind them. A figure stands below an answer if the words around it are clearly nearest
to those of this answer. The others follow at the end of their lesson.

`make run` computes a lesson again, `make studies` the table of a study."""


@dataclass(frozen=True)
class Shown:
    """A cell of a lesson that shows something found: a figure, or a study's table."""

    cell: str  # its id, which is its anchor on the page
    text: str
    studies: list[str]


def answers(lesson: NotebookNode) -> list[tuple[str, str]]:
    """[(question, answer)] of What you learned; BookError without any."""
    text = "\n".join(c.source for c in lesson.cells if c.cell_type == "markdown")
    closing = text.partition("## What you learned\n")[2].partition("\n## ")[0]
    found = re.findall(r"^- \*\*(.+?)\*\* (.+)$", closing, flags=re.M)
    if not found:
        raise BookError(
            f"{lesson.cells[0].source:.40}…: nothing under What you learned"
        )
    return found


def shown(lesson: NotebookNode, figures: list[Figure]) -> list[Shown]:
    """The figures with a title of their own, and all that shows a study, in order.

    A table that a later figure draws is left to the figure.
    """
    drawn, read = {figure.cell: figure for figure in figures}, studies(lesson)
    of_figures = {name for cell in drawn for name in read.get(cell, [])}
    found = []
    for cell in lesson.cells:
        figure, names = drawn.get(cell.id), read.get(cell.id, [])
        if figure and (figure.titled or names):
            text = figure.text if figure.titled else of_study(names)
            found.append(Shown(cell.id, text, names))
        elif new := [name for name in names if name not in of_figures]:
            found.append(Shown(cell.id, of_study(new), new))
            of_figures |= {*new}  # once
    return found


def of_study(names: list[str]) -> str:
    """What a table of studies is called."""
    return f"the {'study' if len(names) == 1 else 'studies'} {' and '.join(names)}"


def entry(lesson: NotebookNode, name: str, found: list[Shown]) -> str:
    """A lesson in the index: its answers, each with what shows it, and the rest."""
    asked, around = answers(lesson), surroundings(lesson)
    below = {place: [] for place in (*range(len(asked)), None)}
    claims = [" ".join(pair) for pair in asked]
    for item in found:
        place = nearest(claims, item.text + around[item.cell])
        below[place].append(link(item, name))
    title = plain(lesson.cells[0].source.split("\n")[0])
    command = f"`make run ARGS=notebooks/{name}.ipynb`"
    opening = (
        f"[Read the lesson](notebooks/{name}.ipynb), or compute it again: {command}"
    )
    parts = [f"## {title}", opening]
    for place, (question, answer) in enumerate(asked):
        # A link in the lesson starts in the lesson's folder.
        answer = re.sub(r"\]\((?!\w+:)", "](notebooks/", answer)
        parts += [f"**{question}** {answer}", "\n".join(below[place])]
    if below[None]:
        parts += ["Also in this lesson:", "\n".join(below[None])]
    return "\n\n".join(part for part in parts if part)


def link(item: Shown, name: str) -> str:
    """The item of a list that leads to a figure, with its study's command."""
    text = f'- <a href="notebooks/{name}.html#{item.cell}">{html.escape(item.text)}</a>'
    if not item.studies:
        return text
    names = " ".join(item.studies)
    given = names if len(item.studies) == 1 else f'"{names}"'
    return f"{text} `make studies NAME={given}`"


# -- what belongs together -------------------------------------------------------------


def surroundings(lesson: NotebookNode) -> dict[str, str]:
    """{id of a code cell: the text of its section, and again what stands next to it}"""
    sections, inside, beside = [""], {}, {}
    above, before = "", None
    for cell in lesson.cells:
        if cell.cell_type == "markdown":
            first, *new = re.split(r"^(?=## )", cell.source, flags=re.M)
            if before:
                beside[before] += first
            sections = [*sections[:-1], f"{sections[-1]}\n{first}", *new]
            above, before = (new or [first])[-1], None
        else:
            inside[cell.id], beside[cell.id] = len(sections) - 1, above
            above, before = "", cell.id
    return {cell: f"\n{sections[inside[cell]]}\n{beside[cell]}" for cell in inside}


def nearest(claims: list[str], text: str) -> int | None:
    """The place of the claim that has clearly most words in common with a text.

    A word counts for more the fewer claims have it.
    """
    counts = [words(claim) for claim in claims]
    having = Counter(word for count in counts for word in count)
    rare = {word: math.log((len(claims) + 1) / (n + 1)) for word, n in having.items()}
    given = direction(words(text), rare)
    scores = []
    for count in counts:
        own = direction(count, rare)
        scores.append(sum(weight * given.get(word, 0) for word, weight in own.items()))
    first, second = sorted([*scores, 0], reverse=True)[:2]
    return scores.index(first) if first > CLEARLY * second else None


def words(text: str) -> Counter:
    """How often each word stands in a text; a word is its first six letters."""
    text = re.sub(r"^```.*?^```|\]\([^)]*\)", " ", text, flags=re.M | re.S)
    return Counter(word[:6] for word in re.findall(r"[^\W_]{2,}", text.lower()))


def direction(count: Counter, rare: dict[str, float]) -> dict[str, float]:
    """The counts of the words in `rare` as weights of length 1."""
    weights = {w: rare[w] * (1 + math.log(n)) for w, n in count.items() if w in rare}
    length = math.hypot(*weights.values()) or 1
    return {word: weight / length for word, weight in weights.items()}

"""The laws of a stored notebook, by allow-list: each yields its breaches as sentences.

A law is a generator of strings; none means that it holds. Each sentence names the cell
and says what to do. tests/test_notebooks.py holds every notebook to all of them.
"""

import ast
import base64
import re
import statistics
import string
import struct
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import nbformat
from nbformat import NotebookNode

TAGS = {"setup", "map", "helpers", "exercise", "check"}
LIMIT_BYTES = 500_000
# Most cells, words and lines of a lesson as far as "Going deeper", and of all of it.
LIMITS = {
    "core": {"cells": 75, "words": 2_600, "lines": 400},
    "whole": {"cells": 100, "words": 3_600, "lines": 550},
}
OPENING = ("**What you'll do.**", "**What you'll learn.**", "**What you'll need.**")
CLOSING = ("What you learned", "From here on", "On your own", "Further reading")
EXERCISE = re.compile(
    r"Exercise (?P<number>\d\d\.\d+) · .+ \((?:easy|medium|hard), \d+ minutes\)"
)
# Forms of output that depend on the machine; see tests/nbval_sanitize.cfg.
MACHINE_NUMBER = re.compile(r"≈ *[-+]?\d[\d,.]*")
MACHINE_LINE = "this machine: "


# -- reading ---------------------------------------------------------------------------


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """The notebook's code cells, in order."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def has_tag(cell: NotebookNode, tag: str) -> bool:
    """Whether the cell carries `tag`."""
    return tag in cell.metadata.get("tags", [])


def headings(source: str, level: int | None = None) -> list[str]:
    """The headings' texts of a markdown cell, fenced code left out; of one `level`."""
    marks = "#{1,6}" if level is None else "#" * level
    return re.findall(rf"^{marks} +(.+?) *$", without_code(source), re.MULTILINE)


def without_code(source: str) -> str:
    """Markdown without its code, fenced or inline."""
    source = re.sub(r"^(```+|~~~+).*?^\1 *$", "", source, flags=re.M | re.S)
    return re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", source)


def text_of(output: NotebookNode) -> str:
    """An output's text: of a stream, or the text/plain of a result; "" without any."""
    if output.output_type == "stream":
        return output.text
    return output.get("data", {}).get("text/plain", "")


def set_text(output: NotebookNode, text: str) -> None:
    """Replace what text_of gives."""
    if output.output_type == "stream":
        output.text = text
    else:
        output.data["text/plain"] = text


def stored_text(cell: NotebookNode) -> str:
    """All text that a code cell printed or gave as its result."""
    return "\n".join(text_of(output) for output in cell.outputs)


def depends_on_the_machine(text: str) -> bool:
    """Whether a cell's text has numbers after "≈" or a line about this machine."""
    return "≈" in text or MACHINE_LINE in text


def is_readable_id(cell_id: str) -> bool:
    """Whether an id is words joined by hyphens, and not eight random hex digits."""
    words = re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", cell_id)
    return bool(words) and not re.fullmatch(r"[0-9a-f]{8}", cell_id)


# -- what is stored --------------------------------------------------------------------


def format_faults(notebook: NotebookNode, *, gpu: bool = False) -> Iterator[str]:
    """Format 4.5, metadata by allow-list, ids, counts, sources.

    `gpu` allows a request for an accelerator.
    """
    version = (notebook.nbformat, notebook.nbformat_minor)
    if version != (4, 5):
        yield f"nbformat {version[0]}.{version[1]}, not 4.5: store it with `make run`"
    allowed = {"kernelspec", "accelerator"} if gpu else {"kernelspec"}
    if extra := set(notebook.metadata) - allowed:
        yield f"notebook metadata {sorted(extra)}: store it with `make run`"
    kernel = dict(notebook.metadata.get("kernelspec", {}))
    if kernel.get("name") != "python3" or kernel.get("language") != "python":
        yield f"kernelspec {kernel}: store it with `make run`"
    seen = set()
    for cell in notebook.cells:
        if not is_readable_id(cell.id) or cell.id in seen:
            yield f"cell {cell.id}: the id is not readable and unique (`make run`)"
        seen.add(cell.id)
        yield from _cell_faults(cell)
    counts = [cell.execution_count for cell in code_cells(notebook)]
    if counts != [*range(1, len(counts) + 1)]:
        yield f"execution counts are {counts}, not 1, 2, …: store it with `make run`"


def _cell_faults(cell: NotebookNode) -> Iterator[str]:
    if extra := set(cell.metadata) - {"tags"}:
        yield f"cell {cell.id}: metadata {sorted(extra)} (`make run` takes it out)"
    if extra := set(cell.metadata.get("tags", [])) - TAGS:
        yield f"cell {cell.id}: tags {sorted(extra)}; the course knows {sorted(TAGS)}"
    if cell.cell_type not in ("code", "markdown") or cell.get("attachments"):
        yield f"cell {cell.id}: only code and markdown, without attachments"
    if cell.source != "\n".join(line.rstrip() for line in cell.source.splitlines()):
        yield f"cell {cell.id}: spaces at a line's end (`make run` takes them out)"


def output_faults(notebook: NotebookNode) -> Iterator[str]:
    """Outputs are stdout, plain text and PNG, and hold on another machine."""
    for cell in code_cells(notebook):
        for output in cell.outputs:
            for fault in _output_faults(output):
                yield f"cell {cell.id}: {fault}"


def _output_faults(output: NotebookNode) -> Iterator[str]:
    kind = output.output_type
    if kind == "stream":
        if output.name != "stdout":
            yield f"writes to {output.name}: mend the warning:\n{output.text}"
        if "\r" in output.text or "\b" in output.text:
            yield "a progress bar is stored: let tqdm draw it (it is silent here)"
    elif kind in ("display_data", "execute_result"):
        if extra := set(output.data) - {"text/plain", "image/png"}:
            yield f"has the output {sorted(extra)}: print it, or plt.show() it"
        if "text/plain" not in output.data:
            yield "a picture without its text/plain: nbval would not miss it"
        if extra := set(output.metadata) - {"image/png"}:
            yield f"an output with metadata {sorted(extra)}: store it with `make run`"
        if "image/png" in output.data:
            yield from _sharpness_faults(output)
    else:
        yield f"has an output of type {kind}"
    yield from text_faults(text_of(output))


def _sharpness_faults(output: NotebookNode) -> Iterator[str]:
    """A figure has twice the pixels of the size at which it is shown."""
    shown = output.metadata.get("image/png")
    if shown is None and not text_of(output).startswith("<Figure"):
        return  # a file that a cell displays, as large as it is
    png = base64.b64decode(output.data["image/png"])
    width, height = struct.unpack(">II", png[16:24])
    if shown != {"width": width // 2, "height": height // 2}:
        yield (
            f"a figure of {width} × {height} pixels whose size in the metadata, "
            f"{shown}, is not half of that: import helpers.plots before the first one"
        )


def text_faults(text: str) -> Iterator[str]:
    """Stored text names no address in memory and no place on one machine's disk."""
    if found := re.search(r"0x[0-9a-fA-F]{6,}", text):
        yield f"prints an object's address, {found.group()}: end the cell otherwise"
    roots = "home|root|usr|tmp|var|opt|mnt|content|work|private|Users|Volumes"
    if found := re.search(rf"(?<![\w./:])/(?:{roots})/\S*|\b[A-Za-z]:\\\S+", text):
        yield f"prints an absolute path, {found.group()}: print a relative one"


def source_faults(
    notebook: NotebookNode,
) -> Iterator[str]:
    """Cells are plain Python that nbval runs and compares as it stands, all of them."""
    from nbval.plugin import find_comment_markers

    for cell in code_cells(notebook):
        try:
            ast.parse(cell.source)
        except SyntaxError as error:
            yield f"cell {cell.id}: not plain Python (no magics, no !): {error}"
        if cell.source.rstrip().endswith(";"):
            yield f"cell {cell.id}: ends in ';', which hides nothing under nbval"
        if [*find_comment_markers(cell.source)]:
            yield f"cell {cell.id}: an NBVAL comment: every output is compared"


def machine_number_faults(notebook: NotebookNode) -> Iterator[str]:
    """What the sanitise file lets pass is held by an assert in the same cell."""
    for cell in code_cells(notebook):
        text = stored_text(cell)
        if not depends_on_the_machine(text):
            continue
        if text.count("≈") != len(MACHINE_NUMBER.findall(text)):
            yield f"cell {cell.id}: prints a ≈ that no number follows"
        if not any(_can_fail(node) for node in ast.walk(ast.parse(cell.source))):
            yield (
                f"cell {cell.id}: prints what depends on the machine (≈ or "
                f"'{MACHINE_LINE}'), so it must assert the band that holds"
            )


def _can_fail(node: ast.AST) -> bool:
    return isinstance(node, ast.Assert) and not isinstance(node.test, ast.Constant)


def size_faults(path: Path) -> Iterator[str]:
    """A notebook stays small."""
    size = path.stat().st_size
    if size > LIMIT_BYTES:
        yield f"{size:,} bytes, more than {LIMIT_BYTES:,}: fewer or smaller figures"


# -- the contract of a lesson ----------------------------------------------------------


def setup_faults(notebook: NotebookNode, template: str) -> Iterator[str]:
    """One set-up cell, the first code cell, the same everywhere."""
    cells = code_cells(notebook)
    tagged = [cell for cell in cells if has_tag(cell, "setup")]
    if len(tagged) != 1 or tagged[0] is not cells[0]:
        yield "the first code cell, and no other, carries the tag setup"
        return
    if tagged[0].source != template:
        yield "the set-up cell is not tools/setup_cell.py's text: `make run` renews it"
    if tagged[0].outputs:
        yield "the set-up cell prints something"


def opening_faults(notebook: NotebookNode, number: str) -> Iterator[str]:
    """Title, what you'll do, learn and need; then the set-up cell; then the map."""
    first = notebook.cells[0]
    if first.cell_type != "markdown" or not first.source.startswith(f"# {number} · "):
        yield f"the first cell is markdown that starts '# {number} · Verb phrase'"
        return
    places = [first.source.find(words) for words in OPENING]
    if -1 in places or places != sorted(places):
        yield f"the first cell holds, in this order: {', '.join(OPENING)}"
        return
    bullets = opening_bullets(notebook)
    if not 3 <= len(bullets) <= 5:
        yield f"{OPENING[1]} has {len(bullets)} bullets ('- '), not 3 to 5"
    tags = [cell.metadata.get("tags", []) for cell in code_cells(notebook)[:2]]
    if tags != [["setup"], ["map"]]:
        yield "the first two code cells carry the tags setup and map, in this order"
    elif "architecture_map(" not in code_cells(notebook)[1].source:
        yield "the cell tagged map calls architecture_map(…)"


def opening_bullets(notebook: NotebookNode) -> list[str]:
    """The bullets under "What you'll learn"."""
    source = notebook.cells[0].source
    return _bullets(source.partition(OPENING[1])[2].partition(OPENING[2])[0])


def _bullets(text: str) -> list[str]:
    return re.findall(r"^[-*] +(.+)$", text, re.MULTILINE)


def closing_faults(notebook: NotebookNode, number: str) -> Iterator[str]:
    """The four closing sections, last and in order; bullets answer the opening's.

    Going deeper, where there is any, stands between From here on and On your own.
    """
    sections = _sections(notebook)
    titles = [title for title in sections if title != "Going deeper"]
    if tuple(titles[-len(CLOSING) :]) != CLOSING:
        yield f"the last headings of level 2 are, in this order: {', '.join(CLOSING)}"
        return
    learned, onward, own, reading = (sections[name] for name in CLOSING)
    answers, promised = len(_bullets(learned)), len(opening_bullets(notebook))
    if answers != promised:
        yield f"'{CLOSING[0]}' has {answers} bullets, the opening {promised}"
    if number != "00" and not re.search(r"^(from|import) ", onward, re.MULTILINE):
        yield f"'{CLOSING[1]}' shows the import to use from now on, as code"
    if not own.strip():
        yield f"'{CLOSING[2]}' is empty"
    links = re.findall(r"\]\(|<https?:", without_code(reading))
    if not 1 <= len(links) <= 5:
        yield f"'{CLOSING[3]}' has {len(links)} links, not 1 to 5"


def _sections(notebook: NotebookNode) -> dict[str, str]:
    """{heading of level 2: all text below it, code cells included}, in order."""
    sections, name = {"": ""}, ""
    for cell in notebook.cells:
        parts = [cell.source]
        if cell.cell_type == "markdown":
            parts = re.split(r"^## +(.+?) *$", cell.source, flags=re.MULTILINE)
        sections[name] += parts[0] + "\n"
        for name, body in zip(parts[1::2], parts[2::2], strict=True):
            sections[name] = body + "\n"
    return sections


def exercises(
    notebook: NotebookNode,
) -> list[tuple[str, NotebookNode | None, NotebookNode | None]]:
    """[(heading, stub cell or None, check cell or None)] of all exercises.

    The stub and the check are the two code cells that follow the heading.
    """
    found = []
    for place, cell in enumerate(notebook.cells):
        if cell.cell_type != "markdown":
            continue
        titles = [
            title for title in headings(cell.source) if title.startswith("Exercise ")
        ]
        following = []
        for after in notebook.cells[place + 1 :]:
            if after.cell_type == "code":
                following.append(after)
            elif headings(after.source):
                break
        pair = [*following, None, None][:2]
        found += [(title, *pair) for title in titles]
    return found


def exercise_faults(notebook: NotebookNode, number: str, solved: bool) -> Iterator[str]:
    """Numbered headings with level and minutes, each with a stub and a check.

    In a lesson each stored check says ○, not attempted, and in lesson 00 ✗, as its
    answer is to be mended; where `solved`, ✓ alone.
    """
    for place, (heading, stub, check) in enumerate(exercises(notebook), start=1):
        match = EXERCISE.fullmatch(heading)
        if not match or match["number"] != f"{number}.{place}":
            form = f"Exercise {number}.{place} · Title (easy|medium|hard, N minutes)"
            yield f"the heading '{heading}' is not of the form '{form}'"
        elif not (stub and has_tag(stub, "exercise")) or not (
            check and has_tag(check, "check")
        ):
            yield f"{heading}: a cell tagged exercise and one tagged check follow"
        else:
            wanted = "✓" if solved else "✗" if number == "00" else "○"
            yield from _check_output_faults(heading, stored_text(check), wanted)


def _check_output_faults(heading: str, text: str, wanted: str) -> Iterator[str]:
    marks = {mark for mark in "✓✗○" if re.search(rf"^\s*{mark}", text, re.MULTILINE)}
    if wanted == "✓" and marks != {"✓"}:
        yield f"{heading}: its solution's check shows {marks or 'nothing'}, not ✓ alone"
    elif wanted not in marks:
        what = {"○": "no ○ (not attempted)", "✗": "no ✗ (the mistake to mend)"}
        yield f"{heading}: the lesson's stored check shows {what[wanted]}"


def number_of_exercises_faults(notebook: NotebookNode, number: str) -> Iterator[str]:
    """A lesson has two to four exercises, lesson 00 one."""
    count = len(exercises(notebook))
    if count != 1 if number == "00" else not 2 <= count <= 4:
        yield f"the lesson has {count} exercises, not 2 to 4"


def length_faults(notebook: NotebookNode) -> Iterator[str]:
    """The median code cell has at most ten lines (definitions and set-up excepted)."""
    lengths = [
        len(cell.source.splitlines())
        for cell in code_cells(notebook)
        if not (has_tag(cell, "helpers") or has_tag(cell, "setup"))
    ]
    if lengths and statistics.median(lengths) > 10:
        yield f"the median code cell has {statistics.median(lengths):g} lines, not ≤ 10"


def core(notebook: NotebookNode) -> NotebookNode:
    """The lesson as far as its heading "Going deeper" of level 2; all of it without."""
    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        if cell.cell_type == "markdown" and "Going deeper" in headings(cell.source, 2):
            before, _, _ = cell.source.partition("## Going deeper")
            cells[-1] = type(cell)(cell, source=before)
            break
    return type(notebook)(notebook, cells=cells)


def extent(notebook: NotebookNode) -> dict[str, int]:
    """Its cells, the words of its markdown, its lines of code but for empty ones."""
    words = lines = 0
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            words += len(cell.source.split())
        else:
            lines += sum(bool(line.strip()) for line in cell.source.splitlines())
    return {"cells": len(notebook.cells), "words": words, "lines": lines}


def extent_faults(notebook: NotebookNode) -> Iterator[str]:
    """Neither the core nor the whole lesson is longer than a reader can take in."""
    for part, whole in (("core", core(notebook)), ("whole", notebook)):
        for unit, count in extent(whole).items():
            if count > (limit := LIMITS[part][unit]):
                yield f"{part}: {count:,} {unit}, more than {limit:,}: cut"


def answer_faults(notebook: NotebookNode) -> Iterator[str]:
    """What you learned repeats the opening's questions in bold, in order."""
    first = notebook.cells[0].source
    asked = re.findall(r"^- (.+)$", first, re.MULTILINE)
    text = "\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
    closing = text.partition("## What you learned")[2].partition("\n## ")[0]
    answered = re.findall(r"^- \*\*(.+?)\*\* \S", closing, re.MULTILINE)
    if asked != answered:
        yield f"the opening asks {asked}, What you learned answers {answered}"


def count_words(notebook: NotebookNode) -> int:
    """The words of its prose; code, signs and where links lead are none."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
    prose = "\n".join(without_code(cell.source) for cell in cells)
    prose = re.sub(r"\]\([^)]*\)", "]", prose)
    return sum(bool(re.search(r"\w", word)) for word in prose.split())


def count_lines(notebook: NotebookNode) -> int:
    """The lines of code to read: without the set-up cell, stubs, checks, empty ones."""
    return sum(
        bool(line.strip())
        for cell in code_cells(notebook)
        if not any(has_tag(cell, tag) for tag in ("setup", "exercise", "check"))
        for line in cell.source.splitlines()
    )


def count_figures(notebook: NotebookNode) -> int:
    """The pictures that are stored in it."""
    return sum(
        "image/png" in output.get("data", {})
        for cell in code_cells(notebook)
        for output in cell.outputs
    )


def exercise_minutes(notebook: NotebookNode) -> int:
    """The sum of the minutes in the headings of the exercises."""
    titles = "\n".join(title for title, *_ in exercises(notebook))
    return sum(int(n) for n in re.findall(r", (\d+) minutes\)$", titles, re.MULTILINE))


def minutes(notebook: NotebookNode) -> int:
    """Minutes that the core of a lesson takes, its exercises included, rounded to 5.

    Words / 150 + lines of code / 10 + one a figure + the exercises' own, which hold
    their stubs and checks.
    """
    part = core(notebook)
    reading = count_words(part) / 150 + count_lines(part) / 10 + count_figures(part)
    return 5 * round((reading + exercise_minutes(part)) / 5)


def said_minutes(notebook: NotebookNode) -> str:
    """How a lesson's opening says its minutes."""
    said = f"About {minutes(notebook)} minutes"
    within = exercise_minutes(core(notebook))
    return f"{said}, {within} of them for the exercises" if within else said


def minutes_faults(notebook: NotebookNode) -> Iterator[str]:
    """The opening says the minutes as they are computed."""
    if (said := said_minutes(notebook)) not in notebook.cells[0].source:
        yield f"{OPENING[2]} says: {said} (python -m tools.minutes writes it)"


def solution_faults(
    notebook: NotebookNode, lesson: NotebookNode | None, name: str
) -> Iterator[str]:
    """A solutions notebook links to its lesson and has the same exercises."""
    if f"(../{name})" not in notebook.cells[0].source:
        yield f"the first cell links to the lesson: [lesson {name[:2]}](../{name})"
    if not notebook.cells[0].source.startswith(f"# {name[:2]} · "):
        yield f"the first cell starts '# {name[:2]} · Solutions'"
    if lesson is None:
        yield f"there is no lesson notebooks/{name}"
        return
    ours = [heading for heading, *_ in exercises(notebook)]
    theirs = [heading for heading, *_ in exercises(lesson)]
    if ours != theirs:
        yield f"the exercises are {ours}, the lesson's are {theirs}"


# -- links -----------------------------------------------------------------------------


def link_faults(markdown: str, here: Path) -> Iterator[str]:
    """Internal links of a page at path `here` lead to files and headings that exist.

    `markdown` is the page's text; the page itself and its targets are read for anchors.
    """
    text = without_code(markdown)
    targets = re.findall(r"\]\(<?([^)\s>]+)>?(?: +\"[^\"]*\")?\)", text)
    targets += re.findall(r"""(?:src|href)=["']([^"']+)["']""", text)
    for target in targets:
        if re.match(r"[a-z][a-z+.-]*:", target):  # https:, mailto:
            continue
        file, _, anchor = target.partition("#")
        page = (here.parent / unquote(file)) if file else here
        if not page.exists():
            yield f"link to {target}: there is no such file"
        elif anchor and unquote(anchor) not in anchors(page):
            yield f"link to {target}: no heading there has this anchor"


def markdown_of(path: Path) -> str:
    """The markdown of a page: of a notebook's markdown cells, or of a .md file."""
    if path.suffix != ".ipynb":
        return path.read_text("utf-8")
    cells = nbformat.read(path, as_version=4).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def anchors(path: Path) -> set[str]:
    """All anchors that links to the page at `path` may use: Jupyter's and GitHub's."""
    if path.suffix not in (".ipynb", ".md"):
        return set()
    text = markdown_of(path)
    found = set(re.findall(r"""<a (?:id|name)=["']([^"']+)["']""", text))
    # Headings keep their inline code, so only fenced code is taken out here.
    text = re.sub(r"^(```+|~~~+).*?^\1 *$", "", text, flags=re.M | re.S)
    for title in re.findall(r"^#{1,6} +(.+?) *$", text, re.MULTILINE):
        plain = re.sub(r"[*_`]", "", title)
        found.add(plain.replace(" ", "-"))
        unmarked = plain.translate(str.maketrans("", "", _PUNCTUATION))
        found.add(unmarked.lower().replace(" ", "-"))
    return found


_PUNCTUATION = "".join(set(string.punctuation) - set("-_")) + "·…’‘“”–—×√"

"""README says what the repository does."""

import re

import torch
from nbformat import v4

from faults import FAULTS
from helpers.transformer import Transformer, TransformerConfig
from lessons.lesson02 import exercises as lesson02
from lessons.studies import study
from tools import laws, minutes, notebooks
from tools.reproducible import ROOT
from transformer_checkup import properties
from transformer_checkup.adapters import of_hugging_face

README = (ROOT / "README.md").read_text("utf-8")
TEXT = " ".join(README.split())  # without line breaks
LESSONS = {path.name[:2]: path for path in sorted(notebooks.NOTEBOOKS.glob("*.ipynb"))}


def python_blocks():
    """The blocks of Python in README, in order."""
    return re.findall(r"^```python\n(.*?)^```$", README, re.M | re.S)


def test_the_pictures_are_those_that_the_lessons_stored():
    for name, (lesson, cell_id) in notebooks.PICTURES.items():
        stored = notebooks.picture(
            notebooks.read(notebooks.NOTEBOOKS / lesson), cell_id
        )
        again = "python -m tools.notebooks run notebooks/" + lesson
        assert (notebooks.NOTEBOOKS / name).read_bytes() == stored, f"repair: {again}"
        assert f"notebooks/{name}" in README


# -- lessons and minutes ---------------------------------------------------------------


def test_the_table_links_every_lesson():
    rows = re.findall(r"^\| (\d\d) \| \[.+?\]\(notebooks/(\S+)\)", README, re.MULTILINE)
    assert rows == [(number, path.name) for number, path in LESSONS.items()]


def test_minutes_are_said_as_they_are_computed():
    known = minutes.lessons()
    assert minutes.renew_readme(README, known) == README
    first = notebooks.read(LESSONS["00"])
    minutes.renew_lesson(first, known)
    assert first == known["00"]


def test_minutes_that_are_out_of_date_are_renewed():
    known = minutes.lessons()
    wrong = re.sub(r"\d+ \|$|[\d,]+ minutes,", lambda m: "7" + m[0], README, flags=re.M)
    assert len(set(wrong.split()) - set(README.split())) > 10
    assert minutes.renew_readme(wrong, known) == README


def test_minutes_count_the_core_its_figures_and_its_exercises():
    markdown, code = v4.new_markdown_cell, v4.new_code_cell
    picture = v4.new_output("display_data", {"image/png": "", "text/plain": "x"})
    cells = [
        markdown("word [link](target) `code` - " * 600 + "\n```\nmore code\n```"),  # 8
        code("x = 1\n\n" * 20, outputs=[picture] * 4),  # 2 + 4
        markdown("### Exercise 98.1 · Title (hard, 20 minutes)"),  # 20
        code("answer\n" * 90, metadata={"tags": ["exercise"]}),
        markdown("word " * 150 + "\n\n## Going deeper\n" + "word " * 1_500),  # 1
        code("x = 1\n" * 50),
        markdown("### Exercise 98.2 · Title (hard, 60 minutes)"),
    ]
    assert laws.minutes(v4.new_notebook(cells=cells)) == 35
    cells[4].source = cells[4].source.replace("Going deeper", "Going on")
    assert laws.minutes(v4.new_notebook(cells=cells)) == 35 + 10 + 5 + 60


# -- what is quoted can be run ---------------------------------------------------------


def test_the_quoted_answer_of_a_check_is_what_it_says(capsys):
    wrong, _ = python_blocks()
    scope = {}
    exec(wrong, scope)
    lesson02.scaled_attention(scope["my_attention"])
    quoted = " ".join(re.findall("^> (.+)$", README, re.MULTILINE))
    assert capsys.readouterr().out.strip() == quoted


def test_the_debugger_takes_a_model_as_readme_says(capsys):
    _, use = python_blocks()
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_layers": 1}
    torch.manual_seed(0)
    config = TransformerConfig(230, 347, share_embeddings=False, **sizes)
    exec(use, {"my_model": Transformer(config)})
    said = capsys.readouterr().out
    assert len(re.findall("^[✓✗○] ", said, re.MULTILINE)) == len(properties.CHECKS)
    assert len(properties.CHECKS) == 24 and "Twenty-four checks" in README


def test_the_report_is_what_the_debugger_says(capsys):
    model = FAULTS["GPT-2's second layer sees the future"].build()
    properties.examine(of_hugging_face(model), draw=False)
    shown = re.search(r"^```\n(✓ runs.*?)^```$", README, re.M | re.S)[1]
    said = capsys.readouterr().out
    said, shown = (re.sub(r"≈ \S+", "≈", text) for text in (said, shown))
    assert said == shown


def test_the_debugger_reaches_what_its_studies_stored():
    alarms, faults = study("debugger_alarms"), study("debugger_faults")
    assert alarms["fails"].isna().all()
    models, runs = alarms["model"].nunique(), len(alarms)
    assert f"On {models} sound models that are not the course's own" in TEXT
    assert f"{runs} runs in all, no check fails" in TEXT
    bases = faults["code_base"].nunique()
    assert f"Of {len(faults)} single faults in {bases} code bases" in TEXT
    assert (
        f"finds {faults['found'].sum()}, and for {faults['placed'].sum()} the" in TEXT
    )
    missed = faults[~faults["found"]]
    assert missed["out_of_reach"].notna().all()


# -- figures ---------------------------------------------------------------------------


def test_the_toy_translator_reaches_what_its_study_stored():
    table = 100 * study("toy_translator").pivot(
        index="seed", columns="split", values="exact_match"
    )
    new, combined = (
        f"{table[split].min():.1f} % to {table[split].max():.1f} %"
        for split in ("test", "compositional")
    )
    new = new if table["test"].nunique() > 1 else f"{table['test'].max():.1f} %"
    said = f"With each of {len(table)} seeds it gets {new} of new sentences exactly"
    assert f"{said} right, and {combined} of sentences with new combinations" in TEXT


def test_the_scores_on_real_data_are_those_that_lesson_13_stored():
    lesson = notebooks.read(LESSONS["13"])
    (said,) = (
        laws.stored_text(cell)
        for cell in laws.code_cells(lesson)
        if cell.id == "test-scores"
    )
    score = r"^{}, {} +BLEU ≈ (\S+)$"
    beams, greedy = (
        [
            float(re.search(score.format(test, way), said, re.MULTILINE)[1])
            for test in ("test_2016_flickr", "test_2017_flickr", "test_2017_mscoco")
        ]
        for way in ("beam of 5", "greedy")
    )
    text = " ".join(TEXT.split())
    assert (
        f"reach {beams[0]:.1f} BLEU with a beam of 5, and {greedy[0]:.1f} with" in text
    )
    assert f"{beams[1]:.1f} and {greedy[1]:.1f} on `test_2017_flickr`" in text
    assert f"{beams[2]:.1f} and {greedy[2]:.1f} on `test_2017_mscoco`" in text
    assert f"(`{said.splitlines()[-1]}`)" in text

"""Drawings of mechanisms: no text overlaps another or leaves the sheet."""

from importlib import import_module
from itertools import combinations
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.colors import to_hex

from drawings.lesson02 import KEY, QUERY, VALUE
from helpers.plots import drawing

EXAMPLES = {
    f"{topic.stem}-{name}": draw
    for topic in sorted((Path(__file__).parent / "drawings").glob("*.py"))
    for name, draw in import_module(f"drawings.{topic.stem}").DRAWINGS.items()
}


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def texts(ax):
    """Each text of the drawing with the box that it takes, in pixels."""
    renderer = ax.figure.canvas.get_renderer()
    found = [text for text in ax.texts if text.get_text()]
    return [(text.get_text(), text.get_window_extent(renderer)) for text in found]


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_texts_neither_overlap_nor_leave_the_sheet(name):
    EXAMPLES[name]()
    ax = plt.gca()
    sheet = ax.figure.bbox
    for text, box in texts(ax):
        assert sheet.x0 <= box.x0 < box.x1 <= sheet.x1, text
        assert sheet.y0 <= box.y0 < box.y1 <= sheet.y1, text
    for (one, a), (other, b) in combinations(texts(ax), 2):
        assert not a.overlaps(b), (one, other)


def test_the_numbers_of_attention_are_those_of_the_formula():
    EXAMPLES["lesson02-attention"]()
    written = [text for text, _ in texts(plt.gca())]
    context = (QUERY @ KEY.mT / 2**0.5).softmax(-1) @ VALUE
    for number in context.flatten().tolist():
        assert f"{number:.2f}" in written
    assert "weights  (2, 3)" in written and "context  (2, 4)" in written


def test_a_tensor_has_a_cell_for_each_number_and_hidden_ones_are_grey():
    ax = drawing.canvas(3, 2)
    numbers = torch.tensor([[0.5, -torch.inf, 3.0]])
    block = drawing.tensor(ax, (1.5, 1.0), numbers, "weights", columns=["a", "b", "c"])
    assert [text for text, _ in texts(ax)] == ["0.50", "−∞", "3", "a", "b", "c"]
    colours = [to_hex(cell.get_facecolor()).upper() for cell in ax.patches]
    assert [colour == drawing.HIDDEN for colour in colours] == [False, True, False]
    assert block.right[0] - block.left[0] == pytest.approx(3 * drawing.CELL)
    assert block.top[1] - block.bottom[1] == pytest.approx(drawing.CELL)

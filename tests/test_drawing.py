"""Drawings of mechanisms: their numbers, and texts that nobody could read."""

import io
import warnings

import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.colors import to_hex

from helpers.plots import drawing
from lessons.lesson02.draw import draw_attention

QUERY = torch.tensor([[2.0, 1.0], [1.0, 2.0]])
KEY = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
VALUE = torch.tensor([[10.0, 2.0, 0.0, 5.0], [2.0, 3.0, 1.0, 3.0], [5.0, 3.0, 9, 26]])


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def texts(ax):
    return [text.get_text() for text in ax.texts if text.get_text()]


def test_the_numbers_of_attention_are_those_of_the_formula():
    draw_attention(QUERY, KEY, VALUE, ["a", "b"], ["c", "d", "e"])
    written = texts(plt.gca())
    context = (QUERY @ KEY.mT / 2**0.5).softmax(-1) @ VALUE
    for number in context.flatten().tolist():
        assert f"{number:.2f}" in written
    assert "weights  (2, 3)" in written and "context  (2, 4)" in written


def test_a_tensor_has_a_cell_for_each_number_and_hidden_ones_are_grey():
    ax = drawing.canvas(3, 2)
    numbers = torch.tensor([[0.5, -torch.inf, 3.0]])
    block = drawing.tensor(ax, (1.5, 1.0), numbers, "weights", columns=["a", "b", "c"])
    assert texts(ax) == ["0.50", "−∞", "3", "a", "b", "c"]
    colours = [to_hex(cell.get_facecolor()).upper() for cell in ax.patches]
    assert [colour == drawing.HIDDEN for colour in colours] == [False, True, False]
    assert block.right[0] - block.left[0] == pytest.approx(3 * drawing.CELL)
    assert block.top[1] - block.bottom[1] == pytest.approx(drawing.CELL)


def test_an_operation_is_a_box_with_its_text():
    ax = drawing.canvas(3, 2)
    block = drawing.operation(ax, (1.5, 1.0), "softmax", role="weights")
    (box,) = ax.patches
    corner = block.left[0], block.bottom[1]
    assert (box.get_x(), box.get_y()) == corner and texts(ax) == ["softmax"]


def saved(*places):
    """Save a sheet with a word at each place, as a notebook does."""
    ax = drawing.canvas(3, 2)
    for number, place in enumerate(places):
        drawing.write(ax, place, f"word {number}")
    ax.figure.savefig(io.BytesIO(), format="png", bbox_inches="tight", dpi=144)


def test_a_sheet_warns_of_texts_that_overlap_or_leave_it():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        saved((1, 1), (2, 1))
    for places, word in ([(1, 1), (1.2, 1)], 0), ([(1, 1), (2.95, 1)], 1):
        with pytest.warns(UserWarning, match=f"'word {word}' lies on another text"):
            saved(*places)

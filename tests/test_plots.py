"""Figures: what is drawn where, with which labels and on which scale."""

import io

import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from helpers.plots import (
    COLOURS,
    PARTS,
    alignment_overlay,
    architecture_map,
    attention_grid,
    heatmap,
    learning_curves,
)
from helpers.plots.architecture import GREY

QUERIES, KEYS = ["je", "te", "vois"], ["I", "see", "you", "."]
# No two cells alike, so that a transposed or flipped picture cannot pass.
WEIGHTS = torch.arange(12.0).reshape(3, 4) / 12


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def labels(ticks):
    return [tick.get_text() for tick in ticks]


def shown(ax):
    """The picture's numbers from its top row down, as the reader sees them."""
    array = torch.tensor(ax.images[0].get_array().data)
    left, right, bottom, top = ax.images[0].get_extent()
    assert left < right
    assert ax.get_xlim() == (left, right)
    assert ax.get_ylim() == (bottom, top)
    return array if top < bottom else array.flip(0)


# -- heatmaps --------------------------------------------------------------------------


def test_queries_are_rows_and_keys_are_columns():
    ax = heatmap(WEIGHTS, QUERIES, KEYS, title="a finding")
    torch.testing.assert_close(shown(ax), WEIGHTS)
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("query", "key")
    assert ax.get_title(loc="left") == "a finding"


def test_tick_labels_are_the_tokens():
    ax = heatmap(WEIGHTS, QUERIES, KEYS, title="")
    assert labels(ax.get_yticklabels()) == QUERIES
    assert labels(ax.get_xticklabels()) == KEYS
    assert list(ax.get_yticks()) == [0, 1, 2]
    assert list(ax.get_xticks()) == [0, 1, 2, 3]


@pytest.mark.parametrize("highest", [1.0, 0.5])
def test_colour_begins_at_zero(highest):
    ax = heatmap(WEIGHTS * 0.1 + 0.2, QUERIES, KEYS, title="", highest=highest)
    assert ax.images[0].get_clim() == (0, highest)


@pytest.mark.parametrize("queries, keys", [(KEYS, QUERIES), (QUERIES, KEYS[:3])])
def test_labels_that_do_not_fit(queries, keys):
    wanted = rf"\(3, 4\) with labels for \({len(queries)}, {len(keys)}\)"
    with pytest.raises(ValueError, match=wanted):
        heatmap(WEIGHTS, queries, keys, title="")


def test_weights_with_heads_are_refused():
    with pytest.raises(ValueError, match=r"\(1, 3, 4\) with labels for \(3, 4\)"):
        heatmap(WEIGHTS[None], QUERIES, KEYS, title="")


def test_weights_on_a_graph_and_in_half_precision():
    weights = WEIGHTS.to(torch.bfloat16).requires_grad_()
    ax = heatmap(weights, QUERIES, KEYS, title="")
    torch.testing.assert_close(shown(ax), weights.detach().float())


def test_numbers_stand_in_their_cells():
    ax = heatmap(WEIGHTS, QUERIES, KEYS, title="", numbers=True)
    written = {text.get_position(): text.get_text() for text in ax.texts}
    assert len(written) == 12
    assert written[(3, 1)] == f"{WEIGHTS[1, 3]:.2f}"  # x is the key, y the query


def test_drawing_into_given_axes():
    figure, given = plt.subplots()
    assert heatmap(WEIGHTS, QUERIES, KEYS, title="", ax=given) is given
    assert plt.get_fignums() == [figure.number]
    assert len(figure.axes) == 2  # the colour bar
    _, bare = plt.subplots()
    heatmap(WEIGHTS, QUERIES, KEYS, title="", ax=bare, colour_bar=False)
    assert len(bare.figure.axes) == 1


@pytest.mark.parametrize("heads, rows", [(1, 1), (4, 1), (6, 2), (7, 2)])
def test_attention_grid(heads, rows):
    maps = torch.stack([WEIGHTS / (head + 1) for head in range(heads)])
    figure = attention_grid(maps, QUERIES, KEYS, title="the heads differ")
    *drawn, colour_bar = figure.axes
    assert colour_bar.get_ylabel() == "weight"
    assert figure.get_suptitle() == "the heads differ"
    assert len(drawn) == heads
    assert drawn[0].get_gridspec().nrows == rows
    for head, ax in enumerate(drawn):
        torch.testing.assert_close(shown(ax), maps[head])
        assert ax.get_title(loc="left") == f"head {head + 1}"
        assert ax.images[0].get_clim() == (0, 1)


def test_attention_grid_labels_the_outer_axes():
    figure = attention_grid(WEIGHTS.expand(7, 3, 4), QUERIES, KEYS, title="")
    with_queries = [any(labels(ax.get_yticklabels())) for ax in figure.axes[:7]]
    with_keys = [any(labels(ax.get_xticklabels())) for ax in figure.axes[:7]]
    assert with_queries == [True, False, False, False, True, False, False]
    assert with_keys == [False, False, False, True, True, True, True]
    assert labels(figure.axes[4].get_xticklabels()) == KEYS


def test_attention_grid_refuses_labels_that_do_not_fit():
    with pytest.raises(ValueError, match="with labels for"):
        attention_grid(WEIGHTS.expand(2, 3, 4), KEYS, QUERIES, title="")


def test_alignment_squares_surround_their_cells():
    ax = heatmap(WEIGHTS, QUERIES, KEYS, title="")
    alignment = [(0, 0), (2, 1), (1, 2)]  # you (2) is te (1), see (1) is vois (2)
    assert alignment_overlay(ax, alignment) is ax
    squares = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    centres = [square.get_center().round(6).tolist() for square in squares]
    assert centres == [[0, 0], [2, 1], [1, 2]]  # x: source, a key; y: target, a query
    assert not any(square.get_fill() for square in squares)
    (legend,) = ax.figure.legends
    assert labels(legend.get_texts()) == ["true alignment"]


def test_two_overlays_have_one_legend():
    figure, axes = plt.subplots(1, 2)
    for ax in axes:
        heatmap(WEIGHTS, QUERIES, KEYS, title="", ax=ax, colour_bar=False)
        alignment_overlay(ax, [(0, 0)])
    assert len(figure.legends) == 1


@pytest.mark.parametrize("pair", [(4, 0), (0, 3), (-1, 0)])
def test_alignment_outside_the_heatmap(pair):
    ax = heatmap(WEIGHTS, QUERIES, KEYS, title="")
    with pytest.raises(ValueError, match="of 4 source and 3 target tokens"):
        alignment_overlay(ax, [pair])


# -- curves ----------------------------------------------------------------------------


def test_learning_curves():
    curves = {"training": (range(50), range(1, 51)), "validation": ([10, 20], [3, 2])}
    ax = learning_curves(curves, title="both fall")
    assert labels(ax.get_legend().get_texts()) == ["training", "validation"]
    assert [line.get_xydata().tolist() for line in ax.lines[1:]] == [[[10, 3], [20, 2]]]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("step", "loss")
    assert ax.get_title(loc="left") == "both fall"
    assert ax.get_yscale() == "linear"
    assert len({line.get_linestyle() for line in ax.lines}) == 2


def test_learning_curves_on_a_logarithmic_scale():
    _, given = plt.subplots()
    ax = learning_curves({"loss": ([1, 2], [1, 0.01])}, title="", log=True, ax=given)
    assert ax is given
    assert ax.get_yscale() == "log"
    ax.figure.canvas.draw()
    assert {"0.01", "0.1", "1"} <= set(labels(ax.get_yticklabels()))


@pytest.mark.parametrize("curve", [([1, 2], [1.0]), ([], [])])
def test_a_curve_that_does_not_fit(curve):
    numbers = f"'training' has {len(curve[0])} xs and {len(curve[1])} ys"
    with pytest.raises(ValueError, match=numbers):
        learning_curves({"training": curve}, title="")


# -- the map of the architecture -------------------------------------------------------


def drawn_colours(*lit):
    """The colours of all edges in the map, grey and ink left out."""
    _, ax = plt.subplots()
    architecture_map(*lit, ax=ax)
    edges = {to_hex(patch.get_edgecolor()).upper() for patch in ax.patches}
    return edges & set(COLOURS)


def lit_text(*lit):
    """The texts in the map that are not grey, its title left out."""
    _, ax = plt.subplots()
    architecture_map(*lit, ax=ax)
    *texts, title = ax.texts
    assert "The Transformer" in title.get_text()
    return {text.get_text() for text in texts if text.get_color() == "#111111"} - {""}


EXPECTED = {
    "data": {"10", "the  black  cat  sleeps  .", "<bos>  le  chat  noir  dort  ."},
    "embeddings": {"01", "embedding"},
    "positions": {"01", "+ positions"},
    "attention": {"02", "self-attention", "masked self-attention", "cross-attention"},
    "masks": {"03"},
    "multi-head": {"04", "self-attention", "masked self-attention", "cross-attention"},
    "feed-forward": {"05", "feed-forward"},
    "residual": {"05", "+"},
    "norm": {"05", "layer norm"},
    "encoder": {"06", "encoder: N layers", "self-attention", "feed-forward"},
    "decoder": {"07", "decoder: N layers", "cross-attention", "memory"},
    "cross-attention": {"07", "cross-attention", "memory"},
    "projection": {"08", "projection, softmax"},
    "transformer": {"08", "the Transformer", "embedding", "projection, softmax"},
    "training": {"09", "training: loss"},
    "decoding": {"11", "decoding: the output becomes input"},
}


@pytest.mark.parametrize("part", PARTS)
def test_each_part_lights_itself_and_no_other_lesson(part):
    lit = lit_text(part)
    assert lit >= EXPECTED[part]
    assert {text for text in lit if text.isdigit()} == {PARTS[part][0]}
    assert PARTS[part][1] in drawn_colours(part)


@pytest.mark.parametrize("part", ["attention", "masks", "multi-head", "residual"])
def test_a_component_leaves_the_rest_grey(part):
    assert drawn_colours(part) == {PARTS[part][1]}


def test_the_stacks_light_only_what_is_inside():
    assert "masked self-attention" not in lit_text("encoder")
    assert "self-attention" not in lit_text("decoder")
    assert not lit_text("transformer") & {"09", "10", "11", "training: loss"}


def test_without_a_name_all_is_lit():
    assert drawn_colours() == set(COLOURS)
    assert lit_text() == lit_text(*PARTS)
    assert {text for text in lit_text() if text.isdigit()} == {
        lesson for lesson, _ in PARTS.values()
    }
    _, ax = plt.subplots()
    architecture_map(ax=ax)
    assert GREY not in {to_hex(patch.get_edgecolor()).upper() for patch in ax.patches}


def test_an_unknown_part():
    with pytest.raises(ValueError, match=r"'atention', only data, embeddings, .*"):
        architecture_map("attention", "atention")
    assert not plt.get_fignums()


def test_the_map_is_small_and_whole():
    assert architecture_map("attention") is None  # nothing for the notebook to print
    figure = plt.gcf()
    file = io.BytesIO()
    figure.savefig(file, format="png")
    assert len(file.getvalue()) < 64_000
    inside = figure.bbox
    for text in figure.axes[0].texts:
        box = text.get_window_extent()
        assert inside.x0 <= box.x0 <= box.x1 <= inside.x1, text.get_text()
        assert inside.y0 <= box.y0 <= box.y1 <= inside.y1, text.get_text()


def test_no_texts_of_the_map_overlap():
    architecture_map()
    texts = [text for text in plt.gca().texts if text.get_text()]
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    for i, (first, box) in enumerate(boxes):
        for second, other in boxes[:i]:
            assert not box.overlaps(other), f"{first!r} lies on {second!r}"

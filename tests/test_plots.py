"""Figures: what is drawn where, with which labels and on which scale."""

import io
from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.transforms import Bbox

from helpers.plots import (
    COLOURS,
    PARTS,
    alignment_overlay,
    architecture_map,
    distribution,
    heatmap,
    learning_curves,
    over_seeds,
)

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
    array = torch.tensor(ax.collections[0].get_array().data)
    rows, columns = array.shape
    assert ax.get_xlim() == (0, columns)
    assert ax.get_ylim() in ((0, rows), (rows, 0))
    return array if ax.get_ylim()[0] else array.flip(0)


def middle(ax, query, key):
    """The centre of a cell as the mesh has it, (x, y) in the axes' coordinates."""
    corners = ax.collections[0].get_coordinates()[query : query + 2, key : key + 2]
    return tuple(corners.reshape(4, 2).mean(axis=0))


def pixels(ax, query, key):
    """The inner pixels of a cell as they are drawn, (pixels, 3)."""
    canvas = ax.figure.canvas
    canvas.draw()
    picture = np.asarray(canvas.buffer_rgba())[::-1, :, :3].astype(int)
    x, y = ax.transData.transform(middle(ax, query, key)).astype(int)
    return picture[y - 8 : y + 8, x - 8 : x + 8].reshape(-1, 3)


# -- heatmaps --------------------------------------------------------------------------


def test_queries_are_rows_and_keys_are_columns():
    weights = WEIGHTS.to(torch.bfloat16).requires_grad_()
    ax = heatmap(weights, QUERIES, KEYS, title="a finding", label="share")
    torch.testing.assert_close(shown(ax), weights.detach().float())
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("query", "key")
    assert ax.get_title(loc="left") == "a finding"
    assert ax.figure.axes[1].get_ylabel() == "share"


def test_tokens_stand_at_the_middles_of_their_cells():
    ax = heatmap(WEIGHTS, QUERIES, KEYS, title="")
    assert labels(ax.get_yticklabels()) == QUERIES
    assert labels(ax.get_xticklabels()) == KEYS
    assert list(ax.get_yticks()) == [middle(ax, query, 0)[1] for query in range(3)]
    assert list(ax.get_xticks()) == [middle(ax, 0, key)[0] for key in range(4)]


def test_of_many_positions_a_few_have_a_label():
    ax = heatmap(torch.rand(6, 24), range(1, 7), range(24), title="")
    assert labels(ax.get_yticklabels()) == ["1", "2", "3", "4", "5", "6"]
    assert labels(ax.get_xticklabels()) == ["0", "5", "10", "15", "20"]
    assert ax.get_xticks()[1] == middle(ax, 0, 5)[0]


@pytest.mark.parametrize("highest", [1.0, 0.5])
def test_colour_begins_at_zero_or_is_white_there(highest):
    options = {"title": "", "highest": highest}
    ax = heatmap(WEIGHTS * 0.1 + 0.2, QUERIES, KEYS, **options)
    assert ax.collections[0].get_clim() == (0, highest)
    ax = heatmap(WEIGHTS - WEIGHTS[1, 1], QUERIES, KEYS, signed=True, **options)
    assert ax.collections[0].get_clim() == (-highest, highest)
    assert pixels(ax, 1, 1).min() > 240
    assert np.ptp(pixels(ax, 0, 0)[0]) > 30  # a hue


def test_labels_or_a_mask_that_do_not_fit():
    for weights in (WEIGHTS.T, WEIGHTS[None]):
        sizes = str(tuple(weights.shape)).translate({40: r"\(", 41: r"\)"})
        with pytest.raises(ValueError, match=sizes + r" with labels for \(3, 4\)"):
            heatmap(weights, QUERIES, KEYS, title="")
    with pytest.raises(ValueError, match=r"\(3, 4\) with a mask of \(1, 3, 4\)"):
        heatmap(WEIGHTS, QUERIES, KEYS, title="", mask=WEIGHTS[None] > 0)


def test_hidden_cells_are_grey_and_hatched_and_no_others():
    mask = torch.ones(3, 4).tril().bool()
    weights = WEIGHTS.masked_fill(torch.eye(3, 4).bool(), 0.0)
    weights[2, 0] = torch.nan
    ax = heatmap(weights, QUERIES, KEYS, title="", mask=mask, numbers=True)
    for query, key in np.ndindex(3, 4):
        found = pixels(ax, query, key)
        if (query, key) == (2, 0) or not mask[query, key]:
            assert (np.ptp(found, axis=1) < 3).all() and found.min() > 120
            assert len(np.unique(found)) > 1  # seen in black and white too
        elif query == key:
            assert np.ptp(found, axis=1).max() > 60  # the colour of 0 is a colour
    assert labels(ax.texts) == ["0", "0.33", "0", "0.75", "0"]


def test_numbers_stand_in_their_cells():
    ax = heatmap(WEIGHTS, QUERIES, KEYS, title="", numbers=True)
    written = {text.get_position(): text.get_text() for text in ax.texts}
    assert len(written) == 12
    assert written[middle(ax, 1, 3)] == f"{WEIGHTS[1, 3]:.2f}"
    assert written[middle(ax, 0, 0)] == "0"
    marks = heatmap(WEIGHTS, QUERIES, KEYS, title="", numbers="{:.0%}".format)
    assert labels(marks.texts)[:2] == ["0%", "8%"]


def test_each_alignment_square_surrounds_its_cell_alone():
    ax = heatmap(WEIGHTS, QUERIES, KEYS, title="")
    alignment = [(0, 0), (2, 1), (1, 2)]  # you (2) is te (1), see (1) is vois (2)
    assert alignment_overlay(ax, alignment) is ax
    ax.figure.canvas.draw()
    for square, (source, target) in zip(ax.patches, alignment, strict=True):
        assert not square.get_fill()
        for query, key in np.ndindex(3, 4):
            place = ax.transData.transform(middle(ax, query, key))
            inside = square.get_window_extent().contains(*place)
            assert inside == ((key, query) == (source, target))
    (legend,) = ax.figure.legends
    assert labels(legend.get_texts()) == ["true alignment"]


def test_overlays_have_one_legend_and_stay_on_their_heatmaps():
    figure, axes = plt.subplots(1, 2)
    for ax in axes:
        heatmap(WEIGHTS, QUERIES, KEYS, title="", ax=ax, colour_bar=False)
        alignment_overlay(ax, [(0, 0)])
    assert len(figure.legends) == 1
    for pair in ((4, 0), (0, 3)):
        with pytest.raises(ValueError, match="of 4 source and 3 target tokens"):
            alignment_overlay(ax, [pair])


# -- over seeds, and within a group ----------------------------------------------------

STUDY = pd.DataFrame(
    {
        "seed": [0, 1, 2, 0, 1, 2],
        "split": ["test"] * 3 + ["compositional"] * 3,
        "steps": [100] * 3 + [300] * 3,
        "exact_match": [0.99, 0.97, 0.995, 0.80, 0.95, 0.90],
        "seconds": [51.0, 52.5, 50.2, 51.0, 52.5, 50.2],
    }
)


def drawn_runs(ax):
    """The small dots: (x, y) of every run."""
    offsets = [dots.get_offsets() for dots in ax.collections]
    return sorted(map(tuple, np.concatenate(offsets).round(6).tolist()))


@pytest.mark.parametrize("x, places", [("split", (0, 1)), ("steps", (100, 300))])
def test_the_bar_over_seeds_goes_from_the_lowest_to_the_highest(x, places):
    ax = over_seeds(STUDY, x=x, y="exact_match", title="three seeds each")
    ends = {
        line.get_xdata()[0]: sorted(line.get_ydata())
        for line in ax.lines
        if len(set(line.get_xdata())) == 1
    }
    assert ends == {
        places[0]: pytest.approx([0.97, 0.995]),
        places[1]: pytest.approx([0.80, 0.95]),
    }
    (means,) = (line for line in ax.lines if len(set(line.get_xdata())) == 2)
    assert means.get_ydata() == pytest.approx([0.985, 0.8833], abs=1e-4)
    assert (means.get_linestyle() == "-") == (x == "steps")
    y = STUDY["exact_match"]
    assert drawn_runs(ax) == sorted(zip(np.repeat(places, 3), y, strict=True))
    assert (ax.get_xlabel(), ax.get_ylabel()) == (x, "exact_match")
    assert ax.get_title(loc="left") == "three seeds each"


def test_kinds_over_seeds_differ_in_colour_and_mark():
    rows = STUDY.to_dict("records")
    ax = over_seeds(
        rows, x="exact_match", y="seed", hue="split", colours=COLOURS[3:], title=""
    )
    assert labels(ax.get_legend().get_texts()) == ["test", "compositional"]
    handles = ax.get_legend().legend_handles
    assert [handle.get_color() for handle in handles] == [*COLOURS[3:5]]
    assert len({handle.get_marker() for handle in handles}) == 2


def test_a_table_that_does_not_fit():
    with pytest.raises(ValueError, match=r"no column 'bleu' in a table of \['seed', "):
        over_seeds(STUDY, x="split", y="bleu", title="")
    with pytest.raises(ValueError, match="no runs in a table"):
        over_seeds(STUDY[:0], x="split", y="seconds", title="")


def test_a_distributions_heights_are_shares_over_the_same_bins():
    groups = {"wide": torch.tensor([[0.0, 1.0], [3.0, 4.0]]), "narrow": [0, 0, 0, 1]}
    ax = distribution(groups, title="two groups", xlabel="value", bins=2)
    outlines = [shape.get_paths()[0].vertices for shape in ax.collections]
    assert [outline[:, 1].max() for outline in outlines] == [0.5, 1.0]
    assert all(set(outline[:, 0]) == {0, 2, 4} for outline in outlines)
    assert labels(ax.get_legend().get_texts()) == ["wide", "narrow"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("value", "share")
    with pytest.raises(ValueError, match="'none' holds no numbers"):
        distribution({"some": [1.0], "none": []}, title="", xlabel="")


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


def test_a_curve_that_does_not_fit():
    with pytest.raises(ValueError, match="'training' has 2 xs and 1 ys"):
        learning_curves({"training": ([1, 2], [1.0])}, title="")


# -- the map of the architecture -------------------------------------------------------


def drawn(*lit):
    """The map's colours, grey and ink left out, and its texts that are not grey."""
    architecture_map(*lit)
    ax = plt.gca()
    edges = {to_hex(patch.get_edgecolor()).upper() for patch in ax.patches}
    *texts, title = ax.texts
    assert "The Transformer" in title.get_text()
    lit_texts = {x.get_text() for x in texts if x.get_color() == "#111111"} - {""}
    return edges & set(COLOURS), lit_texts


@pytest.mark.parametrize(
    ("part", "texts"),
    [
        ("data", {"<bos> le chat noir dort .", "true words"}),
        ("masks", set()),
        ("multi-head", {"self-attention", "cross-attention"}),
        ("residual", {"+"}),
        ("norm", {"layer norm"}),
        ("training", {"training: loss"}),
        ("decoding", {"decoding: the output becomes input"}),
    ],
)
def test_a_part_lights_itself_and_leaves_the_rest_grey(part, texts):
    colours, lit = drawn(part)
    assert lit >= texts and len(lit) <= len(texts) + 2
    assert colours == ({PARTS[part][1]} if part != "data" else set())  # data is words


def test_the_stacks_light_only_what_is_inside():
    encoder, decoder = drawn("encoder")[1], drawn("decoder")[1]
    assert "self-attention" in encoder and "self-attention" not in decoder
    assert "masked\nself-attention" in decoder - encoder
    assert "memory" in drawn("cross-attention")[1]
    assert not drawn("transformer")[1] & {"training: loss", "true words"}


def test_without_a_name_all_is_lit_and_numbered():
    colours, texts = drawn()
    assert colours == set(COLOURS) and texts > drawn(*PARTS)[1]
    lessons = {lesson for lesson, _ in PARTS.values()}
    assert {text for text in texts if text.isdigit()} == lessons


def test_the_map_can_be_read():
    architecture_map()
    ax = plt.gca()
    ax.figure.draw_without_rendering()
    shapes = [(shape, shape.get_window_extent()) for shape in ax.patches]
    texts = [(x.get_text(), x.get_window_extent()) for x in ax.texts if x.get_text()]
    for thing, place in shapes + texts:
        whole = Bbox.union([place, ax.bbox])
        assert whole.extents == pytest.approx(ax.bbox.extents, abs=1), thing
    for (one, here), (other, there) in combinations(texts, 2):
        assert not Bbox.intersection(here, there), (one, other)
    frames = [place for shape, place in shapes if shape.get_zorder() == 1]
    for frame, layers in zip(frames, (2, 3), strict=True):
        inside = [text for text, place in texts if frame.contains(*place.min)]
        assert inside.count("layer norm") == inside.count("+") == layers


def test_the_map_shows_what_the_masks_let_through():
    architecture_map("masks")
    squares = [shape for shape in plt.gca().patches if shape.get_zorder() == 3]
    padding, causal = np.arange(4) < [[3]] * 4, np.tri(4) > 0
    for square, shown, mask in zip(
        squares[::2], squares[1::2], (padding, causal, padding), strict=True
    ):
        places = np.indices((4, 4)).reshape(2, -1)[::-1].T  # (16, 2): key, query
        points = square.get_xy() + (places + 0.5) / 4 * square.get_width()
        found = shown.get_path().contains_points(points).reshape(4, 4)[::-1]
        np.testing.assert_array_equal(found, mask)


def test_an_unknown_part():
    with pytest.raises(ValueError, match=r"'atention', only data, embeddings, .*"):
        architecture_map("attention", "atention")
    assert not plt.get_fignums()


@pytest.mark.parametrize(("lit", "most"), [((), 80_000), (("decoder",), 64_000)])
def test_the_map_is_small(lit, most):
    assert architecture_map(*lit) is None  # nothing for the notebook to print
    figure, file = plt.gcf(), io.BytesIO()
    figure.savefig(file, format="png")
    assert len(file.getvalue()) < most

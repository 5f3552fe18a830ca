"""The page of all maps, and the explorer's state without a browser."""

import io

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from PIL import Image

from helpers.attention import record_attention
from helpers.batching import make_batch
from helpers.text import Vocabulary
from helpers.transformer import Transformer, TransformerConfig
from helpers.translator import Translator
from lessons.lesson12.explorer import MEAN, AttentionExplorer, explore_attention
from lessons.lesson12.pages import KINDS, attention_page, count_layers, texts_of

pytestmark = pytest.mark.slow  # pages of 24 maps are laid out

ENGLISH, FRENCH = ["the", "cat", "sleeps"], ["le", "chat", "noir", "dort"]


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


@pytest.fixture
def translator():
    """Untrained, two layers of four heads; it writes something or other."""
    source_text = Vocabulary(["the", "cat", "sleeps", "black", "I", "."])
    target_text = Vocabulary(FRENCH)
    config = TransformerConfig(
        len(source_text),
        len(target_text),
        d_model=16,
        n_heads=4,
        d_ff=16,
        n_layers=2,
        dropout=0.0,
        share_embeddings=False,
        max_length=128,
    )
    torch.manual_seed(0)
    return Translator(Transformer(config).eval(), source_text, target_text)


@pytest.fixture
def maps(translator):
    batch = make_batch(translator.encode_pairs([(" ".join(ENGLISH), " ".join(FRENCH))]))
    with record_attention(translator.model) as maps:
        translator.model(batch.source, batch.decoder_input)
    return maps


def labels(ticks):
    """The texts of the ticks that have one."""
    return [tick.get_text() for tick in ticks if tick.get_text()]


# -- the page --------------------------------------------------------------------------


def test_the_axes_tokens():
    texts = texts_of(["a"], ["b", "c"])
    assert texts["source"] == ["a", "<eos>"]
    assert texts["read"] == ["<bos>", "b", "c"]
    assert texts["said"] == ["b", "c", "<eos>"]


def test_the_page_holds_every_map_in_its_place(maps):
    figure = attention_page(maps, ENGLISH, FRENCH, title="all of them")
    *drawn, colour_bar = figure.axes
    assert len(drawn) == 24 and colour_bar.get_ylabel() == "weight"
    assert figure.get_suptitle() == "all of them"
    places = [(kind, layer) for kind in KINDS for layer in (0, 1)]
    for row, (kind, layer) in enumerate(places):
        for head, ax in enumerate(drawn[4 * row : 4 * row + 4]):
            mesh = ax.collections[0]
            weights = maps[KINDS[kind].module.format(layer)][0, head].detach()
            hidden = torch.tensor(np.ma.getmaskarray(mesh.get_array()))
            causal = torch.ones(weights.shape).triu(1).bool()
            assert torch.equal(hidden, causal & (kind == "decoder self-attention"))
            shown = torch.tensor(mesh.get_array().data)
            torch.testing.assert_close(shown[~hidden], weights[~hidden])
            assert mesh.get_clim() == (0, 1)
            assert f"head {head + 1}" in ax.get_title(loc="left")
            assert (f"layer {layer + 1}" in ax.get_title(loc="left")) == (head == 0)


def test_the_pages_tokens_stand_once_where_maps_share_them(maps):
    drawn = attention_page(maps, ENGLISH, FRENCH, title="").axes[:24]
    source, read = [*ENGLISH, "<eos>"], ["<bos>", *FRENCH]
    said = [*FRENCH, "<eos>"]
    queries = [source, source, read, read, said, said]
    keys = [[], source, [], read, [], source]
    for row in range(6):
        for head, ax in enumerate(drawn[4 * row : 4 * row + 4]):
            assert labels(ax.get_yticklabels()) == ([] if head else queries[row])
            assert labels(ax.get_xticklabels()) == keys[row]
    assert (
        drawn[16].get_ylabel() == "word said" and drawn[8].get_ylabel() == "word read"
    )


def test_nothing_on_the_page_overlaps_or_is_cut_off(maps):
    figure = attention_page(maps, ENGLISH, FRENCH, title="all of them")
    figure.draw_without_rendering()
    texts = [ax.title for ax in figure.axes] + [ax._left_title for ax in figure.axes]
    for ax in figure.axes[:24]:
        texts += [*ax.texts, *ax.get_xticklabels(), *ax.get_yticklabels()]
    boxes = [(t.get_text(), t.get_window_extent()) for t in texts if t.get_text()]
    for i, (first, box) in enumerate(boxes):
        assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1, first
        assert figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1, first
        for second, other in boxes[:i]:
            # Tick labels side by side may touch, not lie on each other.
            if box.overlaps(other):
                across = min(box.x1, other.x1) - max(box.x0, other.x0)
                down = min(box.y1, other.y1) - max(box.y0, other.y0)
                assert min(across, down) < 2, f"{first!r} lies on {second!r}"


def test_a_page_of_an_encoder_alone(maps):
    encoder = {name: m for name, m in maps.items() if name.startswith("encoder")}
    assert len(attention_page(encoder, ENGLISH, FRENCH, title="").axes) == 9
    assert count_layers(encoder, "cross-attention") == 0


def test_a_page_of_some_layers_and_heads(maps):
    options = {"title": "", "layers": [1], "heads": [1, 3]}
    figure = attention_page(maps, ENGLISH, FRENCH, **options)
    *drawn, _ = figure.axes
    assert figure.get_figwidth() < 6
    titles = [ax.get_title(loc="left") for ax in drawn]
    assert titles == ["layer 2, head 2", "head 4"] * 3
    for ax, (kind, head) in zip(
        drawn, [(kind, head) for kind in KINDS for head in (1, 3)], strict=True
    ):
        shown = ax.collections[0].get_array()
        weights = maps[KINDS[kind].module.format(1)][0, head].detach()
        seen = torch.tensor(~np.ma.getmaskarray(shown))
        torch.testing.assert_close(torch.tensor(shown.data)[seen], weights[seen])
    assert all(labels(ax.get_xticklabels()) for ax in drawn)


def test_a_page_that_does_not_fit(maps):
    with pytest.raises(ValueError, match="with labels for"):
        attention_page(maps, FRENCH, ENGLISH, title="")
    two = {name: torch.cat([m, m]) for name, m in maps.items()}
    with pytest.raises(ValueError, match="maps of 2 sentences"):
        attention_page(two, ENGLISH, FRENCH, title="")
    with pytest.raises(ValueError, match="no maps of a Transformer"):
        attention_page({}, ENGLISH, FRENCH, title="")


# -- the explorer ----------------------------------------------------------------------


@pytest.fixture
def explorer(translator):
    return AttentionExplorer(translator, ["the cat sleeps.", "the black cat sleeps."])


def is_png(data):
    return Image.open(io.BytesIO(data)).size[0] > 400


def test_the_first_picture_is_there(explorer):
    assert is_png(explorer.picture.value)
    assert explorer.message.value.startswith("→")
    assert not plt.get_fignums()  # nothing is left for a notebook to show


@pytest.mark.parametrize(
    "control, value",
    [
        ("query", 1),
        ("head", 2),
        ("layer", 1),
        ("kind", "encoder self-attention"),
        ("sentence", "the black cat sleeps."),
        ("typed", "the black cat sleeps."),
    ],
)
def test_every_control_changes_the_picture(explorer, control, value):
    before = explorer.picture.value
    getattr(explorer, control).value = value
    assert explorer.picture.value != before and is_png(explorer.picture.value)


def test_the_chosen_map_is_the_models(explorer):
    explorer.kind.value = "decoder self-attention"
    explorer.layer.value = 1
    recorded = explorer.maps["decoder.layers.1.self_attention"][0]
    assert explorer.head.label == MEAN
    torch.testing.assert_close(explorer.weights(), recorded.mean(0))
    explorer.head.value = 3
    torch.testing.assert_close(explorer.weights(), recorded[3])


def test_another_sentence_or_kind_resets_the_slider(explorer):
    explorer.kind.value = "encoder self-attention"
    explorer.layer.value, explorer.head.value, explorer.query.value = 1, 2, 4
    assert explorer.query.label == "5 <eos>"
    explorer.sentence.value = "the black cat sleeps."
    assert (explorer.layer.label, explorer.head.label) == ("2", "3")
    assert [value for _, value in explorer.query.options] == [*range(6)]
    assert explorer.query.value == 0
    assert (explorer.layer.value, explorer.head.value) == (1, 2)  # these stay
    explorer.query.value = 5
    explorer.kind.value = "cross-attention"
    assert explorer.query.value == 0


@pytest.mark.parametrize(
    "typed, said",
    [
        ("the kat sleeps.", "“kat” is not among the 10 words of the vocabulary"),
        ("the cat " * 70, "✗ "),
    ],
)
def test_what_cannot_be_read_is_said_and_not_raised(explorer, typed, said):
    before, maps = explorer.picture.value, explorer.maps
    explorer.typed.value = typed
    assert said in explorer.message.value and explorer.message.value.startswith("✗")
    assert explorer.picture.value == before and explorer.maps is maps
    explorer.typed.value = "the cat."
    assert explorer.message.value.startswith("→") and explorer.picture.value != before


def test_an_emptied_field_changes_nothing(explorer):
    explorer.typed.value = "the cat."
    before = explorer.picture.value
    explorer.typed.value = " "
    assert explorer.picture.value == before


def test_an_explorer_needs_a_sentence(translator):
    with pytest.raises(ValueError, match="no sentences"):
        AttentionExplorer(translator, [])
    explorer = AttentionExplorer(translator, ["the cat."])
    with pytest.raises(ValueError, match="an empty sentence"):
        explorer.read("")


@pytest.mark.parametrize("still", [True, False])
def test_a_still_picture_or_widgets(translator, monkeypatch, still):
    shown, displayed = [], []
    monkeypatch.setattr(plt, "show", lambda: shown.append(plt.gcf()))
    monkeypatch.setattr("lessons.lesson12.explorer.display", displayed.append)
    if still:
        monkeypatch.setenv("COURSE_STILL", "1")
    else:
        monkeypatch.delenv("COURSE_STILL", raising=False)
    explore_attention(translator, ["the cat sleeps."])
    assert (len(shown), len(displayed)) == ((1, 0) if still else (0, 1))
    plt.close("all")

"""Look through a translator's attention with sliders and menus (lesson 12).

The widgets are ipywidgets' own, so that it runs in JupyterLab and on Colab alike. The
picture is a PNG in an Image widget: it changes in one step, without flicker.
"""

import io
import os
from collections.abc import Sequence

import ipywidgets as widgets
import matplotlib.pyplot as plt
import torch
from IPython.display import display
from matplotlib.figure import Figure

from helpers.attention import record_attention
from helpers.batching import make_batch
from helpers.decoding import inference, translate_ids
from helpers.plots.heatmaps import heatmap
from helpers.plots.style import COLOURS
from helpers.translator import Translator
from lessons.lesson12.pages import AXES, KINDS, count_layers, mask_of, texts_of

MEAN = "mean of all heads"
WIDTH = 8.6  # of the picture, in inches


def explore_attention(translator: Translator, sentences: Sequence[str]) -> None:
    """Show an `AttentionExplorer` for the sentences; others can be typed.

    Where the environment has COURSE_STILL=1 (`make run` and the tests set it) its
    picture is drawn instead, for those who read the notebook without running it.
    """
    explorer = AttentionExplorer(translator, sentences)
    if os.environ.get("COURSE_STILL") == "1":
        explorer.draw(plt.figure(figsize=explorer.size()))
        plt.show()
    else:
        display(explorer.controls)


class AttentionExplorer:
    """Controls, and the attention map and the row of weights that they choose.

    `controls` is the widget to display; `sentence`, `typed`, `kind`, `layer`, `head`
    and `query` are its parts, `picture` holds the PNG and `message` what is amiss.
    The model translates the sentence, and its maps are those of reading both.
    ValueError without a sentence; UnknownWordError for one that it cannot read.
    """

    def __init__(self, translator: Translator, sentences: Sequence[str]):
        if not sentences:
            raise ValueError("no sentences to choose from: give at least one")
        self.translator = translator
        wide = {
            "layout": widgets.Layout(width="95%"),
            "style": {"description_width": "70px"},
        }
        self.sentence = widgets.Dropdown(
            options=list(sentences), description="Sentence", **wide
        )
        self.typed = widgets.Text(
            placeholder="or type one, and press Enter",
            description="Your own",
            continuous_update=False,
            **wide,
        )
        self.kind = widgets.Dropdown(
            options=list(KINDS), value="cross-attention", description="Attention"
        )
        self.layer = widgets.Dropdown(options=[("1", 0)], description="Layer")
        self.head = widgets.Dropdown(options=[MEAN], description="Head")
        self.query = widgets.SelectionSlider(
            options=[("", 0)], description="Query", **wide
        )
        self.message = widgets.Label()
        # Twice the pixels of the size it is shown at, as notebooks have their figures.
        self.picture = widgets.Image(format="png", width=f"{90 * WIDTH:.0f}")
        self.controls = widgets.VBox(
            [
                self.sentence,
                self.typed,
                self.message,
                widgets.HBox([self.kind, self.layer, self.head]),
                self.query,
                self.picture,
            ]
        )
        self._filling = False  # options are being set: draw once, at the end
        self.read(self.sentence.value)
        self.sentence.observe(lambda change: self._try(change.new), "value")
        self.typed.observe(lambda change: self._try(change.new), "value")
        self.kind.observe(lambda change: self._fill(), "value")
        for control in (self.layer, self.head, self.query):
            control.observe(lambda change: self._show(), "value")

    def read(self, sentence: str) -> None:
        """Translate a sentence, keep its maps and draw; ValueError if it cannot be."""
        model, text = self.translator.model, self.translator.source_text
        source = text.encode(sentence)
        if not source:
            raise ValueError("an empty sentence: type some words")
        (target,) = translate_ids(model, [source])
        batch = make_batch([(source, target)]).to(next(model.parameters()).device)
        with inference(model), record_attention(model) as maps:
            model(batch.source, batch.decoder_input)
        self.maps = maps
        words = self.translator.target_text.tokens(target)
        self.texts = texts_of(text.tokens(source), words)
        self.message.value = f"→ {self.translator.target_text.decode(target)}"
        self._fill()

    def _try(self, sentence: str) -> None:
        """Read a sentence; where that fails say why, and leave the picture alone."""
        if not sentence.strip():
            return
        try:
            self.read(sentence)
        except ValueError as error:
            self.message.value = f"✗ {error}"

    def _fill(self) -> None:
        """Offer the layers, heads and queries that there are now, and draw."""
        self._filling = True
        module, queries, _ = KINDS[self.kind.value]
        layers = count_layers(self.maps, self.kind.value)
        heads = self.maps[module.format(0)].size(1)
        chosen = self.layer.value, self.head.value
        self.layer.options = [(f"{i + 1}", i) for i in range(layers)]
        self.head.options = [(MEAN, MEAN), *((f"{i + 1}", i) for i in range(heads))]
        self.layer.value, self.head.value = chosen
        tokens = self.texts[queries]
        self.query.options = [(f"{i + 1} {token}", i) for i, token in enumerate(tokens)]
        self.query.value = 0
        self._filling = False
        self._show()

    def _show(self) -> None:
        if self._filling:
            return
        figure = Figure(figsize=self.size(), dpi=180)
        self.draw(figure)
        png = io.BytesIO()
        figure.savefig(png, format="png")
        self.picture.value = png.getvalue()

    def weights(self) -> torch.Tensor:
        """The chosen map, (query_length, key_length)."""
        module = KINDS[self.kind.value].module.format(self.layer.value)
        heads = self.maps[module][0]
        return heads.mean(0) if self.head.value == MEAN else heads[self.head.value]

    def size(self) -> tuple[float, float]:
        """Inches of the picture, by the number of tokens."""
        _, queries, keys = KINDS[self.kind.value]
        longest = max(len(self.texts[queries]), len(self.texts[keys]))
        return WIDTH, max(3.0, 1.5 + 0.24 * longest)

    def draw(self, figure: Figure) -> None:
        """The map with the chosen query's row framed, and that row as bars."""
        kind, row, weights = self.kind.value, self.query.value, self.weights()
        queries, keys = (self.texts[name] for name in KINDS[kind][1:])
        whose, of = (AXES[name] for name in KINDS[kind][1:])
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        head = MEAN if self.head.value == MEAN else f"head {self.head.value + 1}"
        title = f"{kind}, layer {self.layer.value + 1}, {head}"
        mask = mask_of(kind, len(queries))
        heatmap(weights, queries, keys, title=title, ax=left, mask=mask)
        left.set(xlabel=of, ylabel=whose)
        left.axhspan(row, row + 1, fill=False, ec=COLOURS[5], lw=2.5)
        shares = weights[row].tolist()
        right.barh(range(len(keys)), shares, color=COLOURS[5])
        right.set_yticks(range(len(keys)), keys)
        right.set(xlim=(0, 1), ylim=(len(keys) - 0.5, -0.5), xlabel="weight")
        right.set_title(f"where “{queries[row]}” looks")

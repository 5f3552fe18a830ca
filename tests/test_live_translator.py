"""The live translator without a browser: its files, and the data that they read.

What it does is tried in a real browser, by tests/book.
"""

import base64
import importlib
import json
import re

import pytest

from helpers.corpus import toy_corpus
from helpers.corpus.alignments import SentencePair
from helpers.corpus.phenomena import phenomena
from helpers.text import Vocabulary
from helpers.translator import MODEL_FILE, Translator
from samples import small_model
from tools import live_translator
from tools.live_translator import PAGE, SPLITS, compact, links_of

MODEL = (PAGE / "transformer.js").read_text("utf-8")
# What is not a definition of its own module in Python, but a step of one there.
OWN = {"stack"}


def small_corpus():
    return toy_corpus(
        train_size=60, validation_size=0, test_size=40, compositional_size=40
    )


def sections(text):
    """{module of helpers: the names that the script defines below its heading}."""
    _, *parts = re.split(r"^// ---- ", text, flags=re.MULTILINE)
    found = {}
    for part in parts:
        title, _, body = part.partition("\n")
        if path := re.match(r"(helpers/\S+)\.py", title):
            names = re.findall(r"^(?:function\*?|class) (\w+)", body, re.MULTILINE)
            found[path[1].replace("/", ".")] = names
    return found


def test_the_model_is_one_short_file():
    assert len(MODEL.splitlines()) <= 250


def test_the_model_has_the_names_and_the_order_of_helpers():
    found = sections(MODEL)
    for module, names in found.items():
        text = importlib.import_module(module)
        there = [name for name in names if name not in OWN]
        assert there and [name for name in there if not hasattr(text, name)] == []
    layers = ["FeedForward", "LayerNorm", "Residual"]
    assert found["helpers.layers"] == layers
    modules = [name.rpartition(".")[2] for name in found]
    order = ["positions", "masks", "attention", "layers", "encoder", "decoder"]
    assert modules == [*order, "transformer", "decoding", "reading"]


def test_nothing_on_the_page_names_another_site():
    for path in PAGE.iterdir():
        if path.is_file():
            text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
            assert not re.search(r"(https?:)?//\w[\w-]*\.\w", text), path.name


def test_the_sentences_come_back_from_their_short_form():
    corpus = small_corpus()
    short = json.loads(json.dumps(compact(corpus)))
    pairs = [pair for split in SPLITS for pair in getattr(corpus, split)]
    assert len(short["sentences"]) == len(pairs) == 80
    for row, pair in zip(short["sentences"], pairs, strict=True):
        source, target, links, bits, split = row
        assert (source, target) == (pair.source, pair.target)
        digits = [int(digit, 36) for digit in links]
        assert (*zip(digits[::2], digits[1::2], strict=True),) == pair.alignment
        names = {x for i, x in enumerate(short["phenomena"]) if bits >> i & 1}
        assert names == phenomena(pair)
        assert pair in getattr(corpus, short["splits"][split])


def test_a_sentence_that_is_too_long_for_the_short_form_is_named():
    pair = SentencePair("a long one.", "une longue.", ((0, 36),))
    with pytest.raises(ValueError, match="a long one"):
        links_of(pair)


def test_all_that_the_page_reads_is_written(tmp_path, monkeypatch):
    words = Vocabulary(f"w{i}" for i in range(46))
    translator = Translator(small_model(), words, words)
    corpus = small_corpus()
    monkeypatch.setattr(live_translator, "trained_toy", lambda: translator)
    monkeypatch.setattr(live_translator, "toy_corpus", lambda: corpus)
    drawn = []
    monkeypatch.setattr(
        live_translator, "draw_still", lambda *given: drawn.append(given)
    )
    live_translator.write_data(tmp_path / "data")
    assert len(drawn) == 1 and drawn[0][2] == tmp_path / "data" / "still.png"
    saved = tmp_path / "data" / MODEL_FILE
    loaded = Translator.load(saved)
    assert loaded.source_text.words == words.words
    text = (tmp_path / "data" / "sentences.json").read_text("utf-8")
    assert len(json.loads(text)["sentences"]) == 80
    # the script holds both once more
    script = (tmp_path / "data" / "offline.js").read_text("utf-8")
    both = json.loads(script.removeprefix("LIVE_TRANSLATOR = ").removesuffix(";\n"))
    assert base64.b64decode(both["weights"]) == saved.read_bytes()
    assert both["sentences"] == json.loads(text)

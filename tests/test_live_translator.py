"""The live translator without a browser: its files, and the data that they read.

What it does is tried in a real browser, by tests/book.
"""

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


@pytest.fixture(scope="module")
def corpus():
    return toy_corpus(
        train_size=60, validation_size=0, test_size=40, compositional_size=40
    )


def test_the_model_has_the_names_of_the_modules_that_it_mirrors():
    text = (PAGE / "transformer.js").read_text("utf-8")
    parts = re.findall(
        r"^// ---- ((?:helpers|lessons)\S+)\.py\n(.*?)(?=^// ----|\Z)",
        text,
        re.M | re.S,
    )
    assert len(parts) == 9
    for path, body in parts:
        module = importlib.import_module(path.replace("/", "."))
        names = {*re.findall(r"^(?:function\*?|class) (\w+)", body, re.M)} - {"stack"}
        assert names and [name for name in names if not hasattr(module, name)] == []


def test_nothing_on_the_page_names_another_site():
    for path in filter(lambda path: path.is_file(), PAGE.iterdir()):
        text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"(https?:)?//\w[\w-]*\.\w", text), path.name


def test_the_sentences_come_back_from_their_short_form(corpus):
    short = json.loads(json.dumps(compact(corpus)))
    pairs = [pair for split in SPLITS for pair in getattr(corpus, split)]
    for row, pair in zip(short["sentences"], pairs, strict=True):
        source, target, links, bits, split = row
        assert (source, target) == (pair.source, pair.target)
        digits = [int(digit, 36) for digit in links]
        assert (*zip(digits[::2], digits[1::2], strict=True),) == pair.alignment
        names = {x for i, x in enumerate(short["phenomena"]) if bits >> i & 1}
        assert names == phenomena(pair)
        assert pair in getattr(corpus, short["splits"][split])
    with pytest.raises(ValueError, match="a long one"):
        links_of(SentencePair("a long one.", "une longue.", ((0, 36),)))


def test_all_that_the_page_reads_is_written(corpus, tmp_path, monkeypatch):
    words = Vocabulary(f"w{i}" for i in range(46))
    given = {
        "trained_toy": lambda: Translator(small_model(), words, words),
        "toy_corpus": lambda: corpus,
        "draw_still": lambda translator, corpus, path: path.touch(),
    }
    for name, value in given.items():
        monkeypatch.setattr(live_translator, name, value)
    live_translator.write_data(tmp_path)
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {MODEL_FILE, "sentences.json", "offline.js", "still.png"}
    assert Translator.load(tmp_path / MODEL_FILE).source_text.words == words.words

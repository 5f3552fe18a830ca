"""The live translator without a browser: its files, and the data that they read.

What it does is tried in a real browser, by tests/book.
"""

import importlib
import json
import re

import pytest

from helpers.corpus import SentencePair, toy_corpus
from helpers.corpus.phenomena import phenomena
from helpers.translator import trained_toy
from tools.live_translator import PAGE, SPLITS, compact, links_of, write_data


@pytest.fixture(scope="module")
def corpus():
    sizes = {"train": 60, "validation": 0, "test": 40, "compositional": 40}
    return toy_corpus(**{f"{split}_size": size for split, size in sizes.items()})


def test_the_model_has_the_names_of_the_modules_that_it_mirrors():
    text = (PAGE / "transformer.js").read_text("utf-8")
    part = r"^// ---- ((?:helpers|lessons)\S+)\.py\n(.*?)(?=^// ----|\Z)"
    parts = re.findall(part, text, re.M | re.S)
    assert len(parts) == 9
    for path, body in parts:
        module = importlib.import_module(path.replace("/", "."))
        names = {*re.findall(r"^(?:function\*?|class) (\w+)", body, re.M)} - {"stack"}
        assert names and [name for name in names if not hasattr(module, name)] == []


def test_what_the_page_says_of_the_model_is_so():
    text = " ".join((PAGE / "index.html").read_text("utf-8").split())
    translator = trained_toy()
    count = sum(parameter.numel() for parameter in translator.model.parameters())
    assert f"A Transformer of {round(count, -4):,} parameters" in text
    assert f"{len(translator.source_text) - 4} English words and signs" in text


def test_the_sentences_come_back_from_their_short_form(corpus):
    short = json.loads(json.dumps(compact(corpus)))
    pairs = [(pair, split) for split in SPLITS for pair in getattr(corpus, split)]
    for row, (pair, split) in zip(short["sentences"], pairs, strict=True):
        source, target, links, bits, number = row
        assert (source, target) == (pair.source, pair.target)
        digits = [int(digit, 36) for digit in links]
        assert (*zip(digits[::2], digits[1::2], strict=True),) == pair.alignment
        names = {x for i, x in enumerate(short["phenomena"]) if bits >> i & 1}
        assert names == phenomena(pair) and short["splits"][number] == split
    with pytest.raises(ValueError, match="a long one"):
        links_of(SentencePair("a long one.", "une longue.", ((0, 36),)))


def test_all_that_the_page_reads_is_written(corpus, tmp_path):
    write_data(tmp_path, corpus)
    page = "".join(path.read_text("utf-8") for path in PAGE.glob("*.*"))
    read = {*re.findall(r'"data/([\w.]+)"', page)}
    assert {path.name for path in tmp_path.iterdir()} == read

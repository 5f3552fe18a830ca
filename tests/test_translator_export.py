"""A translator leaves for CTranslate2: what is written translates as the course does.

The engine is optional: without it most of this is skipped, with its reason.
"""

import re
import sys

import pytest
import torch

from helpers.corpus import toy_corpus
from helpers.decoding import translate_ids
from helpers.multi30k import ParallelText
from helpers.text import SubwordTokenizer, Vocabulary
from helpers.transformer import Transformer, TransformerConfig
from helpers.translator import MODEL_FILE, Translator, command_line, export
from helpers.translator.command_line import RUN_FILE, main
from helpers.translator.export import ServedTranslator, specification
from lessons.studies import study
from samples import SIZES, randomise
from tools.reproducible import ROOT

PAGE = (ROOT / "book" / "serving.md").read_text("utf-8")
CORPUS = toy_corpus(
    train_size=300, validation_size=0, test_size=60, compositional_size=0
)
TEST = [pair.source for pair in CORPUS.test]


@pytest.fixture(scope="module")
def ctranslate2():
    return pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")


def translator(*, subwords=False, **changes):
    """A random one for toy sentences, with whole words or with shared subwords."""
    pairs = [*CORPUS.train, *CORPUS.test]
    sides = [pair.source for pair in pairs], [pair.target for pair in pairs]
    if subwords:
        texts = [SubwordTokenizer.train(sides[0] + sides[1], vocab_size=400)] * 2
    else:
        texts = [Vocabulary.from_texts(side, space_before="?") for side in sides]
    options = {**SIZES, "share_embeddings": subwords, **changes}
    model = Transformer(TransformerConfig(*map(len, texts), **options))
    return Translator(randomise(model).eval(), *texts)


@pytest.mark.parametrize("subwords", [False, True], ids=["words", "subwords"])
def test_the_engine_writes_the_same_tokens(ctranslate2, tmp_path, subwords):
    ours = translator(norm_first=not subwords, subwords=subwords)
    assert export.export(ours, tmp_path / "served", TEST) == len(TEST)
    served = ServedTranslator(tmp_path / "served")
    options = {"max_length": SIZES["max_length"]}
    expected = ours.translate(TEST, **options)
    assert len({*expected}) > 3  # so that the sentence matters
    assert served.translate(TEST, **options) == expected


def test_the_page_shows_how_to_use_what_was_written(ctranslate2, tmp_path, monkeypatch):
    ours = translator(norm_first=True, subwords=True, max_length=300)
    export.export(ours, tmp_path / "served" / "de-en", TEST)
    monkeypatch.chdir(tmp_path)
    codes = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
    source = ours.source_text.encode(TEST[0])
    # CTranslate2's own limit is another one; a random model reaches any.
    for code, limit in zip(codes, (100, 256), strict=True):
        assert "beam_size=5" in code and "Ein Hund läuft." in code
        code = code.replace("beam_size=5", "beam_size=1")
        found = {"said": []}
        code = code.replace("Ein Hund läuft.", TEST[0]).replace(
            "print(", "said.append("
        )
        exec(compile(code, "book/serving.md", "exec"), found)
        (expected,) = translate_ids(ours.model, [source], max_length=limit)
        text = ours.target_text.decode(expected)
        assert found["said"] in ([text], [[text]])


def test_the_page_quotes_the_study():
    table = study("serving").set_index("search")
    rows = {line for line in PAGE.splitlines() if re.match(r"\| (greedy|beam) ", line)}
    expected = set()
    for search in table.index.unique():
        ours, theirs = table.loc[search].to_dict("records")
        assert ours["engine"] == "course" and ours["sentences"] == 1_000
        speeds = [row["sentences_per_cpu_second"] for row in (ours, theirs)]
        cells = [search, *(f"{speed:,}" for speed in speeds)]
        cells += [f"{speeds[1] / speeds[0]:.1f}", f"{theirs['same']:,}"]
        cells += [f"{row['bleu']:.2f}" for row in (ours, theirs)]
        expected.add(f"| {' | '.join(cells)} |")
    assert rows == expected and len(rows) == 2


# -- the command line ------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """A folder as train leaves it, and what it was compared on."""
    translator(norm_first=True).save(tmp_path / "run" / MODEL_FILE)
    torch.save({"settings": {"corpus": "toy"}}, tmp_path / "run" / RUN_FILE)
    asked = []

    def load_text(name, folder, **options):
        asked.append((name, folder, options))
        return ParallelText([], [], [(p.source, p.target) for p in CORPUS.test])

    monkeypatch.setattr(command_line, "load_text", load_text)
    return tmp_path / "run", asked


def command(run, *more):
    output = run.parent / "served"
    return main(["export", "--model", str(run), "--output", str(output), *more])


def test_without_the_engine_the_command_says_how_to_get_it(saved, monkeypatch, capsys):
    run, asked = saved
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert command(run) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: this needs CTranslate2") and error.count("\n") == 1
    assert "python -m pip install ctranslate2" in error
    assert asked == [] and not (run.parent / "served").exists()


def test_the_command_compares_on_what_the_model_learnt_from(ctranslate2, saved, capsys):
    run, asked = saved
    assert command(run) == 0
    assert "60 test sentences: CTranslate2 writes the same" in capsys.readouterr().out
    assert asked.pop()[0] == "toy"
    assert (run.parent / "served" / "model.bin").exists()
    torch.save({"settings": {"corpus": "multi30k fr-en"}}, run / RUN_FILE)
    assert command(run) == 0
    name, _, options = asked.pop()
    assert (name, options["source"], options["target"]) == ("multi30k", "fr", "en")


def test_another_translation_is_refused_and_nothing_is_written(
    ctranslate2, saved, monkeypatch, capsys
):
    run, _ = saved

    def spoilt(ours):  # as if the conversion changed a weight a little
        with torch.no_grad():
            bias = ours.model.decoder.layers[1].feed_forward.contract.bias
            kept, bias[:] = bias.clone(), bias + torch.randn(len(bias))
            spec = specification(ours)
            bias[:] = kept
        return spec

    monkeypatch.setattr(export, "specification", spoilt)
    assert command(run) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: CTranslate2 writes ") and error.count("\n") == 1
    first = error.partition("the first is “")[2].partition("”")[0]
    (expected,) = Translator.load(run / MODEL_FILE).translate([first])
    assert f"the course writes “{expected}”" in error
    assert not (run.parent / "served").exists()

"""Saving, loading, and the command line from training to translation."""

import io
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

from helpers.decoding import beam_search
from helpers.multi30k import ParallelText
from helpers.scale.checkpoints import CheckpointError, write_atomically
from helpers.text import UnknownWordError, Vocabulary
from helpers.transformer import Transformer, TransformerConfig
from helpers.translator import (
    MODEL_FILE,
    Translator,
    load_text,
    trained_toy,
)
from helpers.translator.command_line import RUN_FILE, main
from samples import SIZES

ENGLISH = ["a dog runs.", "the cat sees a dog.", "the cat runs."]
FRENCH = ["un chien court.", "le chat voit un chien.", "est-ce que le chat court ?"]


@pytest.fixture
def translator():
    texts = Vocabulary.from_texts(ENGLISH), Vocabulary.from_texts(FRENCH)
    config = TransformerConfig(*map(len, texts), share_embeddings=False, **SIZES)
    return Translator(Transformer(config), *texts)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny Multi30k: German sentences of a word order like the English."""
    path = tmp_path_factory.mktemp("multi30k")
    nouns = {"Hund": "dog", "Mann": "man", "Vogel": "bird", "Tisch": "table"}
    verbs = {"läuft": "runs", "schläft": "sleeps", "steht": "stands"}
    pairs = [
        (f"Ein {german} {verb}.", f"A {noun} {english}.")
        for german, noun in nouns.items()
        for verb, english in verbs.items()
    ]
    for name, repeats in {"train": 50, "val": 1, "test_2016_flickr": 1}.items():
        for i, language in enumerate(("de", "en")):
            lines = [pair[i] for pair in pairs] * repeats
            half = "\n".join(lines) + "\n"
            (path / f"{name}.{language}").write_text(half, "utf-8")
    return path


# --- One file for model and vocabularies ----------------------------------------------


def test_a_saved_translator_translates_alike(translator, tmp_path):
    path = tmp_path / "new folder" / MODEL_FILE
    translator.save(path)
    again = Translator.load(path)
    assert again.translate(ENGLISH) == translator.translate(ENGLISH)
    assert again.model.config == translator.model.config
    assert [p.name for p in path.parent.iterdir()] == [MODEL_FILE]


def test_tied_weights_are_tied_again(tmp_path):
    words = Vocabulary.from_texts(ENGLISH + FRENCH)
    config = TransformerConfig(len(words), len(words), **SIZES)
    Translator(Transformer(config), words, words).save(tmp_path / MODEL_FILE)
    model = Translator.load(tmp_path / MODEL_FILE).model
    assert model.projection.weight is model.source_embedding.weight


def test_the_weights_go_into_another_class_by_name(translator, tmp_path):
    class Mine(Transformer):
        def __init__(self, config):
            super().__init__(config)
            self.register_buffer("extra", torch.zeros(3))  # a buffer of its own

    class Renamed(Mine):
        def __init__(self, config):
            super().__init__(config)
            self.output = self._modules.pop("projection")

    translator.save(tmp_path / MODEL_FILE)
    again = Translator.load(tmp_path / MODEL_FILE, model=Mine)
    assert type(again.model) is Mine
    assert again.translate(ENGLISH) == translator.translate(ENGLISH)
    with pytest.raises(CheckpointError, match=r"other parameters: .*output\.weight"):
        Translator.load(tmp_path / MODEL_FILE, model=Renamed)


def test_an_unknown_word_says_what_is_near(translator):
    with pytest.raises(UnknownWordError, match=r"“dogg” .*near it: dog"):
        translator.translate(["a dogg runs."])


def test_one_sentence_without_a_list(translator):
    with pytest.raises(TypeError, match="list of sentences"):
        translator.translate("a dog runs.")


def test_a_short_positional_table_needs_no_option(translator):
    longest = translator.model.config.max_length
    assert longest < 100
    words = "a " * (longest - 1)  # and EOS
    assert len(translator.translate([words])) == 1
    with pytest.raises(ValueError, match=r"“a a .*…” is 40 tokens long; .* 39 at"):
        translator.translate([words + "a"])
    with pytest.raises(ValueError, match="between 1 and 40: 0"):
        translator.translate([words], max_length=0)


def test_a_corpus_that_does_not_exist():
    with pytest.raises(
        ValueError, match="the corpora are toy, multi30k: not 'multi30K'"
    ):
        load_text("multi30K")


@pytest.mark.parametrize("kept", [0, 1000])
def test_a_saved_translator_cut_short(translator, tmp_path, kept):
    path = tmp_path / MODEL_FILE
    translator.save(path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(CheckpointError, match="damaged or cut short"):
        Translator.load(path)


@pytest.mark.parametrize(
    ("notes", "message"),
    [
        (None, "is no saved translator: no 'config'"),
        (
            {"config": '{"source_vocab": 5, "target_vocab": 5, "n_towers": 2}'},
            r"of another version: .*n_towers",
        ),
    ],
)
def test_some_other_safetensors_file(tmp_path, notes, message):
    save_file({"x": torch.zeros(2)}, tmp_path / MODEL_FILE, notes)
    with pytest.raises(CheckpointError, match=message):
        Translator.load(tmp_path / MODEL_FILE)


def test_weights_of_another_configuration(translator, tmp_path):
    path = tmp_path / MODEL_FILE
    translator.model.config = replace(translator.model.config, d_ff=96)
    translator.save(path)
    with pytest.raises(CheckpointError, match=r"another configuration: (.|\n)*size"):
        Translator.load(path)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("old", "utf-8")

    def fail(part):
        part.write_text("half", "utf-8")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, fail)
    assert path.read_text("utf-8") == "old" and list(tmp_path.iterdir()) == [path]


# --- The command line -----------------------------------------------------------------


def command(folder, output, *more):
    data = ("--corpus", "multi30k", "--data", str(folder))
    return ["train", *data, "--output", str(output), *map(str, more)]


@pytest.fixture(scope="module")
def finished(folder, tmp_path_factory):
    """The folder of a run of one epoch."""
    path = tmp_path_factory.mktemp("run")
    assert main(command(folder, path, "--epochs", 1)) == 0
    return path


@pytest.fixture
def run(finished, tmp_path):
    """A copy of that folder, to go on with or to spoil."""
    return shutil.copytree(finished, tmp_path / "run")


def losses(text):
    """The numbers of the epoch lines without the times."""
    return re.findall(r"(epoch \d+ · step \d+) · .* s · (training .*)", text)


@pytest.mark.slow
def test_train_score_and_translate(folder, tmp_path, capsys):
    assert main(command(folder, tmp_path, "--epochs", 12)) == 0
    output = capsys.readouterr().out
    assert re.match(r"\d+ training, .+ parameters · CPU, ", output)
    assert len(losses(output)) == 12
    final = float(losses(output)[-1][1].split()[-1])
    assert final < 0.1
    assert re.search(r"test, greedy: BLEU 100.00 · exact match 100.0 %", output)
    assert "test, beam 5: BLEU 100.00" in output
    assert "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:" in output
    for name in (tmp_path, tmp_path / MODEL_FILE):
        model = ["translate", "--model", str(name)]
        assert main([*model, "Ein Hund läuft.", "Ein Mann steht."]) == 0
        assert capsys.readouterr().out == "A dog runs.\nA man stands.\n"


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="Windows sends no SIGINT to a process")
def test_ctrl_c_leaves_a_checkpoint_that_resumes_to_the_same_numbers(
    folder, tmp_path, capsys
):
    options = ("--epochs", 3)
    assert main(command(folder, tmp_path / "straight", *options)) == 0
    expected = losses(capsys.readouterr().out)

    arguments = command(folder, tmp_path / "stopped", "--epochs", 3)
    process = subprocess.Popen(
        [sys.executable, "-m", "helpers.translator", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    first = next(line for line in process.stdout if "loss" in line)
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "the same command goes on from here" in rest
    translated = main(["translate", "--model", str(tmp_path / "stopped"), "Ein Hund."])
    assert translated == 0
    capsys.readouterr()

    assert main(arguments) == 0
    resumed = capsys.readouterr().out
    assert f"going on with {tmp_path / 'stopped' / RUN_FILE} at step" in resumed
    assert losses(first + rest + resumed) == expected


def test_another_test_set_by_name(folder, tmp_path, capsys):
    options = ("--epochs", 1, "--test", "test_2017_flickr")
    assert main(command(folder, tmp_path, *options)) == 2
    assert "holds neither test_2017_flickr.de nor" in capsys.readouterr().err


@pytest.mark.slow
def test_a_finished_run_is_only_scored_again(folder, run, capsys):
    assert main(command(folder, run, "--epochs", 1)) == 0
    output = capsys.readouterr().out
    assert not losses(output) and output.count("test, greedy") == 1


def test_a_run_with_other_settings(folder, run, capsys):
    assert main(command(folder, run, "--epochs", 1, "--seed", 1)) == 2
    error = capsys.readouterr().err
    assert "holds a run with other settings: seed is 1, was 0" in error


def test_a_run_cut_short(folder, run, capsys):
    saved = run / RUN_FILE
    saved.write_bytes(saved.read_bytes()[:-2000])
    assert main(command(folder, run, "--epochs", 1)) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and "run.pt is damaged or cut short" in error


def test_errors_are_one_line(tmp_path, capsys):
    assert main(command(tmp_path / "nowhere", tmp_path, "--epochs", 1)) == 2
    assert main(["translate", "--model", str(tmp_path), "Ein Hund."]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"error: the data folder .*nowhere does not exist", first)
    assert re.fullmatch(r"error: there is no saved translator at .*", second)


def test_a_budget_that_makes_no_sense(folder, tmp_path, capsys):
    assert main(command(folder, tmp_path, "--minutes", "nan")) == 2
    said = capsys.readouterr()
    assert said.err == "error: minutes must be positive and finite: nan\n"
    assert said.out == ""


def test_a_beam_of_nothing_is_refused_before_the_training(folder, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(command(folder, tmp_path, "--epochs", 1, "--beam", 0))
    assert "argument --beam: must be at least 1: 0" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_noticed_first(folder, tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(command(folder, tmp_path / "file" / "run", "--epochs", 1)) == 2
    said = capsys.readouterr()
    assert re.fullmatch(r"error: cannot write into .*run: .+\n", said.err)
    assert said.out == ""


def test_letters_that_the_training_text_lacks_are_said_to_be_strange(finished, capsys):
    sentences = ["Ein Hund läuft.", "Собака бежит.", "Ein 狗!", "Hund 2, Café."]
    assert main(["translate", "--model", str(finished), *sentences]) == 0
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 4
    strange = re.findall(r"^warning: “(.*)” is in letters that", said.err, re.MULTILINE)
    assert strange == ["Собака", "狗"]


def test_translate_reads_lines_of_input(finished, capsys, monkeypatch):
    lines = io.BytesIO("Ein Hund läuft.\nEin Mann.\n".encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(lines, "ascii"))
    assert main(["translate", "--model", str(finished)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_translate_searches_with_as_many_beams_as_are_asked_for(finished, monkeypatch):
    sizes = []

    def search(*inputs, beam_size, **options):
        sizes.append(beam_size)
        return beam_search(*inputs, beam_size=beam_size, **options)

    monkeypatch.setattr("helpers.translator.command_line.beam_search", search)
    given = ["translate", "--model", str(finished), "Ein Hund."]
    assert main([*given, "--beam", "3"]) == 0 and sizes == [3]


# --- The toy translator --------------------------------------------------------------


def test_a_toy_translator_that_is_not_stored_is_trained(monkeypatch, toy_text):
    few = ParallelText(toy_text.train[:300], toy_text.train[:1], toy_text.test)
    monkeypatch.setattr("helpers.translator.recipes.load_text", lambda name: few)
    torch.manual_seed(5)
    first = trained_toy(epochs=1, seed=1)
    again, other = trained_toy(epochs=1, seed=1), trained_toy(epochs=1, seed=2)
    weights = [model.model.projection.weight for model in (first, again, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_a_setting_that_the_recipe_lacks_is_named():
    with pytest.raises(TypeError, match="epoch"):
        trained_toy(epoch=2)
    with pytest.raises(ValueError, match="label_smoothing must lie in"):
        trained_toy(label_smoothing=2)

"""The command line that trains a translator, uses one, and exports it."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch
from torch import distributed as dist

from helpers.decoding import beam_search, greedy_decode
from helpers.evaluation import bleu, bleu_signature, exact_match
from helpers.multi30k import ParallelText, TextPair
from helpers.runtime import best_device, device_name
from helpers.scale.checkpoints import CheckpointError, resume_run
from helpers.scale.precision import Precision, best_precision
from helpers.scale.processes import OneProcess, Processes, process_group
from helpers.scale.runs import saved_epochs
from helpers.training import EpochReport, Trainer
from helpers.translator.export import engine
from helpers.translator.export import export as write_served
from helpers.translator.model import MODEL_FILE, Translator
from helpers.translator.recipes import (
    CORPORA,
    RECIPES,
    Recipe,
    build,
    load_text,
    with_seed,
)

RUN_FILE = "run.pt"
LENGTH_PENALTY = 1.5  # what Multi30k's validation split prefers; the paper has 0.6


def train(arguments: argparse.Namespace) -> None:
    """Train, or go on training, into a folder; then score the test split."""
    check_writable(Path(arguments.output))
    # torchrun starts every process with the same command; alone there is one.
    together = dist.is_torchelastic_launched()
    with process_group() if together else nullcontext(best_device()) as device:
        train_on(device, Processes(device) if together else OneProcess(), arguments)


def train_on(
    device: torch.device,
    processes: OneProcess | Processes,
    arguments: argparse.Namespace,
) -> None:
    """Train on this process's device, as one of these processes."""
    say = partial(print, flush=True) if processes.rank == 0 else lambda line: None
    recipe = chosen_recipe(arguments, device)
    text = load_text(
        arguments.corpus,
        arguments.data,
        source=arguments.source,
        target=arguments.target,
        test=arguments.test,
    )
    translator = build(recipe, text)
    translator.model.to(device)
    trainer = Trainer(
        translator.model,
        translator.encode_pairs(text.train),
        translator.encode_pairs(text.validation),
        recipe.training,
        precision=Precision(best_precision(device), device),
        processes=processes,
    )
    direction = f" {arguments.source}-{arguments.target}"
    settings = {
        "corpus": arguments.corpus + direction * (arguments.corpus == "multi30k"),
        "precision": trainer.precision.name,
        "processes": processes.count,
        **asdict(translator.model.config),
        **asdict(recipe.training),
    }
    say(description(translator, text, device))
    run = Path(arguments.output) / RUN_FILE
    if run.exists():
        resume_run(run, trainer, settings)
        say(f"going on with {run} at step {trainer.step}")
    for report in saved_epochs(trainer, run, settings):
        say(format_report(report))
    if processes.rank:
        return
    translator.model.load_state_dict(trainer.averaged_weights())
    translator.save(Path(arguments.output) / MODEL_FILE)
    if trainer.finished:
        score(translator, text.test, arguments.beam)
        say(f"saved in {arguments.output}")
    else:
        say(
            f"stopped after step {trainer.step}, saved in {arguments.output}; "
            "the same command goes on from here"
        )


def check_writable(folder: Path) -> None:
    """Make the folder; ValueError now, and not after an epoch, if that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(f"cannot write into {folder}: {error.strerror}") from None


def chosen_recipe(arguments: argparse.Namespace, device: torch.device) -> Recipe:
    """The corpus's recipe for this device, with the seed and the budget asked for."""
    budget = {}
    if arguments.minutes is not None or arguments.epochs is not None:
        budget = {"minutes": arguments.minutes, "epochs": arguments.epochs}
    name = arguments.corpus
    if device.type == "cuda" and f"{name}-gpu" in RECIPES:
        name = f"{name}-gpu"
    return with_seed(RECIPES[name], arguments.seed, **budget)


def description(
    translator: Translator, text: ParallelText, device: torch.device
) -> str:
    """The line before training: pairs, vocabularies, parameters and device."""
    parameters = sum(p.numel() for p in translator.model.parameters())
    config = translator.model.config
    return (
        f"{len(text.train)} training, {len(text.validation)} validation, "
        f"{len(text.test)} test pairs · vocabulary {config.source_vocab} and "
        f"{config.target_vocab} · {parameters:,} parameters · {device_name(device)}"
    )


def format_report(report: EpochReport) -> str:
    """An epoch as one line; losses are in nats per token."""
    return (
        f"epoch {report.epoch} · step {report.step} · {report.seconds:.0f} s · "
        f"training loss {report.train_loss:.3f} · "
        f"validation loss {report.validation_loss:.3f}"
    )


def score(translator: Translator, pairs: Sequence[TextPair], size: int) -> None:
    """Print exact match and BLEU of greedy and beam search on sentence pairs."""
    sources, references = zip(*pairs, strict=True)
    beam = partial(beam_search, beam_size=size, length_penalty=LENGTH_PENALTY)
    for name, decode in (("greedy", greedy_decode), (f"beam {size}", beam)):
        hypotheses = translator.translate(sources, decode=decode)
        print(
            f"test, {name}: BLEU {bleu(hypotheses, references):.2f} · "
            f"exact match {100 * exact_match(hypotheses, references):.1f} %",
            flush=True,
        )
    print(f"BLEU is sacreBLEU's, {bleu_signature()}")


def translate(arguments: argparse.Namespace) -> None:
    """Print the translation of each sentence given, or of each line of input."""
    path = Path(arguments.model)
    path = path / MODEL_FILE if path.is_dir() else path
    translator = Translator.load(path, device=best_device())
    decode = partial(
        beam_search, beam_size=arguments.beam, length_penalty=LENGTH_PENALTY
    )
    if not arguments.sentences:  # a file is UTF-8, whatever Windows takes it for
        sys.stdin.reconfigure(encoding="utf-8")
    for sentence in arguments.sentences or map(str.strip, sys.stdin):
        translation = translator.translate([sentence], decode=decode)
        if strange := translator.source_text.unknown_words(sentence):
            print(
                f"warning: “{strange[0]:.40}” is in letters that the training text "
                "lacks; its translation is a guess",
                file=sys.stderr,
            )
        print(*translation, flush=True)


def export(arguments: argparse.Namespace) -> None:
    """Write a model for CTranslate2, if both translate the test set alike."""
    engine()  # what is missing is said before any work
    path = Path(arguments.model)
    folder, path = (path, path / MODEL_FILE) if path.is_dir() else (path.parent, path)
    translator = Translator.load(path)
    corpus = arguments.corpus or corpus_of(folder / RUN_FILE)
    name, _, direction = corpus.partition(" ")
    source, _, target = direction.partition("-")
    text = load_text(
        name,
        arguments.data,
        source=source or arguments.source,
        target=target or arguments.target,
        test=arguments.test,
    )
    sentences = [sentence for sentence, _ in text.test]
    write_served(translator, arguments.output, sentences)
    print(
        f"{len(sentences)} test sentences: CTranslate2 writes the same tokens, "
        f"greedily; saved in {arguments.output}"
    )


def corpus_of(run: Path) -> str:
    """What a saved run learnt from, "multi30k de-en" for example.

    ValueError if there is no such run, CheckpointError if it cannot be read.
    """
    if not run.exists():
        raise ValueError(
            f"there is no {run}, which would say what the model learnt from: give "
            f"--corpus {' or --corpus '.join(CORPORA)}"
        )
    try:
        saved = torch.load(run, weights_only=True, map_location="cpu")
        return saved["settings"]["corpus"]
    except Exception as error:  # a damaged pickle may raise almost anything
        raise CheckpointError(f"{run} is damaged or cut short: {error}") from error


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options, and in `run` the function that takes them.

    SystemExit for a command line that does not fit, and after --help.
    """
    parser = argparse.ArgumentParser(
        prog="python -m helpers.translator",
        description="Train a Transformer to translate, translate with it, export it.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    learn = commands.add_parser("train", help=train.__doc__)
    learn.set_defaults(run=train)
    learn.add_argument("--corpus", choices=CORPORA, default="toy")
    add_data_options(learn)
    budget = learn.add_mutually_exclusive_group()
    budget.add_argument("--minutes", type=float, help="train for so long")
    budget.add_argument("--epochs", type=int, help="train for so many epochs")
    learn.add_argument("--seed", type=int, default=0)
    learn.add_argument("--output", required=True, help="folder for model and run")
    use = commands.add_parser("translate", help=translate.__doc__)
    use.set_defaults(run=translate)
    use.add_argument("--model", required=True, help="folder that train wrote")
    use.add_argument("sentences", nargs="*", help="without any, lines of input")
    serve = commands.add_parser("export", help=export.__doc__)
    serve.set_defaults(run=export)
    serve.add_argument("--model", required=True, help="folder that train wrote")
    serve.add_argument(
        "--corpus", choices=CORPORA, help="to compare on; by default what it learnt"
    )
    add_data_options(serve)
    serve.add_argument("--output", required=True, help="folder for CTranslate2")
    for command in (learn, use):
        command.add_argument("--beam", type=beam_size, default=5, help="beam size")
    return parser.parse_args(arguments)


def add_data_options(command: argparse.ArgumentParser) -> None:
    """Which files of Multi30k are read, and from where."""
    command.add_argument(
        "--data", help="Multi30k's folder (or COURSE_DATA; without, it is downloaded)"
    )
    command.add_argument("--source", default="de", help="Multi30k: source language")
    command.add_argument("--target", default="en", help="Multi30k: target language")
    command.add_argument(
        "--test", default="test_2016_flickr", help="Multi30k: test set"
    )


def beam_size(text: str) -> int:
    """A whole number from 1 on; ArgumentTypeError or ValueError for anything else."""
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1: {text}")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; errors in what the user gave are one line, exit status 2."""
    chosen = parse(arguments)
    try:
        chosen.run(chosen)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0

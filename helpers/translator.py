"""A model with its vocabularies, and the command line that trains and uses one.

    python -m helpers.translator train --corpus toy --output runs/toy
    python -m helpers.translator train --corpus multi30k --source de --target en \\
        --minutes 10 --output runs/de-en
    python -m helpers.translator translate --model runs/de-en "Ein Hund läuft."
    torchrun --nproc-per-node 2 -m helpers.translator train --output runs/toy
"""

import argparse
import hashlib
import json
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import safetensors
import torch
from safetensors.torch import load_model, save_model
from torch import Tensor
from torch import distributed as dist

from helpers.batching import IdPair
from helpers.checkpoints import (
    CheckpointError,
    resume_run,
    save_run,
    write_atomically,
)
from helpers.corpus import toy_corpus
from helpers.decoding import beam_search, greedy_decode
from helpers.evaluation import bleu, bleu_signature, exact_match, translate_ids
from helpers.multi30k import ParallelText, TextPair, load_multi30k
from helpers.runtime import best_device, device_name
from helpers.scale.precision import PRECISIONS, Precision, best_precision
from helpers.scale.processes import OneProcess, Processes, process_group
from helpers.text import SubwordTokenizer, Vocabulary
from helpers.training import EpochReport, Trainer, TrainingConfig
from helpers.transformer import Transformer, TransformerConfig

Text = Vocabulary | SubwordTokenizer
CACHE = Path(__file__).parents[1] / ".cache"
MODEL_FILE, RUN_FILE = "translator.safetensors", "run.pt"
CORPORA = ("toy", "multi30k")
SILENCE = 10  # seconds after which a log file gets a line
TEXT_KINDS = {kind.__name__: kind for kind in (Vocabulary, SubwordTokenizer)}


@dataclass
class Translator:
    """A Transformer and what turns text into its ids and back."""

    model: Transformer
    source_text: Text
    target_text: Text

    def translate(
        self,
        sentences: Sequence[str],
        *,
        decode: Callable[..., Tensor] = greedy_decode,
        max_length: int | None = None,
    ) -> list[str]:
        """Translate sentences; max_length as in `translate_ids`.

        UnknownWordError if a Vocabulary lacks a word; ValueError for a sentence that
        is longer than the positional table.
        """
        if isinstance(sentences, str):
            raise TypeError("translate takes a list of sentences; put this one in [ ]")
        sources = [self.source_text.encode(sentence) for sentence in sentences]
        longest = self.model.config.max_length - 1  # EOS is read as well
        for sentence, ids in zip(sentences, sources, strict=True):
            if len(ids) > longest:
                raise ValueError(
                    f"“{sentence:.40}…” is {len(ids)} tokens long; the model reads "
                    f"{longest} at most"
                )
        outputs = translate_ids(
            self.model, sources, decode=decode, max_length=max_length
        )
        return [self.target_text.decode(ids) for ids in outputs]

    def encode_pairs(self, pairs: Sequence[TextPair]) -> list[IdPair]:
        """Text pairs -> pairs of ids, for batching."""
        encode_source, encode_target = self.source_text.encode, self.target_text.encode
        return [
            (encode_source(source), encode_target(target)) for source, target in pairs
        ]

    def save(self, path: str | Path) -> None:
        """Write weights, configuration and vocabularies into one safetensors file."""
        metadata = {"config": json.dumps(asdict(self.model.config))}
        for side, text in (("source", self.source_text), ("target", self.target_text)):
            metadata[f"{side}_kind"] = type(text).__name__
            metadata[f"{side}_text"] = text.to_json()
        write_atomically(
            path, lambda part: save_model(self.model, str(part), metadata=metadata)
        )

    @classmethod
    def load(cls, path: str | Path, *, device: str | torch.device = "cpu"):
        """Read what `save` wrote; CheckpointError if the file is missing or damaged."""
        if not Path(path).exists():
            raise CheckpointError(f"there is no saved translator at {path}")
        try:
            with safetensors.safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
            model = Transformer(TransformerConfig(**json.loads(metadata["config"])))
            load_model(model, str(path), device="cpu")
        except KeyError as error:
            raise CheckpointError(
                f"{path} is no saved translator: no {error}"
            ) from None
        except TypeError as error:  # a configuration with other fields
            raise CheckpointError(f"{path} is of another version: {error}") from None
        except (safetensors.SafetensorError, RuntimeError) as error:
            raise CheckpointError(
                f"{path} is damaged or cut short, or of another configuration: {error}"
            ) from error
        texts = [
            TEXT_KINDS[metadata[f"{side}_kind"]].from_json(metadata[f"{side}_text"])
            for side in ("source", "target")
        ]
        return cls(model.to(device), *texts)


@dataclass(frozen=True)
class Recipe:
    """What to train on a corpus: found by experiment on two CPU cores, but for one."""

    model: dict
    training: TrainingConfig
    subwords: int | None = None  # None: whole words, a vocabulary for each side


RECIPES = {
    "toy": Recipe(
        model={
            "d_model": 64,
            "n_heads": 4,
            "d_ff": 128,
            "n_layers": 2,
            "dropout": 0.0,
            "max_length": 128,
        },
        training=TrainingConfig(epochs=7, peak_rate=4e-3),
    ),
    "multi30k": Recipe(
        model={
            "d_model": 128,
            "n_heads": 4,
            "d_ff": 256,
            "n_layers": 3,
            "dropout": 0.05,
        },
        training=TrainingConfig(
            minutes=10,
            tokens_per_batch=640,
            pool=400,
            peak_rate=3e-3,
            warmup=0.05,
            average_from=0.9,
        ),
        subwords=4_000,
    ),
    # On a GPU, for many epochs: sizes and dropout after the smallest model of Wu et
    # al. 2021, "Good for misconceived reasons". Not yet run on one by the course.
    "multi30k-gpu": Recipe(
        model={
            "d_model": 128,
            "n_heads": 4,
            "d_ff": 256,
            "n_layers": 4,
            "dropout": 0.3,
        },
        training=TrainingConfig(
            epochs=80, tokens_per_batch=4096, peak_rate=4e-3, average_from=0.9
        ),
        subwords=10_000,
    ),
}


def with_seed(recipe: Recipe, seed: int, **budget) -> Recipe:
    """The recipe with another seed, and with another budget if one is given."""
    return replace(recipe, training=replace(recipe.training, seed=seed, **budget))


def load_text(name: str, folder: str | None = None, **options: str) -> ParallelText:
    """The sentence pairs of a corpus by its name; the rest is for `load_multi30k`.

    ValueError for a name that is not one of CORPORA.
    """
    if name not in CORPORA:
        raise ValueError(f"the corpora are {', '.join(CORPORA)}: not {name!r}")
    if name == "multi30k":
        return load_multi30k(folder, **options)
    corpus = toy_corpus()
    splits = (corpus.train, corpus.validation, corpus.test)
    return ParallelText(*([(p.source, p.target) for p in split] for split in splits))


def learn_texts(recipe: Recipe, text: ParallelText) -> tuple[Text, Text]:
    """The two sides' vocabularies, learnt from the training split."""
    sources, targets = zip(*text.train, strict=True)
    if recipe.subwords:
        both = (*sources, *targets)
        joint = SubwordTokenizer.train(both, vocab_size=recipe.subwords)
        return joint, joint
    french = Vocabulary.from_texts(targets, space_before="?")
    return Vocabulary.from_texts(sources), french


def build(recipe: Recipe, text: ParallelText) -> Translator:
    """An untrained translator for a corpus, the same for the same seed."""
    torch.manual_seed(recipe.training.seed)
    source_text, target_text = learn_texts(recipe, text)
    config = TransformerConfig(
        source_vocab=len(source_text),
        target_vocab=len(target_text),
        norm_first=True,
        share_embeddings=source_text is target_text,
        **recipe.model,
    )
    return Translator(Transformer(config), source_text, target_text)


def trained_toy(cache: Path = CACHE) -> Translator:
    """The toy translator of lesson 10, loaded from `cache`, or trained and kept there.

    Training takes about a minute on two cores. The file's name holds a hash of the
    recipe and of the code, the corpus's grammar included, so that a changed one is
    never mistaken for it.
    """
    recipe = RECIPES["toy"]
    path = Path(cache) / f"toy-{fingerprint(recipe)}.safetensors"
    if path.exists():
        return Translator.load(path)
    text = load_text("toy")
    translator = build(recipe, text)
    pairs = translator.encode_pairs(text.train)
    checked = translator.encode_pairs(text.validation)
    Trainer(translator.model, pairs, checked, recipe.training).fit()
    translator.save(path)
    return translator


def fingerprint(recipe: Recipe) -> str:
    """Twelve hex digits that change with the recipe, torch and the code that trains."""
    folder = Path(__file__).parent
    paths = sorted([*folder.glob("*.py"), *folder.glob("scale/*.py")])
    code = [path.read_bytes() for path in paths]
    parts = [repr(recipe).encode(), torch.__version__.encode(), *code]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]


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
    say = partial(print, flush=True) if processes.rank == 0 else silent
    recipe = chosen_recipe(arguments, device)
    with saying_every(SILENCE, lambda: "preparing the data", say):
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
            precision=Precision(arguments.precision or best_precision(device), device),
            processes=processes,
            compiled=arguments.compile,
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
    where = partial(format_position, trainer)
    with stopping_at_interrupt(trainer), saying_every(SILENCE, where, say):
        for report in trainer.epochs():
            say(format_report(report))
            save_run(run, trainer, settings)
    save_run(run, trainer, settings)
    if processes.rank:
        return
    translator.model.load_state_dict(trainer.averaged_weights())
    translator.save(Path(arguments.output) / MODEL_FILE)
    if trainer.finished:
        with saying_every(SILENCE, lambda: "translating the test set", say):
            score(translator, text.test, chosen_beam(arguments))
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


@contextmanager
def saying_every(
    seconds: float, what: Callable[[], str], say: Callable[[str], None]
) -> Iterator[None]:
    """Say what() again and again during a block, for the reader of a log file.

    On a terminal a progress bar does that, so nothing is said there.
    """
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(seconds):
            say(what())

    thread = threading.Thread(target=repeat, daemon=True)
    if not sys.stderr.isatty():  # where tqdm draws its bar
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if thread.is_alive():
            thread.join()


def silent(*_: object) -> None:
    """What a process says that is not the first."""


@contextmanager
def stopping_at_interrupt(trainer: Trainer) -> Iterator[None]:
    """Let Ctrl-C end the run between two steps; a second Ctrl-C ends it at once."""

    def stop(number: int, frame: object) -> None:
        trainer.stop_requested = True
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def description(
    translator: Translator, text: ParallelText, device: torch.device
) -> str:
    parameters = sum(p.numel() for p in translator.model.parameters())
    config = translator.model.config
    return (
        f"{len(text.train)} training, {len(text.validation)} validation, "
        f"{len(text.test)} test pairs · vocabulary {config.source_vocab} and "
        f"{config.target_vocab} · {parameters:,} parameters · {device_name(device)}"
    )


def format_position(trainer: Trainer) -> str:
    """Where a run stands between two reports."""
    return f"epoch {trainer.epoch + 1} · step {trainer.step} · {trainer.seconds:.0f} s"


def format_report(report: EpochReport) -> str:
    return (
        f"epoch {report.epoch} · step {report.step} · {report.seconds:.0f} s · "
        f"training loss {report.train_loss:.3f} · "
        f"validation loss {report.validation_loss:.3f}"
    )


def chosen_beam(arguments: argparse.Namespace) -> Callable[..., Tensor]:
    """Beam search with the options of the command line."""
    return partial(
        beam_search,
        beam_size=arguments.beam,
        length_penalty=arguments.length_penalty,
    )


def score(
    translator: Translator, pairs: Sequence[TextPair], beam: Callable[..., Tensor]
) -> None:
    """Print exact match and BLEU of greedy and beam search on sentence pairs."""
    sources, references = zip(*pairs, strict=True)
    size = beam.keywords["beam_size"]
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
    decode = chosen_beam(arguments)
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


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m helpers.translator",
        description="Train a Transformer to translate, and translate with it.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    learn = commands.add_parser("train", help=train.__doc__)
    learn.set_defaults(run=train)
    learn.add_argument("--corpus", choices=CORPORA, default="toy")
    learn.add_argument(
        "--data", help="Multi30k's folder (or COURSE_DATA; without, it is downloaded)"
    )
    learn.add_argument("--source", default="de", help="Multi30k: source language")
    learn.add_argument("--target", default="en", help="Multi30k: target language")
    learn.add_argument("--test", default="test_2016_flickr", help="Multi30k: test set")
    budget = learn.add_mutually_exclusive_group()
    budget.add_argument("--minutes", type=float, help="train for so long")
    budget.add_argument("--epochs", type=int, help="train for so many epochs")
    learn.add_argument("--seed", type=int, default=0)
    learn.add_argument(
        "--precision", choices=PRECISIONS, help="by default what suits the device"
    )
    learn.add_argument("--compile", action="store_true", help="compile the steps")
    learn.add_argument("--output", required=True, help="folder for model and run")
    use = commands.add_parser("translate", help=translate.__doc__)
    use.set_defaults(run=translate)
    use.add_argument("--model", required=True, help="folder that train wrote")
    use.add_argument("sentences", nargs="*", help="without any, lines of input")
    for command in (learn, use):
        command.add_argument("--beam", type=beam_size, default=5, help="beam size")
        # The value that Multi30k's validation split prefers; the paper has 0.6.
        command.add_argument(
            "--length-penalty", type=float, default=1.5, help="of beam search"
        )
    return parser.parse_args(arguments)


def beam_size(text: str) -> int:
    """A whole number from 1 on."""
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


if __name__ == "__main__":
    sys.exit(main())

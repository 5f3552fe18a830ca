"""What the live translator reads: python -m tools.live_translator [FOLDER].

The page in book/translator/ is made of files that are kept. What it computes with is
written into a folder `data` beside them, and can be written again at any time: the
weights and vocabularies in the model's own file, the sentences of two splits with their
alignments, both once more in a script for a page that is opened as a file, and a still
picture, which README shows, too. The toy translator is the stored one.
"""

import argparse
import base64
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from helpers.corpus import SentencePair, ToyCorpus, toy_corpus
from helpers.corpus.phenomena import PHENOMENA, phenomena
from helpers.translator import MODEL_FILE, trained_toy
from tools.reproducible import ROOT

PAGE = ROOT / "book" / "translator"
SPLITS = ("test", "compositional")
STILL = ROOT / "notebooks" / "cross_attention.png"  # without JavaScript
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def write_data(folder: Path, corpus: ToyCorpus) -> None:
    """Write all that the page reads into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    trained_toy().save(folder / MODEL_FILE)
    sentences = compact(corpus)
    text = json.dumps(sentences, ensure_ascii=False, separators=(",", ":"))
    (folder / "sentences.json").write_text(text, "utf-8")
    weights = base64.b64encode((folder / MODEL_FILE).read_bytes()).decode("ascii")
    script = f'LIVE_TRANSLATOR = {{"weights":"{weights}","sentences":{text}}};\n'
    (folder / "offline.js").write_text(script, "utf-8")
    shutil.copy(STILL, folder)


def compact(corpus: ToyCorpus) -> dict:
    """The sentences of SPLITS, each [English, French, links, phenomena, split].

    Links are digits of base 36 in pairs, English place and French place. A phenomenon
    is a bit of a number, a split is its place in the list of splits.
    """
    rows = [
        [pair.source, pair.target, links_of(pair), bits_of(pair), number]
        for number, split in enumerate(SPLITS)
        for pair in getattr(corpus, split)
    ]
    return {"phenomena": PHENOMENA, "splits": SPLITS, "sentences": rows}


def links_of(pair: SentencePair) -> str:
    """The alignment as digits; ValueError for a sentence of more than 36 words."""
    places = [place for link in pair.alignment for place in link]
    if places and max(places) >= len(DIGITS):
        raise ValueError(f"“{pair.source:.40}…” has more than {len(DIGITS)} words")
    return "".join(DIGITS[place] for place in places)


def bits_of(pair: SentencePair) -> int:
    """The pair's phenomena as a number: bit i stands for PHENOMENA[i]."""
    shown = phenomena(pair)
    return sum(1 << i for i, name in enumerate(PHENOMENA) if name in shown)


def main(given: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.live_translator", description=__doc__.splitlines()[0]
    )
    parser.add_argument("folder", nargs="?", type=Path, default=PAGE / "data")
    folder = parser.parse_args(given).folder
    write_data(folder, toy_corpus())
    for path in sorted(folder.iterdir()):
        print(f"{path}: {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()

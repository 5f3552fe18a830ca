"""Multi30k: 29,000 image captions in several languages (Elliott et al. 2016).

The data are not the course's and do not come with it: give a folder that holds the raw
files of task 1 (`train.de`, `val.de`, `test_2016_flickr.de`, the same for `.en`; each
as it is or with `.gz`), by argument or in the environment variable COURSE_DATA.
"""

import gzip
import hashlib
import os
import zlib
from dataclasses import dataclass
from pathlib import Path

TextPair = tuple[str, str]


class DataError(ValueError):
    """A data file that is missing, damaged, or does not fit its other half."""


@dataclass(frozen=True)
class ParallelText:
    """Sentence pairs (source, target) of the three splits."""

    train: list[TextPair]
    validation: list[TextPair]
    test: list[TextPair]


def load_multi30k(
    folder: str | Path | None = None, *, source: str = "de", target: str = "en"
) -> ParallelText:
    """Read Multi30k's train, val and test_2016_flickr in the given direction.

    DataError if the folder or a file is missing, a file is cut short or differs from
    the folder's SHA256SUMS (where there is one), or two halves differ in length.
    """
    folder = find_folder(folder)
    names = ("train", "val", "test_2016_flickr")
    return ParallelText(*(read_pairs(folder, name, source, target) for name in names))


def find_folder(folder: str | Path | None) -> Path:
    """The folder given, or COURSE_DATA, or its subfolder `multi30k`."""
    given = folder or os.environ.get("COURSE_DATA")
    if not given:
        raise DataError(
            "where is Multi30k? Give its folder with --data, or set COURSE_DATA"
        )
    path = Path(given).expanduser()
    if not path.is_dir():
        raise DataError(f"the data folder {path} does not exist")
    return path / "multi30k" if (path / "multi30k").is_dir() else path


def read_pairs(folder: Path, name: str, source: str, target: str) -> list[TextPair]:
    sources, targets = (
        read_lines(folder, f"{name}.{language}") for language in (source, target)
    )
    if len(sources) != len(targets):
        raise DataError(
            f"{name}.{source} has {len(sources)} lines, {name}.{target} has "
            f"{len(targets)}: the two halves must match line by line"
        )
    return list(zip(sources, targets, strict=True))


def read_lines(folder: Path, name: str) -> list[str]:
    """The lines of folder/name or folder/name.gz."""
    path = next((p for p in (folder / name, folder / f"{name}.gz") if p.exists()), None)
    if path is None:
        raise DataError(f"{folder} holds neither {name} nor {name}.gz")
    content = path.read_bytes()
    check_sum(path, content)
    try:
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    except (EOFError, OSError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(f"{path} is damaged or cut short: {error}") from error
    if not text.strip():
        raise DataError(f"{path} is empty")
    # Not splitlines(): it also cuts at characters that may stand inside a sentence.
    return [line.strip() for line in text.removesuffix("\n").split("\n")]


def check_sum(path: Path, content: bytes) -> None:
    """DataError if the folder's SHA256SUMS names another sum for this file."""
    sums = path.parent / "SHA256SUMS"
    if not sums.exists():
        return
    entries = (line.split() for line in sums.read_text(encoding="utf-8").splitlines())
    expected = {entry[1].lstrip("*"): entry[0] for entry in entries if len(entry) == 2}
    found = hashlib.sha256(content).hexdigest()
    if expected.get(path.name, found) != found:
        raise DataError(
            f"{path} is not the file that SHA256SUMS names: its checksum is "
            f"{found[:12]}…, expected {expected[path.name][:12]}…"
        )

"""Multi30k: 29,000 image captions, each in four languages (Elliott et al. 2016, 2017).

The captions are not the course's and do not come with it. `load_multi30k` downloads the
files it needs, once, from https://github.com/multi30k/dataset (raw files of task 1).
Or give a folder that holds them (`train.de`, `val.de`, …, each as it is or with `.gz`),
by argument or in COURSE_DATA: then nothing is downloaded, and nothing written there.

Two more environment variables: COURSE_CACHE, the folder where downloads are kept
(otherwise `transformer-course` in $XDG_CACHE_HOME or in ~/.cache), and
COURSE_MULTI30K_URL, the address of another copy of the raw files.
"""

import gzip
import hashlib
import os
import re
import time
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import requests
import urllib3
from filelock import FileLock
from tqdm.auto import tqdm

# A commit, not a branch: what stands there never changes.
COMMIT = "a3d2e0d26b56f3846f66a952536ffed4e401d05a"
ADDRESS = f"https://raw.githubusercontent.com/multi30k/dataset/{COMMIT}/data/task1/raw"

# Every file there is, `split.language.gz`, and what it must be: its SHA-256, or the MD5
# under which torchtext and sacrebleu publish it. MD5 finds any damage; it would not
# stop somebody who made both the file and its sum.
CHECKSUMS = {
    "train": {
        "de": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
        "en": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
        "fr": "6cb767741dcad3931f966fefbc05203f",
        "cs": "d9a5fc268917725a2b0efce3a0cc8607",
    },
    "val": {
        "de": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
        "en": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
        "fr": "93fc564584b7e5ba410c761ea5a1c682",
        "cs": "83cdc082f646b769095615384cf5c0ca",
    },
    "test_2016_flickr": {
        "de": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
        "en": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
        "fr": "08dc7cd4a662f31718412de95ca9bfe3",
        "cs": "3104872229daa1bef3b401d44dd2220b",
    },
    "test_2017_flickr": {
        "de": "6a8d5c87f6ae19e3d35681aa6fd16571",
        "en": "005396bac545d880abe6f00bbb7dbbb4",
        "fr": "cb09af7d2b501f9112f2d6a59fa1360d",
    },
    "test_2017_mscoco": {
        "de": "e8cd6ec2bc8a11fc846fa48a46e3d0bb",
        "en": "a7b684e0edbef1d4a23660c8e8e743fd",
        "fr": "4995d10954a804d3cdfd907b9fd093e8",
    },
    "test_2018_flickr": {
        "de": "87e00327083dd69feaa029a8f7c1a047",
        "en": "a152878809942757a55ce087073486b8",
        "fr": "a64563e986438ed731a6713027c36bfd",
        "cs": "4c6b6490e58107b2e397c5e3e1690abc",
    },
}

KINDS = {64: "sha256", 32: "md5"}  # by the length of the sum

TIMEOUTS = (5, 10)  # seconds: to connect; until the next bytes arrive
FIRST_WAIT = 1  # seconds before a new attempt; twice as long each time
PATIENCE = 15  # seconds of attempts that bring nothing more
LOCK_TIMEOUT = 300  # seconds for another process to finish the same download

OR_A_FOLDER = (
    "or name a folder that holds the files: --data FOLDER, COURSE_DATA=FOLDER or "
    "load_multi30k(FOLDER)"
)

TextPair = tuple[str, str]


class DataError(ValueError):
    """A data file that cannot be had, is damaged, or does not fit its other half."""


@dataclass(frozen=True)
class ParallelText:
    """Sentence pairs (source, target) of the three splits."""

    train: list[TextPair]
    validation: list[TextPair]
    test: list[TextPair]


def load_multi30k(
    folder: str | Path | None = None,
    *,
    source: str = "de",
    target: str = "en",
    test: str = "test_2016_flickr",
) -> ParallelText:
    """Read Multi30k's train, val and one of its test sets in the given direction.

    The files come from `folder`, else from COURSE_DATA; else they are downloaded and
    kept. Languages are de, en, fr and cs; CHECKSUMS says which test sets there are.

    DataError if a name is unknown, a folder or file is missing, a download fails (what
    has arrived is kept, the next call goes on from there), a file is cut short or has
    another checksum than it must have (a given folder may hold SHA256SUMS), or two
    halves differ in length.
    """
    if source == target:
        raise DataError(f"source and target are both {source!r}: give two languages")
    splits = ("train", "val", test)
    given = folder or os.environ.get("COURSE_DATA")
    if given:
        place = find_folder(given)
    else:
        place = download_files(splits, (source, target))
    return ParallelText(*(read_pairs(place, name, source, target) for name in splits))


def find_folder(given: str | Path) -> Path:
    """The folder given, or its subfolder `multi30k`."""
    path = Path(given).expanduser()
    if not path.is_dir():
        raise DataError(f"the data folder {path} does not exist")
    return path / "multi30k" if (path / "multi30k").is_dir() else path


def cache_folder() -> Path:
    """Where downloads are kept."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    course = os.environ.get("COURSE_CACHE") or caches / "transformer-course"
    return Path(course).expanduser() / "multi30k"


def download_files(splits: Iterable[str], languages: Iterable[str]) -> Path:
    """Download what the cache lacks of these files; gives its folder."""
    folder, sums = cache_folder(), {}
    for split, language in product(splits, languages):
        if language not in CHECKSUMS.get(split, {}):
            raise DataError(
                f"Multi30k has no {split} in {language!r}. It has {published()}"
            )
        sums[f"{split}.{language}.gz"] = CHECKSUMS[split][language]
    for name, checksum in sums.items():  # now that every name is known to be right
        try:
            download_file(folder / name, checksum)
        except OSError as error:  # filelock's Timeout is one
            raise DataError(
                f"cannot write {name} in {folder}: {error}. Is the disk full, the "
                "folder not yours, another process at it? Set COURSE_CACHE to another "
                f"folder, {OR_A_FOLDER}"
            ) from error
    return folder


def published() -> str:
    """The splits, and in brackets the languages of each."""
    parts = (f"{split} ({', '.join(sums)})" for split, sums in CHECKSUMS.items())
    return ", ".join(parts)


def download_file(path: Path, checksum: str) -> None:
    """Download one file, unless it is there already, and whole.

    It is written to `name.part`, and gets its name only when its checksum is right.
    """
    if digest(path, checksum) == checksum:
        return
    part = path.with_name(f"{path.name}.part")
    address = os.environ.get("COURSE_MULTI30K_URL") or ADDRESS
    url = f"{address.rstrip('/')}/{path.name}"
    path.parent.mkdir(parents=True, exist_ok=True)
    # Two processes must not write one part. A killed process leaves no lock behind.
    with FileLock(f"{path}.lock", timeout=LOCK_TIMEOUT):
        if digest(path, checksum) == checksum:
            return  # the process that had the lock has brought it
        for _ in range(2):  # anew, since the first part may come from another file
            fetch(url, part)
            found = digest(part, checksum)
            if found == checksum:
                os.replace(part, path)
                return
            part.unlink()
    raise DataError(
        f"{url} brings another file than it should: its checksum is {found}, expected "
        f"{checksum}. Nothing of it is kept. Does a login page or a proxy answer in "
        f"its place? Try again from another network, {OR_A_FOLDER}"
    )


def digest(path: Path, expected: str) -> str | None:
    """The file's checksum, of the expected one's kind; None where there is no file."""
    if not path.exists():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, KINDS[len(expected)]).hexdigest()


def fetch(url: str, part: Path) -> None:
    """Bring the rest of `url` into `part`, in as many attempts as go on bringing some.

    DataError if they have brought nothing more for PATIENCE seconds, or cannot.
    """
    most, since, wait = size(part), time.monotonic(), FIRST_WAIT
    while True:
        try:
            return transfer(url, part)
        except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
            if size(part) > most:
                most, since, wait = size(part), time.monotonic(), FIRST_WAIT
            reason, passing = explain(error)
            if not passing or time.monotonic() + wait >= since + PATIENCE:
                if not passing:
                    advice = f"There should be {published()}: check COURSE_MULTI30K_URL"
                elif size(part):
                    advice = f"{size(part):,} bytes are here: run this again to go on"
                else:
                    advice = "Run this again later"
                raise DataError(
                    f"{url} could not be downloaded: {reason}. {advice}, {OR_A_FOLDER}"
                ) from error
        time.sleep(wait)
        wait *= 2


def explain(error: Exception) -> tuple[str, bool]:
    """What has gone wrong, and whether it may pass."""
    response = getattr(error, "response", None)
    if response is not None:
        status = response.status_code
        answer = f"the server answered {status} {response.reason}"
        return answer, status >= 500 or status in (408, 429)
    if isinstance(error, ValueError):  # requests' errors about the address
        return f"this is not an address ({error})", False
    if isinstance(error, requests.exceptions.SSLError):
        return f"the server's certificate was refused ({error})", True
    if isinstance(error, requests.Timeout | urllib3.exceptions.TimeoutError):
        return "the server did not answer in time", True
    if isinstance(error, requests.ConnectionError):
        return "no server answered (is there a network?)", True
    return "the connection broke off", True


def transfer(url: str, part: Path) -> None:
    """Ask once for what `part` still lacks, and write it as it arrives."""
    start = size(part)
    # As the file is, not packed again on the way: the positions are its own.
    headers = {"Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    with requests.get(url, headers=headers, stream=True, timeout=TIMEOUTS) as response:
        if start and response.status_code == 416:
            return  # nothing follows: all of it is here
        response.raise_for_status()
        # A server that knows no ranges begins at 0, whatever it was asked for.
        begins = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
        start = int(begins[1]) if begins else 0
        left = response.raw.length_remaining
        bar = tqdm(
            desc=part.stem,
            initial=start,
            total=None if left is None else start + left,
            unit="B",
            unit_scale=True,
            leave=False,
            disable=bool(os.environ.get("TQDM_DISABLE")) or None,
        )
        with bar, part.open("ab") as file:
            file.truncate(start)
            for piece in response.raw.stream(8192, decode_content=False):
                file.write(piece)
                bar.update(len(piece))


def size(path: Path) -> int:
    """Its length in bytes; 0 where there is none."""
    return path.stat().st_size if path.exists() else 0


def read_pairs(folder: Path, name: str, source: str, target: str) -> list[TextPair]:
    sources, targets = (
        read_lines(folder, f"{name}.{language}") for language in (source, target)
    )
    if len(sources) != len(targets):
        raise DataError(
            f"{name}.{source} has {len(sources)} lines, {name}.{target} has "
            f"{len(targets)}: the two halves must match line by line. Fetch both again"
        )
    return list(zip(sources, targets, strict=True))


def read_lines(folder: Path, name: str) -> list[str]:
    """The lines of folder/name or folder/name.gz."""
    path = next((p for p in (folder / name, folder / f"{name}.gz") if p.exists()), None)
    if path is None:
        raise DataError(
            f"{folder} holds neither {name} nor {name}.gz. Put it "
            "there, or name no folder to have the files downloaded"
        )
    content = path.read_bytes()
    check_sum(path, content)
    try:
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    except (EOFError, OSError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(
            f"{path} is damaged or cut short ({error}). Fetch it again"
        ) from error
    if not text.strip():
        raise DataError(f"{path} is empty. Fetch it again")
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
            f"{found[:12]}…, expected {expected[path.name][:12]}…. Fetch it again"
        )

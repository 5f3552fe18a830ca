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
import os
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

# A commit, not a branch: what stands there never changes.
COMMIT = "a3d2e0d26b56f3846f66a952536ffed4e401d05a"
ADDRESS = f"https://raw.githubusercontent.com/multi30k/dataset/{COMMIT}/data/task1/raw"

# Every file there is, `split.language.gz`.
SUMS = """
726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6  train.de.gz
d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f  train.en.gz
622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c  train.fr.gz
a65adb8b32e3bc664f21ecba7a6e7f6950fd1f405e135f7c312faabdb6255077  train.cs.gz
f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a  val.de.gz
14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28  val.en.gz
ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9  val.fr.gz
b63226e05c4bd5dd6a42897d74b86a1b9d2c31498252c572b1ea7f7996927fcc  val.cs.gz
9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8  test_2016_flickr.de.gz
611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9  test_2016_flickr.en.gz
6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90  test_2016_flickr.fr.gz
200a4a74cc9560f051924abb9803be008d1908d77f747e9141aeb86dfd2797f1  test_2016_flickr.cs.gz
a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee  test_2017_flickr.de.gz
76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074  test_2017_flickr.en.gz
3ba671ceb2299f3304ffafefea7a833d08632fbaf0ba18546f8a2ec2391af496  test_2017_flickr.fr.gz
799e4854c25d601cb6cb6be29eabe5667734c61ace2f495e03e429031a0bc338  test_2017_mscoco.de.gz
aab300bfb4427697987e02cd0aacd44bfe8aa50456231b6474c08038bbed2b58  test_2017_mscoco.en.gz
754f3072ba9f124569ba5258b32730fc1d214bbf8e0c6dfb2b74401676220db0  test_2017_mscoco.fr.gz
ddd0130c7d97482dc5197a02141dae8dd79f20f03586c480d675c09a32daf608  test_2018_flickr.de.gz
ef4f4844037d4c5dea75c9a8ed5fd78905967a26f67c255e230cc9780032654d  test_2018_flickr.en.gz
fb2b83fcceb937a4f7e3e93c1c51c22aba92f1e342391e6b5ba392b16a920501  test_2018_flickr.fr.gz
7d0a9db904f94c554a8c58049a9f3a5357c27f46cc3d710d70cb0b4a2585b8c2  test_2018_flickr.cs.gz
"""
CHECKSUMS = {name: digest for digest, name in map(str.split, SUMS.strip().splitlines())}

TIMEOUTS = (5, 10)  # seconds: to connect; until the next bytes arrive
RETRIES = 3  # after 1, 2 and 3 seconds

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

    29,000, 1,014 and (of test_2016_flickr) 1,000 pairs of captions, each one raw line.
    The files come from `folder`, else from COURSE_DATA; else they are downloaded and
    kept. Languages are de, en, fr and cs; CHECKSUMS says which test sets there are.

    DataError if a name is unknown, a folder or file is missing, a file is cut short,
    two halves differ in length, or a download fails: files that came whole are kept.
    """
    if source == target:
        raise DataError(f"source and target are both {source!r}: give two languages")
    splits = ("train", "val", test)
    given = folder or os.environ.get("COURSE_DATA")
    if given:
        place = find_folder(given)
    else:
        place = download_files(
            [f"{s}.{t}.gz" for s in splits for t in (source, target)]
        )
    return ParallelText(*(read_pairs(place, name, source, target) for name in splits))


def find_folder(given: str | Path) -> Path:
    """The folder given, or its subfolder `multi30k`; DataError if there is none."""
    path = Path(given).expanduser()
    if not path.is_dir():
        raise DataError(f"the data folder {path} does not exist")
    return path / "multi30k" if (path / "multi30k").is_dir() else path


def cache_folder() -> Path:
    """Where downloads are kept."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    course = os.environ.get("COURSE_CACHE") or caches / "transformer-course"
    return Path(course).expanduser() / "multi30k"


def download_files(names: list[str]) -> Path:
    """Download what the cache lacks of these files; gives its folder.

    What is there already is checked, too. A file gets its name only when it is whole
    and its checksum is right. DataError as `load_multi30k` says.
    """
    if unknown := [name for name in names if name not in CHECKSUMS]:
        raise DataError(f"Multi30k has no {unknown[0]}. It has {', '.join(CHECKSUMS)}")
    import pooch  # here: the toy corpus and a folder of one's own do without

    # A notebook or a log, which are kept, get neither bars nor messages.
    shown = sys.stderr.isatty()
    pooch.get_logger().setLevel("INFO" if shown else "WARNING")
    download = pooch.HTTPDownloader(progressbar=shown, timeout=TIMEOUTS)
    address = os.environ.get("COURSE_MULTI30K_URL") or ADDRESS
    cache = pooch.create(
        cache_folder(), address, registry=CHECKSUMS, retry_if_failed=RETRIES
    )
    for name in names:
        try:
            cache.fetch(name, downloader=download)
        except (OSError, ValueError) as error:
            raise DataError(
                f"{cache.get_url(name)} could not be downloaded to {cache.abspath}: "
                f"{explain(error)}, or name a folder that holds the files: --data "
                "FOLDER, COURSE_DATA=FOLDER or load_multi30k(FOLDER)"
            ) from error
    return cache.abspath


def explain(error: OSError | ValueError) -> str:
    """What has gone wrong with a download, and what can be done."""
    import requests  # here, as pooch

    match error:
        case requests.HTTPError(response=response):
            reason = f"the server answered {response.status_code} {response.reason}"
        case requests.exceptions.SSLError():
            reason = f"the server's certificate was refused ({error})"
        case requests.ConnectionError() | requests.Timeout():
            reason = "the server does not answer (is there a network?)"
        case requests.RequestException():  # a wrong address, a connection cut
            reason = str(error)
        case ValueError():  # pooch's, with both checksums
            return f"{error} Does a login page answer instead? Try another network"
        case _:
            reason = f"{error}. Is the disk full, the folder not yours"
            return f"{reason}? Set COURSE_CACHE to another folder"
    return f"{reason}. Try again later, set COURSE_MULTI30K_URL to another copy"


def read_pairs(folder: Path, name: str, source: str, target: str) -> list[TextPair]:
    """The pairs of one split; DataError if its halves differ in length."""
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
    """The lines of folder/name or folder/name.gz; DataError as `load_multi30k` says."""
    path = next((p for p in (folder / name, folder / f"{name}.gz") if p.exists()), None)
    if path is None:
        raise DataError(
            f"{folder} holds neither {name} nor {name}.gz. Put it "
            "there, or name no folder to have the files downloaded"
        )
    content = path.read_bytes()
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

"""Downloading Multi30k, from a server on this machine that does all that servers do."""

import contextlib
import gzip
import hashlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from filelock import FileLock
from sacrebleu.dataset import DATASETS

from helpers import multi30k
from helpers.multi30k import DataError, load_multi30k

LANGUAGES = {
    "train": ("de", "en", "fr", "cs"),
    "val": ("de", "en", "fr", "cs"),
    "test_2016_flickr": ("de", "en", "fr", "cs"),
    "test_2017_mscoco": ("de", "en", "fr"),
}
FIRST = "train.de.gz"  # the file that is fetched first, and the largest


def make_files():
    """Packed files of random words: name → content."""
    words = random.Random(0)
    files = {}
    for split, languages in LANGUAGES.items():
        for language in languages:
            lines = [
                f"{language} {split} {i} {words.randbytes(120).hex()}\n"
                for i in range(2000 if split == "train" else 20)
            ]
            text = "".join(lines).encode()
            files[f"{split}.{language}.gz"] = gzip.compress(text, mtime=0)
    return files


FILES = make_files()


def sums(kind=hashlib.sha256):
    return {
        split: {
            language: kind(FILES[f"{split}.{language}.gz"]).hexdigest()
            for language in languages
        }
        for split, languages in LANGUAGES.items()
    }


class Handler(BaseHTTPRequestHandler):
    """Serves FILES, with ranges; before that, what `server.faults` has for the name."""

    def do_GET(self):
        self.name = self.path.removeprefix("/raw/")
        range_asked = self.headers.get("Range")
        self.start = int(range_asked[6:-1]) if range_asked else 0
        self.server.asked[self.name].append(self.start)
        if self.headers["Accept-Encoding"] != "identity":
            return status(406)(self)  # others would pack the file again
        faults = self.server.faults[self.name]
        # The other side may be killed, or wait no longer.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            (faults.pop(0) if faults else serve)(self)

    def head(self, status, length, **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def begin(self, ranges=True):
        """The headers of a good answer; gives the content that is to follow."""
        content = FILES[self.name]
        if not ranges or not self.start:
            self.head(200, len(content))
            return content
        if self.start >= len(content):
            self.head(416, 0, Content_Range=f"bytes */{len(content)}")
            return b""
        span = f"bytes {self.start}-{len(content) - 1}/{len(content)}"
        self.head(206, len(content) - self.start, Content_Range=span)
        return content[self.start :]

    def log_message(self, *arguments):
        """Say nothing."""


def serve(handler):
    handler.wfile.write(handler.begin())


def without_ranges(handler):
    handler.wfile.write(handler.begin(ranges=False))


def cut(count, ranges=True):
    """Announce everything, send `count` bytes, hang up."""

    def fault(handler):
        handler.wfile.write(handler.begin(ranges)[:count])

    return fault


def stall(count, until):
    """Send `count` bytes, then nothing."""

    def fault(handler):
        content = handler.begin()
        handler.wfile.write(content[:count])
        until.wait(10)

    return fault


def slow(handler):
    content = handler.begin()
    for i in range(0, len(content), 40_000):
        handler.wfile.write(content[i : i + 40_000])
        time.sleep(0.01)


def silent(handler):
    """Hang up without a word."""


def status(code):
    def fault(handler):
        page = b"<html>not the file</html>"
        handler.head(code, len(page))
        handler.wfile.write(page)

    return fault


def other_bytes(handler):
    handler.wfile.write(handler.begin()[::-1])


def other_range(handler):
    content = FILES[handler.name]
    handler.head(206, 10, Content_Range=f"bytes 5-14/{len(content)}")
    handler.wfile.write(content[5:15])


def labelled(handler):
    """Say that the content is packed, as some servers do of what ends in .gz."""
    content = FILES[handler.name]
    handler.head(200, len(content), Content_Encoding="gzip")
    handler.wfile.write(content)


def announce(factor):
    """Send the content under a Content-Length that is not its own."""

    def fault(handler):
        content = FILES[handler.name]
        handler.head(200, int(len(content) * factor))
        handler.wfile.write(content)

    return fault


@pytest.fixture
def server(tmp_path, monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.faults, server.asked = defaultdict(list), defaultdict(list)
    server.address = f"http://127.0.0.1:{server.server_port}/raw"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("COURSE_MULTI30K_URL", server.address)
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TQDM_DISABLE", "1")
    monkeypatch.delenv("COURSE_DATA", raising=False)
    monkeypatch.setattr(multi30k, "CHECKSUMS", sums())
    monkeypatch.setattr(multi30k, "FIRST_WAIT", 0.001)
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def cache(server, tmp_path):
    return tmp_path / "cache" / "multi30k"


@pytest.fixture
def impatient(monkeypatch):
    """Waits so short that a fault which stays is soon reported."""
    monkeypatch.setattr(multi30k, "PATIENCE", 0.1)


class Clock:
    """Stands in for `time`; only waiting takes any."""

    def __init__(self):
        self.waits = []

    def monotonic(self):
        return sum(self.waits)

    def sleep(self, seconds):
        self.waits.append(seconds)


@pytest.fixture
def clock(server, monkeypatch):
    """The waits that there would be with the module's own numbers."""
    clock = Clock()
    monkeypatch.setattr(multi30k, "time", clock)
    monkeypatch.setattr(multi30k, "FIRST_WAIT", 1)
    return clock


def names(folder):
    """The files in a folder, without the locks."""
    return {path.name for path in folder.glob("*") if path.suffix != ".lock"}


def loads(**options):
    """Load; every line must have arrived as it was sent."""
    text = load_multi30k(**options)
    assert len(text.train) == 2000 and len(text.validation) == len(text.test) == 20
    for split, pairs in (("train", text.train), ("val", text.validation)):
        for side, language in enumerate(("de", "en")):
            content = gzip.decompress(FILES[f"{split}.{language}.gz"]).decode()
            assert [pair[side] for pair in pairs] == content.splitlines()
    return text


# What is downloaded, and what is not


def test_what_is_missing_is_downloaded_once(server, cache):
    loads()
    wanted = {
        f"{s}.{t}.gz"
        for s in ("train", "val", "test_2016_flickr")
        for t in ("de", "en")
    }
    assert names(cache) == wanted
    assert server.asked == {name: [0] for name in wanted}
    loads()
    assert server.asked == {name: [0] for name in wanted}
    (cache / "val.en.gz").unlink()
    loads()
    assert server.asked.pop("val.en.gz") == [0, 0]
    assert set(map(len, server.asked.values())) == {1}


def test_any_language_and_test_set(server, cache, monkeypatch):
    monkeypatch.setattr(multi30k, "CHECKSUMS", sums(hashlib.md5))
    monkeypatch.setenv("COURSE_MULTI30K_URL", f"{server.address}/")
    text = load_multi30k(source="en", target="fr", test="test_2017_mscoco")
    assert text.test[3][0].startswith("en test_2017_mscoco 3 ")
    assert text.test[3][1].startswith("fr test_2017_mscoco 3 ")
    assert load_multi30k(source="cs", target="fr").train[0][0].startswith("cs train 0 ")
    assert "test_2017_mscoco.de.gz" not in server.asked


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"source": "it"}, "has no train in 'it'"),
        ({"target": "it"}, "has no train in 'it'"),
        ({"test": "test_2015"}, "has no test_2015 in 'de'"),
        ({"test": "test_2017_mscoco", "source": "cs"}, "no test_2017_mscoco in 'cs'"),
    ],
)
def test_unknown_names_are_told_before_anything_is_asked(server, options, message):
    with pytest.raises(DataError, match=message) as caught:
        load_multi30k(**options)
    assert "test_2017_mscoco (de, en, fr)" in str(caught.value)
    assert not server.asked


def test_the_two_languages_must_differ(server):
    with pytest.raises(DataError, match="both 'en': give two languages"):
        load_multi30k(source="en")


def test_a_folder_given_is_never_filled_up(server, tmp_path, monkeypatch):
    folder = tmp_path / "mine"
    folder.mkdir()
    for language in ("de", "en"):
        for split in ("train", "val"):
            name = f"{split}.{language}.gz"
            (folder / name).write_bytes(FILES[name])
    before = names(folder)
    with pytest.raises(DataError, match="or name no folder to have the files downl"):
        load_multi30k(folder)
    monkeypatch.setenv("COURSE_DATA", str(folder))
    with pytest.raises(DataError, match=r"neither test_2016_flickr\.de nor"):
        load_multi30k()
    assert names(folder) == before and not server.asked


def test_where_the_cache_is(monkeypatch, tmp_path):
    for name in ("COURSE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    home = Path("~/.cache/transformer-course/multi30k").expanduser()
    assert multi30k.cache_folder() == home
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert multi30k.cache_folder() == tmp_path / "transformer-course" / "multi30k"
    monkeypatch.setenv("COURSE_CACHE", "~/course")
    assert multi30k.cache_folder() == Path("~/course/multi30k").expanduser()


def test_every_file_has_a_checksum_of_a_known_kind():
    for split, found in multi30k.CHECKSUMS.items():
        assert set(found) <= {"de", "en", "fr", "cs"}, split
        assert all(len(checksum) in multi30k.KINDS for checksum in found.values())


def test_the_checksums_that_sacrebleu_publishes_too():
    published = DATASETS["multi30k/2018"]
    theirs = dict(zip(published.data, published.md5, strict=True))
    for language in ("cs", "de", "fr"):
        (url,) = (u for u in theirs if u.endswith(f"/test_2018_flickr.{language}.gz"))
        assert multi30k.CHECKSUMS["test_2018_flickr"][language] == theirs[url]


def test_importing_it_is_light():
    code = (
        "import sys, helpers.multi30k; assert not {'torch', 'numpy'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# Faults that pass


def test_a_slow_server(server):
    server.faults[FIRST] = [slow]
    loads()
    assert server.asked[FIRST] == [0]


def test_a_cut_connection_goes_on_from_there(server):
    server.faults[FIRST] = [cut(100_000), cut(50_000), cut(0)]
    loads()
    assert server.asked[FIRST] == [0, 100_000, 150_000, 150_000]


def test_a_server_that_stalls(server, monkeypatch):
    monkeypatch.setattr(multi30k, "TIMEOUTS", (1, 0.1))
    until = threading.Event()
    server.faults[FIRST] = [stall(81_920, until)]
    loads()
    until.set()
    assert server.asked[FIRST] == [0, 81_920]


def test_a_server_without_ranges_begins_anew(server):
    server.faults[FIRST] = [cut(100_000), cut(50_000, ranges=False), without_ranges]
    loads()
    assert server.asked[FIRST] == [0, 100_000, 50_000]


@pytest.mark.parametrize("fault", [status(500), status(503), status(429), silent])
def test_a_server_that_fails_for_a_while(server, fault):
    server.faults[FIRST] = [fault] * 3
    loads()
    assert server.asked[FIRST] == [0, 0, 0, 0]


def test_wrong_bytes_once(server):
    server.faults[FIRST] = [other_bytes]
    loads()
    assert server.asked[FIRST] == [0, 0]


def test_wrong_bytes_after_a_cut_are_not_kept_either(server):
    server.faults[FIRST] = [cut(100_000), other_bytes]
    loads()
    assert server.asked[FIRST] == [0, 100_000, 0]


def test_a_range_that_was_not_asked_for(server):
    server.faults[FIRST] = [cut(100_000), other_range]
    loads()
    assert server.asked[FIRST] == [0, 100_000, 0]


def test_a_packed_file_stays_packed(server, cache):
    server.faults[FIRST] = [labelled]
    loads()
    assert server.asked[FIRST] == [0]


@pytest.mark.parametrize("factor", [0.5, 1.5])
def test_a_content_length_that_lies(server, factor):
    server.faults[FIRST] = [announce(factor)]
    loads()


def test_a_part_that_is_complete(server, cache):
    cache.mkdir(parents=True)
    (cache / f"{FIRST}.part").write_bytes(FILES[FIRST])
    loads()
    assert server.asked[FIRST] == [len(FILES[FIRST])]


@pytest.mark.parametrize("content", [b"x" * 100_000, b"x" * 1_000_000])
def test_a_part_of_something_else(server, cache, content):
    cache.mkdir(parents=True)
    (cache / f"{FIRST}.part").write_bytes(content)
    loads()
    assert server.asked[FIRST] == [len(content), 0]


def test_a_file_damaged_in_the_cache_is_fetched_again(server, cache):
    loads()
    for damage in (FILES[FIRST][:-1], b"", FILES["train.en.gz"]):
        (cache / FIRST).write_bytes(damage)
        loads()
    assert server.asked[FIRST] == [0] * 4 and server.asked["train.en.gz"] == [0]


def test_patience_lasts_as_long_as_more_arrives(server, clock):
    server.faults[FIRST] = [cut(10_000), silent, status(500)] * 8
    loads()
    assert clock.waits == [1, 2, 4] * 8 and sum(clock.waits) > multi30k.PATIENCE


# Faults that stay


def fails(cache, message):
    """Loading must fail; gives what it says. No file may look like a whole one."""
    with pytest.raises(DataError, match=message) as caught:
        load_multi30k()
    for path in cache.glob("*.gz"):
        assert path.read_bytes() == FILES[path.name]
    assert not (cache / FIRST).exists()
    return str(caught.value)


def test_a_connection_that_is_always_cut(server, cache, impatient):
    server.faults[FIRST] = [cut(100_000)] + [cut(0)] * 1000
    said = fails(cache, "the connection broke off. 100,000 bytes are here: run this ag")
    assert f"{server.address}/{FIRST}" in said and "--data FOLDER" in said
    server.faults.clear()
    server.asked.clear()
    loads()
    assert server.asked[FIRST] == [100_000]


def test_always_cut_and_without_ranges(server, cache, impatient):
    server.faults[FIRST] = [cut(100_000, ranges=False)] * 1000
    fails(cache, "the connection broke off")
    assert len(server.asked[FIRST]) < 20


def test_a_server_that_always_stalls(server, cache, impatient, monkeypatch):
    monkeypatch.setattr(multi30k, "TIMEOUTS", (1, 0.05))
    until = threading.Event()
    server.faults[FIRST] = [stall(0, until)] * 1000
    fails(cache, "the server did not answer in time. Run this again later, or name a")
    until.set()


def test_500_that_stays(server, cache, clock):
    server.faults[FIRST] = [status(500)] * 1000
    fails(cache, "the server answered 500 Internal Server Error. Run this again later")
    assert clock.waits == [1, 2, 4]  # the next would end PATIENCE
    assert server.asked[FIRST] == [0] * 4
    assert not names(cache)


@pytest.mark.parametrize("code", [403, 404])
def test_404_is_not_asked_for_twice(server, cache, code):
    server.faults[FIRST] = [status(code)]
    said = fails(
        cache, rf"train\.de\.gz could not be downloaded: the server ans.* {code}"
    )
    assert "train (de, en, fr, cs), val" in said and "COURSE_MULTI30K_URL" in said
    assert server.asked[FIRST] == [0]


def test_wrong_bytes_that_stay(server, cache):
    server.faults[FIRST] = [other_bytes] * 2
    said = fails(cache, "brings another file than it should")
    found = hashlib.sha256(FILES[FIRST][::-1]).hexdigest()
    assert found in said and sums()["train"]["de"] in said
    assert server.asked[FIRST] == [0, 0]
    assert not names(cache)


def test_a_login_page(server, cache):
    server.faults[FIRST] = [cut(100_000), status(200), status(200)]
    fails(cache, "Does a login page or a proxy answer in its place")
    assert not names(cache)


def test_no_network(server, cache, impatient, monkeypatch):
    loads()
    monkeypatch.setenv("COURSE_MULTI30K_URL", "http://127.0.0.1:9")  # nobody listens
    loads()  # what is in the cache needs no network
    (cache / FIRST).unlink()
    fails(cache, r"no server answered \(is there a network\?\)\. Run this again later")


def test_an_address_that_is_none(server, cache, monkeypatch):
    monkeypatch.setenv("COURSE_MULTI30K_URL", "here")
    assert "check COURSE_MULTI30K_URL" in fails(cache, "this is not an address")


def test_a_cache_that_cannot_be_written(server, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "file"))
    with pytest.raises(DataError, match=r"cannot write .* Set COURSE_CACHE to another"):
        load_multi30k()


# Several processes

CHILD = """
import json, sys
from helpers import multi30k
multi30k.CHECKSUMS = json.loads(sys.argv[1])
print("ready", flush=True)
print(len(multi30k.load_multi30k().train), flush=True)
"""


@pytest.fixture
def start(server):
    """Starts processes that load; gives them when they are about to."""
    children = []

    def start():
        command = [sys.executable, "-c", CHILD, json.dumps(sums())]
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, encoding="utf-8", env={**os.environ}
        )
        children.append(child)
        assert child.stdout.readline() == "ready\n"
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()


def test_another_one_goes_on_where_one_was_killed(server, cache, start):
    until = threading.Event()
    server.faults[FIRST] = [stall(100_000, until)]
    child = start()
    part = cache / f"{FIRST}.part"
    deadline = time.monotonic() + 10
    while not (part.exists() and part.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.005)
    child.kill()
    child.wait()
    until.set()
    arrived = part.stat().st_size
    assert 0 < arrived <= 100_000 and names(cache) == {part.name}
    loads()
    assert server.asked[FIRST] == [0, arrived]
    assert not part.exists()


def test_two_at_once(server, cache, start):
    until = threading.Event()
    server.faults[FIRST] = [stall(100_000, until)]
    first, second = start(), start()
    time.sleep(0.2)  # by now one waits for the server, the other for the lock
    assert first.poll() is None and second.poll() is None
    server.faults[FIRST] = [slow]  # for who goes on when the first answer breaks off
    until.set()
    assert first.communicate(timeout=10)[0] == second.communicate(timeout=10)[0]
    assert first.returncode == second.returncode == 0
    assert server.asked[FIRST] == [0, 100_000]
    assert {len(starts) for name, starts in server.asked.items() if name != FIRST} == {
        1
    }
    loads()


def test_a_process_that_never_lets_go(server, cache, monkeypatch):
    cache.mkdir(parents=True)
    monkeypatch.setattr(multi30k, "LOCK_TIMEOUT", 0.1)
    with FileLock(cache / f"{FIRST}.lock"):
        fails(cache, "another process at it")


# Progress


def test_progress_counts_from_what_is_there(server, monkeypatch):
    bars = []

    class Bar(multi30k.tqdm):
        def __init__(self, **options):
            bars.append(options)
            super().__init__(**options)

    monkeypatch.setattr(multi30k, "tqdm", Bar)
    server.faults[FIRST] = [cut(100_000)]
    loads()
    first = [bar for bar in bars if bar["desc"] == FIRST]
    assert [bar["initial"] for bar in first] == [0, 100_000]
    assert {bar["total"] for bar in first} == {len(FILES[FIRST])}
    assert all(bar["disable"] for bar in bars)

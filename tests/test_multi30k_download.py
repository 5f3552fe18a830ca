"""Downloading Multi30k, from a server on this machine that fails as servers do."""

import contextlib
import gc
import gzip
import hashlib
import os
import signal
import sys
import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from helpers import multi30k
from helpers.multi30k import DataError, load_multi30k

# pooch leaves the connection of a broken answer to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
)

SPLITS = {"train": 200, "val": 20, "test_2016_flickr": 20, "test_2017_mscoco": 20}
FILES = {
    f"{split}.{language}.gz": gzip.compress(
        "".join(f"{language} {split} {i}\n" for i in range(count)).encode(), mtime=0
    )
    for split, count in SPLITS.items()
    for language in ("de", "en", "fr")
}
SUMS = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
FIRST = "train.de.gz"  # the file that is fetched first
WANTED = [f"{s}.{t}.gz" for s in [*SPLITS][:3] for t in ("de", "en")]


class Handler(BaseHTTPRequestHandler):
    """Serves FILES; before that, what `server.faults` has for the name."""

    def do_GET(self):
        name = self.path.removeprefix("/raw/")
        self.server.asked.append(name)
        faults = self.server.faults[name]
        # The other side may wait no longer.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            (faults.pop(0) if faults else whole)(self, FILES[name])

    def log_message(self, *arguments):
        """Say nothing."""


def head(handler, status, length):
    handler.send_response(status)
    handler.send_header("Content-Length", str(length))
    handler.end_headers()


def whole(handler, content):
    head(handler, 200, len(content))
    handler.wfile.write(content)


def cut(handler, content):
    """Announce everything, send a half, hang up."""
    head(handler, 200, len(content))
    handler.wfile.write(content[: len(content) // 2])


def login_page(handler, content):
    whole(handler, b"<html>Who are you?</html>")


def not_found(handler, content):
    head(handler, 404, 0)


def stall(handler, content):
    """Send a half, then nothing until the other side gives up."""
    cut(handler, content)
    handler.server.until.wait(10)


def interrupt(handler, content):
    """Press Ctrl-C in the middle of the file."""
    cut(handler, content)
    signal.raise_signal(signal.SIGINT)
    handler.wfile.write(content[len(content) // 2 :])


@pytest.fixture
def server(tmp_path, monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.faults, server.asked = defaultdict(list), []
    server.until = threading.Event()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    address = f"http://127.0.0.1:{server.server_port}/raw"
    monkeypatch.setenv("COURSE_MULTI30K_URL", address)
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("COURSE_DATA", raising=False)
    monkeypatch.setattr(multi30k, "CHECKSUMS", SUMS)
    yield server
    server.until.set()
    server.shutdown()
    server.server_close()
    thread.join()
    gc.collect()  # here, where the warning of pooch's connection is no fault


@pytest.fixture
def cache(server, tmp_path):
    return tmp_path / "cache" / "multi30k"


@pytest.fixture
def once(monkeypatch):
    """No retries, so that a fault which stays is soon reported."""
    monkeypatch.setattr(multi30k, "RETRIES", 0)


def loads():
    """Load; every line must have arrived as it was sent."""
    text = load_multi30k()
    loaded = {
        "train": text.train,
        "val": text.validation,
        "test_2016_flickr": text.test,
    }
    for split, pairs in loaded.items():
        numbers = range(SPLITS[split])
        assert pairs == [(f"de {split} {i}", f"en {split} {i}") for i in numbers]


def names(folder):
    return sorted(path.name for path in folder.glob("*"))


# What is downloaded, and what is not


def test_what_is_missing_is_downloaded_once_and_in_silence(
    server, cache, capfd, monkeypatch
):
    loads()
    assert server.asked == WANTED and names(cache) == sorted(WANTED)
    (cache / "val.en.gz").unlink()
    loads()
    assert server.asked == [*WANTED, "val.en.gz"]
    monkeypatch.setenv("COURSE_MULTI30K_URL", "http://127.0.0.1:9")  # nobody listens
    loads()
    assert capfd.readouterr() == ("", "")  # notebooks store what is printed


def test_a_file_damaged_in_the_cache_is_fetched_again(server, cache):
    loads()
    (cache / FIRST).write_bytes(FILES[FIRST][:-1])
    loads()
    assert server.asked == [*WANTED, FIRST]


def test_any_language_and_test_set(server):
    text = load_multi30k(source="en", target="fr", test="test_2017_mscoco")
    assert text.test[3] == ("en test_2017_mscoco 3", "fr test_2017_mscoco 3")
    assert len(server.asked) == 6


def test_an_unknown_name_is_told_before_anything_is_asked(server):
    message = r"no train\.it\.gz\. It has .*test_2017_mscoco\.fr\.gz"
    with pytest.raises(DataError, match=message):
        load_multi30k(target="it")
    assert not server.asked


def test_a_folder_given_is_used_as_it_is_and_needs_no_pooch(
    server, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "pooch", None)
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in WANTED[:-1]:
        (folder / name).write_bytes(FILES[name])
    with pytest.raises(DataError, match="or name no folder to have the files downl"):
        load_multi30k(folder)
    assert names(folder) == sorted(WANTED[:-1]) and not server.asked
    (folder / WANTED[-1]).write_bytes(FILES[WANTED[-1]])
    monkeypatch.setenv("COURSE_DATA", str(folder))
    loads()


def test_where_the_cache_is(monkeypatch, tmp_path):
    for name in ("COURSE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    home = Path("~/.cache/transformer-course/multi30k").expanduser()
    assert multi30k.cache_folder() == home
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert multi30k.cache_folder() == tmp_path / "transformer-course" / "multi30k"
    monkeypatch.setenv("COURSE_CACHE", "~/course")
    assert multi30k.cache_folder() == Path("~/course/multi30k").expanduser()


# Faults


@pytest.mark.slow
def test_faults_that_pass(server):
    server.faults[FIRST], server.faults["val.de.gz"] = [cut], [login_page]
    loads()
    assert server.asked.count(FIRST) == server.asked.count("val.de.gz") == 2


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (cut, "Connection broken: IncompleteRead"),
        (login_page, f"expected {SUMS[FIRST]} but got.*Does a login page answer"),
        (not_found, "the server answered 404 Not Found.*COURSE_MULTI30K_URL"),
        (stall, r"the server does not answer \(is there a network\?\)"),
    ],
)
def test_a_fault_that_stays(server, cache, once, monkeypatch, fault, message):
    monkeypatch.setattr(multi30k, "TIMEOUTS", (1, 0.1))
    server.faults[FIRST] = [fault]
    with pytest.raises(DataError, match=message) as caught:
        load_multi30k()
    url = f"{os.environ['COURSE_MULTI30K_URL']}/{FIRST}"
    said = str(caught.value)
    assert said.startswith(url) and str(cache) in said and "--data FOLDER" in said
    assert server.asked == [FIRST] and names(cache) == []
    loads()  # the next call mends it


def test_a_cache_that_cannot_be_written(server, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("COURSE_CACHE", str(tmp_path / "file"))
    with pytest.raises(DataError, match=r"disk full, .* Set COURSE_CACHE to another"):
        load_multi30k()


def test_ctrl_c_leaves_nothing_behind(server, cache):
    server.faults[FIRST] = [interrupt]
    # A shell may have started this whole run in the background, deaf to Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            load_multi30k()
    finally:
        signal.signal(signal.SIGINT, before)
    assert names(cache) == []

"""The book in a browser: every page opens, links lead somewhere, search finds.

`make test-book` runs this; it is skipped, with its reason, where there is no Chromium,
or where `make book` has not set up its environment.
"""

import functools
import json
import threading
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest
from chromium import browser, needs_chromium, wait

from book.__main__ import SPHINX, build

pytestmark = [
    needs_chromium,
    pytest.mark.skipif(not SPHINX.exists(), reason="no Sphinx: run `make book` first"),
]
MOST_BYTES = 2_000_000  # of the first page, translator included, not compressed
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
DESKTOP = {"width": 1280, "height": 1000, "deviceScaleFactor": 1, "mobile": False}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Links(HTMLParser):
    """The ids of a page, what it links to and loads, and its pictures."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.pictures = set(), [], []
        self.head = {}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids |= {given[key] for key in ("id", "name") if given.get(key)}
        if tag == "meta" and given.get("name") == "description":
            self.head["description"] = given.get("content", "")
        if tag == "img":
            self.pictures.append(given)
        self.links += [given[key] for key in ("href", "src") if given.get(key)]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("book") / "html"
    build(folder)
    return folder


@pytest.fixture(scope="module")
def pages(site):
    """{path below the site: its links}"""
    found = [p for p in sorted(site.rglob("*.html")) if "_static" not in p.parts]
    return {
        path.relative_to(site).as_posix(): Links(path.read_text("utf-8"))
        for path in found
    }


@pytest.fixture(scope="module")
def address(site):
    handler = functools.partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    profile = tmp_path_factory.mktemp("profile")
    with browser(profile, logs=("browser", "performance")) as driver:
        yield driver


def messages(driver):
    """What the browser has noted of its network since the last question."""
    for entry in driver.get_log("performance"):
        yield json.loads(entry["message"])["message"]


def requests(driver):
    """The addresses that the page has asked for since the last question."""
    for message in messages(driver):
        if message["method"] == "Network.requestWillBeSent":
            yield message["params"]["request"]["url"]


def errors(driver):
    log = driver.get_log("browser")
    return [entry["message"] for entry in log if entry["level"] == "SEVERE"]


def size(driver, metrics):
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


# -- the files -------------------------------------------------------------------------


def test_every_lesson_and_solution_has_a_page(pages):
    lessons = {path for path in pages if path.startswith("notebooks/")}
    names = {Path(p).name for p in lessons if "/solutions/" not in p}
    solved = {Path(p).name for p in lessons if "/solutions/" in p}
    assert {name for name in names if name[:2].isdigit()} == solved


def test_every_link_within_the_book_leads_somewhere(site, pages):
    lost = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target, anchor = urldefrag(
                urljoin(f"/{path}", parts._replace(query="").geturl())
            )
            target = unquote(target).lstrip("/") or "index.html"
            if not (site / target).is_file():
                lost.append((path, link))
            elif anchor and target in pages:
                known = pages[target].ids | {"", "top"}
                if unquote(anchor) not in known:
                    lost.append((path, link))
    assert not lost, lost


def test_every_picture_has_a_text(pages):
    bare = [
        (path, picture.get("src"))
        for path, page in pages.items()
        for picture in page.pictures
        if len(picture.get("alt", "")) < 10 or picture["alt"].startswith("../")
    ]
    assert not bare, bare


def test_every_page_says_what_it_is(pages):
    own = {p: x for p, x in pages.items() if p not in ("genindex.html", "search.html")}
    silent = [p for p, page in own.items() if not page.head.get("description")]
    assert silent == ["notebooks/five_readings.html", "notebooks/glossary.html"]


# -- in a browser ----------------------------------------------------------------------


def test_every_page_opens_on_a_phone_without_errors(driver, address, pages):
    size(driver, PHONE)
    faults = []
    for path in pages:
        errors(driver), list(requests(driver))
        driver.get(address + path)
        outside = [u for u in requests(driver) if not u.startswith((address, "data:"))]
        wide = driver.execute_script("return document.documentElement.scrollWidth")
        for fault in (
            errors(driver),
            outside,
            [] if wide <= PHONE["width"] else [wide],
        ):
            if fault:
                faults.append((path, fault))
    assert not faults, faults


def test_formulas_are_rendered(driver, address):
    driver.get(f"{address}notebooks/02_attention.html")
    ask = "return document.querySelectorAll('mjx-container svg, mjx-math').length"
    wait(lambda: driver.execute_script(ask) > 10, 20, "formulas")


def test_search_finds_the_causal_mask(driver, address):
    driver.get(f"{address}search.html?q=causal+mask")
    ask = (
        "return [...document.querySelectorAll('#search-results li a')].map(a => a.href)"
    )
    found = wait(lambda: driver.execute_script(ask), 20, "search results")
    wait(
        lambda: any("03_masks" in link for link in driver.execute_script(ask)),
        20,
        f"lesson 03 among {found[:5]}",
    )


def test_dark_mode_is_dark(driver, address):
    size(driver, DESKTOP)
    driver.get(f"{address}notebooks/03_masks.html")
    colour = "return getComputedStyle(document.body).backgroundColor"
    seen = set()
    for mode in ("light", "dark"):
        driver.execute_script(f"localStorage.setItem('mode', '{mode}')")
        driver.execute_script(f"localStorage.setItem('theme', '{mode}')")
        driver.refresh()
        assert (
            driver.execute_script("return document.documentElement.dataset.theme")
            == mode
        )
        seen.add(driver.execute_script(colour))
    driver.execute_script("localStorage.clear()")
    assert len(seen) == 2


def test_the_first_page_translates_and_is_light(driver, address):
    driver.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": True})
    list(messages(driver))
    driver.get(f"{address}index.html")
    ready = "return document.querySelector('[data-first-after]') !== null"
    wait(lambda: driver.execute_script(ready), 20, "the first translation", pause=0.05)
    assert errors(driver) == []
    urls, sizes = {}, {}
    for message in messages(driver):
        given = message["params"]
        if message["method"] == "Network.responseReceived":
            urls[given["requestId"]] = given["response"]["url"]
        elif message["method"] == "Network.loadingFinished":
            sizes[given["requestId"]] = given["encodedDataLength"]
    own = [sizes[key] for key in sizes if urls.get(key, "").startswith(address)]
    assert 1_000_000 < sum(own) < MOST_BYTES

"""The book in a browser: every page opens, links lead somewhere, search finds.

`make test-book` runs this; it is skipped, with its reason, where there is no Chromium,
or where `make book` has not set up its environment.
"""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest

from book.__main__ import SPHINX, build
from chromium import PHONE, emulate, errors, messages, needs_chromium, wait

pytestmark = [
    needs_chromium,
    pytest.mark.skipif(not SPHINX.exists(), reason="no Sphinx: run `make book` first"),
]
MOST_BYTES = 2_000_000  # of the first page, translator included, not compressed


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


def test_the_translator_leads_back_into_the_book(pages):
    links = {urljoin("/translator/", x) for x in pages["translator/index.html"].links}
    lessons = ("10_toy_translator", "12_reading_attention")
    assert {"/index.html", *(f"/notebooks/{name}.html" for name in lessons)} <= links


# -- in a browser ----------------------------------------------------------------------


def test_every_page_opens_on_a_phone_without_errors(driver, address, pages):
    emulate(driver, PHONE)
    faults = []
    for path in pages:
        driver.get(address + path)
        (sent,) = messages(driver, "requestWillBeSent")
        urls = [params["request"]["url"] for params in sent]
        outside = [url for url in urls if not url.startswith((address, "data:"))]
        wide = driver.execute_script("return document.documentElement.scrollWidth")
        too_wide = [wide] if wide > PHONE[0] else []
        if found := [*errors(driver), *outside, *too_wide]:
            faults.append((path, found))
    assert not faults, faults


def test_formulas_are_rendered(driver, address):
    driver.get(f"{address}notebooks/02_attention.html")
    ask = "return document.querySelectorAll('mjx-container svg, mjx-math').length"
    wait(lambda: driver.execute_script(ask) > 10, 20, "formulas")


def test_a_wide_formula_can_be_moved_on_a_phone(driver, address):
    emulate(driver, PHONE)
    driver.get(f"{address}notebooks/02_attention.html")
    ask = """
        return [...document.querySelectorAll("span.math")].filter((formula) => {
            const width = formula.firstElementChild?.getBoundingClientRect().width;
            const way = getComputedStyle(formula).overflowX;
            return way === %s && width > formula.clientWidth + 1;
        }).length;
    """
    wait(lambda: driver.execute_script(ask % "'auto'"), 20, "a wide formula")
    assert driver.execute_script(ask % "'hidden'") == 0


def test_search_finds_the_causal_mask(driver, address):
    from selenium.webdriver.common.keys import Keys

    driver.get(f"{address}notebooks/02_attention.html")
    driver.find_element("css selector", ".search-button-field").click()
    driver.switch_to.active_element.send_keys("causal mask", Keys.ENTER)
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
    driver.get(f"{address}index.html")
    ready = "return document.querySelector('[data-first-after]') !== null"
    wait(lambda: driver.execute_script(ready), 20, "the first translation", pause=0.05)
    assert errors(driver) == []
    answers, received = messages(driver, "responseReceived", "loadingFinished")
    urls = {params["requestId"]: params["response"]["url"] for params in answers}
    own = [
        params["encodedDataLength"]
        for params in received
        if urls.get(params["requestId"], "").startswith(address)
    ]
    print(f"{sum(own) / 1e6:.2f} MB over the wire")
    assert 1_000_000 < sum(own) < MOST_BYTES

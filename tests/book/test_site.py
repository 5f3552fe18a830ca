"""The book in a browser: every page opens, links lead somewhere, search finds.

`make test-book` runs this; it is skipped, with its reason, where there is no Chromium,
or where `make book` has not set up its environment.
"""

import html
import re
from urllib.parse import unquote, urldefrag, urljoin

import pytest
from selenium.webdriver.common.keys import Keys

from book.__main__ import SPHINX, build
from chromium import PHONE, emulate, errors, messages, needs_chromium, wait
from tools.notebooks import all_notebooks
from tools.reproducible import ROOT

pytestmark = [
    needs_chromium,
    pytest.mark.skipif(not SPHINX.exists(), reason="no Sphinx: run `make book` first"),
]
MOST_BYTES = 2_000_000  # of the first page, translator included, not compressed


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("book") / "html"
    build(folder)
    return folder


@pytest.fixture(scope="module")
def pages(site):
    """{path below the site: its text}"""
    found = {path.relative_to(site).as_posix(): path for path in site.rglob("*.html")}
    own = sorted(path for path in found if not path.startswith("_static"))
    return {path: found[path].read_text("utf-8") for path in own}


def values(page, *names):
    """What a page gives to attributes of these names."""
    found = re.findall(rf'(?<=\s)(?:{"|".join(names)})="([^"]*)"', page)
    return [html.unescape(value) for value in found]


def test_every_link_within_the_book_leads_somewhere(site, pages):
    ids = {path: {"", *values(page, "id", "name")} for path, page in pages.items()}
    lost = []
    for path, page in pages.items():
        for link in values(page, "href", "src"):
            if re.match(r"\w+:|//", link):
                continue
            address, anchor = urldefrag(urljoin(f"/{path}", link))
            target = unquote(address.partition("?")[0]).lstrip("/") or "index.html"
            known = ids.get(target, {unquote(anchor)})
            if not (site / target).is_file() or unquote(anchor) not in known:
                lost.append((path, link))
    assert not lost, lost


def test_every_notebook_has_a_page_and_every_picture_a_text(pages):
    notebooks = [path.relative_to(ROOT) for path in all_notebooks()]
    assert {path.with_suffix(".html").as_posix() for path in notebooks} <= {*pages}
    for path, page in pages.items():
        for picture in re.findall(r"<img\s[^>]*>", page):
            (text,) = values(picture, "alt")
            assert len(text) >= 10 and not text.startswith("../"), (path, picture)
    links = values(pages["translator/index.html"], "href")
    assert "../notebooks/10_toy_translator.html" in links  # the way back


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


def test_formulas_are_rendered_and_a_wide_one_can_be_moved_on_a_phone(driver, address):
    emulate(driver, PHONE)
    driver.get(f"{address}notebooks/02_attention.html")
    rendered = "return document.querySelectorAll('mjx-math').length"
    wait(lambda: driver.execute_script(rendered) > 10, 20, "formulas")
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
    driver.get(f"{address}notebooks/02_attention.html")
    driver.find_element("css selector", ".search-button-field").click()
    driver.switch_to.active_element.send_keys("causal mask", Keys.ENTER)
    ask = "return !!document.querySelector('#search-results li a[href*=\"03_masks\"]')"
    wait(lambda: driver.execute_script(ask), 20, "lesson 03 among the results")


def test_dark_mode_is_dark(driver, address):
    ask = "return getComputedStyle(document.body).backgroundColor"
    seen = []
    for dark in (False, True):
        emulate(driver, PHONE, dark=dark)
        driver.get(f"{address}notebooks/03_masks.html")
        seen.append(sum(map(int, re.findall(r"\d+", driver.execute_script(ask))[:3])))
    assert seen[0] > 600 and seen[1] < 200


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
    assert 1_000_000 < sum(own) < MOST_BYTES

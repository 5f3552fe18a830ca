"""The book in a browser: every page opens, links lead somewhere, search finds.

`make test-book` runs this; it is skipped, with its reason, where there is no Chromium,
or where `make book` has not set up its environment.
"""

import functools
import html
import re
from urllib.parse import unquote, urldefrag, urljoin

import pytest
from selenium.webdriver.common.keys import Keys

from book.__main__ import SPHINX, build
from chromium import PHONE, emulate, errors, messages, needs_chromium, wait

pytestmark = [
    needs_chromium,
    pytest.mark.skipif(not SPHINX.exists(), reason="no Sphinx: run `make book` first"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("book") / "html"
    build(folder)
    return folder


@pytest.fixture(scope="module")
def pages(site):
    """{path below the site: its text}"""
    paths = [path for path in site.rglob("*.html") if "_static" not in path.parts]
    return {p.relative_to(site).as_posix(): p.read_text("utf-8") for p in sorted(paths)}


def values(page, *names):
    """What a page gives to attributes of these names."""
    found = re.findall(rf'(?<=\s)(?:{"|".join(names)})="([^"]*)"', page)
    return [html.unescape(value) for value in found]


def test_every_link_within_the_book_leads_somewhere(site, pages):
    ids = {path: {"", *values(page, "id", "name")} for path, page in pages.items()}
    for path, page in pages.items():
        links = values(page, "href", "src")
        for link in (link for link in links if not re.match(r"\w+:|//", link)):
            address, anchor = urldefrag(urljoin(f"/{path}", link))
            target = unquote(address.partition("?")[0]).lstrip("/") or "index.html"
            assert (site / target).is_file(), (path, link)
            assert unquote(anchor) in ids.get(target, {unquote(anchor)}), (path, link)


def test_every_picture_has_a_text(pages):
    for path, page in pages.items():
        for picture in re.findall(r"<img\s[^>]*>", page):
            (text,) = values(picture, "alt")
            assert len(text) >= 10 and not text.startswith("../"), (path, picture)


BAD_TABLES = """
    const tables = [...document.querySelectorAll("article table")];
    return tables.filter((table) =>
        (table.scrollWidth > table.clientWidth && table.tabIndex < 0) // no key moves it
        || [...table.querySelectorAll("th")].some((cell) => !cell.innerText.trim())
    ).map((table) => table.innerText);
"""


def test_every_page_opens_on_a_phone_without_errors(driver, address, pages):
    emulate(driver, PHONE)
    for path in pages:
        driver.get(address + path)
        (sent,) = messages(driver, "requestWillBeSent")
        urls = [params["request"]["url"] for params in sent]
        wide = driver.execute_script("return document.documentElement.scrollWidth")
        assert [u for u in urls if not u.startswith((address, "data:"))] == [], path
        assert wide <= PHONE[0] and errors(driver) == [], path
        assert driver.execute_script(BAD_TABLES) == [], path


def test_a_wide_formula_can_be_moved_on_a_phone(driver, address):
    emulate(driver, PHONE)
    driver.get(f"{address}notebooks/02_attention.html")
    ask = """
        const width = (node) => node.getBoundingClientRect().width;
        return [...document.querySelectorAll("span.math > mjx-container")]
            .filter((node) => width(node) > node.parentElement.clientWidth + 1)
            .map((node) => getComputedStyle(node.parentElement).overflowX);
    """
    wait(lambda: "auto" in driver.execute_script(ask), 20, "a wide formula")
    assert "hidden" not in driver.execute_script(ask)


def test_search_finds_the_causal_mask(driver, address):
    driver.get(f"{address}notebooks/02_attention.html")
    driver.find_element("css selector", ".search-button-field").click()
    driver.switch_to.active_element.send_keys("causal mask", Keys.ENTER)
    ask = "return !!document.querySelector('#search-results li a[href*=\"03_masks\"]')"
    wait(lambda: driver.execute_script(ask), 20, "lesson 03 among the results")


@pytest.mark.parametrize("path", ["notebooks/03_masks.html", "translator/index.html"])
def test_dark_mode_is_dark(driver, address, path):
    ask = "return getComputedStyle(document.body).backgroundColor"
    for dark in (False, True):
        emulate(driver, PHONE, dark=dark)
        driver.get(f"{address}{path}")
        rgb = map(int, re.findall(r"\d+", driver.execute_script(ask))[:3])
        assert all((part < 70 if dark else part > 200) for part in rgb)


def test_the_first_page_translates_and_is_light(driver, address):
    driver.get(f"{address}index.html")
    find = functools.partial(driver.find_elements, "css selector")
    wait(lambda: find("[data-first-after]"), 20, "the first translation")
    assert find(".lt-map svg")[0].is_displayed()
    assert not find(".lt-heads")[0].is_displayed()
    sizes = "return performance.getEntries().map((entry) => entry.transferSize ?? 0)"
    assert 1_000_000 < sum(driver.execute_script(sizes)) < 2_000_000  # not compressed

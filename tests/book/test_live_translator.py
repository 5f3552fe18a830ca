"""The live translator in a browser: equal to Python, usable by all, asking nobody else.

`make test-book` runs this; it is skipped, with its reason, where there is no Chromium.
"""

import base64
import shutil
from itertools import product

import pytest
import torch
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from chromium import PHONE, emulate, errors, messages, needs_chromium, served, wait
from helpers import BOS, EOS, PAD
from helpers.attention import record_attention
from helpers.batching import make_batch
from helpers.corpus import toy_corpus
from helpers.decoding import inference
from helpers.patching import replace_contexts
from helpers.translator import trained_toy
from lessons.lesson12.reading import patched_memory, write
from tools.live_translator import PAGE, write_data

pytestmark = needs_chromium
FIRST = "he does not hear the sad cow."
# The page's own greedy decoding with its maps, as `run` does it; the weights as bytes.
RUN = """
    const {model, translator} = live;
    return arguments[0].map((source) => {
        const write = () => [...write_tokens(
            model, model.encode(source), argmax, translator.max_length)];
        const [steps, maps] = record_attention(model, write);
        const rows = Object.keys(maps).sort().flatMap((name) => maps[name].flat());
        const weights = Float32Array.from(rows.flatMap((row) => [...row]));
        const bytes = String.fromCharCode(...new Uint8Array(weights.buffer));
        return [steps.map(({token}) => token), btoa(bytes)];
    });
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The page with its data in a folder of its own."""
    page = tmp_path_factory.mktemp("site") / "translator"
    shutil.copytree(PAGE, page, ignore=shutil.ignore_patterns("data"))
    write_data(page / "data", toy_corpus())
    return page


@pytest.fixture
def page(driver, address):
    """The page, newly opened, on a desktop; afterwards its console is clean."""
    yield Page(driver, f"{address}index.html")
    assert errors(driver) == []


@pytest.fixture(scope="module")
def translator():
    return trained_toy()


class Page:
    """What a person sees and does, from the first translation on."""

    def __init__(self, driver, url):
        self.driver, self.ask = driver, driver.execute_script
        driver.get(url)
        wait(lambda: self.all("[data-first-after]"), 20, "the first translation")

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def click(self, selector):
        found = self.find(selector)
        self.ask("arguments[0].scrollIntoView({block: 'center'})", found)
        found.click()

    def text(self, name):
        return self.find(f".lt-{name}").text

    def type(self, text, *keys, into="sentence"):
        """Write a text instead of the one that is there, and press keys."""
        field = self.find(f".lt-{into}")
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(Keys.DELETE, text, *keys)


def weights_of(model, source, target):
    """All weights of a sentence in the page's order: by map, head, query, key."""
    batch = make_batch([(source, target)])
    with inference(model), record_attention(model) as maps:
        model(batch.source, batch.decoder_input)
    return torch.cat([maps[name].flatten() for name in sorted(maps)])


def test_every_sentence_is_translated_as_in_python_with_the_same_maps(page, translator):
    sources = [
        pair.source for pair in (*toy_corpus().test, *toy_corpus().compositional)
    ]
    written = translator.translate(sources)
    ids = translator.encode_pairs(list(zip(sources, written, strict=True)))
    assert len(ids) == 2_000
    for start in range(0, len(ids), 100):
        some = ids[start : start + 100]
        found = page.ask(RUN, [[*source, EOS] for source, _ in some])
        for (source, target), (tokens, weights) in zip(some, found, strict=True):
            assert tokens == [*target, EOS]
            weights = bytearray(base64.b64decode(weights))
            weights = torch.frombuffer(weights, dtype=torch.float32)
            expected = weights_of(translator.model, source, target)
            torch.testing.assert_close(weights, expected, atol=1e-4, rtol=0)


def test_a_head_switched_off_writes_what_it_writes_in_python(page, translator):
    sources = [pair.source for pair in toy_corpus().test[:40]]
    plain = translator.translate(sources)
    told = "return arguments[0].map((text) => live.translator.translate(text))"
    name = "encoder.layers.1.self_attention"
    with replace_contexts(translator.model.get_submodule(name), 1, 0.0):
        expected = translator.translate(sources)
    page.type(sources[0], Keys.ENTER)
    page.driver.find_element("xpath", "//label[contains(., 'enc 2.2')]/input").click()
    assert page.text("french") == expected[0]
    assert "enc 2.2 switched off" in page.text("change")
    assert page.ask(told, sources) == expected != plain
    page.click(".lt-all-on")
    assert page.text("french") == plain[0] and page.text("change") == ""
    assert page.ask(told, sources) == plain


def test_a_patch_writes_what_it_writes_in_python(page, translator):
    model, texts = translator.model, ("dog", "table", "bird", "cow")
    encode = translator.source_text.encode
    first, *donors = [[*encode(f"he sees the {noun}."), EOS] for noun in texts]
    asked = """
        const [source, donor, level, places] = arguments;
        const memory = patched_memory(live.model, source, donor, level, places);
        return [...write_tokens(live.model, memory, argmax, 5)].map((x) => x.token);
    """
    places = [2], [3], [2, 3], [0, 4]
    for level, donor, changed in product((0, 1, 2), donors, places):
        own, other = torch.tensor([first]), torch.tensor([donor])
        with inference(model):
            memory = patched_memory(model, own, other, level, changed)
            expected = write(model, memory, own)[0].tolist()
        assert page.ask(asked, first, donor, level, changed) == expected


def test_an_unknown_word_gets_the_message_of_python(page, translator):
    def answer(word):
        try:
            return translator.source_text.encode(word)
        except ValueError as error:
            return str(error)

    known = translator.source_text.ids
    words = ["xyzzy", "a" * 60, "Straße", "qu'est-ce", "<pad>", "it's", "42", "…"]
    words += [word[:1] + word[2:] for word in known] + [f"{word}eX" for word in known]
    asked = """
        return arguments[0].map((text) => {
            try { return live.translator.source_text.encode(text); }
            catch (error) { return error.message; }
        });
    """
    answers = [answer(word) for word in words]
    assert page.ask(asked, words) == answers
    assert sum("near it" in str(said) for said in answers) > 100


def test_words_are_suggested_and_a_wrong_one_is_said(page, translator):
    page.type("he sees the tab")
    assert [chip.text for chip in page.all(".lt-words button")] == ["table", "tables"]
    page.click(".lt-words button")
    assert page.find(".lt-sentence").get_attribute("value") == "he sees the table "
    for text, error in (("he sees the dogg.", "“dogg” is not among"), ("", "empty")):
        page.type(text, Keys.ENTER)
        assert error in page.text("error")
        assert page.find(".lt-sentence").get_attribute("aria-invalid") == "true"
    page.type("The Dog sees the cow.", Keys.ENTER)
    assert page.text("error") == ""
    assert page.text("french") == translator.translate(["the dog sees the cow."])[0]


def test_the_corpus_offers_sentences_by_phenomenon_with_their_alignment(page):
    by_source = {p.source: p for p in (*toy_corpus().test, *toy_corpus().compositional)}
    for name in ("negation", "elision"):
        page.ask("arguments[0].value = arguments[1]", page.find(".lt-phenomenon"), name)
        page.click(".lt-another")
        pair = by_source[page.find(".lt-sentence").get_attribute("value")]
        assert name in page.text("verdict") and page.text("french") == pair.target
        squares = page.all(".lt-map .aligned")
        assert len(squares) == 2 * len(pair.alignment)  # white on a dark rim


def test_a_word_shows_where_it_looks(page):
    vache = page.all(".lt-french-words button")[5]
    ActionChains(page.driver).move_to_element(vache).perform()
    assert page.text("looks").startswith("cross 1, mean: “vache” looks at cow ")
    page.ask("arguments[0].focus()", vache)
    ActionChains(page.driver).send_keys(Keys.ARROW_RIGHT).perform()
    assert "“triste” looks at sad " in page.text("looks")
    cell = page.find(".lt-map svg rect[fill^='rgb']")
    ActionChains(page.driver).move_to_element(cell).perform()
    assert "“il” looks at he " in page.text("looks")


def test_any_map_can_be_chosen(page):
    page.click("[aria-label='show dec 2.3']")
    label = page.find(".lt-map svg").get_attribute("aria-label")
    assert label.startswith("decoder self-attention, layer 2, head 3. ")
    words = len(page.all(".lt-french-words button"))
    assert len(page.all(".lt-map rect[fill^='url']")) == words * (words - 1) // 2
    weights = page.ask(
        "return live.maps['decoder.layers.1.self_attention'][2]"
        ".map((row) => [...row].map((x) => x.toFixed(2))).flat()"
    )
    titles = [title.get_attribute("textContent") for title in page.all(".lt-map title")]
    for title, weight in zip(titles, weights, strict=True):
        assert title.endswith((f": {weight}", ": hidden"))


def test_decoding_can_be_stepped_through(page, translator):
    page.click(".lt-first")
    assert page.text("french") == "il …"
    page.click(".lt-next")
    page.find(".lt-step").send_keys(Keys.ARROW_RIGHT)
    assert page.text("french") == "il n'entend …"
    # the probabilities are those of Python after the same words
    encode, model = translator.source_text.encode, translator.model
    batch = make_batch([(encode(FIRST), translator.target_text.encode("il n'"))])
    with inference(model):
        logits = model(batch.source, batch.decoder_input)[0, -1]
    logits[[PAD, BOS]] = -torch.inf  # no words
    shares, ids = logits.softmax(dim=-1).topk(5)
    words = translator.target_text.tokens(ids.tolist())
    items = [item.text.split("\n") for item in page.all(".lt-probabilities li")]
    assert [item[0] for item in items] == words
    said = torch.tensor([float(item[-1].removesuffix(" %")) for item in items])
    torch.testing.assert_close(said, 100 * shares, atol=0.06, rtol=0)
    page.click(".lt-play")
    wait(lambda: page.text("play") == "Play", 20, "the end of playing")
    assert page.text("french") == translator.translate([FIRST])[0]


def test_a_patch_is_put_in_and_taken_out(page):
    page.driver.find_element("xpath", '//button[.="Lesson 12\'s example"]').click()
    patched = page.text("french")
    page.click(".lt-unpatch")
    assert page.text("french") == "il voit le chien." != patched
    page.type("he sees the old bird.", Keys.TAB, into="donor")
    assert "has 6 words, the sentence 5" in page.text("donor-error")


def test_a_phone_shows_a_long_sentence_without_sideways_scrolling(page):
    emulate(page.driver, PHONE)
    long = "they do not give us the expensive scarf."
    page.ask("live.ask(arguments[0]); live.point_at('said', 4)", long)
    over = "node.getBoundingClientRect().right > innerWidth + 1"
    all_over = f"return [...document.querySelectorAll('main *')].filter(node => {over})"
    assert page.ask(all_over) == []


def test_every_control_has_a_name_and_every_picture_a_text(page):
    nameless = page.ask("""
        const name = (node) => node.ariaLabel || node.textContent.trim()
            || node.labels?.[0]?.textContent.trim();
        return [...document.querySelectorAll("button, input, select, svg")]
            .filter((node) => !name(node)).map((node) => node.outerHTML);
    """)
    assert nameless == []


def test_it_takes_a_sentence_and_asks_nobody_else_even_as_a_file(driver, site, address):
    for folder in (f"{site.as_uri()}/", address):
        page = Page(driver, f"{folder}index.html?sentence=he%20sees%20the%20bird.")
        assert page.text("french") == "il voit l'oiseau."
        (sent,) = messages(driver, "requestWillBeSent")
        urls = [params["request"]["url"] for params in sent]
        assert len(urls) >= 6 and errors(driver) == []
        assert [url for url in urls if not url.startswith((folder, "data:"))] == []


def test_missing_weights_are_said_on_the_page(driver, site, tmp_path):
    folder = shutil.copytree(site, tmp_path / "copy")
    (folder / "data" / "translator.safetensors").unlink()
    with served(folder) as address:
        driver.get(f"{address}index.html")
        ask = "return document.querySelector('[role=alert]')?.textContent"
        said = wait(lambda: driver.execute_script(ask), 20, "what is amiss")
        assert "translator.safetensors: 404" in said

"""The live translator in a browser: equal to Python, usable by all, asking nobody else.

`make test-book` runs this; it is skipped, with its reason, where there is no Chromium.
"""

import base64
import random
import shutil

import pytest
import torch
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from chromium import (
    DESKTOP,
    PHONE,
    emulate,
    errors,
    messages,
    needs_chromium,
    served,
    wait,
)
from helpers import BOS, EOS, PAD
from helpers.attention import record_attention
from helpers.batching import make_batch
from helpers.corpus import toy_corpus
from helpers.decoding import inference
from helpers.patching import replace_contexts
from helpers.text import Vocabulary
from helpers.translator import Translator, trained_toy
from lessons.lesson12.reading import patched_memory, write
from samples import small_model
from tools.live_translator import PAGE, write_data

pytestmark = needs_chromium
FIRST = "he does not hear the sad cow."
LONG = "they do not give us the expensive scarf."
# The page's own greedy decoding with its maps, as `run` does it.
RUN = """
    const [ids, expected] = arguments;
    const {model, translator} = live[0];
    const floats = (text) => new Float32Array(
        Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
    return ids.map((source, row) => {
        const write = () => [...write_tokens(
            model, model.encode(source), argmax, translator.max_length)];
        const [steps, maps] = record_attention(model, write);
        const found = Object.keys(maps).sort().flatMap((name) => maps[name].flat());
        const theirs = floats(expected[row]);
        let [at, largest] = [0, 0];
        for (const weights of found) for (const weight of weights) {
            largest = Math.max(largest, Math.abs(weight - (theirs[at++] ?? NaN)));
        }
        return [steps.map(({token}) => token), at === theirs.length ? largest : null];
    });
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The page with its data in a folder of its own."""
    page = tmp_path_factory.mktemp("site") / "translator"
    shutil.copytree(PAGE, page, ignore=shutil.ignore_patterns("data"))
    write_data(page / "data")
    return page


@pytest.fixture
def page(driver, address):
    """The page, newly opened, on a desktop; afterwards its console is clean."""
    yield Page(driver, f"{address}index.html")
    assert errors(driver) == []


@pytest.fixture(scope="module")
def translator():
    return trained_toy()


@pytest.fixture(scope="module")
def corpus():
    return toy_corpus()


class Page:
    """What a person sees and does, from the first translation on."""

    def __init__(self, driver, url):
        self.driver, self.ask = driver, driver.execute_script
        driver.get(url)
        ready = "return document.querySelector('[data-first-after]') !== null"
        wait(lambda: self.ask(ready), 20, "the first translation", pause=0.05)

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


# -- equal to Python -------------------------------------------------------------------


def maps_of(translator, pairs):
    """Each pair's maps as the page lists them: by name, head, query, key."""
    batch = make_batch(pairs)
    with inference(translator.model), record_attention(translator.model) as maps:
        translator.model(batch.source, batch.decoder_input)
    for row, (source, target) in enumerate(pairs):
        parts = []
        for name in sorted(maps):
            queries = len(source if name.startswith("encoder") else target) + 1
            written = name.startswith("decoder") and name.endswith("self_attention")
            keys = len(target if written else source) + 1
            parts.append(maps[name][row, :, :queries, :keys].flatten())
        yield torch.cat(parts)


def test_every_sentence_is_translated_as_in_python_with_the_same_maps(
    page, translator, corpus
):
    sources = [pair.source for pair in (*corpus.test, *corpus.compositional)]
    assert len(sources) == 2_000
    written = translator.translate(sources)
    pairs = translator.encode_pairs(list(zip(sources, written, strict=True)))
    largest = 0.0
    for start in range(0, len(pairs), 100):
        some = pairs[start : start + 100]
        maps = [
            base64.b64encode(flat.numpy().tobytes()).decode("ascii")
            for flat in maps_of(translator, some)
        ]
        ids = [[*source, EOS] for source, _ in some]
        found = page.ask(RUN, ids, maps)
        assert [tokens for tokens, _ in found] == [[*t, EOS] for _, t in some]
        differences = [difference for _, difference in found]
        assert None not in differences  # as many weights
        largest = max(largest, *differences)
    print(f"largest difference of a weight: {largest:.1e}")
    assert largest < 1e-4


def test_a_head_switched_off_writes_what_it_writes_in_python(page, translator, corpus):
    sources = [pair.source for pair in corpus.test[:40]]
    plain = translator.translate(sources)
    told = "return arguments[0].map((text) => live[0].translator.translate(text))"
    name, switch = "encoder.layers.1.self_attention", "//label[contains(., 'enc 2.2')]"
    with replace_contexts(translator.model.get_submodule(name), 1, 0.0):
        expected = translator.translate(sources)
    page.type(sources[0], Keys.ENTER)
    page.driver.find_element("xpath", f"{switch}/input").click()
    assert page.text("french") == expected[0]
    assert "enc 2.2 switched off" in page.text("change")
    assert page.ask(told, sources) == expected != plain
    page.click(".lt-all-on")
    assert page.text("french") == plain[0]
    assert not page.find(".lt-change").is_displayed()
    assert page.ask(told, sources) == plain


def test_a_model_with_the_norm_last_is_read_too(page, site):
    texts = [Vocabulary(f"w{i}" for i in range(46)) for _ in range(2)]
    model = small_model(norm_first=False)
    Translator(model, *texts).save(site / "data" / "norm_last.safetensors")
    source, target = [[i % 46 + 4 for i in range(start, start + 7)] for start in (3, 9)]
    asked = """
        const [source, target, done] = arguments;
        fetch("data/norm_last.safetensors").then((reply) => reply.arrayBuffer())
            .then((buffer) => {
                const {model} = new Translator(buffer);
                const states = model.decode(target, model.encode(source));
                done(model.projection(states).map((row) => [...row]));
            });
    """
    found = page.driver.execute_async_script(asked, source, target)
    with inference(model):
        expected = model(torch.tensor([source]), torch.tensor([target]))[0]
    torch.testing.assert_close(torch.tensor(found), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_patch_writes_what_it_writes_in_python(page, translator, level):
    texts = [f"he sees the {noun}." for noun in ("dog", "table", "bird", "cow")]
    ids = [[*translator.source_text.encode(text), EOS] for text in texts]
    asked = """
        const [source, donor, level, places] = arguments;
        const memory = patched_memory(live[0].model, source, donor, level, places);
        return [...write_tokens(live[0].model, memory, argmax, 5)].map((x) => x.token);
    """
    for donor in ids[1:]:
        for places in ([2], [3], [2, 3], [0, 4]):
            own, other = torch.tensor([ids[0]]), torch.tensor([donor])
            with inference(translator.model):
                memory = patched_memory(translator.model, own, other, level, places)
                expected = write(translator.model, memory, own)[0].tolist()
            assert page.ask(asked, ids[0], donor, level, places) == expected


def test_an_unknown_word_gets_the_message_of_python(page, translator):
    rng, known = random.Random(0), list(translator.source_text.ids)
    words = ["xyzzy", "a" * 60, "Straße", "qu'est-ce", "<pad>", "it's", "42", "…"]
    for _ in range(300):  # a letter of a known word left out, doubled or changed
        word = rng.choice(known)
        place = rng.randrange(len(word))
        words.append(word[:place] + rng.choice(["", "s", "eX"]) + word[place + 1 :])
    answers = []
    for word in words:
        try:
            answers.append(translator.source_text.encode(word))
        except ValueError as error:
            answers.append(str(error))
    asked = """
        return arguments[0].map((text) => {
            try { return live[0].translator.source_text.encode(text); }
            catch (error) { return error.message; }
        });
    """
    assert page.ask(asked, words) == answers
    assert sum("near it" in str(answer) for answer in answers) > 100


# -- what a person does ----------------------------------------------------------------


def test_words_are_suggested_and_a_wrong_one_is_said(page, translator):
    page.type("The Dog sees the cow.", Keys.ENTER)
    before = page.text("french")
    assert before == translator.translate(["the dog sees the cow."])[0]
    page.type("he sees the tab")
    assert [chip.text for chip in page.all(".lt-words button")] == ["table", "tables"]
    page.click(".lt-words button")
    assert page.find(".lt-sentence").get_attribute("value") == "he sees the table "
    page.type("he sees the dogg.", Keys.ENTER)
    with pytest.raises(ValueError) as raised:
        translator.source_text.encode("he sees the dogg.")
    assert page.text("error") == str(raised.value)
    assert page.find(".lt-sentence").get_attribute("aria-invalid") == "true"
    assert page.text("french") == before
    page.type("", Keys.ENTER)
    assert "empty sentence" in page.text("error")
    page.type("he sees the dog.", Keys.ENTER)
    assert page.text("error") == ""


def test_the_corpus_offers_sentences_by_phenomenon_with_their_alignment(page, corpus):
    by_source = {p.source: p for p in (*corpus.test, *corpus.compositional)}
    for name in ("negation", "elision"):
        page.ask("arguments[0].value = arguments[1]", page.find(".lt-phenomenon"), name)
        page.click(".lt-another")
        pair = by_source[page.find(".lt-sentence").get_attribute("value")]
        assert name in page.text("verdict")
        if page.text("french") == pair.target:
            squares = page.all(".lt-map .aligned")
            assert len(squares) == 2 * len(pair.alignment)  # white on a dark rim


def test_a_word_shows_where_it_looks(page):
    vache = page.all(".lt-french-words button")[5]
    assert vache.text == "vache"
    ActionChains(page.driver).move_to_element(vache).perform()
    assert page.text("looks").startswith("cross 1, mean: “vache” looks at cow ")
    # by keys: the focus moves on along the row, and what is shown with it
    page.ask("document.querySelectorAll('.lt-french-words button')[5].focus()")
    ActionChains(page.driver).send_keys(Keys.ARROW_RIGHT).perform()
    assert "“triste” looks at sad " in page.text("looks")
    # and from the map itself
    rows = page.all(".lt-map svg rect[fill^='rgb']")
    ActionChains(page.driver).move_to_element(rows[0]).perform()
    assert "“il” looks at he " in page.text("looks")


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_any_map_can_be_chosen(page, kind):
    page.click(f"[aria-label='show {kind[:3]} 2.3']")
    label = page.find(".lt-map svg").get_attribute("aria-label")
    assert label.startswith(f"{kind} self-attention, layer 2, head 3. ")
    hidden = page.all(".lt-map rect[fill^='url']")
    words = len(page.all(".lt-french-words button"))
    assert len(hidden) == (words * (words - 1) // 2 if kind == "decoder" else 0)
    weights = page.ask(
        f"return live[0].maps['{kind}.layers.1.self_attention'][2]"
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
    source = translator.source_text.encode(FIRST)
    batch = make_batch([(source, translator.target_text.encode("il n'"))])
    with inference(translator.model):
        logits = translator.model(batch.source, batch.decoder_input)[0, -1]
    logits[[PAD, BOS]] = -torch.inf  # no words
    shares, ids = logits.softmax(dim=-1).topk(5)
    found = [item.text.split("\n") for item in page.all(".lt-probabilities li")]
    words = translator.target_text.tokens(ids.tolist())
    for row, word, share in zip(found, words, shares.tolist(), strict=True):
        assert row[0] == word
        assert abs(float(row[-1].removesuffix(" %")) - 100 * share) <= 0.06
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


# -- for all ---------------------------------------------------------------------------


def test_what_the_page_says_of_the_model_is_so(page, translator):
    text = page.find("main").text
    count = sum(parameter.numel() for parameter in translator.model.parameters())
    assert f"A Transformer of {round(count, -4):,} parameters" in text
    assert f"{len(translator.source_text) - 4} English words and signs" in text


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_phone_shows_all_without_sideways_scrolling(page, dark):
    emulate(page.driver, PHONE, dark=dark)
    page.ask("live[0].ask(arguments[0])", LONG)
    page.ask("live[0].point_at('said', 4)")
    assert page.ask("return document.documentElement.scrollWidth") <= PHONE[0]
    over = "node.getBoundingClientRect().right > innerWidth + 1"
    all_over = f"return [...document.querySelectorAll('main *')].filter(node => {over})"
    assert page.ask(all_over) == []


def test_light_and_dark_follow_the_system_and_the_book(page):
    asked = """
        const {backgroundColor, color} = getComputedStyle(document.body);
        const sum = (text) =>
            text.match(/\\d+/g).slice(0, 3).reduce((all, one) => all + Number(one), 0);
        return sum(backgroundColor) < sum(color);
    """
    for dark in (False, True):
        emulate(page.driver, DESKTOP, dark=dark)
        page.ask("delete document.documentElement.dataset.theme")
        assert page.ask(asked) is dark
        other = "light" if dark else "dark"
        page.ask("document.documentElement.dataset.theme = arguments[0]", other)
        assert page.ask(asked) is not dark


def test_every_control_has_a_name_and_every_picture_a_text(page):
    nameless = page.ask("""
        const name = (node) => node.getAttribute("aria-label")
            || node.textContent.trim() || node.labels?.[0]?.textContent.trim();
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
        assert len(urls) >= 6
        assert [url for url in urls if not url.startswith((folder, "data:"))] == []
        assert errors(driver) == []


def test_another_page_shows_it_small_and_more_than_once(driver, site, address):
    page = (site / "index.html").read_text("utf-8")
    whole = '<div class="live-translator" data-live-translator>'
    small = whole.replace("translator>", 'translator="small"></div>')
    (site / "two.html").write_text(page.replace(whole, small + whole), "utf-8")
    emulate(driver, PHONE)
    two = Page(driver, f"{address}two.html")
    assert two.ask("live[1].ask('he sees the dog.'); return live.length") == 2
    french = [found.text for found in two.all(".lt-french")]
    assert french == ["il n'entend pas la vache triste.", "il voit le chien."]
    for name, in_small in (("map svg", True), ("heads", False), ("patch", False)):
        found = [part.is_displayed() for part in two.all(f".lt-{name}")]
        assert found == [in_small, True]
    ids = [node.get_attribute("id") for node in two.all("[id]")]
    assert len(ids) == len({*ids}) >= 4 and errors(driver) == []


def test_without_javascript_a_still_picture_and_a_sentence_are_shown(driver, address):
    off = {"value": True}
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", off)
    try:
        driver.get(f"{address}index.html")
        picture = driver.find_element("css selector", "noscript img")
        assert picture.is_displayed() and picture.size["height"] > 200
        assert "il n'entend pas la vache triste." in picture.get_attribute("alt")
        assert driver.find_element("css selector", "noscript p").is_displayed()
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_missing_weights_are_said_on_the_page(driver, site, tmp_path):
    folder = shutil.copytree(site, tmp_path / "copy")
    (folder / "data" / "translator.safetensors").unlink()
    with served(folder) as address:
        driver.get(f"{address}index.html")
        ask = "return document.querySelector('[role=alert]')?.textContent"
        said = wait(lambda: driver.execute_script(ask), 20, "what is amiss")
        assert "translator.safetensors: 404" in said

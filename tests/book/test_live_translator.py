"""The live translator in a browser: equal to Python, quick, usable by all.

`make test-book` runs this; it is skipped, with its reason, where there is no Chromium.
Screenshots are kept in pytest's temporary folder.
"""

import base64
import random
import shutil

import pytest
import torch

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
from helpers import EOS, SPECIAL_TOKENS
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
FIRST, LONG = (
    "he does not hear the sad cow.",
    "they do not give us the expensive scarf.",
)
MOST_BYTES = 2_000_000
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
    folder = tmp_path_factory.mktemp("site")
    page = shutil.copytree(
        PAGE, folder / "translator", ignore=shutil.ignore_patterns("data")
    )
    write_data(page / "data")
    return page


@pytest.fixture
def page(driver, address):
    """The page, newly opened, on a desktop; afterwards its console is clean."""
    open_page(driver, f"{address}index.html")
    yield Page(driver)
    assert errors(driver) == []


@pytest.fixture(scope="module")
def translator():
    return trained_toy()


@pytest.fixture(scope="module")
def corpus():
    return toy_corpus()


class Page:
    """What a person sees and does."""

    def __init__(self, driver):
        self.driver, self.ask = driver, driver.execute_script

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

    def press(self, *keys):
        """Press keys, one after the other, wherever the focus is."""
        from selenium.webdriver.common.action_chains import ActionChains

        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def type(self, sentence):
        """Write a sentence instead of the one that is there."""
        from selenium.webdriver.common.keys import Keys

        field = self.find(".lt-sentence")
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(Keys.DELETE, sentence, Keys.ENTER)


def open_page(driver, url):
    driver.get(url)
    ready = "return document.querySelector('[data-first-after]') !== null"
    wait(lambda: driver.execute_script(ready), 20, "the first translation", pause=0.05)


# -- equal to Python -------------------------------------------------------------------


def maps_of(translator, pairs):
    """Each pair's maps as the page lists them: by name, head, query, key."""
    batch = make_batch(pairs)
    with inference(translator.model), record_attention(translator.model) as maps:
        translator.model(batch.source, batch.decoder_input)
    for row, (source, target) in enumerate(pairs):
        sizes = {"source": len(source) + 1, "target": len(target) + 1}
        parts = []
        for name in sorted(maps):
            encoder, cross = (
                name.startswith("encoder"),
                name.endswith("cross_attention"),
            )
            queries = sizes["source" if encoder else "target"]
            keys = sizes["source" if encoder or cross else "target"]
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
    cases = [
        ("encoder.layers.1.self_attention", 1),
        ("decoder.layers.0.cross_attention", 3),
    ]
    changed = 0
    for name, head in cases:
        with replace_contexts(translator.model.get_submodule(name), head, 0.0):
            expected = translator.translate(sources)
        page.ask(
            "live[0].model.attentions[arguments[0]].off.add(arguments[1])", name, head
        )
        told = "return arguments[0].map((text) => live[0].translator.translate(text))"
        assert page.ask(told, sources) == expected
        page.ask("live[0].model.attentions[arguments[0]].off.clear()", name)
        plain = translator.translate(sources)
        changed += sum(a != b for a, b in zip(expected, plain, strict=True))
    assert changed > 2  # so that the heads do something here


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
    ids = [
        [*translator.source_text.encode(f"he sees the {noun}."), EOS]
        for noun in ("dog", "table", "bird", "cow")
    ]
    asked = """
        const [source, donor, level, places] = arguments;
        const memory = patched_memory(live[0].model, source, donor, level, places);
        const steps = [...write_tokens(live[0].model, memory, argmax, 5)];
        return steps.map(({token}) => token);
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
    words = [
        "xyzzy",
        "a" * 60,
        "Straße",
        "qu'est-ce",
        "été",
        "<pad>",
        "it's",
        "42",
        "…",
    ]
    for _ in range(300):
        word = list(rng.choice(known))
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(word) + 1)
            word[place : place + rng.randint(0, 1)] = rng.choice(["", "s", "e", "X"])
        words.append("".join(word))

    def message(text):
        try:
            return translator.source_text.encode(text)
        except ValueError as error:
            return str(error)

    asked = """
        return arguments[0].map((text) => {
            try { return live[0].translator.source_text.encode(text); }
            catch (error) { return error.message; }
        });
    """
    found = page.ask(asked, words)
    assert found == [message(word) for word in words]
    assert sum("near it" in str(answer) for answer in found) > 100


# -- speed and weight ------------------------------------------------------------------


def test_the_first_translation_comes_within_two_seconds(page, translator):
    assert float(page.ask("return live[0].root.dataset.firstAfter")) < 2_000
    assert page.text("french") == translator.translate([FIRST])[0]


def test_further_translations_take_a_tenth_of_a_second(page, corpus):
    longest = sorted(corpus.test, key=lambda pair: -len(pair.source))[:10]
    taken = []
    asked = """
        live[0].ask(arguments[0]);
        return Number(live[0].root.dataset.milliseconds);
    """
    for pair in (*longest, *corpus.test[:20]):
        # The best of five: other processes may hold the cores for a moment.
        taken.append(min(page.ask(asked, pair.source) for _ in range(5)))
    print(f"milliseconds: {min(taken)} to {max(taken)}")
    assert max(taken) < 100


def test_the_page_is_light_and_asks_nobody_else(driver, address):
    open_page(driver, f"{address}index.html")
    sent, received = messages(driver, "requestWillBeSent", "loadingFinished")
    urls = [params["request"]["url"] for params in sent]
    assert len(urls) >= 8
    assert [url for url in urls if not url.startswith((address, "data:"))] == []
    size = sum(params["encodedDataLength"] for params in received)
    print(f"{size / 1e6:.2f} MB over the wire")
    assert 900_000 < size < MOST_BYTES


# -- what a person does ----------------------------------------------------------------


def test_a_typed_sentence_is_translated(page, translator):
    page.type("The Dog sees the cow.")
    assert page.text("french") == translator.translate(["the dog sees the cow."])[0]
    assert page.text("error") == ""


def test_a_word_is_suggested_and_put_in(page):
    from selenium.webdriver.common.keys import Keys

    field = page.find(".lt-sentence")
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys("he sees the tab")
    offered = [chip.text for chip in page.all(".lt-words button")]
    assert offered == ["table", "tables"]
    page.click(".lt-words button")
    assert field.get_attribute("value") == "he sees the table "


def test_an_unknown_word_is_said_on_the_page(page, translator):
    before = page.text("french")
    page.type("he sees the dogg.")
    with pytest.raises(ValueError) as raised:
        translator.source_text.encode("he sees the dogg.")
    assert page.text("error") == str(raised.value)
    assert page.find(".lt-sentence").get_attribute("aria-invalid") == "true"
    assert page.text("french") == before
    page.type("")
    assert "empty sentence" in page.text("error")
    page.type("he sees the dog.")
    assert page.text("error") == ""


def test_the_corpus_offers_sentences_by_phenomenon_with_their_alignment(page, corpus):
    by_source = {p.source: p for p in (*corpus.test, *corpus.compositional)}
    select = page.find(".lt-phenomenon")
    names = [
        option.get_attribute("value") for option in page.all(".lt-phenomenon option")
    ]
    for name in ("negation", "question", "elision"):
        assert name in names
        page.ask("arguments[0].value = arguments[1]", select, name)
        seen = set()
        for _ in range(2):
            page.click(".lt-another")
            sentence = page.find(".lt-sentence").get_attribute("value")
            pair = by_source[sentence]
            seen.add(sentence)
            assert name in page.text("verdict")
            if page.text("french") == pair.target:
                squares = page.all(".lt-map .aligned")
                assert len(squares) == 2 * len(pair.alignment)  # white on a dark rim
        assert len(seen) == 2


def test_a_word_shows_where_it_looks(page):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    vache = page.all(".lt-french-words button")[5]
    assert vache.text == "vache"
    ActionChains(page.driver).move_to_element(vache).perform()
    assert page.text("looks").startswith("cross 1, mean: “vache” looks at cow ")
    assert len(page.all(".lt-map .frame")) == 1
    lit = page.ask("""
        return [...document.querySelectorAll('.lt-english-words .lit')].map((chip) =>
            [chip.textContent, Number(chip.style.getPropertyValue('--weight'))]);
    """)
    assert max(lit, key=lambda pair: pair[1])[0] == "cow"
    # by keys: the focus moves on along the row, and what is shown with it
    page.ask("document.querySelectorAll('.lt-french-words button')[5].focus()")
    page.press(Keys.ARROW_RIGHT)
    assert "“triste” looks at sad " in page.text("looks")
    page.press(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    assert "“la” looks at the " in page.text("looks")
    # and from the map itself
    rows = page.all(".lt-map svg rect[fill^='rgb']")
    ActionChains(page.driver).move_to_element(rows[0]).perform()
    assert "“il” looks at he " in page.text("looks")


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_any_map_can_be_chosen(page, kind):
    page.click(f"[aria-label='show {kind[:3]} 2.3']")
    label = page.find(".lt-map svg").get_attribute("aria-label")
    assert label.startswith(f"{kind} self-attention, layer 2, head 3. ")
    shown = [
        page.find(f".lt-{name}").get_attribute("value") for name in ("layer", "head")
    ]
    assert shown == ["1", "2"]  # counted from 0
    hidden = page.all(".lt-map rect[fill^='url']")
    words = len(page.all(".lt-french-words button"))
    assert len(hidden) == (words * (words - 1) // 2 if kind == "decoder" else 0)
    expected = page.ask(
        "const maps = live[0].maps[`${arguments[0]}.layers.1.self_attention`][2];"
        "return maps.map((row) => [...row].map((x) => x.toFixed(2))).flat()",
        kind,
    )
    titles = [title.get_attribute("textContent") for title in page.all(".lt-map title")]
    assert len(titles) == len(expected)
    for title, weight in zip(titles, expected, strict=True):
        assert title.endswith((f": {weight}", ": hidden"))


def test_decoding_can_be_stepped_through(page, translator):
    from selenium.webdriver.common.keys import Keys

    steps = page.ask("return live[0].steps.length")
    page.click(".lt-first")
    assert page.text("french") == "il …"
    assert len(page.all(".lt-french-words button")) == 1
    page.click(".lt-next")
    page.find(".lt-step").send_keys(Keys.ARROW_RIGHT)
    assert page.text("french") == "il n'entend …"
    assert page.text("at-step") == f"Step 3 of {steps}: it says “entend”"
    # the probabilities are those of Python after the same words
    source = translator.source_text.encode(FIRST)
    target = translator.target_text.encode("il n'")
    batch = make_batch([(source, target)])
    with inference(translator.model):
        logits = translator.model(batch.source, batch.decoder_input)[0, -1]
    logits[[0, 2]] = -torch.inf  # PAD and BOS are no words
    shares, ids = logits.softmax(dim=-1).topk(5)
    found = [item.text.split("\n") for item in page.all(".lt-probabilities li")]
    words = translator.target_text.tokens(ids.tolist())
    assert [row[0] for row in found] == words
    for row, share in zip(found, shares.tolist(), strict=True):
        assert abs(float(row[-1].removesuffix(" %")) - 100 * share) <= 0.06
    page.click(".lt-play")
    wait(lambda: page.text("play") == "Play", 20, "the end of playing")
    assert page.text("french") == translator.translate([FIRST])[0]


def test_a_head_is_switched_off_and_on_again(page, translator):
    sentence = "he sees the bird."
    page.type(sentence)
    toggle = "//label[contains(., 'enc 2.2')]/input"
    page.driver.find_element("xpath", toggle).click()
    attention = translator.model.get_submodule("encoder.layers.1.self_attention")
    with replace_contexts(attention, 1, 0.0):
        (expected,) = translator.translate([sentence])
    (plain,) = translator.translate([sentence])
    assert expected != plain
    assert page.text("french") == expected
    assert "enc 2.2 switched off" in page.text("change") and plain in page.text(
        "change"
    )
    assert [mark.text for mark in page.all(".lt-french mark")] != []
    page.click(".lt-all-on")
    assert page.text("french") == plain and not page.find(".lt-change").is_displayed()


def test_a_patch_turns_the_french(page, tmp_path):
    page.driver.find_element("xpath", '//button[.="Lesson 12\'s example"]').click()
    assert page.text("french") == "il voit la table."
    assert "il voit le chien." in page.text("change")
    assert "The donor alone: il voit la table." in page.text("patched")
    page.driver.save_screenshot(str(tmp_path / "patched.png"))
    # another donor, as one types it: its "the" brings its first sound, its noun not
    from selenium.webdriver.common.keys import Keys

    donor = page.find(".lt-donor")
    donor.send_keys(Keys.CONTROL, "a")
    donor.send_keys("he sees the bird.", Keys.TAB)
    places = {chip.text: i for i, chip in enumerate(page.all(".lt-places button"))}
    assert [*places][3] == "dog ← bird"
    page.click(".lt-places button:nth-child(3)")
    assert page.text("french") == "il voit l'chien."
    page.click(".lt-unpatch")
    assert page.text("french") == "il voit le chien."
    donor.send_keys(Keys.CONTROL, "a")
    donor.send_keys("he sees the old bird.", Keys.TAB)
    assert "has 6 words, the sentence 5" in page.text("donor-error")


# -- for all ---------------------------------------------------------------------------


def test_what_the_page_says_of_the_model_is_so(page, translator):
    text = page.find("main").text
    count = sum(parameter.numel() for parameter in translator.model.parameters())
    assert f"A Transformer of {round(count, -4):,} parameters" in text
    words = len(translator.source_text) - len(SPECIAL_TOKENS)
    assert f"{words} English words and signs" in text
    assert f"All {words} words and signs" in text


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_phone_shows_all_without_sideways_scrolling(page, tmp_path, dark):
    emulate(page.driver, PHONE, dark=dark)
    page.ask("live[0].ask(arguments[0])", LONG)
    page.ask("live[0].point_at('said', 4)")
    assert page.ask("return innerWidth") == PHONE[0]
    assert page.ask("return document.documentElement.scrollWidth") <= PHONE[0]
    over = page.ask(
        "return [...document.querySelectorAll('main *')].filter((node) =>"
        " node.getBoundingClientRect().right > innerWidth + 1).map((n) => n.outerHTML)"
    )
    assert over == []
    page.driver.save_screenshot(str(tmp_path / "phone.png"))


def test_light_and_dark_follow_the_system_and_the_book(page):
    colours = """
        const style = getComputedStyle(document.body);
        const light = (text) =>
            text.match(/\\d+/g).slice(0, 3).reduce((sum, x) => sum + Number(x), 0);
        return light(style.backgroundColor) > light(style.color);
    """
    assert page.ask(colours) is True
    emulate(page.driver, DESKTOP, dark=True)
    assert page.ask(colours) is False
    page.ask("document.documentElement.dataset.theme = 'light'")
    assert page.ask(colours) is True
    emulate(page.driver, DESKTOP)
    page.ask("document.documentElement.dataset.theme = 'dark'")
    assert page.ask(colours) is False


def test_every_control_has_a_name_and_every_picture_a_text(page):
    nameless = page.ask("""
        const name = (node) => node.getAttribute("aria-label")
            || node.textContent.trim() || node.labels?.[0]?.textContent.trim();
        return [...document.querySelectorAll("button, input, select, svg")]
            .filter((node) => !name(node)).map((node) => node.outerHTML);
    """)
    assert nameless == []


def test_the_page_opens_as_a_file(driver, site):
    open_page(driver, (site / "index.html").as_uri())
    page = Page(driver)
    assert page.text("french") == "il n'entend pas la vache triste."
    assert errors(driver) == []


def test_the_page_takes_a_sentence_from_its_address(driver, address, translator):
    open_page(driver, f"{address}index.html?sentence=he%20sees%20the%20bird.")
    expected = translator.translate(["he sees the bird."])
    assert [Page(driver).text("french")] == expected


def test_another_page_shows_it_small_and_more_than_once(driver, site, address):
    page = (site / "index.html").read_text("utf-8")
    whole = '<div class="live-translator" data-live-translator>'
    small = whole.replace("translator>", 'translator="small"></div>')
    assert page.count(whole) == 1
    (site / "two.html").write_text(page.replace(whole, small + whole), "utf-8")
    emulate(driver, PHONE)
    open_page(driver, f"{address}two.html")
    two = Page(driver)
    assert two.ask("live[1].ask('he sees the dog.'); return live.length") == 2
    french = [found.text for found in two.all(".lt-french")]
    assert french == ["il n'entend pas la vache triste.", "il voit le chien."]
    for name, shown in (("map svg", 2), ("heads", 1), ("patch", 1)):
        found = [part.is_displayed() for part in two.all(f".lt-{name}")]
        assert found == [shown == 2, True]
    named = "return [...document.querySelectorAll('[id]')].map((node) => node.id)"
    ids = two.ask(named)
    assert len(ids) == len({*ids}) >= 4 and errors(driver) == []


def test_without_javascript_a_still_picture_and_a_sentence_are_shown(driver, address):
    off = {"value": True}
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", off)
    try:
        driver.get(f"{address}index.html")
        picture = driver.find_element("css selector", "noscript img")
        assert picture.is_displayed() and picture.size["height"] > 200
        assert "il n'entend pas la vache triste." in picture.get_attribute("alt")
        text = driver.find_element("css selector", "noscript p").text
        assert text.startswith("This is a still picture")
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_missing_weights_are_said_on_the_page(driver, site, tmp_path):
    folder = shutil.copytree(site, tmp_path / "copy")
    (folder / "data" / "translator.safetensors").unlink()
    with served(folder) as address:
        driver.get(f"{address}index.html")
        alert = "[data-live-translator] [role=alert]"
        found = wait(
            lambda: driver.find_elements("css selector", alert), 20, "what is amiss"
        )
        assert "translator.safetensors: 404" in found[0].text

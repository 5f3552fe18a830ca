// The live translator: what stands on the page, around the model of transformer.js.
// It fills the element that has the attribute data-live-translator; with the value
// "small" only the sentence, its translation and one map are shown.
"use strict";

const HERE = new URL(".", document.currentScript.src);
const KINDS = {
  "encoder self-attention": {
    module: "encoder.layers.{}.self_attention", short: "enc", queries: "source", keys: "source",
  },
  "decoder self-attention": {
    module: "decoder.layers.{}.self_attention", short: "dec", queries: "read", keys: "read",
  },
  "cross-attention": {
    module: "decoder.layers.{}.cross_attention", short: "cross", queries: "said", keys: "source",
  },
};
const AXES = { source: "source", read: "word read", said: "word said" };
const MEAN = "mean";
const FIRST = "he does not hear the sad cow.";
const LESSON_12 = { sentence: "he sees the dog.", donor: "he sees the table.", places: [3] };
const PAUSE = 450; // milliseconds between two words when it plays

// -- the data --------------------------------------------------------------------------

// A page that is opened as a file may not read other files, but it may run scripts: there
// the same data come in one.
async function load_data() {
  if (location.protocol === "file:") {
    await run_script("data/offline.js");
    const { weights, sentences } = globalThis.LIVE_TRANSLATOR;
    const bytes = Uint8Array.from(atob(weights), (letter) => letter.charCodeAt(0));
    return { buffer: bytes.buffer, sentences };
  }
  const files = ["data/translator.safetensors", "data/sentences.json"].map(fetch_file);
  const [weights, sentences] = await Promise.all(files);
  return { buffer: await weights.arrayBuffer(), sentences: await sentences.json() };
}

async function fetch_file(name) {
  const reply = await fetch(new URL(name, HERE));
  if (!reply.ok) throw new Error(`${name}: ${reply.status} ${reply.statusText}`);
  return reply;
}

function run_script(name) {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = new URL(name, HERE);
    script.onload = resolve;
    script.onerror = () => reject(new Error(`${name} is not there`));
    document.head.append(script);
  });
}

// The sentences of the corpus by their English, with the phenomena and the alignment.
function read_sentences({ phenomena, splits, sentences }) {
  const pairs = sentences.map(([source, target, links, shown, split]) => {
    const digits = [...links].map((digit) => parseInt(digit, 36));
    const alignment = [];
    for (let i = 0; i < digits.length; i += 2) alignment.push([digits[i], digits[i + 1]]);
    const names = phenomena.filter((_, bit) => (shown >> bit) & 1);
    const words = split_words(source);
    return { source, words, target, alignment, phenomena: names, split: splits[split] };
  });
  const by_source = new Map(pairs.map((pair) => [key_of(pair.source), pair]));
  return { phenomena, pairs, by_source };
}

// Sentences of the same words are the same, whatever their case and spaces.
const key_of = (sentence) => split_words(casefold(sentence)).join(" ");

// -- small tools -----------------------------------------------------------------------

// An element with its properties and children; `data-…` and `aria-…` are attributes.
function element(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role") node.setAttribute(name, value);
    else node[name] = value;
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

const button = (text, onclick, properties = {}) =>
  element("button", { type: "button", onclick, ...properties }, text);

// A text in pieces; the words that another text lacks in their place are marked.
function marked(text, other) {
  const words = [...text.matchAll(WORD)];
  const kept = new Set(longest_common(words.map(([word]) => word), split_words(other)));
  const pieces = words.flatMap((match, i) => {
    const end = i ? words[i - 1].index + words[i - 1][0].length : 0;
    const [word] = match;
    return [text.slice(end, match.index), kept.has(i) ? word : element("mark", {}, word)];
  });
  return pieces;
}

// The places in a of a longest common subsequence of a and b.
function longest_common(a, b) {
  const table = Array.from({ length: a.length + 1 }, () => new Uint8Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      const skip = Math.max(table[i + 1][j], table[i][j + 1]);
      table[i][j] = a[i] === b[j] ? table[i + 1][j + 1] + 1 : skip;
    }
  }
  const places = [];
  for (let [i, j] = [0, 0]; i < a.length && j < b.length; ) {
    if (a[i] === b[j]) [i, j] = [(places.push(i), i + 1), j + 1];
    else if (table[i + 1][j] >= table[i][j + 1]) i += 1;
    else j += 1;
  }
  return places;
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;
const mean_of = (maps) =>
  maps[0].map((row, i) => vector(row.length, (j) => mean(maps.map((map) => map[i][j]))));

// Arrow keys move the focus along a row of buttons, of which one is a stop of Tab.
function move_with_arrows(row) {
  row.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const buttons = [...row.querySelectorAll("button")];
    const next = buttons[buttons.indexOf(document.activeElement) + step];
    if (!step || !next) return;
    event.preventDefault();
    next.focus();
  });
}

// -- the page --------------------------------------------------------------------------

class LiveTranslator {
  constructor(root, translator, corpus) {
    Object.assign(this, { root, translator, corpus });
    this.model = translator.model;
    this.kind = "cross-attention";
    [this.layer, this.head] = [0, MEAN];
    this.word = null; // {axis, index}: the word that is pointed at
    this.patch = { donor: "", level: this.model.config.n_layers, places: new Set() };
    this.offered = new Map(); // how many sentences of a phenomenon were shown
    this.build();
    const asked = new URLSearchParams(location.search).get("sentence");
    this.ask(asked ?? FIRST);
  }

  // ---- compute

  // Translate a sentence, or say why that cannot be.
  ask(sentence) {
    this.parts.sentence.value = sentence;
    const start = performance.now();
    try {
      this.ids = this.translator.read(sentence);
    } catch (error) {
      this.say_error(error.message);
      return;
    }
    this.say_error("");
    this.pair = this.corpus.by_source.get(key_of(sentence)) ?? null;
    this.word = null;
    this.patch.donor = this.parts.donor.value = "";
    this.patch.places.clear();
    this.run();
    this.draw_words();
    this.suggest_donors();
    this.root.dataset.milliseconds = (performance.now() - start).toFixed(1);
    this.root.dataset.firstAfter ??= performance.now().toFixed(1); // the page was opened
  }

  // Run the model as its heads and the patch are now, keep its maps, and draw.
  run() {
    this.stop();
    const { model, translator, ids } = this;
    this.donor = this.read_donor();
    const places = this.donor ? [...this.patch.places] : [];
    [this.steps, this.maps] = record_attention(model, () => {
      const patched = () => patched_memory(model, ids, this.donor, this.patch.level, places);
      const memory = places.length ? patched() : model.encode(ids);
      return [...write_tokens(model, memory, argmax, translator.max_length)];
    });
    const target = this.steps.map(({ token }) => token);
    this.french = translator.target_text.decode(target);
    const said = translator.target_text.tokens(target);
    const read = ["<bos>", ...said.slice(0, -1)];
    this.texts = { source: translator.source_text.tokens(ids), read, said };
    this.plain = this.is_changed() ? this.translate_plainly(ids) : this.french;
    this.shown = this.steps.length;
    this.draw();
  }

  is_changed() {
    const off = Object.values(this.model.attentions).some((module) => module.off.size);
    return off || (this.donor !== null && this.patch.places.size > 0);
  }

  // What the whole model writes, with all heads and without a patch.
  translate_plainly(ids) {
    const modules = Object.values(this.model.attentions);
    const off = modules.map((module) => module.off);
    for (const module of modules) module.off = new Set();
    try {
      const written = greedy_decode(this.model, ids, this.translator.max_length);
      return this.translator.target_text.decode(written);
    } finally {
      modules.forEach((module, i) => (module.off = off[i]));
    }
  }

  // The donor's ids, or null if there is none that fits.
  read_donor() {
    const { donor } = this.patch;
    this.parts.donor_error.textContent = "";
    if (!donor.trim()) return null;
    try {
      const ids = this.translator.read(donor);
      if (ids.length === this.ids.length) return ids;
      const [ours, theirs] = [this.ids.length - 1, ids.length - 1];
      throw new Error(`the donor has ${theirs} words, the sentence ${ours}: it needs as many`);
    } catch (error) {
      this.parts.donor_error.textContent = error.message;
      return null;
    }
  }

  module_name(kind = this.kind, layer = this.layer) {
    return KINDS[kind].module.replace("{}", layer);
  }

  weights() {
    const maps = this.maps[this.module_name()];
    return this.head === MEAN ? mean_of(maps) : maps[this.head];
  }

  head_name(kind = this.kind, layer = this.layer, head = this.head) {
    const name = `${KINDS[kind].short} ${layer + 1}`;
    return head === MEAN ? `${name}, mean` : `${name}.${head + 1}`;
  }

  // Whether what is written is what the corpus has: only then its alignment fits.
  is_right() {
    return this.pair !== null && this.french === this.pair.target;
  }

  // ---- draw

  draw() {
    this.draw_french();
    this.draw_step();
    this.draw_heads();
    this.draw_patch();
    this.draw_map();
  }

  draw_french() {
    const { parts, pair, french, plain } = this;
    const written = this.steps.slice(0, this.shown).map(({ token }) => token);
    const text = this.translator.target_text.decode(written);
    parts.french.replaceChildren(...(french === plain ? [text] : marked(text, plain)));
    if (this.shown < this.steps.length) parts.french.append(" …");
    parts.verdict.textContent =
      pair === null
        ? "This sentence is not among the stored ones, so its true alignment is not known here."
        : this.is_right()
          ? `As in the corpus (${pair.split}). Shows: ${pair.phenomena.join(", ") || "nothing special"}.`
          : `The corpus has: “${pair.target}” Its alignment belongs to that sentence, so none is drawn.`;
    const changed = this.is_changed();
    parts.change.hidden = !changed;
    if (!changed) return;
    const off = this.heads_off().map(([kind, layer, head]) => this.head_name(kind, layer, head));
    const patched = this.donor ? this.patch.places.size : 0;
    const changes = [
      off.length ? `${off.join(", ")} switched off` : "",
      patched ? `${patched === 1 ? "one vector" : `${patched} vectors`} patched` : "",
    ].filter(Boolean);
    const verdict = french === plain ? "writes the same." : `writes: “${plain}”`;
    parts.change.textContent = `Changed: ${changes.join("; ")}. The whole model ${verdict}`;
  }

  // The words of both sentences, the weights of the word that is pointed at, the map.
  draw_map() {
    const { queries, keys } = KINDS[this.kind];
    const weights = this.weights();
    const decoder = this.kind === "decoder self-attention";
    const word = this.word;
    const shown = queries === "source" ? weights.length : this.shown;
    const row = word?.axis === queries && word.index < shown ? word.index : null;
    const map = draw_heatmap({
      weights,
      queries: this.texts[queries],
      keys: this.texts[keys],
      axes: { queries: AXES[queries], keys: AXES[keys] },
      mask: decoder ? causal_mask(weights.length) : null,
      alignment: this.kind === "cross-attention" && this.is_right() ? this.pair.alignment : null,
      shown,
      row,
      label: `${this.kind}, layer ${this.layer + 1}, ${this.head === MEAN ? "mean of the heads" : `head ${this.head + 1}`}`,
      choose: (index) => this.point_at(queries, index),
    });
    this.parts.map.replaceChildren(map);
    this.parts.aligned.hidden = !(this.kind === "cross-attention" && this.is_right());
    this.parts.hidden_cells.hidden = !decoder;
    this.draw_chips(weights, queries, keys, row, shown);
  }

  draw_chips(weights, queries, keys, row, shown) {
    const { word, parts } = this;
    const column = row === null && word?.axis === keys ? word.index : null;
    const shades = {}; // [axis] -> how strongly each of its words is lit
    if (row !== null) shades[keys] = weights[row];
    else if (column !== null) shades[queries] = weights.map((r, i) => (i < shown ? r[column] : 0));
    const french = queries === "read" ? "read" : "said";
    for (const [node, axis] of [[parts.english_words, "source"], [parts.french_words, french]]) {
      this.keep_chips(node, axis);
      [...node.children].forEach((chip, index) => {
        const here = word?.axis === axis && word.index === index;
        const shade = shades[axis]?.[index];
        chip.setAttribute("aria-pressed", here);
        chip.tabIndex = (word?.axis === axis ? here : index === 0) ? 0 : -1;
        chip.classList.toggle("lit", shade !== undefined);
        chip.style.setProperty("--weight", (shade ?? 0).toFixed(3));
      });
    }
    parts.looks.textContent = this.look_in_words(weights, queries, keys, row, column, shown);
  }

  // A button for each word. They stay as long as the words do: a new one would appear
  // below a pointer that rests, and be taken for pointed at.
  keep_chips(node, axis) {
    const tokens = this.texts[axis].slice(0, axis === "source" ? undefined : this.shown);
    const now = [axis, ...tokens].join(" ");
    if (node.dataset.now === now) return;
    node.dataset.now = now;
    const chips = tokens.map((token, index) => {
      const look = () => this.point_at(axis, index);
      return button(token, look, { className: "chip", onfocus: look, onpointerenter: look });
    });
    node.replaceChildren(...chips);
  }

  look_in_words(weights, queries, keys, row, column, shown) {
    const largest = (values, names) =>
      [...values]
        .map((value, i) => [value, names[i]])
        .sort(([a], [b]) => b - a)
        .slice(0, 3)
        .filter(([value]) => value >= 0.005)
        .map(([value, name]) => `${name} ${value.toFixed(2)}`)
        .join(" · ");
    const name = this.head_name();
    if (row !== null) {
      return `${name}: “${this.texts[queries][row]}” looks at ${largest(weights[row], this.texts[keys])}`;
    }
    if (column !== null) {
      const values = weights.slice(0, shown).map((r) => r[column]);
      const seen = largest(values, this.texts[queries]) || "no word";
      return `${name}: “${this.texts[keys][column]}” is looked at by ${seen}`;
    }
    return "Point at a word, tap it, or move with the arrow keys.";
  }

  point_at(axis, index) {
    if (this.word?.axis === axis && this.word.index === index) return;
    this.word = { axis, index };
    this.draw_map();
  }

  // The step, and what the model thought of saying there.
  draw_step() {
    const { parts, steps, shown } = this;
    const { token, scores } = steps[shown - 1];
    parts.step.max = steps.length;
    parts.step.value = shown;
    const words = this.translator.target_text.words;
    const said = shown === steps.length ? "<eos>, the end" : `“${words[token]}”`;
    parts.step.setAttribute("aria-valuetext", `step ${shown} of ${steps.length}: ${words[token]}`);
    parts.at_step.textContent = `Step ${shown} of ${steps.length}: it says ${said}`;
    parts.back.disabled = parts.first.disabled = shown === 1;
    parts.next.disabled = parts.last.disabled = shown === steps.length;
    const best = Array.from(scores.keys()).sort((a, b) => scores[b] - scores[a]).slice(0, 5);
    parts.probabilities.replaceChildren(
      ...best.map((id) => {
        const share = Math.exp(scores[id]);
        const bar = element("span", { className: "bar", "aria-hidden": "true" });
        bar.style.setProperty("--share", share);
        const label = element("span", { className: "token" }, words[id]);
        const item = element("li", {}, label, bar, element("span", {}, percent(share)));
        item.classList.toggle("chosen", id === token);
        return item;
      }),
    );
  }

  go_to(step) {
    this.shown = Math.min(Math.max(step, 1), this.steps.length);
    const { queries } = KINDS[this.kind];
    // The word that is said now is the one to look at.
    if (queries !== "source") this.word = { axis: queries, index: this.shown - 1 };
    this.draw_french();
    this.draw_step();
    this.draw_heads();
    this.draw_map();
  }

  play() {
    if (this.timer) return this.stop();
    this.go_to(1);
    this.parts.play.textContent = "Stop";
    this.timer = setInterval(() => {
      this.go_to(this.shown + 1);
      if (this.shown === this.steps.length) this.stop();
    }, PAUSE);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.parts.play.textContent = "Play";
  }

  // All maps, small; each is a button, with a switch for its head.
  draw_heads() {
    for (const [key, { canvas, choice, toggle }] of this.thumbnails) {
      const [kind, layer, head] = key;
      const weights = this.maps[this.module_name(kind, layer)][head];
      const shown = KINDS[kind].queries === "source" ? weights.length : this.shown;
      const mask = kind === "decoder self-attention" ? causal_mask(weights.length) : null;
      paint_thumbnail(canvas, weights, shown, mask);
      const chosen = kind === this.kind && layer === this.layer && head === this.head;
      choice.setAttribute("aria-pressed", chosen);
      toggle.checked = !this.is_off(kind, layer, head);
    }
    this.parts.all_on.disabled = this.heads_off().length === 0;
  }

  is_off(kind, layer, head) {
    return this.model.attentions[this.module_name(kind, layer)].off.has(head);
  }

  heads_off() {
    return this.thumbnails.map(([key]) => key).filter((key) => this.is_off(...key));
  }

  switch_head(kind, layer, head, on) {
    const { off } = this.model.attentions[this.module_name(kind, layer)];
    if (on) off.delete(head);
    else off.add(head);
    this.run();
  }

  choose_map(kind, layer, head) {
    Object.assign(this, { kind, layer, head });
    this.parts.kind.value = kind;
    this.parts.layer.value = layer;
    this.parts.head.value = head;
    this.word = null;
    this.draw_heads();
    this.draw_map();
  }

  // ---- the patch

  draw_patch() {
    const { parts, donor, texts, patch } = this;
    const tokens = donor ? this.translator.source_text.tokens(donor) : [];
    parts.places.replaceChildren(
      ...tokens.map((token, place) => {
        const own = texts.source[place];
        const text = own === token ? own : `${own} ← ${token}`;
        const toggle = () => {
          if (!patch.places.delete(place)) patch.places.add(place);
          this.run();
          parts.places.children[place]?.focus();
        };
        const chip = button(text, toggle, { className: "chip" });
        chip.setAttribute("aria-pressed", patch.places.has(place));
        return chip;
      }),
    );
    parts.unpatch.disabled = patch.places.size === 0;
    if (!donor) {
      parts.patched.textContent = "";
      return;
    }
    const places = [...patch.places].sort((a, b) => a - b).map((i) => tokens[i]);
    const alone = this.translate_plainly(donor);
    const outcome = places.length
      ? [`With the vector of “${places.join("”, “")}” from the donor: `, ...marked(this.french, this.plain)]
      : ["Choose the words whose vectors come from the donor."];
    parts.patched.replaceChildren(
      element("span", {}, `The donor alone: ${alone}`), element("br"), ...outcome,
    );
  }

  set_donor(donor, places = []) {
    this.patch.donor = this.parts.donor.value = donor;
    this.patch.places = new Set(places);
    this.run();
  }

  // Offer sentences of the same length, those with most words in common first.
  suggest_donors() {
    const own = this.texts.source;
    const scored = [];
    for (const { source, words } of this.corpus.pairs) {
      if (words.length !== own.length - 1) continue;
      const same = words.filter((word, i) => word === own[i]).length;
      if (same < words.length) scored.push([same, source]);
    }
    scored.sort(([a], [b]) => b - a);
    const options = scored.slice(0, 12).map(([, value]) => element("option", { value }));
    this.parts.donors.replaceChildren(...options);
  }

  show_lesson_12() {
    const { sentence, donor, places } = LESSON_12;
    this.patch.level = this.model.config.n_layers;
    this.parts.level.value = this.patch.level;
    this.ask(sentence);
    this.set_donor(donor, places);
  }

  // ---- sentences and words

  say_error(message) {
    this.parts.error.textContent = message;
    this.parts.sentence.setAttribute("aria-invalid", message !== "");
  }

  // Words that begin as the one that is being typed, or all of a corpus's when none is.
  draw_words() {
    const { sentence, words } = this.parts;
    const [begun] = sentence.value.match(/[\p{L}\p{N}_-]*$/u);
    const all = this.translator.source_text.words.slice(SPECIAL_TOKENS.length);
    const start = casefold(begun);
    const fits = begun ? all.filter((word) => casefold(word).startsWith(start)) : [];
    const offered = fits.filter((word) => casefold(word) !== start).slice(0, 8);
    words.replaceChildren(...offered.map((word) => button(word, () => this.put_word(word, begun))));
  }

  put_word(word, begun = "") {
    const { sentence } = this.parts;
    const before = sentence.value.slice(0, sentence.value.length - begun.length).trimEnd();
    const sign = /^[.?]$/.test(word);
    sentence.value = before + (before && !sign ? " " : "") + word + (sign ? "" : " ");
    sentence.focus();
    this.draw_words();
  }

  another_sentence() {
    const wanted = this.parts.phenomenon.value;
    const fits = this.corpus.pairs.filter((pair) => !wanted || pair.phenomena.includes(wanted));
    const number = this.offered.get(wanted) ?? 0;
    this.offered.set(wanted, number + 1);
    // A stride that shares no factor with the count comes to every sentence.
    this.ask(fits[(number * 7) % fits.length].source);
  }

  // ---- build

  build() {
    const parts = (this.parts = {});
    const part = (name, tag, properties, ...children) =>
      (parts[name] = element(tag, { ...properties, className: `lt-${name.replaceAll("_", "-")}` }, ...children));
    const labelled = (text, control) => element("label", {}, element("span", {}, text), control);
    const option = (value, text = value) => element("option", { value }, `${text}`);
    const { n_layers, n_heads } = this.model.config;
    const range = (length) => Array.from({ length }, (_, i) => i);

    const field = { autocomplete: "off", autocapitalize: "none", spellcheck: false, type: "text" };
    part("sentence", "input", { ...field, placeholder: FIRST, enterKeyHint: "go" });
    parts.sentence.addEventListener("input", () => this.draw_words());
    const onsubmit = (event) => {
      event.preventDefault();
      this.ask(parts.sentence.value);
    };
    part("error", "p", { role: "alert" });
    part("words", "div", { role: "group", "aria-label": "words that begin so" });
    const translate = element("button", { type: "submit" }, "Translate");
    const ask = element("form", { onsubmit, className: "lt-ask" },
      labelled("English sentence", parts.sentence), translate);

    const counts = (name) => this.corpus.pairs.filter((pair) => pair.phenomena.includes(name)).length;
    part("phenomenon", "select", {}, option("", "anything"),
      ...this.corpus.phenomena.map((name) => option(name, `${name} (${counts(name)})`)));
    part("another", "button", { type: "button", onclick: () => this.another_sentence() },
      "Show me a sentence");
    const corpus = element("div", { className: "lt-corpus" },
      labelled("Sentences of the corpus that show", parts.phenomenon), parts.another);
    const all = this.translator.source_text.words.slice(SPECIAL_TOKENS.length);
    const list = element("details", { className: "lt-list" },
      element("summary", {}, `All ${all.length} words and signs it knows`),
      element("div", {}, ...all.map((word) => button(word, () => this.put_word(word)))));

    part("french", "p", { lang: "fr", role: "status" });
    part("verdict", "p", {});
    part("change", "p", { hidden: true });
    part("english_words", "div", { role: "group", "aria-label": "English words" });
    part("french_words", "div", { role: "group", "aria-label": "French words", lang: "fr" });
    move_with_arrows(parts.english_words);
    move_with_arrows(parts.french_words);
    part("looks", "p", { "aria-live": "polite" });

    part("first", "button", { type: "button", onclick: () => this.go_to(1), "aria-label": "first step" }, "|◀");
    part("back", "button", { type: "button", onclick: () => this.go_to(this.shown - 1), "aria-label": "step back" }, "◀");
    part("step", "input", { type: "range", min: 1, "aria-label": "step of the decoding" });
    parts.step.addEventListener("input", () => {
      this.stop();
      this.go_to(Number(parts.step.value));
    });
    part("next", "button", { type: "button", onclick: () => this.go_to(this.shown + 1), "aria-label": "next step" }, "▶");
    part("last", "button", { type: "button", onclick: () => this.go_to(this.steps.length), "aria-label": "last step" }, "▶|");
    part("play", "button", { type: "button", onclick: () => this.play() }, "Play");
    part("at_step", "p", {});
    part("probabilities", "ol", { "aria-label": "most probable next tokens" });
    const stepper = element("div", { className: "lt-stepper" },
      parts.first, parts.back, parts.step, parts.next, parts.last, parts.play);

    const choose = () => this.choose_map(parts.kind.value, Number(parts.layer.value),
      parts.head.value === MEAN ? MEAN : Number(parts.head.value));
    part("kind", "select", { onchange: choose }, ...Object.keys(KINDS).map((kind) => option(kind)));
    part("layer", "select", { onchange: choose }, ...range(n_layers).map((i) => option(i, i + 1)));
    part("head", "select", { onchange: choose }, option(MEAN, "mean of all"),
      ...range(n_heads).map((i) => option(i, i + 1)));
    parts.kind.value = this.kind;
    part("map", "div", {});
    part("aligned", "span", {}, "□ true alignment");
    part("hidden_cells", "span", {}, "▨ hidden by the causal mask");
    const scale = element("span", { className: "lt-scale" }, "0", element("i"), "1");
    const legend = element("p", { className: "lt-legend" }, "weight ", scale, parts.aligned, parts.hidden_cells);

    part("all_on", "button", { type: "button" }, "Switch all heads on");
    parts.all_on.onclick = () => {
      for (const module of Object.values(this.model.attentions)) module.off.clear();
      this.run();
    };
    const heads = this.build_heads(range(n_layers), range(n_heads));

    part("donors", "datalist", { id: "lt-donors" });
    part("donor", "input", { ...field, placeholder: LESSON_12.donor });
    parts.donor.setAttribute("list", parts.donors.id);
    parts.donor.addEventListener("change", () => this.set_donor(parts.donor.value));
    part("donor_error", "p", { role: "alert" });
    const level_name = (i) =>
      i === 0 ? "embedded" : i === n_layers ? "in the memory" : `after layer ${i}`;
    part("level", "select", {}, ...range(n_layers + 1).map((i) => option(i, `level ${i}: ${level_name(i)}`)));
    parts.level.value = this.patch.level;
    parts.level.addEventListener("change", () => {
      this.patch.level = Number(parts.level.value);
      this.run();
    });
    part("places", "div", { role: "group", "aria-label": "words whose vectors come from the donor" });
    move_with_arrows(parts.places);
    part("patched", "p", { role: "status", lang: "fr" });
    part("unpatch", "button", { type: "button", onclick: () => this.set_donor(this.patch.donor) }, "Take the patch out");
    const lesson = button("Lesson 12's example", () => this.show_lesson_12());

    const output = element("section", { className: "lt-output", "aria-label": "translation" },
      parts.french, parts.verdict, parts.change, element("div", { className: "lt-rows" },
        parts.english_words, parts.french_words), parts.looks);
    const decoding = element("section", { className: "lt-decoding" },
      element("h2", {}, "Word by word"), stepper, parts.at_step, parts.probabilities);
    const maps = element("section", { className: "lt-maps" }, element("h2", {}, "Where it looks"),
      element("div", { className: "lt-choice" }, labelled("Attention", parts.kind),
        labelled("Layer", parts.layer), labelled("Head", parts.head)), parts.map, legend);
    const switches = element("section", { className: "lt-heads" },
      element("h2", {}, "All heads, and their switches"),
      element("p", {}, "Choose a map to see it large. A head that is switched off hands on zeros."),
      heads, parts.all_on);
    const patching = element("section", { className: "lt-patch" }, element("h2", {}, "Patch a vector"),
      element("p", {}, "Put vectors of another sentence, the donor, into the encoder's run of this one. If a French word becomes the donor's, they hold the fact, and the decoder uses it. If not, they may still hold it: another copy may win."),
      labelled("Donor, with as many words", parts.donor), parts.donors, parts.donor_error,
      labelled("Level", parts.level), parts.places, parts.patched,
      element("div", { className: "lt-row" }, lesson, parts.unpatch));
    this.root.replaceChildren(ask, parts.error, parts.words, corpus, list, output,
      element("div", { className: "lt-columns" }, maps, decoding), switches, patching);
    this.root.classList.add("lt-ready");
  }

  build_heads(layers, heads) {
    this.thumbnails = []; // [[kind, layer, head], its parts]
    const rows = Object.keys(KINDS).flatMap((kind) =>
      layers.map((layer) => {
        const cells = heads.map((head) => {
          const name = this.head_name(kind, layer, head);
          const canvas = element("canvas", { "aria-hidden": "true" });
          const choice = element("button", { type: "button", className: "lt-thumbnail",
            "aria-label": `show ${name}`, onclick: () => this.choose_map(kind, layer, head) }, canvas);
          const toggle = element("input", { type: "checkbox", checked: true });
          toggle.addEventListener("change", () => this.switch_head(kind, layer, head, toggle.checked));
          this.thumbnails.push([[kind, layer, head], { canvas, choice, toggle }]);
          return element("div", { className: "lt-head-cell" }, choice, element("label", {}, toggle, ` ${name}`));
        });
        const label = `${kind}, layer ${layer + 1}`;
        return element("div", { className: "lt-head-row", role: "group", "aria-label": label },
          element("p", {}, label), ...cells);
      }),
    );
    return element("div", { className: "lt-head-table" }, ...rows);
  }
}

// -- start -----------------------------------------------------------------------------

async function start() {
  const root = document.querySelector("[data-live-translator]");
  root.append(element("p", { role: "status" }, "The model is being read …"));
  try {
    const { buffer, sentences } = await load_data();
    const translator = new Translator(buffer);
    globalThis.live = new LiveTranslator(root, translator, read_sentences(sentences));
  } catch (error) {
    const said = `The translator could not start: ${error.message}`;
    root.replaceChildren(element("p", { role: "alert" }, said));
    throw error;
  }
}
start();

// helpers/text.py and helpers/translator/model.py: words to ids and back, and the file
// that holds a model with its vocabularies.
"use strict";

const SPECIAL_TOKENS = ["<pad>", "<unk>", "<bos>", "<eos>"];
// A word keeps inner hyphens ("est-ce") and, when elided, its apostrophe ("l'").
const WORD = /[\p{L}\p{N}_]+(?:-[\p{L}\p{N}_]+)*'?|[^\p{L}\p{N}_\s]/gu;

// Words and punctuation marks: "l'homme dort." -> ["l'", "homme", "dort", "."].
function split_words(text) {
  return text.match(WORD) ?? [];
}

// The inverse of `split_words`; French writes "tu dors ?", with a space before "?".
function join_words(words, space_before = "") {
  let text = "";
  for (const word of words) {
    const follows = !/^[\p{L}\p{N}]/u.test(word) && !space_before.includes(word);
    text += text && !text.endsWith("'") && !follows ? ` ${word}` : word;
  }
  return text;
}

// A word that a Vocabulary does not hold.
class UnknownWordError extends Error {}

// Whole words, numbered after the four special tokens.
class Vocabulary {
  constructor({ words, space_before }) {
    this.words = [...SPECIAL_TOKENS, ...words];
    this.space_before = space_before;
    this.ids = new Map(this.words.map((word, id) => [casefold(word), id]));
  }

  // The words' ids, whatever their case.
  encode(text) {
    return split_words(text).map((word) => {
      const id = this.ids.get(casefold(word));
      if (id === undefined) throw new UnknownWordError(this.explain(word));
      return id;
    });
  }

  // What is said of a word that is not here, with the nearest words.
  explain(word) {
    const near = get_close_matches(casefold(word), [...this.ids.keys()]);
    const letters = [...word];
    const shown = letters.length <= 40 ? word : `${letters.slice(0, 40).join("")}…`;
    const hint = near.length ? `; near it: ${near.join(", ")}` : "";
    const size = this.words.length;
    return `“${shown}” is not among the ${size} words of the vocabulary${hint}`;
  }

  tokens(ids) {
    return Array.from(ids, (id) => this.words[id]);
  }

  // The sentence that the ids spell; special tokens are left out.
  decode(ids) {
    const words = this.tokens(ids.filter((id) => id >= SPECIAL_TOKENS.length));
    return join_words(words, this.space_before);
  }
}

const casefold = (text) => text.toLowerCase().replaceAll("ß", "ss");

// Python's difflib.get_close_matches: at most n of the words, the nearest first.
function get_close_matches(word, words, n = 3, cutoff = 0.6) {
  const after = ([one, a], [other, b]) => other - one || (a < b ? 1 : -1);
  return words
    .map((other) => [(2 * common(other, word)) / (other.length + word.length), other])
    .filter(([ratio]) => ratio >= cutoff)
    .sort(after)
    .slice(0, n)
    .map(([, other]) => other);
}

// How many letters two words share: the longest common piece, the first of several, and
// so on to the left and to the right of it.
function common(a, b) {
  let [start, place, size] = [0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    for (let j = 0; j < b.length; j++) {
      let k = 0;
      while (i + k < a.length && j + k < b.length && a[i + k] === b[j + k]) k++;
      if (k > size) [start, place, size] = [i, j, k];
    }
  }
  if (size === 0) return 0;
  const left = common(a.slice(0, start), b.slice(0, place));
  return size + left + common(a.slice(start + size), b.slice(place + size));
}

// What the bytes of a safetensors file hold: metadata, and weights by their names, each
// a list of rows or, with one axis, a vector.
function read_safetensors(buffer) {
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  const header = new TextDecoder().decode(new Uint8Array(buffer, 8, length));
  const { __metadata__: metadata, ...tensors } = JSON.parse(header);
  const weights = {};
  for (const [name, { shape, data_offsets }] of Object.entries(tensors)) {
    const [start, end] = data_offsets.map((offset) => 8 + length + offset);
    const data = new Float32Array(buffer.slice(start, end));
    const width = shape.at(-1);
    const row = (_, i) => data.subarray(i * width, (i + 1) * width);
    weights[name] = shape.length < 2 ? data : Array.from({ length: shape[0] }, row);
  }
  return { metadata, weights };
}

// A Transformer with its vocabularies, as `Translator.save` wrote it.
class Translator {
  constructor(buffer) {
    const { metadata, weights } = read_safetensors(buffer);
    this.model = new Transformer(JSON.parse(metadata.config), weights);
    this.source_text = new Vocabulary(JSON.parse(metadata.source_text));
    this.target_text = new Vocabulary(JSON.parse(metadata.target_text));
    this.max_length = Math.min(100, this.model.config.max_length); // to write
  }

  // The ids that the model reads, EOS at the end; Error for what it cannot read.
  read(sentence) {
    const ids = this.source_text.encode(sentence);
    const longest = this.model.config.max_length - 1; // EOS is read as well
    if (!ids.length) throw new Error("an empty sentence: type some words");
    if (ids.length > longest) {
      const start = [...sentence].slice(0, 40).join("");
      throw new Error(
        `“${start}…” is ${ids.length} tokens long; the model reads ${longest} at most`,
      );
    }
    return [...ids, EOS];
  }

  translate(sentence) {
    const ids = greedy_decode(this.model, this.read(sentence), this.max_length);
    return this.target_text.decode(ids);
  }
}

// The Transformer of helpers/ once more, in plain JavaScript, with the same names in the
// same order. What differs: there is one sentence at a time, so no batch and no padding
// to mask; nothing is trained, so there is no dropout; layer normalisation comes first. A
// matrix is a list of rows, x[position][feature], each a Float32Array. A module is a
// function: `LayerNorm(model, "encoder.norm")` finds its weights by their name in the
// Python model's state dict.
"use strict";
const [PAD, UNK, BOS, EOS] = [0, 1, 2, 3];

// ---- What torch brings. Sums run in double precision, results are float32.
// The vector f(0), f(1), …, f(length - 1).
function vector(length, f) {
  const result = new Float32Array(length);
  for (let i = 0; i < length; i++) result[i] = f(i);
  return result;
}
function dot(a, b) {
  let [even, odd, i] = [0, 0, 0]; // two sums side by side are quicker than one
  for (; i + 1 < a.length; i += 2) { even += a[i] * b[i]; odd += a[i + 1] * b[i + 1]; }
  return even + odd + (i < a.length ? a[i] * b[i] : 0);
}
// product is A Bᵀ: every row of the one with every row of the other.
const product = (a, b) => a.map((row) => vector(b.length, (j) => dot(row, b[j])));
const transpose = (x) => Array.from(x[0], (_, j) => vector(x.length, (i) => x[i][j]));
const add = (x, y) => x.map((row, i) => vector(row.length, (j) => row[j] + y[i][j]));
const mean = (row) => row.reduce((sum, value) => sum + value, 0) / row.length;
const argmax = (row) => row.indexOf(Math.max(...row));
function log_softmax(row) {
  const largest = Math.max(...row);
  const sum = row.reduce((total, value) => total + Math.exp(value - largest), 0);
  return row.map((value) => value - largest - Math.log(sum));
}
const softmax = (row) => log_softmax(row).map(Math.exp);

// x Wᵀ + b
function Linear({ weights }, name) {
  const W = weights[`${name}.weight`];
  const b = weights[`${name}.bias`] ?? new Float32Array(W.length);
  return (x) => x.map((row) => vector(W.length, (i) => dot(row, W[i]) + b[i]));
}

// ---- helpers/positions.py
// Sinusoids: sine in the even features, cosine in the odd ones.
function positional_encoding(length, d_model) {
  const angle = (position, even) => position / 10000 ** (even / d_model);
  const value = (position) => (i) =>
    i % 2 ? Math.cos(angle(position, i - 1)) : Math.sin(angle(position, i));
  return Array.from({ length }, (_, position) => vector(d_model, value(position)));
}

// A vector per token id, scaled by √d_model.
function TokenEmbedding({ weights, config }, name) {
  const table = weights[`${name}.weight`];
  return (ids) => ids.map((id) => table[id].map((x) => x * Math.sqrt(config.d_model)));
}

function PositionalEncoding({ config }) {
  const table = positional_encoding(config.max_length, config.d_model);
  return (embedded) => add(embedded, table);
}

// ---- helpers/masks.py
// Hide from each position the positions after it: mask[query][key], true = may attend.
function causal_mask(length) {
  return Array.from({ length }, (_, i) => Array.from({ length }, (_, j) => j <= i));
}

// ---- helpers/attention.py
// softmax(Q Kᵀ / √d_k) V, and the weights that it used.
function attention(query, key, value, mask = null) {
  const root = Math.sqrt(query[0].length);
  const scores = product(query, key).map((row, i) =>
    row.map((score, j) => (mask && !mask[i][j] ? -Infinity : score / root)),
  );
  const weights = scores.map(softmax); // [query][key]
  const context = product(weights, transpose(value)); // [query][feature of the head]
  return [context, weights];
}

function MultiHeadAttention(model, name) {
  const { n_heads, d_model } = model.config;
  const d_head = d_model / n_heads;
  const query_projection = Linear(model, `${name}.query_projection`);
  const key_projection = Linear(model, `${name}.key_projection`);
  const value_projection = Linear(model, `${name}.value_projection`);
  const output_projection = Linear(model, `${name}.output_projection`);
  function forward(query, key, value, mask = null) {
    const query_heads = split_heads(query_projection(query));
    const key_heads = split_heads(key_projection(key));
    const value_heads = split_heads(value_projection(value));
    const heads = query_heads.map((query_head, head) =>
      attention(query_head, key_heads[head], value_heads[head], mask),
    );
    if (forward.observer) forward.observer(heads.map(([, weights]) => weights));
    // A head that is switched off hands on zeros instead of its context.
    const contexts = heads.map(([context], head) =>
      forward.off.has(head) ? context.map((row) => row.map(() => 0)) : context,
    );
    return output_projection(query.map((_, i) => join_heads(contexts, i)));
  }
  // [position][d_model] -> [head][position][d_head]
  function split_heads(x) {
    const part = (head) => (row) => row.subarray(head * d_head, (head + 1) * d_head);
    return Array.from({ length: n_heads }, (_, head) => x.map(part(head)));
  }
  function join_heads(x, i) {
    return vector(d_model, (j) => x[Math.trunc(j / d_head)][i][j % d_head]);
  }
  model.attentions[name] = forward; // to be found by its name
  return Object.assign(forward, { observer: null, off: new Set() });
}

// [what block() returned, {name of an attention: its last weights[head][query][key]}]
function record_attention(model, block) {
  const [maps, modules] = [{}, Object.entries(model.attentions)];
  for (const [name, module] of modules) module.observer = (map) => (maps[name] = map);
  try {
    return [block(), maps];
  } finally {
    for (const [, module] of modules) module.observer = null;
  }
}

// ---- helpers/layers.py
// max(0, x W₁ + b₁) W₂ + b₂, the same at every position.
function FeedForward(model, name) {
  const expand = Linear(model, `${name}.expand`);
  const contract = Linear(model, `${name}.contract`);
  return (x) => contract(expand(x).map((row) => row.map((h) => Math.max(0, h))));
}

// Give each position's features mean 0 and variance 1, then scale and shift.
function LayerNorm({ weights }, name, eps = 1e-5) {
  const [gain, bias] = [weights[`${name}.gain`], weights[`${name}.bias`]];
  return (x) =>
    x.map((row) => {
      const centre = mean(row);
      const deviation = Math.sqrt(mean(row.map((x) => (x - centre) ** 2)) + eps);
      return row.map((x, j) => ((x - centre) / deviation) * gain[j] + bias[j]);
    });
}

// Add a sublayer's output to its input, with layer normalisation first.
function Residual(model, name) {
  const norm = LayerNorm(model, `${name}.norm`);
  return (x, sublayer) => add(x, sublayer(norm(x)));
}

// ---- helpers/encoder.py
function EncoderLayer(model, name) {
  const self_attention = MultiHeadAttention(model, `${name}.self_attention`);
  const feed_forward = FeedForward(model, `${name}.feed_forward`);
  const residuals = [0, 1].map((i) => Residual(model, `${name}.residuals.${i}`));
  return (x) => {
    x = residuals[0](x, (y) => self_attention(y, y, y));
    return residuals[1](x, feed_forward);
  };
}

// The layers of a stack, and the norm that follows them.
function stack(Layer, model, name) {
  const { n_layers: length } = model.config;
  const layers = Array.from({ length }, (_, i) => Layer(model, `${name}.layers.${i}`));
  return { layers, norm: LayerNorm(model, `${name}.norm`) };
}

function Encoder(model, name) {
  const { layers, norm } = stack(EncoderLayer, model, name);
  const forward = (x) => norm(layers.reduce((y, layer) => layer(y), x));
  return Object.assign(forward, { layers, norm });
}

// ---- helpers/decoder.py
function DecoderLayer(model, name) {
  const self_attention = MultiHeadAttention(model, `${name}.self_attention`);
  const cross_attention = MultiHeadAttention(model, `${name}.cross_attention`);
  const feed_forward = FeedForward(model, `${name}.feed_forward`);
  const residuals = [0, 1, 2].map((i) => Residual(model, `${name}.residuals.${i}`));
  return (x, memory, mask) => {
    x = residuals[0](x, (y) => self_attention(y, y, y, mask));
    x = residuals[1](x, (y) => cross_attention(y, memory, memory));
    return residuals[2](x, feed_forward);
  };
}

function Decoder(model, name) {
  const { layers, norm } = stack(DecoderLayer, model, name);
  return (x, ...rest) => norm(layers.reduce((y, layer) => layer(y, ...rest), x));
}

// ---- helpers/transformer.py
class Transformer {
  constructor(config, weights) {
    if (!config.norm_first) throw new Error("norm_first is false; it has to be true here");
    Object.assign(this, { config, weights, attentions: {} });
    this.source_embedding = TokenEmbedding(this, "source_embedding");
    this.target_embedding = TokenEmbedding(this, "target_embedding");
    this.positions = PositionalEncoding(this);
    this.encoder = Encoder(this, "encoder");
    this.decoder = Decoder(this, "decoder");
    this.projection = Linear(this, "projection");
  }
  encode(source) {
    return this.encoder(this.positions(this.source_embedding(source)));
  }
  decode(target, memory) {
    const x = this.positions(this.target_embedding(target));
    return this.decoder(x, memory, causal_mask(target.length));
  }
}

// ---- helpers/decoding.py
// Let `choose` pick every next token until EOS; gives each, with all log-probabilities.
function* write_tokens(model, memory, choose, max_length) {
  const tokens = [BOS];
  for (let step = 0; step < max_length && tokens.at(-1) !== EOS; step++) {
    const scores = next_token_scores(model, tokens, memory);
    tokens.push(choose(scores));
    yield { token: tokens.at(-1), scores };
  }
}

// The most probable token at every step.
function greedy_decode(model, source, max_length) {
  const steps = write_tokens(model, model.encode(source), argmax, max_length);
  return Array.from(steps, ({ token }) => token);
}

// PAD and BOS are no words, so they are never chosen.
function next_token_scores(model, tokens, memory) {
  const [logits] = model.projection([model.decode(tokens, memory).at(-1)]);
  logits[PAD] = logits[BOS] = -Infinity;
  return log_softmax(logits);
}

// ---- lessons/lesson12/reading.py
// The memory of `source`, with vectors of `donor` put in at a level: 0 below the layers.
function patched_memory(model, source, donor, level, places) {
  const embed = (ids) => model.positions(model.source_embedding(ids));
  const { layers, norm } = model.encoder;
  let [x, other] = [embed(source), embed(donor)];
  for (const layer of layers.slice(0, level)) [x, other] = [layer(x), layer(other)];
  x = x.map((row, place) => (places.includes(place) ? other[place] : row));
  for (const layer of layers.slice(level)) x = layer(x);
  return norm(x);
}

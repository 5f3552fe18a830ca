// The one drawing component, after helpers/plots/heatmaps.py: attention weights as
// colour, a row per query and a column per key, with the true alignment over them.
"use strict";

// Viridis at 0, 0.1, …, 1; what lies between is mixed.
const VIRIDIS = [
  [68, 1, 84], [72, 36, 117], [65, 68, 135], [53, 95, 141], [42, 120, 142],
  [33, 145, 140], [34, 168, 132], [68, 191, 112], [122, 209, 81], [189, 223, 38],
  [253, 231, 37],
];
const CELL = 28; // side of a cell, where the page is wide enough
const LETTER = 8; // width of a letter, about
const SLOPE = 0.7; // sine and cosine of the angle at which keys are written

function colour(weight) {
  const at = Math.min(Math.max(weight, 0), 1) * 10;
  const low = Math.min(Math.floor(at), 9);
  return VIRIDIS[low].map((c, i) => Math.round(c + (VIRIDIS[low + 1][i] - c) * (at - low)));
}

// An element of SVG with its attributes and children; texts are strings.
function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// A small map without labels: one pixel a cell, which the style sheet enlarges.
function paint_thumbnail(canvas, weights, shown, mask = null) {
  [canvas.width, canvas.height] = [weights[0].length, weights.length];
  const image = new ImageData(canvas.width, canvas.height);
  weights.forEach((row, i) =>
    row.forEach((weight, j) => {
      const seen = i < shown && !(mask && !mask[i][j]);
      image.data.set(seen ? [...colour(weight), 255] : [0, 0, 0, 0], 4 * (i * row.length + j));
    }),
  );
  canvas.getContext("2d").putImageData(image, 0, 0);
}

// The map as an SVG that grows with its box, up to a size.
//   weights[query][key]; queries and keys: their tokens; axes: what they are called
//   mask[query][key], false = hidden; alignment: [[key, query], …] or null
//   shown: the rows that are written so far; row: the one that is framed, or null
//   label: what it is, for those who do not see it; choose(i): a row is pointed at
function draw_heatmap(options) {
  const { weights, queries, keys, axes, mask, alignment, shown, row, label, choose } = options;
  const left = 14 + LETTER * Math.max(longest(queries), axes.queries.length);
  const top = 30 + SLOPE * LETTER * longest(keys);
  const ends = keys.map((key, j) => (j + 0.5) * CELL + SLOPE * LETTER * (key.length + 1));
  const width = left + Math.max(CELL * keys.length, ...ends) + 4;
  const height = top + CELL * queries.length + 4;
  const size = `0 0 ${Math.ceil(width)} ${Math.ceil(height)}`;
  const name = `${label}. ${rows_in_words(options)}`;
  const figure = svg("svg", { viewBox: size, role: "img", "aria-label": name });
  figure.style.maxWidth = `${Math.ceil(1.3 * width)}px`;
  const lines = { d: "M-2,6 l8,-8 M0,8 l8,-8", stroke: "#8a8a8a" };
  const pattern = { id: "hidden-cell", width: 6, height: 6, patternUnits: "userSpaceOnUse" };
  const ground = svg("rect", { width: 6, height: 6, fill: "#d4d4d4" });
  figure.append(svg("defs", {}, svg("pattern", pattern, ground, svg("path", lines))));

  figure.append(svg("text", { x: left, y: 14, class: "axis" }, axes.keys));
  figure.append(svg("text", { x: 2, y: top - 6, class: "axis" }, axes.queries));
  keys.forEach((key, j) => {
    const [x, y] = [left + (j + 0.6) * CELL, top - 7];
    figure.append(svg("text", { transform: `translate(${x} ${y}) rotate(-45)` }, key));
  });
  queries.slice(0, shown).forEach((query, i) => {
    const middle = top + (i + 0.5) * CELL + 5;
    const text = { x: left - 8, y: middle, "text-anchor": "end" };
    if (i === row) text.class = "chosen";
    figure.append(svg("text", text, query));
    weights[i].forEach((weight, j) => {
      const hidden = mask && !mask[i][j];
      const fill = hidden ? "url(#hidden-cell)" : `rgb(${colour(weight).join()})`;
      const corner = { x: left + j * CELL, y: top + i * CELL };
      const cell = svg("rect", { ...corner, width: CELL + 0.5, height: CELL + 0.5, fill });
      const said = hidden ? "hidden" : weight.toFixed(2);
      cell.append(svg("title", {}, `${query} → ${keys[j]}: ${said}`));
      figure.append(cell);
    });
  });
  for (const [j, i] of alignment ?? []) {
    if (i >= shown) continue;
    const corner = { x: left + j * CELL + 2.5, y: top + i * CELL + 2.5 };
    const square = { ...corner, width: CELL - 5, height: CELL - 5, class: "aligned" };
    figure.append(svg("rect", { ...square, stroke: "#000", "stroke-width": 4.5 }));
    figure.append(svg("rect", { ...square, stroke: "#fff", "stroke-width": 2 }));
  }
  const frame = { x: left - 1, width: CELL * keys.length + 2, height: CELL + 2 };
  if (row !== null && row < shown) {
    figure.append(svg("rect", { ...frame, y: top + row * CELL - 1, class: "frame" }));
  }
  const row_at = (event) => {
    const box = figure.getBoundingClientRect();
    const y = ((event.clientY - box.top) / box.height) * height;
    const i = Math.floor((y - top) / CELL);
    if (i >= 0 && i < shown && i !== row) choose(i);
  };
  figure.addEventListener("pointermove", row_at);
  figure.addEventListener("pointerdown", row_at);
  return figure;
}

const longest = (tokens) => Math.max(...tokens.map((token) => token.length));

// Where each row looks most: the map for those who do not see it.
function rows_in_words({ weights, queries, keys, shown, alignment }) {
  const rows = queries.slice(0, shown).map((query, i) => {
    const j = argmax(weights[i]);
    return `${query} looks most at ${keys[j]}, ${weights[i][j].toFixed(2)}`;
  });
  const squares = alignment ? " Squares mark the true alignment." : "";
  return `${rows.join("; ")}.${squares}`;
}

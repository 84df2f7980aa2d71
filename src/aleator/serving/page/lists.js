// The two lists: rows with bars, what moved between them, and "why" under a row.

import { button, calm, count, draw, make, nameOf, number, plural } from "./dom.js";

const GLIDE = 240; // ms

const spoken = (seen, read) => [make("span", { "aria-hidden": "true" }, seen), make("span", { class: "sr" }, read)];

/** One list. `why(item, panel)` fills a panel, `light(id)` is told which item is looked at (null for none). */
export class List {
  constructor(element, { why, light }) {
    this.element = element;
    this.why = why;
    this.light = light;
    this.rows = new Map(); // by item id
  }

  /** Rows of nothing while the first answer is under way. */
  wait(n) {
    this.rows.clear();
    const ghost = () => make("li", { class: "row ghost", "aria-hidden": "true" }, make("span"), make("span"));
    this.element.replaceChildren(...Array.from({ length: n }, ghost));
    this.element.setAttribute("aria-busy", "true");
  }

  /** Whether it shows rows of nothing. */
  get waits() {
    return this.element.hasAttribute("aria-busy");
  }

  /** The next items are of somebody else: no row stays. */
  forget() {
    this.rows.clear();
  }

  /** Nothing to list, and why. */
  say(words) {
    this.rows.clear();
    this.element.replaceChildren(make("li", { class: "nothing" }, words));
    this.element.removeAttribute("aria-busy");
  }

  /** Show items in their order. Rows that stay keep their open panel, and glide to their new place. */
  show(items, look) {
    this.element.removeAttribute("aria-busy");
    const before = new Map([...this.rows].map(([id, row]) => [id, row.element.offsetTop]));
    const rows = new Map(items.map((item) => [item.item_id, this.rows.get(item.item_id) ?? this.row(item)]));
    this.rows = rows;
    for (const item of items) fillRow(rows.get(item.item_id), item, look);
    const wanted = items.map((item) => rows.get(item.item_id).element);
    const same = wanted.length === this.element.children.length && wanted.every((row, n) => row === this.element.children[n]);
    if (same) return; // moving a row would take the focus from it
    this.element.replaceChildren(...wanted);
    if (!calm() && before.size) for (const [id, row] of rows) glide(row.element, before.get(id));
  }

  row(item) {
    const panel = make("div", { class: "why", hidden: true });
    const title = button("", () => this.turn(row), { class: "title", "aria-expanded": "false" });
    const parts = { rank: make("span", { class: "rank" }), title, marks: make("span", { class: "marks-of" }) };
    const move = make("span", { class: "move" });
    const measures = make("div", { class: "measures" });
    const element = make("li", { class: "row" }, parts.rank, title, parts.marks, move, measures, panel);
    const row = { ...parts, item, element, move, measures, panel };
    for (const begin of ["pointerenter", "focusin"]) element.addEventListener(begin, () => this.light(row.item.item_id));
    for (const end of ["pointerleave", "focusout"]) element.addEventListener(end, () => this.light(null));
    return row;
  }

  turn(row) {
    const open = row.panel.hidden;
    row.panel.hidden = !open;
    row.title.setAttribute("aria-expanded", String(open));
    if (open) this.why(row.item, row.panel);
  }

  mark(id) {
    for (const [own, row] of this.rows) row.element.classList.toggle("lit", own === id);
  }
}

function glide(element, from) {
  if (from === undefined) element.animate([{ opacity: 0 }, { opacity: 1 }], { duration: GLIDE });
  else if (from !== element.offsetTop) {
    const start = `translateY(${from - element.offsetTop}px)`;
    element.animate([{ transform: start }, { transform: "none" }], { duration: GLIDE, easing: "ease-out" });
  }
}

/** `look`: the model, the largest expectation and uncertainty of the page, and how an item moved. */
function fillRow(row, item, { model, scale, moved }) {
  row.item = item;
  row.rank.textContent = item.rank;
  row.title.textContent = nameOf(item);
  row.marks.replaceChildren();
  if (item.tail) row.marks.append(make("span", { class: "tag tag-tail" }, "tail"));
  if (item.in_test) row.marks.append(make("span", { class: "tag tag-test" }, "taken later"));
  const move = moved(item);
  row.move.className = `move ${move.kind}`;
  row.move.replaceChildren(...(move.seen ? spoken(move.seen, move.read) : []));
  const measures = [bar("r", "expectation", item.expectation, scale.expectation)];
  if (model.has_uncertainty) measures.push(bar("s", "uncertainty", item.uncertainty, scale.uncertainty));
  measures.push(make("span", { class: "taken" }, ...spoken(count(item.popularity), `taken by ${count(item.popularity)}`)));
  if (model.has_confidence) {
    const chance = item.confidence === null ? null : `${Math.round(100 * item.confidence)} %`;
    measures.push(make("span", { class: "chance" }, ...spoken(chance ?? "–", chance ? `chance ${chance}` : "chance unknown")));
  }
  row.measures.replaceChildren(...measures);
}

function bar(kind, name, value, most) {
  const fill = make("span", { class: "fill" });
  fill.style.width = `${most > 0 ? Math.max(0, Math.min(100, (100 * (value ?? 0)) / most)) : 0}%`;
  const track = make("span", { class: "track", "aria-hidden": "true" }, fill);
  return make("span", { class: `bar ${kind}` }, track, make("span", { class: "sr" }, `${name} `), number(value, 3));
}

/** The heads above the columns of the bars. */
export function heads(model) {
  return [
    make("span", { class: "head-r" }, "expectation"),
    model.has_uncertainty ? make("span", { class: "head-s" }, "uncertainty") : null,
    make("span", {}, "taken by"),
    model.has_confidence ? make("span", {}, "chance") : null,
  ].filter((head) => head !== null);
}

/** How an item of the blend moved against the list by expectation. `ranks` goes deeper than what is shown. */
export function movedFrom(ranks, shown, deepest) {
  return ({ item_id: id, rank }) => {
    const before = ranks.get(id);
    if (before === undefined) return { kind: "new", seen: `▲ ${deepest}+`, read: `came in from beyond rank ${deepest}` };
    if (before > shown) return { kind: "new", seen: `▲ from ${before}`, read: `came in from rank ${before}` };
    if (before === rank) return { kind: "same", seen: "=", read: "same rank" };
    const [kind, arrow, word] = before > rank ? ["up", "▲", "higher"] : ["down", "▼", "lower"];
    const steps = Math.abs(before - rank);
    return { kind, seen: `${arrow} ${steps}`, read: `${plural(steps, "rank")} ${word}` };
  };
}

/** Whether an item of the list by expectation is left out by the blend. */
export function leavesFor(blend) {
  const kept = new Set(blend.map((item) => item.item_id));
  return ({ item_id: id }) =>
    kept.has(id) ? { kind: "same", seen: "", read: "" } : { kind: "out", seen: "out", read: "not in the blend" };
}

/** Lines between the places of an item in both lists. */
export function drawLinks(svg, left, right) {
  const width = svg.clientWidth;
  svg.replaceChildren();
  if (!width) return;
  const y = (row) => row.element.offsetTop + row.title.offsetTop + row.title.offsetHeight / 2; // both in the columns
  for (const [id, row] of left.rows) {
    const other = right.rows.get(id);
    if (!other) continue;
    const [from, to] = [y(row), y(other)];
    const d = `M0 ${from} C${width / 2} ${from} ${width / 2} ${to} ${width} ${to}`;
    const kind = Math.abs(from - to) < 1 ? "same" : to < from ? "up" : "down";
    svg.append(draw("path", { d, class: `link ${kind}` }));
  }
}

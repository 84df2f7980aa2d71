// The scatter of the catalogue and the curve of accuracy against the tail, as SVG in the pixels of their place.

import { count, draw, make, nameOf, number } from "./dom.js";

const MARGIN = { top: 12, right: 14, bottom: 40, left: 50 };
const NEAR = 18; // px around the pointer in which an item is found

/** About n round numbers from low to high. */
export function ticks(low, high, n) {
  const rough = (high - low) / n;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((size) => size * power >= rough);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const found = [];
  for (let tick = Math.ceil(low / step - 1e-9) * step; tick <= high + step * 1e-9; tick += step) {
    found.push([tick, tick.toFixed(digits)]);
  }
  return found;
}

function span(values, pad) {
  const known = values.filter((value) => Number.isFinite(value));
  const [low, high] = known.length ? [Math.min(...known), Math.max(...known)] : [0, 1];
  const room = (high - low || Math.abs(high) || 1) * pad;
  return [low - room, high + room];
}

/** An empty chart with axes: the svg, and functions from values to pixels. */
function frame(place, { xs, ys, xName, yName, height, pad, label }) {
  const width = Math.max(place.clientWidth, 240);
  const [x0, x1] = span(xs, pad);
  const [y0, y1] = span(ys, pad);
  const right = width - MARGIN.right;
  const bottom = height - MARGIN.bottom;
  const x = (value) => MARGIN.left + ((value - x0) / (x1 - x0)) * (right - MARGIN.left);
  const y = (value) => bottom - ((value - y0) / (y1 - y0)) * (bottom - MARGIN.top);
  const svg = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const [tick, words] of ticks(y0, y1, 4)) {
    svg.append(draw("line", { class: "grid", x1: MARGIN.left, x2: right, y1: y(tick), y2: y(tick) }));
    svg.append(draw("text", { class: "tick", x: MARGIN.left - 6, y: y(tick) + 4, "text-anchor": "end" }, words));
  }
  for (const [tick, words] of ticks(x0, x1, width < 420 ? 4 : 6)) {
    svg.append(draw("text", { class: "tick", x: x(tick), y: bottom + 16, "text-anchor": "middle" }, words));
  }
  svg.append(
    draw("line", { class: "axis", x1: MARGIN.left, x2: right, y1: bottom, y2: bottom }),
    draw("text", { class: "axis-name", x: (MARGIN.left + right) / 2, y: height - 6, "text-anchor": "middle" }, xName),
    draw("text", { class: "axis-name", x: 12, y: (MARGIN.top + bottom) / 2, "text-anchor": "middle",
      transform: `rotate(-90 12 ${(MARGIN.top + bottom) / 2})` }, yName),
  );
  place.replaceChildren(svg);
  return { svg, x, y };
}

/** The catalogue as one person has it; recommended items are lit, and the pointer tells their names. */
export class Scatter {
  constructor(place) {
    this.place = place;
    this.points = [];
    this.lit = [];
  }

  /** `points` are of the catalogue, `lit` are [item, "both" | "expectation" | "blend"]. */
  show(points, lit, model) {
    Object.assign(this, { points, lit, model });
    this.redraw();
  }

  redraw() {
    if (!this.points.length) return this.place.replaceChildren();
    const vertical = this.model.has_uncertainty ? (item) => item.uncertainty : (item) => Math.log10(1 + item.popularity);
    const all = [...this.points, ...this.lit.map(([item]) => item)];
    const { svg, x, y } = frame(this.place, {
      xs: all.map((item) => item.expectation),
      ys: all.map(vertical),
      xName: "expectation",
      yName: this.model.has_uncertainty ? "uncertainty" : "taken by (powers of 10)",
      height: 400,
      pad: 0.04,
      label: `${count(this.points.length)} items by expectation and uncertainty, with ${this.lit.length} recommended ones lit.`,
    });
    const at = (item) => [x(item.expectation), y(vertical(item))];
    const dots = this.points.map((item) => {
      const [cx, cy] = at(item);
      return draw("circle", { class: item.tail ? "dot dot-tail" : "dot", cx, cy, r: 2.5 });
    });
    svg.append(draw("g", {}, ...dots), draw("g", {}, ...this.lit.map(([item, kind]) => litMark(kind, ...at(item)))));
    this.ring = svg.appendChild(draw("circle", { class: "ring", r: 10, cx: -99, cy: -99 }));
    this.tip = this.place.appendChild(make("div", { class: "tip", hidden: true, "aria-hidden": "true" }));
    this.at = at;
    svg.addEventListener("pointermove", (event) => this.point(event, all));
    svg.addEventListener("pointerleave", () => this.mark(null));
    return undefined;
  }

  point(event, items) {
    const box = this.place.getBoundingClientRect();
    const distance = (item) => Math.hypot(this.at(item)[0] - (event.clientX - box.left), this.at(item)[1] - (event.clientY - box.top));
    const nearest = items.reduce((best, item) => (distance(item) <= distance(best) ? item : best));
    this.mark(distance(nearest) < NEAR ? nearest : null);
  }

  /** Put the ring around an item, and say what it is. */
  mark(item) {
    if (!this.ring?.isConnected) return;
    this.tip.hidden = item === null;
    const [cx, cy] = item === null ? [-99, -99] : this.at(item);
    this.ring.setAttribute("cx", cx);
    this.ring.setAttribute("cy", cy);
    if (item === null) return;
    const parts = [`expectation ${number(item.expectation, 3)}`];
    if (this.model.has_uncertainty) parts.push(`uncertainty ${number(item.uncertainty, 3)}`);
    parts.push(`taken by ${count(item.popularity)}`);
    this.tip.replaceChildren(make("b", {}, nameOf(item)), make("span", {}, parts.join(", ")));
    const width = this.place.clientWidth;
    this.tip.style.left = `${Math.max(0, Math.min(cx + 12, width - this.tip.offsetWidth))}px`;
    this.tip.style.top = `${cy > 90 ? cy - this.tip.offsetHeight - 12 : cy + 14}px`;
  }

  markById(id) {
    const found = this.lit.find(([item]) => item.item_id === id);
    this.mark(found ? found[0] : null);
  }
}

/** A square for the list by expectation, a triangle for the blend, a full circle for both. */
export function litMark(kind, x, y) {
  if (kind === "both") return draw("circle", { class: "lit-both", cx: x, cy: y, r: 5.5 });
  if (kind === "expectation") return draw("rect", { class: "lit-r", x: x - 5, y: y - 5, width: 10, height: 10 });
  return draw("path", { class: "lit-s", d: `M${x} ${y - 6.5}L${x + 6.2} ${y + 4.8}H${x - 6.2}Z` });
}

/** The points of a curve that can be drawn, by lam. */
export function knownPoints(choice) {
  const known = (point) => Number.isFinite(point["recall@20"]) && Number.isFinite(point["tail_recall@50"]);
  return (choice?.curve ?? []).filter(known).sort((a, b) => a.lam - b.lam);
}

/** Overall accuracy against the tail, one point for each lam; the chosen lam is marked, and where the knob stands. */
export function drawCurve(place, choice, lam) {
  const curve = knownPoints(choice);
  if (!curve.length) return place.replaceChildren();
  const { svg, x, y } = frame(place, {
    xs: curve.map((point) => point["recall@20"]),
    ys: curve.map((point) => point["tail_recall@50"]),
    xName: "Recall@20, all items",
    yName: "Recall@50, tail items",
    height: 280,
    pad: 0.15,
    label: "Overall accuracy against tail accuracy, one point for each lam. The numbers are in the table below.",
  });
  const at = (point) => [x(point["recall@20"]), y(point["tail_recall@50"])];
  svg.append(draw("polyline", { class: "curve", points: curve.map((point) => at(point).join(",")).join(" ") }));
  for (const point of curve) {
    const [cx, cy] = at(point);
    if (Math.abs(point.lam * 10 - Math.round(point.lam * 10)) < 1e-6) svg.append(draw("circle", { class: "curve-dot", cx, cy, r: 3 }));
  }
  const width = svg.viewBox.baseVal.width;
  const say = (point, words, kind) => {
    const [px, py] = at(point);
    const left = px > width * 0.6;
    svg.append(draw("text", { class: kind, x: left ? px - 10 : px + 10, y: py + 4, "text-anchor": left ? "end" : "start" }, words));
  };
  const nearest = (value) => curve.reduce((best, point) => (Math.abs(point.lam - value) < Math.abs(best.lam - value) ? point : best));
  const best = nearest(choice.lam);
  svg.append(draw("circle", { class: "curve-chosen", cx: at(best)[0], cy: at(best)[1], r: 8 }));
  const ends = [nearest(1), nearest(0)].filter((end) => end !== best);
  for (const end of ends) say(end, `lam ${number(end.lam, end.lam % 1 ? 2 : 0)}`, "tick");
  const [bx, by] = at(best);
  const anchor = bx > width / 2 ? "end" : "start";
  svg.append(draw("text", { class: "curve-words", x: bx + (anchor === "end" ? 8 : -8), y: by - 15, "text-anchor": anchor }, `chosen: lam ${number(best.lam)}`));
  const [kx, ky] = at(between(curve, lam));
  svg.append(draw("path", { class: "curve-knob", d: `M${kx} ${ky - 6}l6 6l-6 6l-6-6Z` }));
  return undefined;
}

/** The point of the curve at a lam, on the line between its neighbours. */
function between(curve, lam) {
  const after = curve.findIndex((point) => point.lam >= lam);
  if (after <= 0) return after === 0 ? curve[0] : curve[curve.length - 1];
  const [low, high] = [curve[after - 1], curve[after]];
  const share = (lam - low.lam) / (high.lam - low.lam);
  const mix = (name) => low[name] + share * (high[name] - low[name]);
  return { "recall@20": mix("recall@20"), "tail_recall@50": mix("tail_recall@50") };
}

// What is known of the model: its head line, the evaluation, and the numbers of the curve.

import { knownPoints } from "./charts.js";
import { byId, count, make, number } from "./dom.js";

const PROTOCOLS = { overall: "all items", tail_absolute: "tail, among all", tail_relative: "tail, among the tail" };
const CURVE = { lam: "lam", "recall@20": "Recall@20", "ndcg@20": "NDCG@20", "tail_recall@50": "tail Recall@50" };

const pretty = (metric) => metric.replace("recall", "Recall").replace("ndcg", "NDCG");

export function showModel(model) {
  const what = model.kind === model.model ? model.kind : `${model.kind} on ${model.model}`;
  const sizes = `${count(model.n_users)} users, ${count(model.n_items)} items, ${count(model.n_pairs)} pairs`;
  byId("about").replaceChildren(make("b", {}, model.name), make("span", {}, what), make("span", {}, sizes));
  byId("tail-rule").textContent = `tail: ${model.tail_rule}`;
  byId("foot").textContent = `Aleator ${model.version}, model ${model.fingerprint.slice(0, 12)}`;
  showChoice(model.choice);
  showEvaluation(model);
}

function showChoice(choice) {
  const curve = knownPoints(choice);
  byId("curve-table").replaceChildren();
  if (!curve.length) {
    byId("curve").replaceChildren();
    byId("curve-note").textContent = "Lam was given when this model was fitted, so nothing was compared. A fit that chooses lam shows the curve here.";
    return;
  }
  byId("curve-note").textContent = "On pairs held out from training. Right is better overall, up is better for rare items. The diamond is where the knob stands.";
  const rows = curve.filter((point, n) => n % Math.max(1, Math.round(curve.length / 10)) === 0 || point.lam === choice.lam);
  const why = make("p", { class: "note" }, `Why lam ${number(choice.lam)}: ${choice.why}.`);
  const table = grid("Accuracy on held-out pairs by lam", Object.values(CURVE), rows.map((point) =>
    Object.keys(CURVE).map((name) => number(point[name], name === "lam" ? 2 : 4))));
  byId("curve-table").append(why, make("details", {}, make("summary", {}, "The curve in numbers"), table));
}

function showEvaluation({ evaluation, has_test: measured }) {
  if (!evaluation && measured) {
    byId("evaluation").replaceChildren(make("p", { class: "note" }, "It is being measured …"));
    return;
  }
  if (!evaluation) {
    const told = "This service does not know a test part, so there is nothing to measure with. Start it with ";
    const command = make("code", {}, "aleator serve FOLDER --data DATASET");
    byId("evaluation").replaceChildren(make("p", { class: "note" }, told, command, " to see the figures here."));
    return;
  }
  const protocols = Object.keys(evaluation.protocols);
  const metrics = Object.keys(evaluation.protocols[protocols[0]]).filter((metric) => /^(recall|ndcg)@/.test(metric));
  const rows = metrics.map((metric) => [pretty(metric), ...protocols.map((name) => number(evaluation.protocols[name][metric], 4))]);
  const table = grid("Accuracy on the test part", ["", ...protocols.map((name) => PROTOCOLS[name] ?? name)], rows);
  const note = make("p", { class: "note" }, `Measured on the test part of ${evaluation.data}. Recall@20 is the share of what people took later that is among the first 20. NDCG counts the top ranks more.`);
  byId("evaluation").replaceChildren(table, note);
}

function grid(caption, heads, rows) {
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    make("table", {},
      make("caption", { class: "sr" }, caption),
      make("thead", {}, make("tr", {}, ...heads.map((head) => make(head ? "th" : "td", head ? { scope: "col" } : {}, head)))),
      make("tbody", {}, ...rows.map(([first, ...cells]) =>
        make("tr", {}, make("th", { scope: "row" }, first), ...cells.map((cell) => make("td", {}, cell)))))));
}

// What stands under a row: the items of the history that speak for it.

import { make, nameOf, number } from "./dom.js";

const SHOWN = 4; // history items for each part

/** Fill a panel from what `/explain` says of one item. */
export function showWhy(panel, { contributions, exact }, model) {
  const parts = [["r", "What speaks for it", "adds_to_expectation"]];
  if (model.has_uncertainty) parts.push(["s", "What says that its zero may be wrong", "adds_to_uncertainty"]);
  panel.replaceChildren(
    make("div", { class: "why-parts" }, ...parts.map(([kind, words, column]) => part(kind, words, contributions, column))),
    make("p", { class: "note" }, contributions.length ? notes(exact, model) : "There is no history to explain it with."),
  );
}

function part(kind, words, rows, column) {
  const known = rows.filter((row) => row[column] !== null && row[column] !== undefined);
  const found = known.filter((row) => row[column] > 0).sort((a, b) => b[column] - a[column]).slice(0, SHOWN);
  const block = make("div", { class: `why-part ${kind}` }, make("h4", {}, words));
  if (!found.length) {
    const told = known.length ? "No item of the history speaks for it." : "Nothing can be said: the model has no such parts.";
    block.append(make("p", { class: "note" }, told));
    return block;
  }
  const most = found[0][column];
  block.append(make("ul", {}, ...found.map((row) => {
    const fill = make("span", { class: "fill" });
    fill.style.width = `${(100 * row[column]) / most}%`;
    const size = make("span", { class: "size" }, `+${number(row[column], 3)}`);
    return make("li", {}, make("span", { class: "from" }, nameOf(row)), make("span", { class: "track", "aria-hidden": "true" }, fill), size);
  })));
  return block;
}

function notes(exact, model) {
  const sum = exact
    ? "These are the largest terms of a sum over the history."
    : "Each number is what leaving this item out would take away.";
  const units = " Those of the uncertainty are in units of the log-variance, which it rises with.";
  return model.has_uncertainty ? sum + units : sum;
}

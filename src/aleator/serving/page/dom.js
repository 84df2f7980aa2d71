// Elements are made here alone. Titles and ids come from an untrusted folder: they become text nodes, never markup.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const make = (name, attributes = {}, ...children) => filled(document.createElement(name), attributes, children);

export const draw = (name, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, name), attributes, children);

/** A button that calls a function. */
export function button(words, act, attributes = {}) {
  const made = make("button", { type: "button", ...attributes }, words);
  made.addEventListener("click", act);
  return made;
}

export const number = (value, digits = 2) => (value === null || value === undefined ? "–" : value.toFixed(digits));
export const count = (value) => value.toLocaleString("en");
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** What a person calls an item. */
export const nameOf = (item) => (item.title ? item.title : `Item ${item.item_id}`);

export const calm = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;

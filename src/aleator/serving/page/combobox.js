// A text field with suggestions, by mouse and by keyboard (the ARIA pattern of a combobox with a listbox).

import { latest } from "./api.js";
import { make } from "./dom.js";

const WAIT = 120; // ms after a key stroke before the service is asked

/** `find(text, signal)` gives suggestions, `show(suggestion)` the children of one, `pick(suggestion)` takes it. */
export function combobox(input, { find, show, pick, none, fail }) {
  const list = make("ul", { id: `${input.id}-options`, class: "options", role: "listbox", hidden: true });
  list.setAttribute("aria-label", input.labels[0]?.textContent ?? "Suggestions");
  input.after(list);
  for (const [name, value] of Object.entries({
    role: "combobox",
    "aria-expanded": "false",
    "aria-autocomplete": "list",
    "aria-controls": list.id,
  })) {
    input.setAttribute(name, value);
  }
  const newest = latest();
  let found = [];
  let active = -1;
  let timer = null;
  let eager = false; // whether Enter was pressed before the suggestions for this text came

  function close() {
    clearTimeout(timer);
    newest(async () => undefined); // an answer under way would open it again
    input.removeAttribute("aria-busy");
    found = [];
    active = -1;
    eager = false;
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function mark(place) {
    active = place;
    [...list.children].forEach((option, n) => option.setAttribute("aria-selected", String(n === place)));
    const option = list.children[place];
    if (option === undefined || found.length === 0) return;
    input.setAttribute("aria-activedescendant", option.id);
    option.scrollIntoView({ block: "nearest" });
  }

  function take(place) {
    const taken = found[place];
    close();
    if (taken !== undefined) pick(taken);
  }

  function open(suggestions) {
    found = suggestions;
    const options = suggestions.map((suggestion, place) => {
      const option = make("li", { id: `${list.id}-${place}`, role: "option" }, ...show(suggestion));
      option.addEventListener("pointerdown", (event) => event.preventDefault()); // the field keeps the focus
      option.addEventListener("click", () => take(place));
      return option;
    });
    list.replaceChildren(...options);
    if (options.length === 0) {
      list.append(make("li", { class: "none", role: "option", "aria-disabled": "true" }, none(input.value.trim())));
    }
    list.hidden = false;
    input.removeAttribute("aria-busy");
    input.setAttribute("aria-expanded", "true");
    mark(options.length ? 0 : -1);
  }

  async function look() {
    clearTimeout(timer);
    input.setAttribute("aria-busy", "true");
    try {
      const answer = await newest((signal) => find(input.value.trim(), signal));
      if (answer === undefined || document.activeElement !== input) return;
      open(answer);
      if (eager && answer.length) take(0);
    } catch (error) {
      close();
      fail(error);
    }
  }

  function later() {
    clearTimeout(timer);
    newest(async () => undefined); // an answer to the text of before
    input.setAttribute("aria-busy", "true");
    timer = setTimeout(look, WAIT);
  }

  input.addEventListener("input", later);
  input.addEventListener("focus", () => input.select());
  input.addEventListener("click", () => list.hidden && look());
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in steps) {
      event.preventDefault();
      if (list.hidden) look();
      else if (found.length) mark((active + steps[event.key] + found.length) % found.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (!list.hidden && !input.hasAttribute("aria-busy")) take(active);
      else {
        eager = input.hasAttribute("aria-busy") && input.value.trim() !== "";
        look();
      }
    } else if (event.key === "Escape" && !list.hidden) {
      event.preventDefault();
      close();
    }
  });
}

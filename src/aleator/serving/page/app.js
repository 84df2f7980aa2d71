// The explorer page: what it shows, and what happens when somebody turns a knob. /openapi.json says what is asked for.

import * as address from "./address.js";
import { ask, latest } from "./api.js";
import { Scatter, drawCurve, litMark } from "./charts.js";
import { combobox } from "./combobox.js";
import { button, byId, count, draw, make, nameOf, number, plural } from "./dom.js";
import { List, drawLinks, heads, leavesFor, movedFrom } from "./lists.js";
import { showModel } from "./model.js";
import { showWhy } from "./why.js";

const LENGTHS = [10, 20, 50];
const DEEP = 100; // ranks of the list by expectation that are known, to say where an item of the blend came from
const SHOWN = 8; // items of a history until somebody asks for all
const OPTIONS = 8; // suggestions under a field
const SAMPLE = 32; // users to choose one from
const POINTS = 2000; // items of the scatter
const STILL = 60; // ms that the knob rests before the service is asked
const MOST = 0.4995; // an uncertainty that reads 0.500, which is the most it can be
const AGAIN = 3000; // ms between tries while the service is gone

const state = { who: null, lam: null, k: LENGTHS[0] };
const titles = new Map(); // of items that were seen, by id
let model = null;
let person = null; // the answer of /users/{id}
let expected = []; // the list by expectation, DEEP ranks
let blended = []; // the list of the blend
let points = []; // the catalogue
let ready = false; // whether what is shown is of state.who
let whole = false; // whether all of the history is shown

const newestWho = latest();
const newestBlend = latest();
const scatter = new Scatter(byId("map"));
const actions = { why: explain, light };
const left = new List(byId("list-expectation"), actions);
const right = new List(byId("list-blend"), actions);

// ---- Starting, and starting again

async function start() {
  busy(true);
  left.wait(state.k);
  right.wait(state.k);
  await loadModel();
  const asked = address.parse(location.hash);
  state.lam = model.has_uncertainty ? (asked.lam ?? firstLam()) : null;
  state.k = LENGTHS.includes(asked.k) ? asked.k : LENGTHS[0];
  byId("k").value = state.k;
  if (asked.who) await choose(asked.who);
  else await choose(await somebody());
}

/** A user to begin with: a short history is read at a glance. */
async function somebody() {
  const { users } = await ask(`users?query=&limit=${SAMPLE}`);
  if (!users.length) return { history: [] };
  return { user: users.reduce((best, user) => (user.n_items < best.n_items ? user : best)).user_id };
}

/** The chosen lam. Where that is the expectation alone, the page opens with a blend to compare it with. */
function firstLam() {
  return model.lam < 1 ? model.lam : 0.5;
}

async function loadModel() {
  model = await ask("model");
  const has = {
    uncertainty: model.has_uncertainty,
    confidence: model.has_confidence,
    test: model.has_test,
  };
  for (const element of document.querySelectorAll("[data-needs]")) element.toggleAttribute("hidden", !has[element.dataset.needs]);
  for (const element of document.querySelectorAll("[data-lacks]")) element.toggleAttribute("hidden", has[element.dataset.lacks]);
  document.body.classList.toggle("bare", !model.has_uncertainty);
  document.body.classList.toggle("no-chance", !model.has_confidence);
  for (const place of document.querySelectorAll(".heads")) place.replaceChildren(...heads(model));
  document.querySelector("[data-list=expectation] h3").firstChild.textContent = model.has_uncertainty
    ? "By expectation alone "
    : "The list ";
  const search = model.has_titles ? "Search by title" : "Search by id (this model has no titles)";
  byId("item").setAttribute("placeholder", search);
  showModel(model);
  if (model.has_test && !model.evaluation) later("model", () => takeUp(false).catch(wrong)); // it is being measured
}

/** Take up another model, if the service has. Always ask for the lists again if `lists`. */
async function takeUp(lists) {
  const before = model.fingerprint;
  await loadModel();
  const changed = model.fingerprint !== before;
  if (model.has_uncertainty) state.lam ??= firstLam();
  else state.lam = null;
  if (changed) {
    banner(null);
    notice("The service has taken up another model. The page now shows that one.");
  }
  if (changed || lists) await choose(state.who);
}

/** Do something that asks the service. What goes wrong is shown. */
async function attempt(act) {
  try {
    await act();
    banner(null);
  } catch (error) {
    wrong(error);
  }
}

function wrong(error) {
  busy(false);
  document.body.classList.toggle("stale", Boolean(error.gone));
  for (const list of [left, right]) if (list.waits) list.say("Nothing to show yet.");
  if (error.gone) {
    banner(`${error.message} ${model ? "What you see is from before. " : ""}Trying again every few seconds.`, "Try now", again);
    later("again", again);
  } else if (error.status) {
    banner(error.message, ...(error.status < 500 && ![401, 429].includes(error.status) ? [] : ["Try again", again]));
    if (model && error.status !== 401) perhapsReplaced();
  } else throw error;
}

/** What was refused may have been asked of another model than the page knows. */
function perhapsReplaced() {
  const before = model.fingerprint;
  const refused = (error) => {
    if (model.fingerprint !== before) wrong(error);
  };
  later("replaced", () => takeUp(false).catch(refused), STILL);
}

const timers = {};

/** Do something after a while; what was to be done under this name is not done. */
function later(name, act, wait = AGAIN) {
  clearTimeout(timers[name]);
  timers[name] = setTimeout(act, wait);
}

function again() {
  attempt(model === null ? start : () => takeUp(true));
}

function banner(words, action, act) {
  clearTimeout(timers.again);
  if (words === null) document.body.classList.remove("stale");
  byId("banner").hidden = words === null;
  byId("banner-text").textContent = words ?? "";
  byId("banner-action").hidden = !action;
  byId("banner-action").textContent = action ?? "";
  byId("banner-action").onclick = act ?? null;
}

/** Whether an answer for the lists is under way. */
function busy(is) {
  if (is) byId("lists").setAttribute("aria-busy", "true");
  else byId("lists").removeAttribute("aria-busy");
}

/** Something to know, until somebody closes it. */
function notice(words) {
  byId("notice").hidden = false;
  byId("notice-text").textContent = words;
}

// ---- For whom

/** Show another person: {user: id} or {history: [item ids]}. */
async function choose(who) {
  state.who = who;
  whole = ready = false;
  busy(true);
  const typed = who.history !== undefined;
  byId("tab-user").setAttribute("aria-pressed", String(!typed));
  byId("tab-history").setAttribute("aria-pressed", String(typed));
  byId("pane-user").hidden = typed;
  byId("pane-history").hidden = !typed;
  if (!typed) byId("user").value = who.user;
  remember();
  if (typed && who.history.length === 0) return beginner();
  const answer = await newestWho((signal) => askWho(who, signal)).catch((error) => {
    if (!error.gone) nobody("There is no list to show."); // what stood there is somebody else's
    throw error;
  });
  if (answer === undefined) return undefined;
  [person, expected, points] = answer;
  left.forget();
  right.forget();
  ready = true;
  showHistory();
  return showLists();
}

/** What does not depend on lam: the history, the list by expectation, the catalogue. */
async function askWho(who, signal) {
  const about = who.history === undefined ? ask(`users/${encodeURIComponent(who.user)}`, { signal }) : titled(who, signal);
  const limit = Math.min(POINTS, model.limits.points);
  const [found, list, map] = await Promise.all([
    about,
    recommend(who, Math.max(DEEP, state.k), 1, signal),
    ask("map", { body: { ...who, limit }, signal }).then(checked),
  ]);
  for (const item of found.history) titles.set(item.item_id, item.title);
  found.unknown = list.unknown_items;
  return [found, list.items, map.points.filter((point) => Number.isFinite(point.expectation))];
}

/** The list of somebody. `more` has options of the request. */
async function recommend(who, k, lam, signal, more = {}) {
  const whose = who.history === undefined ? { users: [who.user] } : { histories: { you: who.history } };
  const at = model.has_uncertainty ? { lam } : {};
  const body = { ...whose, ...at, ...more, k: Math.min(k, model.limits.k, model.n_items) };
  const { lists: [list] } = checked(await ask("recommend", { body, signal }));
  for (const item of list.items) {
    titles.set(item.item_id, item.title);
    if (!model.has_uncertainty) item.expectation = item.score; // of a bare model they are one
  }
  return list;
}

/** An answer, which must be of the model that the page shows. */
function checked(answer) {
  if (answer.fingerprint !== model.fingerprint) {
    later("replaced", () => attempt(() => takeUp(true)), STILL);
  }
  return answer;
}

/** A typed history as the service would tell that of a user. */
async function titled(who, signal) {
  const missing = who.history.filter((id) => !titles.has(id));
  if (missing.length) {
    // a list of these items alone has their titles
    await recommend(who, missing.length, 1, signal, { allow: missing, filter_seen: false }).catch((error) => {
      if (error.status !== 404) throw error; // an item that the model does not know: it is left out and counted
    });
  }
  return { n_items: who.history.length, history: who.history.map((id) => ({ item_id: id, title: titles.get(id) })), test: null };
}

/** Nobody yet: some popular items to begin a history with. */
async function beginner() {
  nobody("Add an item or two, and the lists appear here.");
  const { items } = await ask(`items?query=&limit=${OPTIONS}`);
  if (state.who.history?.length !== 0) return; // somebody was faster
  const tries = items.map((item) => make("li", {}, button(`+ ${nameOf(item)}`, () => add(item), { class: "chip" })));
  byId("history").replaceChildren(make("p", {}, "Many people took these:"), make("ul", { class: "chips" }, ...tries));
}

/** No lists, and why. */
function nobody(words) {
  newestWho(async () => undefined);
  newestBlend(async () => undefined);
  [person, expected, blended, points] = [null, [], [], []];
  showHistory();
  byId("summary").textContent = "";
  byId("flat").hidden = byId("bare-chosen").hidden = byId("map-card").hidden = true;
  busy(false);
  left.say(words);
  right.say(words);
  drawLinks(byId("links"), left, right);
}

function showHistory() {
  byId("edit").hidden = person === null;
  if (person === null) return byId("history").replaceChildren();
  const { history, n_items: n, test } = person;
  const typed = state.who.history !== undefined;
  const long = history.length > SHOWN + SHOWN / 2;
  const some = whole || !long ? history : history.slice(0, SHOWN);
  const words = [typed ? `${plural(n, "item")} in this history.` : `This person took ${plural(n, "item")}.`];
  if (person.unknown) words.push(`This model does not know ${person.unknown} of them.`);
  if (test) words.push(`Later, in the test part, ${plural(test.length, "more", "more")}.`);
  const chips = some.map((item) => {
    const name = nameOf(item);
    const remove = () => attempt(() => choose({ history: state.who.history.filter((id) => id !== item.item_id) }));
    const cross = typed ? button("×", remove, { "aria-label": `Remove ${name}` }) : null;
    return make("li", { class: "chip" }, make("span", {}, name), cross);
  });
  const parts = [make("p", {}, words.join(" "))];
  if (chips.length) parts.push(make("ul", { class: "chips" }, ...chips));
  if (long) {
    const turn = () => {
      whole = !whole;
      showHistory();
      byId("history").querySelector("button.more").focus();
    };
    const more = history.length < n ? `Show ${history.length} of them` : `Show all ${history.length}`;
    parts.push(button(whole ? "Show fewer" : more, turn, { class: "quiet more", "aria-expanded": String(whole) }));
  }
  return byId("history").replaceChildren(...parts);
}

// ---- The lists

/** Ask for the blend at the lam of now, and show both lists. */
async function showLists() {
  showKnob();
  if (model.has_uncertainty) {
    const { who, k, lam } = state;
    const answer = await newestBlend((signal) => recommend(who, k, lam, signal));
    if (answer === undefined) return;
    blended = answer.items;
  } else blended = [];
  const first = expected.slice(0, state.k);
  const most = (name) => Math.max(...[...first, ...blended, ...points].map((item) => item[name] ?? 0), 0);
  const scale = { expectation: most("expectation"), uncertainty: most("uncertainty") };
  if (!expected.length) {
    for (const list of [left, right]) list.say("The model has nothing left to recommend here.");
  } else {
    const ranks = new Map(expected.map((item) => [item.item_id, item.rank]));
    const leaves = model.has_uncertainty ? leavesFor(blended) : () => ({ kind: "same", seen: "" });
    left.show(first, { model, scale, moved: leaves });
    right.show(blended, { model, scale, moved: movedFrom(ranks, first.length, expected.length) });
  }
  busy(false);
  drawLinks(byId("links"), left, right);
  showSummary(first);
  showMap(first);
}

function showSummary(first) {
  const mine = new Set(first.map((item) => item.item_id));
  const fresh = blended.filter((item) => !mine.has(item.item_id)).length;
  const counted = (words, name) => {
    const [before, after] = [first, blended].map((list) => list.filter((item) => item[name]).length);
    return model.has_uncertainty && before !== after ? `${words}: ${before} → ${after}` : `${words}: ${before}`;
  };
  const parts = [];
  if (model.has_uncertainty) {
    const moved = first.filter((item, n) => item.item_id !== blended[n]?.item_id).length;
    if (fresh) parts.push(`At lam ${number(state.lam)} the blend exchanges ${fresh} of ${first.length} items`);
    else parts.push(moved ? `At lam ${number(state.lam)} the same items stand in another order` : "Both lists are the same");
  }
  parts.push(counted("tail items", "tail"));
  if (first.some((item) => item.in_test !== null && item.in_test !== undefined)) parts.push(counted("taken later", "in_test"));
  const told = parts.join("; ");
  byId("summary").textContent = `${told[0].toUpperCase()}${told.slice(1)}.`;
  byId("bare-chosen").hidden = model.lam !== 1;
  byId("flat").hidden = !model.has_uncertainty || ![...first, ...blended].every((item) => item.uncertainty >= MOST);
  for (const [list, name] of [[first, "expectation"], [blended, "blend"]]) {
    const known = list.some((item) => item.confidence !== null);
    document.querySelector(`[data-list=${name}]`).classList.toggle("without-chance", !known);
  }
}

async function explain(item, panel) {
  panel.replaceChildren(make("p", { class: "note" }, "Looking it up …"));
  try {
    const lam = model.has_uncertainty ? { lam: state.lam } : {};
    const body = { ...state.who, items: [item.item_id], n: model.limits.history, ...lam };
    const { items } = checked(await ask("explain", { body }));
    showWhy(panel, items[0], model);
  } catch (error) {
    panel.replaceChildren(make("p", { class: "note wrong" }, error.message));
    if (error.gone) wrong(error);
  }
  drawLinks(byId("links"), left, right);
}

/** An item is looked at: mark it in both lists and in the scatter. */
function light(id) {
  left.mark(id);
  right.mark(id);
  scatter.markById(id);
}

// ---- The scatter and the curve

function showMap(first) {
  byId("map-card").hidden = points.length === 0; // a bare model may give none
  const inBlend = new Set(blended.map((item) => item.item_id));
  const inFirst = new Set(first.map((item) => item.item_id));
  const kind = (item) => (!model.has_uncertainty ? "expectation" : inBlend.has(item.item_id) ? "both" : "expectation");
  const lit = [
    ...first.map((item) => [item, kind(item)]),
    ...blended.filter((item) => !inFirst.has(item.item_id)).map((item) => [item, "blend"]),
  ];
  scatter.show(points, lit, model);
  byId("map-note").textContent = model.has_uncertainty
    ? "Each dot is an item. Right: what was taken speaks for it. Up: its zero may be wrong. The blend looks in both directions."
    : "Each dot is an item. Right: what was taken speaks for it. Up: more people took it.";
  const keys = model.has_uncertainty
    ? [["both", "in both lists"], ["expectation", "by expectation alone"], ["blend", "by the blend alone"]]
    : [["expectation", "recommended"]];
  const sign = (mark) => draw("svg", { width: 14, height: 14, "aria-hidden": "true" }, mark);
  const dot = (tail) => draw("circle", { class: tail ? "dot dot-tail" : "dot", cx: 7, cy: 7, r: 3 });
  byId("map-key").replaceChildren(
    ...keys.map(([name, words]) => make("li", {}, sign(litMark(name, 7, 7)), words)),
    make("li", {}, sign(dot(false)), "head"),
    make("li", {}, sign(dot(true)), "tail"),
  );
}

// ---- The knob

// The knob goes from the expectation on the left to the uncertainty on the right, so it holds 1 - lam.
function showKnob() {
  if (!model.has_uncertainty) return;
  const words = number(state.lam);
  byId("lam").value = 1 - state.lam;
  byId("lam").setAttribute("aria-valuetext", `lam ${words}`);
  byId("lam").style.setProperty("--place", 1 - state.lam);
  byId("lam-value").textContent = words;
  byId("blend-lam").textContent = `lam ${words}`;
  const chosen = byId("chosen");
  chosen.hidden = model.lam === null;
  chosen.textContent = `chosen ${number(model.lam)}`;
  chosen.style.setProperty("--place", 1 - model.lam);
  chosen.setAttribute("aria-label", `chosen ${number(model.lam)}, go back to it`);
  if (model.choice) drawCurve(byId("curve"), model.choice, state.lam);
}

function turnTo(lam) {
  state.lam = Math.round(lam * 100) / 100;
  if (ready) busy(true);
  showKnob();
  const show = () => {
    remember();
    if (ready) attempt(showLists); // otherwise they come with the lam of then
  };
  later("knob", show, STILL);
}

function remember() {
  history.replaceState(null, "", address.write(state));
}

// ---- What people do

function listen() {
  byId("k").replaceChildren(...LENGTHS.map((n) => make("option", { value: n }, String(n))));
  byId("k").addEventListener("change", () => {
    state.k = Number(byId("k").value);
    attempt(() => choose(state.who));
  });
  byId("lam").addEventListener("input", () => turnTo(1 - Number(byId("lam").value)));
  byId("chosen").addEventListener("click", () => turnTo(model.lam));
  byId("tab-user").addEventListener("click", () => attempt(another));
  byId("tab-history").addEventListener("click", () => attempt(() => choose({ history: [] })));
  byId("another").addEventListener("click", () => attempt(another));
  byId("clear").addEventListener("click", () => attempt(() => choose({ history: [] })));
  byId("edit").addEventListener("click", () => attempt(() => choose({ history: person.history.map((item) => item.item_id) })));
  byId("notice-close").addEventListener("click", () => {
    byId("notice").hidden = true;
  });
  byId("user").addEventListener("blur", () => {
    byId("user").value = state.who?.user ?? "";
  });
  for (const chosen of byId("show").children) {
    chosen.addEventListener("click", () => {
      byId("columns").dataset.show = chosen.dataset.show;
      for (const each of byId("show").children) each.setAttribute("aria-pressed", String(each === chosen));
    });
  }
  combobox(byId("user"), {
    find: async (query, signal) => (await ask(`users?query=${encodeURIComponent(query)}&limit=${OPTIONS}`, { signal })).users,
    show: (user) => [make("span", {}, String(user.user_id)), make("small", {}, plural(user.n_items, "item"))],
    pick: ({ user_id: user }) => attempt(() => choose({ user })),
    none: (query) => `No user ${query}. Type the beginning of an id, or type a history instead.`,
    fail: wrong,
  });
  combobox(byId("item"), {
    find: async (query, signal) => (await ask(`items?query=${encodeURIComponent(query)}&limit=${OPTIONS}`, { signal })).items,
    show: (item) => [make("span", {}, nameOf(item)), make("small", {}, `taken by ${count(item.popularity)}`)],
    pick: add,
    none: (query) => `No item has “${query}” in its name.`,
    fail: wrong,
  });
  window.addEventListener("hashchange", () => location.hash !== address.write(state) && attempt(start));
  new ResizeObserver(() => {
    drawLinks(byId("links"), left, right);
  }).observe(byId("columns"));
  new ResizeObserver(() => {
    scatter.redraw();
    if (model) showKnob();
  }).observe(byId("map"));
}

async function another() {
  const { users } = await ask(`users?query=&limit=${SAMPLE}`);
  const others = users.filter((user) => user.user_id !== state.who?.user);
  if (others.length) await choose({ user: others[Math.floor(Math.random() * others.length)].user_id });
}

async function add(item) {
  titles.set(item.item_id, item.title);
  byId("item").value = "";
  const { history } = state.who;
  if (!history.includes(item.item_id)) await attempt(() => choose({ history: [...history, item.item_id] }));
}

listen();
attempt(start);

// Requests to the service: the token, a busy service, and answers that come out of order.

import { byId } from "./dom.js";

const BUSY_TRIES = 5;

/** What went wrong, as the service says it; status 0 if it does not answer. */
export class Failure extends Error {
  constructor(status, reason, message) {
    super(message);
    this.status = status;
    this.reason = reason;
  }
  get gone() {
    return this.status === 0;
  }
}

let token = null;
let asking = null; // the open question for a token, shared by all requests that wait for it

/** The answer to a GET, or to a POST of `body`. */
export async function ask(path, { body, signal } = {}) {
  for (let tries = 1; ; tries += 1) {
    const used = token;
    const response = await send(path, body, signal);
    if (response.status === 401) {
      if (used === token) await newToken(used !== null);
    } else if (response.status === 429 && tries < BUSY_TRIES) {
      await pause(Number(response.headers.get("Retry-After")) || tries / 2, signal);
    } else {
      return read(response);
    }
  }
}

async function send(path, body, signal) {
  const headers = token === null ? {} : { Authorization: `Bearer ${token}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  try {
    const method = body === undefined ? "GET" : "POST";
    return await fetch(path, { method, headers, signal, body: body && JSON.stringify(body), cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure(0, "gone", "The service does not answer.");
  }
}

async function read(response) {
  let answer = null;
  try {
    answer = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error; // otherwise it is no JSON, and handled below
  }
  if (response.ok && answer !== null) return answer;
  const told = answer?.error ?? {};
  const message = told.message ?? `The service answered with status ${response.status}.`;
  throw new Failure(response.status, told.reason ?? "unknown", message);
}

function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, seconds * 1000);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}

function newToken(refused) {
  asking ??= fromDialog(refused).finally(() => {
    asking = null;
  });
  return asking;
}

function fromDialog(refused) {
  const dialog = byId("token-dialog");
  byId("token-error").textContent = refused ? "The service does not accept this token." : "";
  byId("token").value = "";
  dialog.showModal();
  return new Promise((resolve, reject) => {
    byId("token-form").onsubmit = (event) => {
      event.preventDefault();
      token = byId("token").value;
      dialog.close();
      resolve();
    };
    byId("token-cancel").onclick = () => dialog.close();
    dialog.onclose = () => reject(new Failure(401, "unauthorized", "The service asks for a token.")); // unless resolved
  });
}

/** Makes a function that runs one request at a time: a newer one stops an older one, whose answer is undefined. */
export function latest() {
  let current = null;
  return async (request) => {
    current?.abort();
    const mine = new AbortController();
    current = mine;
    try {
      const answer = await request(mine.signal);
      return mine === current ? answer : undefined;
    } catch (error) {
      if (mine !== current || error.name === "AbortError") return undefined;
      throw error;
    }
  };
}

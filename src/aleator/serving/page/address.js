// The view in the address of the page, so that it can be shared: whose lists, lam, and how many items.

// Numbers and texts are different ids. A text that could be read as a number, or as JSON, is written as JSON.
const written = (id) => encodeURIComponent(typeof id === "number" || /^["\d-]/.test(id) ? JSON.stringify(id) : id);

function read(words) {
  const text = decodeURIComponent(words);
  return /^["\d-]/.test(text) ? JSON.parse(text) : text;
}

/** `who` is {user: id} or {history: [ids]}. */
export function write({ who, lam, k }) {
  const whose = who.history ? `history=${who.history.map(written).join(",")}` : `user=${written(who.user)}`;
  const rest = lam === null ? "" : `&lam=${lam.toFixed(2)}`;
  return `#${whose}${rest}&k=${k}`;
}

/** What an address says; parts that it does not say, or that make no sense, are undefined. */
export function parse(hash) {
  const parts = Object.fromEntries(hash.replace(/^#/, "").split("&").map((part) => part.split("=", 2)));
  const found = {};
  try {
    if (parts.user) found.who = { user: read(parts.user) };
    else if (parts.history !== undefined) found.who = { history: parts.history.split(",").filter(Boolean).map(read) };
  } catch {
    found.who = undefined; // a damaged address
  }
  const [lam, k] = [Number.parseFloat(parts.lam), Number.parseInt(parts.k, 10)];
  if (lam >= 0 && lam <= 1) found.lam = lam;
  if (k >= 1) found.k = k;
  return found;
}

// Asking the server: where it is, what it answers, and what time it has.

export const ROOT = new URL("..", import.meta.url);
export const at = (path) => new URL(path, ROOT).href;
export const jobPath = (id) => `jobs/${encodeURIComponent(id)}`;

const CSRF_HEADER = "X-Holdfast-CSRF";

/** An answer that is an error; `status` 0: there was none. */
export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

let skew = 0;
/** The server's time: a browser whose clock is wrong still shows the right age. */
export const now = () => Date.now() + skew;

/** GET, as JSON. */
export async function get(path, signal) {
  return (await tagged(path, signal))[0];
}

/** GET, as JSON, with the tag by which a change can say what it had seen. */
export async function tagged(path, signal) {
  const response = await ask(path, { headers: { Accept: "application/json" }, signal });
  return [parse(await response.text()), response.headers.get("ETag")];
}

/** Who the reader is to the server: name, scope, queues, and the token of the session if there is one. */
export const session = () => get("api/session");

/** POST. No page from elsewhere can have read the token; it is asked for each time, since another tab may have logged in anew. */
export async function post(path, body, headers = {}) {
  const { csrf } = await session();
  const token = csrf ? { [CSRF_HEADER]: csrf } : {};
  const all = { Accept: "application/json", "Content-Type": "application/json", ...token, ...headers };
  return ask(path, { method: "POST", headers: all, body: JSON.stringify(body ?? {}) });
}

export async function logOut() {
  await post("logout");
  location.assign(at("login"));
}

/** Any request; what is not an answer of ours becomes a Problem. */
export async function ask(path, options) {
  let response;
  try {
    response = await fetch(at(path), { cache: "no-store", credentials: "same-origin", redirect: "error", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "the server does not answer");
  }
  learnTime(response);
  if (response.ok) return response;
  if (response.status === 401) logIn();
  throw new Problem(response.status, await detailOf(response));
}

/** To the login form, which comes back here. */
function logIn() {
  if (location.href.startsWith(at("login"))) return;
  location.replace(at(`login#${encodeURIComponent(location.href.slice(ROOT.href.length))}`));
}

async function detailOf(response) {
  try {
    return String(parse(await response.text()).detail);
  } catch {
    return `the server answered ${response.status}`;
  }
}

function learnTime(response) {
  const told = Date.parse(response.headers.get("Date") ?? "");
  if (Number.isNaN(told)) return;
  const wrong = told - Date.now();
  skew = Math.abs(wrong) < 2000 ? 0 : wrong; // the header has whole seconds
}

/** JSON whose large integers keep all of their digits, where the browser can do that. */
export function parse(text) {
  return typeof JSON.rawJSON === "function" ? JSON.parse(text, exact) : JSON.parse(text);
}

function exact(_key, value, context) {
  return Number.isInteger(value) && !Number.isSafeInteger(value) && context?.source ? JSON.rawJSON(context.source) : value;
}

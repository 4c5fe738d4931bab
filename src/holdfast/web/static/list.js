// The list of jobs, newest first. The filter is in the address; all is asked for again every two seconds while somebody looks.

import { at, get, session } from "./api.js";
import { nothingFits, unused } from "./empty.js";
import { showRows } from "./rows.js";
import { $, ago, badge, clock, fill, foreign, leaving, link, make, text, tick, trouble, visible } from "./show.js";
import { STATES } from "./states.js";

const EVERY_MS = 2_000;
const PATIENCE_MS = 10_000;
const PAGE = 100;
const FIELDS = ["state", "queue", "task", "tag", "parent", "after"];

const asked = new URLSearchParams(location.search);
const chosen = Object.fromEntries(FIELDS.map((name) => [name, asked.get(name)]).filter(([, value]) => value));
const filtered = Object.keys(chosen).length > 0;

/** This page's address with some of the filter changed. */
function address(change) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries({ ...chosen, ...change })) if (value) query.set(name, value);
  return `${at("")}${query.size ? `?${query}` : ""}`;
}

// What is asked, and how often

let timer;

async function look() {
  clearTimeout(timer);
  const began = performance.now();
  try {
    const signal = AbortSignal.timeout(PATIENCE_MS);
    const query = new URLSearchParams({ ...chosen, limit: PAGE });
    const [page, { queues }] = await Promise.all([get(`api/jobs?${query}`, signal), get("api/queues", signal)]);
    const unserved = new Map(queues.filter((each) => each.ready && !each.workers).map((each) => [each.name, each.ready]));
    show(page, await count(queues, signal), unserved);
    showClosed(queues);
    trouble("");
    link("live");
  } catch (error) {
    failed(error);
  }
  if (document.hidden) return link("resting");
  timer = setTimeout(look, Math.max(EVERY_MS, (performance.now() - began) * 5)); // a server that is slow is asked less often
}

function failed(error) {
  const refused = error.status >= 400 && error.status < 500 && error.status !== 429;
  trouble(refused ? error.message : "");
  link(refused ? "live" : "lost");
}

/** State -> how many, as far as the filter goes; null where nobody counts that. */
async function count(queues, signal) {
  if (chosen.tag || chosen.parent || (chosen.queue && chosen.task)) return null;
  if (chosen.queue) return countQueue(queues.find((queue) => queue.name === chosen.queue));
  const { stats } = await get("api/stats", signal);
  const tasks = chosen.task ? [Object.hasOwn(stats, chosen.task) ? stats[chosen.task] : {}] : Object.values(stats);
  return Object.fromEntries(STATES.map((state) => [state, tasks.reduce((sum, task) => sum + (task[state] ?? 0), 0)]));
}

function countQueue(queue) {
  return Object.fromEntries(STATES.map((state) => [state, queue?.[state === "succeeded" ? "processed" : state] ?? 0]));
}

// What is shown

let told = "";

function show({ jobs, next }, counts, unserved) {
  const fresh = !filtered && jobs.length === 0;
  $("states").hidden = $("filter").hidden = fresh;
  $("jobs").hidden = jobs.length === 0;
  $("empty").hidden = jobs.length > 0;
  if (fresh) unused();
  else if (jobs.length === 0) nothingFits();
  showStates(counts);
  showUnserved(unserved);
  showRows(jobs, unserved, (queue) => address({ queue, after: null }));
  $("older").hidden = !next;
  if (next) $("older").href = address({ after: next });
  $("newest").hidden = !chosen.after;
  $("newest").href = address({ after: null });
  tell(counts);
}

/** Jobs that wait for a worker which does not exist. */
function showUnserved(unserved) {
  const named = [...unserved].map(([queue, ready]) => `${visible(queue)} (${ready.toLocaleString("en")} ready)`);
  $("unserved").hidden = named.length === 0;
  const start = make("code", {}, "holdfast worker MODULE:APP");
  if (named.length) fill($("unserved"), `No worker takes queue ${named.join(", ")}. Start one: `, start);
}

/** Queues that are paused, stopped or full: their jobs wait for a person, or for a time. */
function showClosed(queues) {
  const lines = queues.filter((each) => !chosen.queue || each.name === chosen.queue).flatMap(closed);
  $("closed").hidden = lines.length === 0;
  fill($("closed"), ...lines.map((words) => make("span", { class: "line" }, ...words)));
}

function closed({ name, paused, breaker, depth, max_depth: most }) {
  const lines = [];
  if (paused) lines.push([foreign(name), " is paused", ...by(paused), ...until(paused), paused.reason ? ": " : "", foreign(paused.reason)]);
  if (breaker && breaker.state !== "closed") lines.push([foreign(name), `: breaker ${breaker.state}`, ...until(breaker)]);
  if (most !== null && depth >= most) lines.push([foreign(name), ` is full: ${depth} of ${most} jobs wait; new ones are refused`]);
  return lines.map((words) => ["Queue ", ...words]);
}

const by = (paused) => (paused.by ? [" by ", foreign(paused.by), ", ", ago(paused.since)] : []);
const until = (stop) => (stop.until ? [", until ", clock(stop.until)] : []);

function showStates(counts) {
  const all = counts && Object.values(counts).reduce((sum, number) => sum + number, 0);
  const tiles = STATES.map((state) => tile(state, counts?.[state] ?? null, badge(state)));
  fill($("states"), tile(null, all, make("span", { class: "state" }, "all")), ...tiles);
}

function tile(state, number, label) {
  const here = (chosen.state ?? null) === state;
  const shown = number === null ? [] : [make("span", { class: "number" }, number.toLocaleString("en"), " ")];
  const href = address({ state, after: null });
  return make("a", { href, "aria-current": here ? "page" : null, "data-none": number === 0 ? "" : null }, ...shown, label);
}

function tell(counts) {
  const now = counts ? `${counts.running} running, ${counts.failed} failed` : "";
  if (told && told !== now) text($("told"), now);
  told = now;
}

// The form

for (const input of $("filter").querySelectorAll("input")) input.value = chosen[input.name] ?? "";
$("clear").hidden = !filtered;
$("filter").addEventListener("submit", (event) => {
  event.preventDefault();
  const typed = Object.fromEntries([...new FormData(event.target)].map(([name, value]) => [name, value.trim()]));
  location.assign(address({ ...typed, after: null }));
});

/** Names to choose from; without them one types. */
async function suggest() {
  const [{ queues }, { tasks }] = await Promise.all([get("api/queues"), get("api/tasks")]);
  const options = (named) => named.slice(0, 500).map(({ name }) => make("option", { value: name }));
  $("queues").replaceChildren(...options(queues));
  $("tasks").replaceChildren(...options(tasks));
}

async function begin() {
  const caller = await session().catch(() => null);
  leaving(caller);
  const several = caller?.queues?.length > 1; // who may see some queues only looks at one at a time
  if (several && !chosen.queue) return location.replace(address({ queue: caller.queues[0] }));
  document.addEventListener("visibilitychange", () => document.hidden || look());
  addEventListener("online", look);
  setInterval(tick, 1_000);
  suggest().catch(() => {});
  look();
}

begin();

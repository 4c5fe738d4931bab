// A job's document on the page.

import { at, jobPath, now } from "./api.js";
import { counted, fractionOf, ORDINARY, percent } from "./far.js";
import { $, ago, badge, facts, fill, foreign, make, short, span, text, value, visible } from "./show.js";
import { FINAL, VERBS } from "./states.js";

/** `act` is what a button does; null: the reader may only look. */
export function showJob(job, act) {
  $("job").hidden = false;
  showName(job);
  fill($("state"), badge(job.state));
  showActs(job, act);
  showFar(job);
  showFailure(job);
  showAttempts(job);
  showValues(job);
  facts($("facts"), [...factsOf(job)]);
  showPairs("metered", "meter", job.meter, amountText);
  showPairs("described", "meta", job.meta, (each) => foreign(short(each)));
  document.title = titleOf(job);
}

export function showMissing(id) {
  $("job").hidden = true;
  $("missing").hidden = false;
  const words = "It may have been deleted or pruned, or the address is not quite right.";
  const all = make("a", { href: at("") }, "All jobs");
  fill($("missing"), make("h2", {}, "There is no job ", foreign(id)), make("p", {}, words), make("p", {}, all));
}

function showName(job) {
  const cut = job.task.lastIndexOf(".") + 1;
  text($("task"), visible(job.task.slice(cut)));
  text($("module"), visible(job.task.slice(0, Math.max(0, cut - 1))));
  text($("id"), visible(job.id));
}

function titleOf(job) {
  const fraction = job.state === "running" ? fractionOf(job.progress) : null;
  const name = job.task.slice(job.task.lastIndexOf(".") + 1);
  return visible(`${fraction === null ? job.state : percent(fraction)} · ${name} · Holdfast`);
}

// The buttons are those of the table of moves

const LABELS = { cancel: "Cancel", retry: "Retry", skip: "Skip" };

function showActs(job, act) {
  const box = $("acts");
  const legal = act === null ? [] : VERBS[job.state].filter((verb) => Object.hasOwn(LABELS, verb));
  if ([...box.children].map((each) => each.dataset.verb).join() === legal.join()) return;
  box.replaceChildren(...legal.map((verb) => button(verb, act)));
}

function button(verb, act) {
  const made = make("button", { type: "button", "data-verb": verb }, LABELS[verb]);
  made.addEventListener("click", async () => {
    made.disabled = true;
    await act(verb).finally(() => (made.disabled = false));
  });
  return made;
}

// How far it is

export function showFar(job) {
  const progress = job.progress ?? {};
  const fraction = fractionOf(progress);
  $("progress").hidden = Object.keys(progress).length === 0;
  $("progress").dataset.state = job.state;
  $("bar").hidden = fraction === null;
  if (fraction !== null) $("bar").value = fraction;
  text($("percent"), fraction === null ? "" : percent(fraction));
  text($("count"), [counted(progress), left(job, fraction)].filter(Boolean).join(" · "));
  const rest = Object.entries(progress).filter(([name]) => !ORDINARY.includes(name));
  facts($("fields"), rest.map(([name, each]) => [foreign(name), foreign(short(each))]));
  document.title = titleOf(job);
}

/** A guess from the time this attempt has taken so far. */
function left(job, fraction) {
  if (job.state !== "running" || !job.started_at || fraction === null || fraction < 0.02 || fraction >= 1) return "";
  const elapsed = (now() - Date.parse(job.started_at)) / 1000;
  return elapsed < 2 ? "" : `about ${span(Math.ceil((elapsed * (1 - fraction)) / fraction))} left`;
}

// How it ended, and how it was tried

function showFailure(job) {
  const bad = job.state === "failed" || (job.error && !FINAL.includes(job.state));
  $("failure").hidden = !job.error;
  $("failure").classList.toggle("bad", Boolean(bad));
  text($("failure-title"), FINAL.includes(job.state) ? (job.state === "failed" ? "Error" : "Reason") : "Last error");
  text($("error"), visible(job.error ?? ""));
}

function showAttempts(job) {
  const errors = job.errors ?? [];
  const box = $("attempts");
  $("tries").hidden = errors.length === 0;
  const kept = new Map([...box.children].map((each) => [each.dataset.at, each]));
  const wanted = errors.map((each) => kept.get(`${each.attempt} ${each.at}`) ?? attempt(each));
  if (wanted.length === box.childElementCount && wanted.every((each, n) => each === box.children[n])) return;
  box.replaceChildren(...wanted.reverse());
  if (job.state === "failed" && !box.querySelector("details[open]")) box.firstElementChild.open = true;
}

function attempt(error) {
  const message = error.message ? `${error.kind}: ${error.message}` : error.kind;
  const nth = make("span", { class: "nth" }, `Attempt ${error.attempt}`);
  const title = make("summary", {}, nth, foreign(message.split("\n")[0], { class: "message" }), ago(error.at));
  const trace = make("pre", { class: "traceback", tabindex: "0" }, visible(error.traceback || message));
  return make("details", { "data-at": `${error.attempt} ${error.at}` }, title, trace);
}

// What went in and what came out

const shown = { arguments: "", result: "" };

function showValues(job) {
  $("ended").hidden = job.result === null && job.state !== "succeeded";
  put("arguments", job.arguments, "Arguments");
  put("result", job.result, "Result");
}

/** Only anew when it has changed: it may be unfolded, or have a selection in it. */
function put(name, data, what) {
  const now = JSON.stringify(data);
  if (shown[name] === now) return;
  shown[name] = now;
  $(name).replaceChildren(...value(data, what));
}

// Everything else

function showPairs(box, list, pairs, shown) {
  const entries = Object.entries(pairs ?? {});
  $(box).hidden = entries.length === 0;
  facts($(list), entries.map(([name, each]) => [foreign(name), shown(each)]));
}

function* factsOf(job) {
  yield ["Queue", make("a", { href: listed({ queue: job.queue }) }, foreign(job.queue))];
  yield ["Attempt", `${job.attempt} of ${job.attempts_max}`];
  yield ["Priority", String(job.priority)];
  yield* times(job);
  if (job.key) yield ["Key", ...spaced(job.key.map((part) => make("code", {}, foreign(short(part)))))];
  if (job.tags.length) yield ["Tags", ...spaced(job.tags.map(tagLink))];
  if (job.parent) yield ["Parent", make("a", { class: "mono", href: at(jobPath(job.parent)) }, foreign(job.parent))];
  yield ["Handle", make("code", {}, visible(job.handle))];
}

function* times(job) {
  yield ["Created", ago(job.created_at)];
  if (job.state === "scheduled" && job.run_after) yield ["Runs", ago(job.run_after)];
  if (job.started_at) yield ["Started", ago(job.started_at)];
  if (!job.finished_at) return;
  yield ["Finished", ago(job.finished_at)];
  if (job.started_at) yield ["Took", span((Date.parse(job.finished_at) - Date.parse(job.started_at)) / 1000)];
}

// Small amounts are shown with their own digits, whatever their size: 0.0001 is not nothing.
const amountText = (amount) =>
  amount.toLocaleString("en", Math.abs(amount) < 1 ? { maximumSignificantDigits: 6 } : { maximumFractionDigits: 3 });
const tagLink = (tag) => make("a", { class: "tag", href: listed({ tag }) }, foreign(tag));
const listed = (filter) => at(`?${new URLSearchParams(filter)}`);
const spaced = (elements) => elements.flatMap((each, n) => (n ? [" ", each] : [each]));

// The rows of the list: one per job, kept as long as the job is on the page, so that a focus or a selection in it survives.

import { at, jobPath } from "./api.js";
import { counted, fractionOf, percent } from "./far.js";
import { $, ago, badge, fill, foreign, make, short, span, visible } from "./show.js";

const CELLS = ["at-state", "at-task", "at-queue", "at-attempt number", "at-note", "at-created number"];
const ARGUMENTS_MAX = 3;
const CHARS_MAX = 28;

export function showRows(jobs, unserved, ofQueue) {
  const body = $("rows");
  const known = new Map([...body.children].map((row) => [row.dataset.id, row]));
  jobs.forEach((job, place) => {
    const row = known.get(job.id) ?? blank(job);
    known.delete(job.id);
    update(row, job, unserved, ofQueue);
    if (body.children[place] !== row) body.insertBefore(row, body.children[place] ?? null);
  });
  for (const row of known.values()) row.remove();
}

function blank(job) {
  return make("tr", { role: "row", "data-id": job.id }, ...CELLS.map((name) => make("td", { role: "cell", class: name })));
}

function update(row, job, unserved, ofQueue) {
  const [state, task, queue, attempt, note, created] = row.children;
  row.dataset.state = job.state;
  fill(state, badge(job.state));
  const title = visible(`${job.task}\n${job.id}`);
  const [module, name] = parts(job.task);
  const open = make("a", { class: "open", href: at(jobPath(job.id)), title }, foreign(name, { class: "function" }));
  const under = make("span", { class: "under" }, foreign(job.id, { class: "id" }), " ", foreign(module, { class: "module" }));
  fill(task, open, make("span", { class: "given", dir: "auto" }, given(job.arguments)), under);
  fill(queue, make("a", { href: ofQueue(job.queue), title: "Only this queue" }, foreign(job.queue)));
  fill(attempt, ...tried(job));
  fill(note, ...(job.state === "ready" && unserved.has(job.queue) ? [unclaimed(job)] : noted(job)));
  fill(created, ago(job.created_at));
}

/** A task's module and the name of its function. */
function parts(task) {
  const cut = task.lastIndexOf(".") + 1;
  return [task.slice(0, Math.max(0, cut - 1)), task.slice(cut)];
}

/** The first few arguments in short: what tells one job of a task from another. */
function given(values) {
  const named = Object.entries(values).slice(0, ARGUMENTS_MAX);
  return named.map(([name, each]) => `${visible(name)}=${brief(short(each))}`).join("  ");
}

/** Of a path its last part tells most, of any other text its beginning. */
function brief(text) {
  if (text.length <= CHARS_MAX) return text;
  const last = text.replace(/\/+$/, "").lastIndexOf("/");
  return last > 0 && text.length - last <= CHARS_MAX ? `…${text.slice(last)}` : `${text.slice(0, CHARS_MAX)}…`;
}

function tried(job) {
  if (job.attempt === 0) return [make("span", { class: "of", title: "It has not run yet" }, "–")];
  return [`${job.attempt}`, make("span", { class: "of" }, ` of ${job.attempts_max}`)];
}

/** Why a job that is ready does not start. */
const unclaimed = (job) => make("span", { class: "why" }, `no worker takes queue ${visible(job.queue)}`);

/** What there is to know about a job in this state, in a few words. */
function noted(job) {
  if (job.state === "succeeded") return job.started_at ? [`took ${span(seconds(job.started_at, job.finished_at))}`] : [];
  if (job.state === "running") return far(job);
  const why = job.error ? [make("span", { class: "why", title: visible(job.error), dir: "auto" }, visible(job.error))] : [];
  return job.state === "scheduled" && job.run_after ? [make("span", {}, "runs ", ago(job.run_after)), ...why] : why;
}

const seconds = (from, to) => (Date.parse(to) - Date.parse(from)) / 1000;

function far(job) {
  const fraction = fractionOf(job.progress);
  const count = make("span", { class: "count" }, counted(job.progress));
  if (fraction === null) return [count, make("span", {}, "since ", ago(job.started_at))];
  const bar = make("progress", { max: "1", value: fraction, "aria-label": "Progress" });
  return [make("span", { class: "far" }, bar, make("span", { class: "percent" }, percent(fraction))), count];
}

// What the list says when there is no job to show.

import { at, get } from "./api.js";
import { $, fill, make } from "./show.js";

export function nothingFits() {
  const all = make("a", { href: at("") }, "Show all jobs");
  fill($("empty"), make("h2", {}, "No job fits"), make("p", {}, "None that is kept has all that the filter asks for. ", all));
}

let known = null;

/** How a first job comes here, in commands for this very server. */
export function unused() {
  if (known !== null) return;
  known = [];
  tell();
  get("api/tasks").then(({ tasks }) => tell((known = tasks)), () => {});
}

function tell() {
  const task = known[0]?.name ?? "tasks.count_words";
  const given = known.length ? sample(known[0].arguments) : { text: "one two" };
  const json = (value) => JSON.stringify(value).replaceAll("'", "’"); // nothing may end the shell's quote
  const code = (text) => make("code", {}, text);
  const how = known.length ? "Here is how a first one comes. " : "With your own task in place of this one. ";
  fill(
    $("empty"),
    make("h2", {}, "No jobs yet"),
    make("p", {}, how, code("MODULE:APP"), " is where your app is."),
    step("Enqueue one", `holdfast enqueue MODULE:APP ${task} --kwargs '${json(given)}'`),
    step("Or from elsewhere", `curl ${at("api/jobs")} --json '${json({ task, kwargs: given })}'`),
    step("Let it run", "holdfast worker MODULE:APP"),
    make("p", { class: "after" }, "This page shows it as soon as it is there. ", code("holdfast demo"), " brings sample work."),
  );
}

function step(what, command) {
  return make("div", { class: "step" }, make("h3", {}, what), make("pre", { tabindex: "0" }, command));
}

const SAMPLES = { string: "…", integer: 1, number: 1, boolean: true, array: [], object: {} };

/** Arguments of the right kind for what the task must be given. */
function sample(schema) {
  const named = schema?.required ?? [];
  return Object.fromEntries(named.map((name) => [name, SAMPLES[schema.properties?.[name]?.type] ?? null]));
}

// One job, watched: its document tells what is so, its events tell when to read that again.

import { at, jobPath, post, ROOT, session, tagged } from "./api.js";
import { choose } from "./ask.js";
import { showCallback } from "./callback.js";
import { showFar, showJob, showMissing } from "./job.js";
import { Log, SHOWN_MAX } from "./log.js";
import { $, leaving, link, text, tick, trouble, visible } from "./show.js";
import { FINAL, MOVED } from "./states.js";
import { Stream } from "./stream.js";

const AGAIN_MS = 250; // between two readings of the job while its events come in
const LATER_MS = 2_000; // how often an ended job is read while its callback is on its way
const SELDOM = 5; // and so many times less often without: somebody may retry it
const HIDDEN_MS = 15_000; // a tab that nobody sees gives its connection back: a browser has six of them for a server
const LOST_MS = 2_000;

const id = idHere();
const path = `api/${jobPath(id)}`;
const log = new Log($("events"), $("earlier"), $("latest"));
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

let job = null;
let tag = null;
let stream = null;
let caller = null;
let polling = 0;
let calm = 0;
let farthest = { number: 0, data: null, planned: false }; // the last word on progress, which may be newer than the document

/** The id in the address; one that was typed wrongly is shown as it is. */
function idHere() {
  const typed = location.href.slice(new URL("jobs/", ROOT).href.length).split(/[?#]/)[0];
  try {
    return decodeURIComponent(typed);
  } catch {
    return typed;
  }
}

// Reading the job

let reading = null;
let again = false;

/** Read it now; where a reading is under way, once more after it. */
function read() {
  again = true;
  reading ??= readings().finally(() => (reading = null));
  return reading;
}

async function readings() {
  while (again) {
    again = false;
    [job, tag] = await tagged(path);
    if (farthest.number > job.event_count) job.progress = farthest.data;
    const reader = caller?.scope === "read";
    showJob(job, reader ? null : act);
    showCallback(job, reader ? null : redeliver).catch(lost);
    if (again) await pause(AGAIN_MS);
  }
}

const ended = () => FINAL.includes(job.state);

// Hearing of it

function heard(event) {
  log.add(event);
  if (event.number <= job.event_count) return; // the document knows of it
  if (event.kind === "progress") progressed(event);
  if (!MOVED.includes(event.kind)) return;
  text($("told"), `Job ${visible(event.kind)}`);
  read().catch(lost);
}

/** Shown once per frame, however often it is said. */
function progressed({ number, data }) {
  const planned = farthest.planned;
  farthest = { number, data, planned: true };
  if (!planned) requestAnimationFrame(showFarthest);
}

function showFarthest() {
  farthest.planned = false;
  if (farthest.number <= job.event_count) return;
  job = { ...job, progress: farthest.data };
  showFar(job);
}

/** Was that the end of the job, or only of the connection? */
async function over(number) {
  await read();
  if (!ended() || number < job.event_count) return false;
  link("ended");
  return true;
}

function lost(error) {
  if (error.status === 404) gone();
  else if (error.status === 0 || error.status >= 500) link("lost");
}

function gone() {
  stream?.stop();
  clearInterval(polling);
  link("gone");
  showMissing(id);
}

// Doing something about it

async function act(verb) {
  const seen = job.state === "running" ? null : tag; // a job that runs has news all the time, which change nothing here
  const body = await choose(verb, job);
  if (body === null) return;
  try {
    await post(`${path}/${verb}`, body, seen === null ? {} : { "If-Match": seen });
    trouble("");
  } catch (error) {
    trouble(error.status === 412 ? "The job has moved on in the meantime; look again." : error.message);
  }
  await read().catch(lost);
  if (!ended()) stream.start();
}

async function redeliver() {
  await post(`${path}/redeliver`).then(() => trouble(""), (error) => trouble(error.message));
  await read().catch(lost);
}

// From the first look to the last

async function begin() {
  setInterval(tick, 1_000);
  $("raw").href = at(`${path}/events?limit=1000`);
  caller = await session().catch(() => null);
  leaving(caller);
  while (job === null) {
    try {
      await read();
    } catch (error) {
      if (error.status === 404) return gone();
      if (error.status >= 400 && error.status < 500 && error.status !== 429) return trouble(error.message);
      link("lost");
      await pause(LOST_MS);
    }
  }
  const changed = (status) => link(status);
  stream = new Stream(`${path}/events`, Math.max(0, job.event_count - SHOWN_MAX), { heard, changed, over, refused: lost });
  stream.start();
  polling = setInterval(later, LATER_MS);
  document.addEventListener("visibilitychange", looked);
  addEventListener("online", () => stream.start());
}

/** What an ended job may still do. */
async function later() {
  if (document.hidden || stream.wanted || (job.callback_status !== "pending" && ++calm % SELDOM)) return;
  await read().then(() => link("ended"), lost);
  if (!ended()) stream.start();
}

let hiding;
function looked() {
  clearTimeout(hiding);
  if (document.hidden) hiding = setTimeout(rest, HIDDEN_MS);
  else if (stream.wanted || !ended()) stream.start();
}

function rest() {
  stream.stop();
  if (!ended()) link("resting");
}

$("with-progress").addEventListener("change", (event) => $("events").classList.toggle("no-progress", !event.target.checked));
$("copy").addEventListener("click", async () => {
  await navigator.clipboard?.writeText(id);
  text($("copy"), "Copied");
  setTimeout(() => text($("copy"), "Copy id"), 1_500);
});

begin();

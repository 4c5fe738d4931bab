// Turning data into elements. Text from the server only ever becomes text: nothing here reads it as HTML.

import { logOut, now } from "./api.js";

export const $ = (id) => document.getElementById(id);

/** `make("a", {class: "x", href: y}, child, …)`; a child is an element or a text. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value != null) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** A text that somebody else wrote: in its own direction, and without power over the line around it. */
export function foreign(text, attributes = {}) {
  return make("bdi", attributes, visible(text));
}

// Controls, and marks that turn the direction of what follows: each shown as one sign, since nobody would see them.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069\ufeff]/g;
export const visible = (text) => String(text).replace(UNSEEN, picture);
const picture = (sign) => (sign < " " ? String.fromCharCode(0x2400 + sign.charCodeAt(0)) : "\ufffd");

/** A badge: an icon, a word and a colour, any of which is enough. */
export function badge(state) {
  return make("span", { class: "state", "data-state": state }, visible(state));
}

/** Replace what is in `element` only where it differs, so that a selection or a focus in it survives. */
export function fill(element, ...children) {
  const fresh = make("div", {}, ...children);
  const [old, now] = [[...element.childNodes], [...fresh.childNodes]];
  if (old.length !== now.length || old.some((each, n) => !each.isEqualNode(now[n]))) element.replaceChildren(...now);
}

export function text(element, value) {
  if (element.textContent !== value) element.textContent = value;
}

/** Rows of `<dl>`: pairs of a word and an element or text. */
export function facts(list, pairs) {
  fill(list, ...pairs.map(([word, ...values]) => make("div", {}, make("dt", {}, word), make("dd", {}, ...values))));
}

/** Any JSON value: as it is, folded if it is long. */
export function value(data, what) {
  const all = visible(JSON.stringify(data, null, 2));
  const short = all.length > 4000 ? all.slice(0, 4000) : all;
  const box = make("pre", { class: "value", tabindex: "0", "aria-label": what, dir: "auto" }, short);
  if (short === all) return [box];
  const more = make("button", { type: "button", class: "plain small" }, `Show all ${all.length.toLocaleString("en")} characters`);
  more.addEventListener("click", () => {
    box.textContent = all;
    more.remove();
  });
  return [box, more];
}

/** A value on one line. */
export function short(data) {
  if (typeof data === "string") return visible(data);
  return visible(JSON.stringify(data) ?? "");
}

// Time

/** `<time>`: how long ago, kept up to date by `tick`, with the exact moment in its title. */
export function ago(moment) {
  return make("time", { datetime: moment, title: precise(moment), "data-ago": "" }, relative(moment));
}

/** `<time>`: the time of day, for logs. */
export function clock(moment) {
  const date = new Date(moment);
  return make("time", { datetime: moment, title: precise(moment) }, date.toLocaleTimeString("en-GB"));
}

export function tick(within = document) {
  for (const each of within.querySelectorAll("time[data-ago]")) text(each, relative(each.dateTime));
}

export function relative(moment) {
  const seconds = (now() - Date.parse(moment)) / 1000;
  if (Math.abs(seconds) < 1) return "now";
  return seconds < 0 ? `in ${about(-seconds)}` : `${about(seconds)} ago`;
}

/** `42 s`, `3 min`, `2 h`, `3 d`. */
function about(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 86_400 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} d`;
}

/** `850 ms`, `42 s`, `3 min 5 s`, `2 h 10 min`, `3 d`. */
export function span(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1).replace(/\.0$/, "")} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return two(seconds, 60, "min", "s");
  if (seconds < 86_400) return two(seconds / 60, 60, "h", "min");
  return two(seconds / 3600, 24, "d", "h");
}

function two(amount, per, large, small) {
  const rest = Math.floor(amount % per);
  return `${Math.floor(amount / per)} ${large}${rest ? ` ${rest} ${small}` : ""}`;
}

/** In the reader's time zone, to the millisecond. */
export function precise(moment) {
  const date = new Date(moment);
  const padded = (number, digits = 2) => String(number).padStart(digits, "0");
  const day = [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((number) => padded(number)).join("-");
  const time = [date.getHours(), date.getMinutes(), date.getSeconds()].map((number) => padded(number)).join(":");
  return `${day} ${time}.${padded(date.getMilliseconds(), 3)} UTC${zone(-date.getTimezoneOffset(), padded)}`;
}

function zone(minutes, padded) {
  const size = Math.abs(minutes);
  return minutes ? `${minutes < 0 ? "−" : "+"}${padded(Math.floor(size / 60))}:${padded(size % 60)}` : "";
}

// The connection, in words

const WORDS = {
  connecting: "connecting",
  live: "live",
  resting: "at rest",
  ended: "ended",
  gone: "not there",
  lost: "connection lost, trying again",
};

let fresh = null;

/** Says it, and since when what is shown may be old. */
export function link(status) {
  const element = $("link");
  if (status === "live" || status === "ended") fresh = new Date();
  document.body.classList.toggle("stale", status === "lost");
  const since = fresh ? ` What you see is from ${fresh.toLocaleTimeString("en-GB")}.` : "";
  $("lost").hidden = status !== "lost";
  text($("lost"), status === "lost" ? `The server does not answer.${since} This page asks again by itself.` : "");
  if (element.dataset.link === status) return;
  element.dataset.link = status;
  element.textContent = WORDS[status];
}

/** Who has a session can end it. */
export function leaving(caller) {
  const button = $("leave");
  button.hidden = !caller?.csrf;
  button.title = caller ? visible(`${caller.name}, ${caller.scope}`) : "";
  button.onclick = () => logOut().catch((error) => trouble(error.message));
}

export function trouble(message) {
  const box = $("trouble");
  box.hidden = !message;
  text(box, message ? visible(message) : "");
}

// The log of a job on the page: the last 500 events, written once per frame however many come in between.

import { counted, fractionOf, ORDINARY, percent } from "./far.js";
import { clock, foreign, make, short, visible } from "./show.js";

export const SHOWN_MAX = 500;
const DATA_CHARS_MAX = 2_000;
const FIELDS_MAX = 50;

export class Log {
  constructor(list, earlier, latest) {
    Object.assign(this, { list, earlier, latest, waiting: [], first: 0, planned: false, sticky: true });
    list.addEventListener("scroll", () => this.stick(), { passive: true });
    latest.addEventListener("click", () => this.toEnd());
  }

  add(event) {
    this.waiting.push(event);
    if (this.waiting.length > SHOWN_MAX) this.waiting.shift();
    if (this.planned) return;
    this.planned = true;
    requestAnimationFrame(() => this.write());
  }

  write() {
    this.planned = false;
    const rows = this.waiting.map(row);
    this.waiting = [];
    this.list.append(...rows);
    const extra = this.list.childElementCount - SHOWN_MAX;
    for (let n = 0; n < extra; n++) this.list.firstElementChild.remove();
    this.tellEarlier();
    if (this.sticky) this.toEnd();
    else this.latest.hidden = false;
  }

  tellEarlier() {
    const first = Number(this.list.firstElementChild?.dataset.number ?? 1);
    const words = first === 2 ? "event is" : "events are";
    this.earlier.hidden = first <= 1;
    this.earlier.textContent = `${(first - 1).toLocaleString("en")} earlier ${words} not shown`;
  }

  /** Follow the end unless the reader has scrolled away from it. */
  stick() {
    this.sticky = this.list.scrollHeight - this.list.scrollTop - this.list.clientHeight < 40;
    if (this.sticky) this.latest.hidden = true;
  }

  toEnd() {
    this.list.scrollTop = this.list.scrollHeight;
    this.latest.hidden = true;
  }
}

function row(event) {
  return make(
    "li",
    { "data-number": event.number, "data-kind": visible(event.kind) },
    make("span", { class: "n" }, event.number.toLocaleString("en")),
    clock(event.at),
    foreign(event.kind, { class: "kind" }),
    make("span", { class: "data", dir: "auto" }, ...words(event)),
  );
}

function words({ kind, data }) {
  if (data === null || data === undefined) return [];
  return kind === "progress" ? far(data) : pairs(data);
}

function far(progress) {
  const fraction = fractionOf(progress);
  const rest = Object.entries(progress).filter(([name]) => !ORDINARY.includes(name));
  const known = [fraction === null ? "" : percent(fraction), counted(progress)].filter(Boolean).join(" · ");
  return [known, ...(rest.length ? ["  "] : []), ...named(rest)];
}

function pairs(data) {
  const plain = typeof data !== "object" || Array.isArray(data) || JSON.isRawJSON?.(data);
  return plain ? [cut(short(data))] : named(Object.entries(data));
}

function named(entries) {
  const some = entries.slice(0, FIELDS_MAX).flatMap(([name, value]) => ["  ", ...pair(name, value)]);
  return [...some.slice(1), ...(entries.length > FIELDS_MAX ? [`  … ${entries.length - FIELDS_MAX} fields more`] : [])];
}

const pair = (name, value) => [foreign(`${name}=`, { class: "key" }), foreign(cut(short(value)))];

function cut(text) {
  if (text.length <= DATA_CHARS_MAX) return text;
  return `${text.slice(0, DATA_CHARS_MAX)}… (${text.length.toLocaleString("en")} characters)`;
}

// A job's events as they happen. Read with fetch, not EventSource, which hears only kinds it was told of
// beforehand, takes an event named "error" for a failure, and hides the status of a refusal.

import { ask, parse } from "./api.js";

const SILENCE_MS = 45_000; // the server says something at least every 15 s; a connection that is silent for longer is dead
const DELAY_MS = 500; // before the first try; a server may ask for more
const DELAY_MAX_MS = 4_000;
const USELESS = [401, 403, 404];

/**
 * Follow the events after number `after`. `heard(event)` has each once and in order, however often the connection is lost;
 * `changed(status)` is "connecting", "live" or "lost"; `over(number)` is asked when a stream ends whether the job has ended, too;
 * `refused(problem)` is told when it is of no use to ask again.
 */
export class Stream {
  constructor(path, after, { heard, changed, over, refused }) {
    Object.assign(this, { path, last: after, heard, changed, over, refused });
    Object.assign(this, { turn: null, least: DELAY_MS, wake: () => {}, control: null });
  }

  get wanted() {
    return this.turn !== null;
  }

  /** Begin, or try at once what was going to be tried later. */
  start() {
    if (this.wanted) return this.wake();
    this.turn = {};
    this.run(this.turn);
  }

  stop() {
    this.turn = null;
    this.control?.abort();
    this.wake();
  }

  async run(turn) {
    let delay = this.least;
    this.changed("connecting");
    while (this.turn === turn) {
      const before = this.last;
      const problem = await this.whole().catch((error) => error);
      if (this.turn !== turn) return;
      if (USELESS.includes(problem?.status)) return this.refuse(problem);
      if (problem) this.changed("lost");
      delay = this.last > before ? this.least : Math.min(Math.max(delay * 1.7, this.least), DELAY_MAX_MS);
      await this.pause(delay * (0.75 + Math.random() / 2));
    }
  }

  refuse(problem) {
    this.stop();
    this.refused(problem);
  }

  /** One connection, and what its end means. */
  async whole() {
    await this.once();
    if (await this.over(this.last)) this.stop();
  }

  /** One connection, until it ends or breaks. */
  async once() {
    this.control = new AbortController();
    const watchdog = new Watchdog(() => this.control.abort());
    try {
      const headers = { Accept: "text/event-stream", "Last-Event-ID": String(this.last) };
      const response = await ask(`${this.path}?after=${this.last}`, { headers, signal: this.control.signal });
      this.changed("live");
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      const frames = new Frames((frame) => this.take(frame), (milliseconds) => (this.least = milliseconds));
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        watchdog.calm();
        frames.feed(value);
      }
    } finally {
      watchdog.end();
    }
  }

  take({ id, event, data }) {
    const number = Number(id);
    if (!Number.isSafeInteger(number) || number <= this.last) return; // heard before
    this.last = number;
    this.heard({ number, kind: event, ...parse(data) });
  }

  pause(milliseconds) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** Calls `bark` when nobody has calmed it for a while. */
class Watchdog {
  constructor(bark) {
    this.bark = bark;
    this.heard = performance.now();
    this.timer = setInterval(() => performance.now() - this.heard > SILENCE_MS && bark(), 5_000);
  }

  calm() {
    this.heard = performance.now();
  }

  end() {
    clearInterval(this.timer);
  }
}

/** Server-sent events from pieces of text, cut anywhere. */
export class Frames {
  constructor(take, wait) {
    Object.assign(this, { take, wait, rest: "" });
    this.clear();
  }

  clear() {
    Object.assign(this, { id: null, event: "message", data: [] });
  }

  feed(piece) {
    const lines = (this.rest + piece).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop();
    for (const line of lines) this.line(line);
  }

  line(line) {
    if (line === "") {
      if (this.data.length && this.id !== null) this.take({ id: this.id, event: this.event, data: this.data.join("\n") });
      return this.clear();
    }
    const [, field, value] = /^([^:]*):? ?(.*)$/s.exec(line);
    if (field === "data") this.data.push(value);
    else if (field === "id" || field === "event") this[field] = value;
    else if (field === "retry" && /^[0-9]{1,6}$/.test(value)) this.wait(Number(value));
  }
}

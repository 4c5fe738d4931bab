// Who is told of the job's end, and how that went.

import { at, get, jobPath } from "./api.js";
import { $, ago, facts, fill, foreign, make, span, visible } from "./show.js";
import { FINAL } from "./states.js";

let shown = "";

/** Show it; what was tried is asked for when there is news of it. `again` delivers once more; null: the reader may not. */
export async function showCallback(job, again) {
  $("called").hidden = !job.callback;
  if (!job.callback) return;
  const ended = FINAL.includes(job.state);
  facts($("callback"), [
    ["URL", foreign(job.callback, { class: "url" })],
    ["Status", status(job.callback_status)],
  ]);
  $("redeliver").hidden = !ended || again === null;
  $("redeliver").onclick = again;
  const now = `${job.event_count} ${job.callback_status}`;
  if (!ended || (shown === now && job.callback_status !== "pending")) return;
  const { deliveries } = await get(`api/${jobPath(job.id)}/deliveries`);
  shown = now;
  fill($("deliveries"), ...deliveries.map(delivery));
}

function status(word) {
  return make("span", { class: "delivery", "data-delivery": word }, word ? visible(word) : "when the job has ended");
}

function delivery(each) {
  const link = make("a", { href: at(jobPath(each.id)) }, "Message ", foreign(each.message, { class: "mono" }));
  const next = each.next_at && each.status === "pending" ? [" · next try ", ago(each.next_at)] : [];
  return make("li", {}, link, " ", status(each.status), ...next, make("ol", {}, ...each.tries.map(oneTry)));
}

function oneTry({ at: moment, attempt, status: code, error, seconds }) {
  const answer = code === null ? "no answer" : `answered ${code}`;
  const words = [answer, seconds === null ? "" : span(seconds), error ?? ""].filter(Boolean).join(" · ");
  return make("li", {}, make("span", { class: "nth" }, `Try ${attempt}`), " ", ago(moment), " ", foreign(words));
}

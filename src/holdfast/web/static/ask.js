// Asking the reader before something is done that cannot be taken back.

import { $, text } from "./show.js";

const QUESTIONS = {
  cancel: {
    question: "Cancel this job?",
    yes: "Cancel the job",
    running: "It is running: the attempt is stopped, and what it has done so far does not count.",
    waiting: "It will not run. It can be retried later.",
  },
  skip: {
    question: "Skip this job?",
    yes: "Skip the job",
    running: "It is running: the attempt is stopped. Say why, for whoever looks here later.",
    waiting: "It ends here, on purpose and not as an error. Say why, for whoever looks here later.",
    reason: true,
  },
};

/** The body to send, or null if the reader thought better of it. */
export async function choose(verb, job) {
  const asked = QUESTIONS[verb];
  if (!asked) return {};
  text($("question"), asked.question);
  text($("consequence"), job.state === "running" ? asked.running : asked.waiting);
  text($("yes"), asked.yes);
  $("yes").dataset.verb = verb;
  $("reason-label").hidden = !asked.reason;
  $("reason").required = Boolean(asked.reason);
  $("reason").value = "";
  if (!(await answered())) return null;
  return asked.reason ? { reason: $("reason").value } : {};
}

function answered() {
  const dialog = $("ask");
  dialog.returnValue = "";
  dialog.showModal();
  $("no").onclick = () => dialog.close("");
  return new Promise((resolve) => (dialog.onclose = () => resolve(dialog.returnValue === "yes")));
}

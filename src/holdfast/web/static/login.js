// The login form: says what was wrong, and goes back to where the reader came from. A token in the address is sent at once.

import { ask, at, ROOT } from "./api.js";
import { $, trouble } from "./show.js";

$("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = event.target.querySelector("button");
  button.disabled = true;
  trouble("");
  try {
    const body = JSON.stringify({ key: $("key").value });
    await ask("login", { method: "POST", headers: { "Content-Type": "application/json" }, body });
    location.replace(whereFrom());
  } catch (error) {
    trouble(error.message);
    button.disabled = false;
    $("key").select();
  }
});

const [from, token] = location.hash.slice(1).split("&token=");
if (token) {
  history.replaceState(null, "", `#${from}`);
  $("key").value = decodeURIComponent(token);
  $("login").requestSubmit();
}

/** The page that sent the reader here, if it is one of ours. */
function whereFrom() {
  try {
    const page = new URL(decodeURIComponent(location.hash.slice(1).split("&")[0]), ROOT);
    return page.href.startsWith(ROOT.href) && !page.href.startsWith(at("login")) ? page.href : ROOT.href;
  } catch {
    return ROOT.href;
  }
}

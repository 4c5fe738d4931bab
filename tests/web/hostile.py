"""Texts that would do harm in a page that reads them as anything but text."""

from __future__ import annotations

from typing import Any, Final

VECTORS: Final = (
    "<script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    "<img src=//evil.test/pixel.png>",
    '"><svg onload=window.pwned=1>',
    "'><body onload=window.pwned=1>",
    "<svg><script>window.pwned=1</script></svg>",
    "<svg><animate onbegin=window.pwned=1 attributeName=x dur=1s>",
    "<svg><use href='data:image/svg+xml,<svg id=x xmlns=http://www.w3.org/2000/svg><script>alert(1)</script></svg>#x'>",
    "<iframe src=javascript:parent.pwned=1></iframe>",
    "<iframe srcdoc='<script>parent.pwned=1</script>'></iframe>",
    "<a href=javascript:window.pwned=1 autofocus>click</a>",
    "javascript:window.pwned=1",
    "javascript:alert(1)//https://example.org/",
    "data:text/html,<script>window.pwned=1</script>",
    "//evil.test/",
    "../../../evil",
    "<details open ontoggle=window.pwned=1><summary>x</summary></details>",
    "<input autofocus onfocus=window.pwned=1>",
    "<x tabindex=1 autofocus onfocus=window.pwned=1>",
    "<video><source onerror=window.pwned=1></video>",
    "<math><mtext><table><mglyph><style><img src=x onerror=window.pwned=1>",
    "<style>*{background:url(//evil.test/style)}</style>",
    "<link rel=stylesheet href=//evil.test/style.css>",
    "<meta http-equiv=refresh content='0;url=//evil.test/'>",
    "<base href=//evil.test/>",
    "<form action=//evil.test/><button autofocus>go</button></form>",
    "<object data=//evil.test/object></object><embed src=//evil.test/embed>",
    "</pre></code></td></tr></table></article><h1 id=trouble>out</h1>",
    "</title></head><script>window.pwned=1</script>",
    "--><script>window.pwned=1</script><!--",
    "]]><script>window.pwned=1</script>",
    "<noscript><p title='</noscript><img src=x onerror=window.pwned=1>'>",
    "<template shadowrootmode=open><img src=x onerror=window.pwned=1></template>",
    "&lt;img src=x onerror=window.pwned=1&gt;",
    "&#60;script&#62;window.pwned=1&#60;/script&#62;",
    "%3Cscript%3Ewindow.pwned=1%3C/script%3E",
    "\\u003cscript\\u003ewindow.pwned=1\\u003c/script\\u003e",
    "${window.pwned=1}{{constructor.constructor('window.pwned=1')()}}",
    "\u2028</script><script>window.pwned=1</script>\u2029",
    "\u202e<img src=x onerror=window.pwned=1>\u2066",
    "\x1b]8;;javascript:alert(1)\x07click\x1b]8;;\x07\r\nevent: pwned\r\ndata: 1\r\n\r\n",
    "' onmouseover='window.pwned=1' x='",
    '" style="position:fixed;inset:0;background:red" onpointerover="window.pwned=1',
    "__proto__",
    "constructor",
)

BENIGN: Final = "an ordinary text"

FREE: Final = tuple(vector for vector in VECTORS if vector not in ("__proto__", "constructor"))
"""Those that no name may be."""

WATCH: Final = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective} ${event.blockedURI}`);
});
"""
"""Runs before any script of the page."""

SKELETON: Final = """() => [...document.querySelectorAll("*")].map((each) => each.localName + "." + each.className)"""
HARM: Final = """
() => {
  const ADDRESSES = ["href", "src", "action", "formaction", "data"];
  const ALIENS = "iframe, object, embed, svg, math, base, style, video, template, img:not(.brand img), script:not(head *)";
  const found = [...window.violations];
  if ("pwned" in window || "pwned" in Object.prototype) found.push("a script ran");
  for (const each of document.querySelectorAll("*")) {
    for (const { name, value } of each.attributes) {
      if (name.startsWith("on") || name === "style" || name === "srcdoc") found.push(`<${each.localName} ${name}=${value}>`);
      const away = ADDRESSES.includes(name) && new URL(value, location).origin !== location.origin;
      if (away) found.push(`<${each.localName} ${name}=${value}>`);
    }
  }
  return [...found, ...[...document.querySelectorAll(ALIENS)].map((each) => each.localName)];
}
"""
"""What there is in the page that should not be."""


def document(text: str) -> dict[str, Any]:
    """A job as no honest server would send it: every text in it is this one."""
    moment = "2030-01-31T12:00:00.123456+00:00"
    error = {"at": moment, "attempt": 1, "kind": text, "message": text, "traceback": text}
    return {
        "id": text, "handle": text, "task": text, "queue": text, "state": "failed", "priority": 100, "attempt": 1,
        "attempts_max": 1, "token": 1, "event_count": 2, "arguments": {text: [text, {text: text}]},
        "result": {text: text}, "error": text,
        "errors": [error], "progress": {"done": 1, "total": 2, "fraction": 0.5, text: text}, "meter": {text: 1.0},
        "key": [text, 7], "tags": [text], "meta": {text: text}, "parent": text, "callback": text, "callback_status": text,
        "created_at": moment, "run_after": moment, "started_at": moment, "finished_at": moment,
    }  # fmt: skip


def event(text: str, number: int) -> dict[str, Any]:
    return {"job": text, "number": number, "kind": text, "at": "2030-01-31T12:00:00+00:00", "data": {text: [text]}}


def delivery(text: str) -> dict[str, Any]:
    moment = "2030-01-31T12:00:00+00:00"
    tries = [{"at": moment, "attempt": 1, "status": None, "error": text, "seconds": None}]
    return {
        "id": text, "message": text, "url": text, "type": text, "status": text, "created_at": moment, "next_at": None,
        "finished_at": None, "tries": tries,
    }  # fmt: skip

"""The pages in a real browser: a job is watched live, through reloads and the death of the server; and text stays text."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import pytest
import uvicorn
from playwright.sync_api import Browser, Dialog, Page, expect, sync_playwright
from starlette.applications import Starlette
from starlette.routing import Mount

from holdfast import Key, SettingError
from holdfast.domain.states import FINAL, State, verbs
from holdfast.web import WebSettings, create_app
from holdfast.web.serving import address_of, bind
from tests.events.receiver import SECRET, Receiver
from tests.until import PATIENCE
from tests.web import hostile
from tests.web.ground import OPEN, ProcessServer, ThreadServer, served
from tests.web.puppets import Puppets, chromium

expect.set_options(timeout=PATIENCE * 1000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = chromium()
    with sync_playwright() as playwright, playwright.chromium.launch(executable_path=path, args=["--no-sandbox"]) as launched:
        yield launched


@pytest.fixture(scope="module")
def puppets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Puppets]:
    made = Puppets(f"sqlite:///{tmp_path_factory.mktemp('browser') / 'jobs.db'}")
    with made.app, made.working(name=hostile.VECTORS[1]):
        yield made


@pytest.fixture(scope="module")
def server(puppets: Puppets) -> Iterator[ThreadServer]:
    with served(puppets.app) as running:
        yield running


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that fails its test if a script of it fails."""
    with browser.new_context() as context:
        errors: list[str] = []
        made = context.new_page()
        made.on("pageerror", lambda error: errors.append(str(error)))
        yield made
        assert errors == []


def numbers(page: Page) -> list[int]:
    """Of the events that are shown, as they stand there."""
    found: list[int] = page.eval_on_selector_all("#events li", "all => all.map((each) => Number(each.dataset.number))")
    return found


def last_event(page: Page, kind: str) -> None:
    expect(page.locator("#events li").last).to_have_attribute("data-kind", kind)


def link(page: Page, status: str) -> None:
    expect(page.locator("#link")).to_have_attribute("data-link", status)


# Watching


def test_a_job_is_watched_live_to_its_end(page: Page, server: ThreadServer, puppets: Puppets) -> None:
    puppet = puppets.start(tags=["eu"])
    page.goto(f"{server.url}/jobs/{puppet.id}")
    expect(page.locator("#state")).to_have_text("running")
    expect(page.locator("h1")).to_have_text("read_document")
    puppet.emit("error", {"of": "the task's own"})  # what an EventSource would take for a broken connection
    puppet.progress(10, 40, engine="tesseract")
    expect(page.locator("#percent")).to_have_text("25 %")
    expect(page.locator("#count")).to_contain_text("10 of 40")
    expect(page.locator("#fields")).to_have_text("enginetesseract")
    expect(page.locator("#events li[data-kind=error] .data")).to_have_text("of=the task's own")
    expect(page).to_have_title("25 % · read_document · Holdfast")
    puppet.finish({"words": 9_007_199_254_740_993})
    expect(page.locator("#state")).to_have_text("succeeded")
    expect(page.locator("#result")).to_contain_text('"words": 9007199254740993')
    expect(page.locator("#told")).to_have_text("Job succeeded")
    link(page, "ended")
    last_event(page, "succeeded")
    assert numbers(page) == [1, 2, 3, 4, 5]


def test_a_reload_in_the_middle_loses_nothing(page: Page, server: ThreadServer, puppets: Puppets) -> None:
    puppet = puppets.start()
    page.goto(f"{server.url}/jobs/{puppet.id}")
    puppet.emit("first")
    last_event(page, "first")
    page.reload()
    last_event(page, "first")
    puppet.emit("second")
    last_event(page, "second")
    puppet.finish(1)
    link(page, "ended")
    page.reload()
    link(page, "ended")
    assert numbers(page) == [1, 2, 3, 4, 5]


def test_a_server_that_is_killed_and_comes_back_costs_no_event(
    page: Page, puppets: Puppets, tmp_path_factory: pytest.TempPathFactory
) -> None:
    log = tmp_path_factory.mktemp("killed") / "server.log"
    server = ProcessServer(puppets.url, log)
    try:
        puppet = puppets.start()
        page.goto(f"http://127.0.0.1:{server.port}/jobs/{puppet.id}")
        for turn in range(2):
            puppet.emit(f"before-{turn}")
            last_event(page, f"before-{turn}")
            server.kill()
            link(page, "lost")
            expect(page.locator("#link")).to_have_text("connection lost, trying again")
            expect(page.locator("#lost")).to_contain_text("What you see is from")
            puppet.emit(f"unseen-{turn}")
            server.close()
            server = ProcessServer(puppets.url, log, port=server.port)
            last_event(page, f"unseen-{turn}")
            link(page, "live")
        puppet.finish(1)
        link(page, "ended")
        assert numbers(page) == list(range(1, 8))
    finally:
        server.close()


def test_ten_thousand_events_stay_few_on_the_page(page: Page, server: ThreadServer, puppets: Puppets) -> None:
    puppet = puppets.start()
    page.goto(f"{server.url}/jobs/{puppet.id}")
    link(page, "live")
    page.evaluate(
        """() => {
          window.most = 0;
          const list = document.getElementById("events");
          const look = () => (window.most = Math.max(window.most, list.childElementCount));
          new MutationObserver(look).observe(list, { childList: true });
        }"""
    )
    puppet.emit_many("word", 9_997)
    puppet.finish(1)
    link(page, "ended")
    last_event(page, "succeeded")
    expect(page.locator("#earlier")).to_have_text("9,500 earlier events are not shown")
    assert numbers(page) == list(range(9_501, 10_001))
    assert page.evaluate("window.most") <= 500
    page.reload()
    link(page, "ended")
    last_event(page, "succeeded")
    assert numbers(page) == list(range(9_501, 10_001))


def test_a_failed_job_shows_every_attempt(page: Page, server: ThreadServer, puppets: Puppets) -> None:
    puppet = puppets.start()
    page.goto(f"{server.url}/jobs/{puppet.id}")
    puppet.fail("the first")
    puppet.fail("the second")
    expect(page.locator("#state")).to_have_text("failed")
    expect(page.locator("#error")).to_have_text("ValueError: the second")
    attempts = page.locator("#attempts details")
    expect(attempts).to_have_count(2)
    expect(attempts.first.locator("pre")).to_contain_text("raise ValueError(message)")
    expect(attempts.last.locator("summary")).to_contain_text("Attempt 1ValueError: the first")


def test_an_event_that_comes_twice_is_heard_once(page: Page, server: ThreadServer) -> None:
    page.goto(f"{server.url}/login")
    heard = page.evaluate(
        """async (url) => {
          const { Stream } = await import(url);
          const heard = [];
          const stream = new Stream("x", 1, { heard: ({ number }) => heard.push(number) });
          for (const id of ["1", "2", "2", "3", "1", "x", "4"]) stream.take({ id, event: "said", data: "{}" });
          return heard;
        }""",
        f"{server.url}/static/stream.js",
    )
    assert heard == [2, 3, 4]


def test_mounted_in_another_application(page: Page, puppets: Puppets) -> None:
    outer = Starlette(routes=[Mount("/in/house", create_app(puppets.app, settings=OPEN))])
    with bind("127.0.0.1", 0) as bound, running(outer, bound) as url:
        job = puppets.park(id="run/2030:01", tags=["mounted"])[0]
        page.goto(f"{url}/in/house/?tag=mounted")
        page.click("#rows .open")
        expect(page).to_have_url(f"{url}/in/house/jobs/run%2F2030%3A01")
        expect(page.locator("#id")).to_have_text(job.id)
        page.goto(f"{url}/in/house/jobs/run/2030:01")  # as somebody would type it
        expect(page.locator("#state")).to_have_text("ready")
        page.click("[data-verb=cancel]")
        page.click("#yes")
        expect(page.locator("#state")).to_have_text("cancelled")
        page.click(".brand")
        expect(page).to_have_url(f"{url}/in/house/")


@contextmanager
def running(web: Starlette, bound: socket.socket) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(web, log_config=None, lifespan="off", timeout_graceful_shutdown=0))
    thread = threading.Thread(target=server.run, args=([bound],))
    thread.start()
    try:
        yield address_of(bound)
    finally:
        server.should_exit = True
        thread.join(PATIENCE)


def test_no_such_job(page: Page, server: ThreadServer) -> None:
    page.goto(f"{server.url}/jobs/nobody/knows")
    expect(page.locator("#missing h2")).to_have_text("There is no job nobody/knows")


# Acting


def test_buttons_are_those_of_the_table(page: Page, server: ThreadServer, puppets: Puppets) -> None:
    page.goto(f"{server.url}/jobs/{puppets.park()[0].id}")
    expect(page.locator("#state")).to_have_text("ready")
    for state in State:
        show(page, "job.js", "showJob", {**hostile.document("x"), "state": state})
        shown = page.eval_on_selector_all("#acts button", "all => all.map((each) => each.dataset.verb)")
        assert shown == [verb for verb in verbs(state) if verb in ("cancel", "retry", "skip")]


def test_cancel_retry_and_skip(page: Page, server: ThreadServer, puppets: Puppets) -> None:
    puppet = puppets.start()
    page.goto(f"{server.url}/jobs/{puppet.id}")
    expect(page.locator("#state")).to_have_text("running")
    page.click("[data-verb=cancel]")
    page.click("#no")
    page.click("[data-verb=cancel]")
    page.click("#yes")
    expect(page.locator("#state")).to_have_text("cancelled")
    puppet.emit("too-late")
    job = puppets.park()[0]
    page.goto(f"{server.url}/jobs/{job.id}")
    page.click("[data-verb=skip]")
    page.fill("#reason", "done by hand")
    page.press("#reason", "Enter")
    expect(page.locator("#error")).to_have_text("done by hand")
    expect(page.locator("#state")).to_have_text("skipped")
    page.click("[data-verb=retry]")
    expect(page.locator("#state")).to_have_text("ready")
    last_event(page, "retried")
    link(page, "live")
    assert puppets.app.cancel(job.id).state in FINAL
    expect(page.locator("#state")).to_have_text("cancelled")


def test_a_job_that_has_moved_on_is_not_acted_on(page: Page, server: ThreadServer, puppets: Puppets) -> None:
    job = puppets.park()[0]
    page.goto(f"{server.url}/jobs/{job.id}")
    page.click("[data-verb=cancel]")
    puppets.app.skip(job.id, "meanwhile")
    page.click("#yes")
    expect(page.locator("#trouble")).to_contain_text("moved on")
    expect(page.locator("#state")).to_have_text("skipped")


def test_who_needs_a_key_logs_in_and_comes_back(page: Page, tmp_path_factory: pytest.TempPathFactory) -> None:
    puppets = Puppets(f"sqlite:///{tmp_path_factory.mktemp('keys') / 'jobs.db'}")
    with puppets.app, served(puppets.app) as server:
        job = puppets.park()[0]
        operator, reader = (puppets.app.add_key(scope, scope).text for scope in ("operate", "read"))
        page.goto(f"{server.url}/jobs/{job.id}")
        expect(page.locator("#login")).to_be_visible()
        page.fill("#key", "hf_nobody")
        page.click("text=Log in")
        expect(page.locator("#trouble")).to_contain_text("not known")
        page.fill("#key", operator)
        page.click("text=Log in")
        expect(page.locator("#state")).to_have_text("ready")
        page.click("[data-verb=cancel]")
        page.click("#yes")
        expect(page.locator("#state")).to_have_text("cancelled")
        page.click("#leave")
        expect(page.locator("#login")).to_be_visible()
        page.goto(f"{server.url}/login#javascript:window.pwned=1")
        page.fill("#key", reader)
        page.click("text=Log in")
        expect(page.locator("#rows tr")).to_have_count(1)
        page.click("#rows .open")
        expect(page.locator("#state")).to_have_text("cancelled")
        expect(page.locator("#acts button")).to_have_count(0)


def test_a_callback_is_shown_and_delivered_again(
    page: Page, server: ThreadServer, puppets: Puppets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_WEBHOOK_SECRET", SECRET)
    monkeypatch.setenv("HOLDFAST_WEBHOOK_ALLOW", "127.0.0.0/8")
    with Receiver() as receiver:
        receiver.answers = [500]
        puppet = puppets.start(callback=receiver.url)
        puppet.finish(1)
        page.goto(f"{server.url}/jobs/{puppet.id}")
        expect(page.locator("#callback")).to_contain_text(receiver.url)
        puppets.deliver()
        expect(page.locator("#deliveries")).to_contain_text("answered 500")
        expect(page.locator("#callback")).to_contain_text("pending")
        receiver.answers = [204]
        page.click("#redeliver")
        expect(page.locator("#deliveries > li")).to_have_count(2)
        puppets.deliver()
        expect(page.locator("#callback")).to_contain_text("delivered")
        expect(page.locator("#deliveries > li").first).to_contain_text("answered 204")


# The list


def test_the_list_fills_by_itself_and_its_filter_is_in_the_address(page: Page, tmp_path_factory: pytest.TempPathFactory) -> None:
    puppets = Puppets(f"sqlite:///{tmp_path_factory.mktemp('list') / 'jobs.db'}")
    with puppets.app, served(puppets.app) as server:
        page.goto(server.url)
        expect(page.locator("#empty")).to_contain_text("No jobs yet")
        expect(page.locator("#empty")).to_contain_text(f"curl {server.url}/api/jobs")
        expect(page.locator("#empty")).to_contain_text("holdfast enqueue MODULE:APP archive.read_document")
        jobs = puppets.park(130)
        expect(page.locator("#rows tr")).to_have_count(100)
        puppets.app.cancel(jobs[0].id)
        page.click("#older")
        expect(page.locator("#rows tr")).to_have_count(30)
        expect(page.locator("#rows tr").last.locator(".state")).to_have_text("cancelled")
        page.click("#newest")
        page.click("#states a:has-text('cancelled')")
        expect(page).to_have_url(f"{server.url}/?state=cancelled")
        expect(page.locator("#rows tr")).to_have_count(1)
        page.fill("[name=queue]", "default")
        page.press("[name=queue]", "Enter")
        expect(page).to_have_url(re.compile(r"\?state=cancelled&queue=default$"))
        expect(page.locator("#empty")).to_contain_text("No job fits")


# Text stays text

_SHOW = """
async ([file, name, text]) => {
  const shown = await import(new URL(`static/${file}`, document.querySelector(".brand").href));
  await shown[name](JSON.parse(text), () => {});
}
"""


def show(page: Page, file: str, name: str, document: Any) -> None:
    """Let a function of the page show this; as text, since the driver would drop fields that have odd names."""
    page.evaluate(_SHOW, [file, name, json.dumps(document)])


def harm(page: Page, server: ThreadServer, asked: list[str]) -> list[str]:
    found: list[str] = page.evaluate(hostile.HARM)
    ours = re.compile(re.escape(server.url) + r"/(?:$|\?|jobs/|static/|login|api/)")
    return found + [url for url in asked if not ours.match(url)]


@pytest.fixture
def guarded(page: Page) -> Iterator[tuple[Page, list[str]]]:
    """A page that notes whatever it asks for; a dialog or a complaint of the browser fails the test."""
    said: list[str] = []
    asked: list[str] = []

    def dismissed(dialog: Dialog) -> None:
        said.append(dialog.message)
        dialog.dismiss()

    page.add_init_script(hostile.WATCH)
    page.on("dialog", dismissed)
    page.on("console", lambda message: said.append(message.text) if "Security Policy" in message.text else None)
    page.on("request", lambda request: asked.append(request.url))
    yield page, asked
    assert said == []


def test_hostile_text_through_the_whole_system(guarded: tuple[Page, list[str]], server: ThreadServer, puppets: Puppets) -> None:
    page, asked = guarded
    texts = dict.fromkeys(hostile.VECTORS, "")
    every = {text: text for text in texts}

    def perform(ctx: Any) -> Any:
        ctx.progress(1, 2, **every)
        for text in texts:
            ctx.emit("said", {text: text, "list": [text]})
        return every

    kept = puppets.start(every, key=Key(*hostile.VECTORS[:12]), meta=every)
    kept.do(perform)
    broken = puppets.start()
    broken.fail("\n".join(texts))
    broken.fail(hostile.VECTORS[1])
    for id, state in ((kept.id, "succeeded"), (broken.id, "failed")):
        page.goto(f"{server.url}/jobs/{id}")
        expect(page.locator("#state")).to_have_text(state)
        link(page, "ended")
        expect(page.locator("#events li[data-kind=started] .data").first).to_contain_text(f"worker={hostile.VECTORS[1]}")
        assert harm(page, server, asked) == []
    expect(page.locator("#error")).to_contain_text(hostile.VECTORS[1])
    for text in hostile.VECTORS[:3]:
        job = puppets.park()[0]
        page.goto(f"{server.url}/jobs/{job.id}")
        page.click("[data-verb=skip]")
        page.fill("#reason", text)
        page.click("#yes")
        expect(page.locator("#error")).to_have_text(text)
        last_event(page, "skipped")
        assert harm(page, server, asked) == []
    page.goto(server.url)
    expect(page.locator("#rows tr").first).to_contain_text(hostile.VECTORS[2])
    assert harm(page, server, asked) == []


def test_hostile_names_are_refused_at_the_border(puppets: Puppets) -> None:
    for text in hostile.FREE:
        for options in ({"queue": text}, {"tags": [text]}, {"callback": text}):
            with pytest.raises(SettingError):
                puppets.task.using(**options).enqueue("nobody")
    for text in (text for text in hostile.FREE if not re.fullmatch(r"[A-Za-z0-9_.:@/+=-]+", text)):
        with pytest.raises(SettingError):
            puppets.task.using(id=text).enqueue("nobody")


def test_a_server_that_lies_does_no_harm_either(guarded: tuple[Page, list[str]], server: ThreadServer, puppets: Puppets) -> None:
    """Every field of every document, those too that are checked names: the page has the same elements as with ordinary text."""
    page, asked = guarded
    current = [hostile.BENIGN]
    page.route("**/deliveries", lambda route: route.fulfill(json={"deliveries": [hostile.delivery(current[0])]}))
    page.goto(f"{server.url}/jobs/{puppets.park()[0].id}")
    link(page, "live")
    ordinary = _shown(page, hostile.BENIGN)
    for text in hostile.VECTORS:
        current[0] = text
        assert _shown(page, text) == ordinary, text
        assert harm(page, server, asked) == [], text
    page.goto(server.url)
    expect(page.locator("#rows tr").first).to_be_visible()
    jobs = [hostile.document(text) for text in hostile.VECTORS]
    page.route("**/api/jobs?**", lambda route: route.fulfill(json={"jobs": jobs, "next": hostile.VECTORS[1]}))
    expect(page.locator("#rows tr")).to_have_count(len(jobs))
    assert harm(page, server, asked) == []


def _shown(page: Page, text: str) -> list[str]:
    show(page, "job.js", "showJob", hostile.document(text))
    show(page, "callback.js", "showCallback", hostile.document(text))
    page.evaluate(_LOG, json.dumps(hostile.event(text, 1)))
    skeleton: list[str] = page.evaluate(hostile.SKELETON)
    return skeleton


_LOG = """
async (text) => {
  const { Log } = await import(new URL("static/log.js", document.querySelector(".brand").href));
  const [list, earlier, latest] = ["events", "earlier", "latest"].map((id) => document.getElementById(id));
  list.replaceChildren();
  new Log(list, earlier, latest).add(JSON.parse(text));
  await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
}
"""


def test_hostile_addresses(guarded: tuple[Page, list[str]], server: ThreadServer) -> None:
    page, asked = guarded
    for start in range(0, len(hostile.VECTORS), 4):
        texts = [quote(text, safe="") for text in (hostile.VECTORS * 2)[start : start + 7]]
        query = "&".join(f"{name}={text}" for name, text in zip(_ASKED, texts, strict=False))
        page.goto(f"{server.url}/?{query}#{texts[-1]}")
        expect(page.locator("#trouble")).to_be_visible()
        assert harm(page, server, asked) == [], query
    word = quote(hostile.VECTORS[1], safe="")
    page.goto(f"{server.url}/jobs/{word}?{word}#{word}")
    expect(page.locator("#missing h2")).to_have_text(f"There is no job {hostile.VECTORS[1]}")
    for text in hostile.VECTORS:
        show(page, "job.js", "showMissing", text)
        assert harm(page, server, asked) == [], text


_ASKED = ("state", "queue", "task", "tag", "parent", "after")


def test_h3_the_address_with_the_token_opens_the_page_and_loses_it(puppets: Puppets, page: Page) -> None:
    token = "a-token-for-this-test"
    with served(puppets.app, WebSettings(token=token)) as server:
        page.goto(f"{server.url}/")
        expect(page.locator("#key")).to_be_visible()
        page.goto(f"{server.url}/?token=wrong-{token}")
        expect(page.locator("#trouble")).to_contain_text("is not known")
        assert "token" not in page.url
        page.goto(f"{server.url}/?token={token}")
        expect(page.locator("#leave")).to_be_visible()
        assert page.url == f"{server.url}/"
        page.goto(f"{server.url}/?token={token}")
        expect(page.locator("#leave")).to_be_visible()
        assert page.url == f"{server.url}/", "who is logged in already"


def test_f17_ready_jobs_without_a_worker_are_not_shown_as_well(puppets: Puppets, server: ThreadServer, page: Page) -> None:
    (job,) = puppets.park(tags=["f17"])
    page.goto(f"{server.url}/?tag=f17")
    expect(page.locator(f'tr[data-id="{job.id}"] .at-note')).to_have_text("no worker takes queue parked")
    expect(page.locator("#unserved")).to_contain_text("No worker takes queue parked (")
    puppets.app.cancel(job.id)
    expect(page.locator(f'tr[data-id="{job.id}"] .at-note')).not_to_contain_text("no worker takes")


def test_p2_a_queue_that_is_paused_or_full_is_named_with_who_and_why(puppets: Puppets, server: ThreadServer, page: Page) -> None:
    (job,) = puppets.park()
    puppets.app.pause("parked", 600, reason="<b>down</b>", actor="kim")
    puppets.app.change_queue("parked", max_depth=1)
    page.goto(f"{server.url}/?queue=parked")
    closed = page.locator("#closed")
    expect(closed).to_contain_text(re.compile(r"Queue parked is paused by kim, .*, until \d\d:\d\d:\d\d: <b>down</b>"))
    expect(closed).to_contain_text("jobs wait; new ones are refused")
    puppets.app.resume("parked")
    puppets.app.change_queue("parked", max_depth=None)
    expect(closed).to_be_hidden()
    puppets.app.cancel(job.id)

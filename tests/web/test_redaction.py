"""What is secret reaches the task and nobody else: canaries in every place where one can be put, looked for everywhere."""

from __future__ import annotations

import importlib
import logging
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest

from holdfast import Holdfast, PayloadError, Secret
from holdfast.cli.logs import JsonLines, Lines
from holdfast.cli.program import run as run_program
from holdfast.domain.access import without_keys
from holdfast.domain.secret import NAMES, REDACTED, WHOLE, is_secret, marked_in, redact, scrub, secrets_in
from holdfast.domain.signature import Signature
from holdfast.web import create_app
from tests.web.asking import Asker
from tests.web.ground import OPEN, STREAM, frames_of, served

CANARY = "c4n4ry"
MODULE = '''
"""Tasks with secrets."""
from typing import Annotated, Any
import msgspec
from holdfast import Context, Fatal, Holdfast, Retry, Secret

app = Holdfast("sqlite:///jobs.db")
SEEN = []

class Login(msgspec.Struct, rename="camel"):
    user_name: str
    door_code: Annotated[str, Secret()]

@app.task(name="enter", retry=Retry(1))
def enter(
    ctx: Context, login: Login, pin: Annotated[str, Secret()], password: str = "", more: Any = None
) -> Annotated[str, Secret()]:
    SEEN.append((login.door_code, pin, password, more))
    ctx.progress(1, 2, token=f"{password}-progress", engine="x")
    ctx.emit("said", {"deep": [{"Api-Key": f"{pin}-event", "shown": "plain"}]})
    return f"{pin}-result"

@app.task(name="fail", retry=Retry(1))
def fail(login: Login, pin: Annotated[str, Secret()], password: str = "", more: Any = None, how: str = "plain") -> None:
    said = f"{login.door_code} {pin!r} {password} {more!r}"
    raise (Fatal(said) if how == "fatal" else ValueError(said))

@app.task(name="fail_elsewhere", retry=Retry(1), process=True)
def fail_elsewhere(pin: Annotated[str, Secret()]) -> None:
    raise ValueError(f"no {pin}")
'''
SECRETS: dict[str, Any] = {
    "login": {"userName": "bob", "doorCode": f"{CANARY}-field"},
    "pin": f"{CANARY}-marked",
    "password": f"{CANARY}-named\u00fc'quoted",
    "more": {"nested": [{"apiKey": f"{CANARY}-nested"}], "shown": "plain"},
}
META = {"authorization": f"Bearer {CANARY}-meta", "who": "bob"}


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    (tmp_path / "secret_tasks.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "secret_tasks", raising=False)
    made = importlib.import_module("secret_tasks")
    yield made
    made.app.close()
    sys.modules.pop("secret_tasks", None)


def test_a_canary_is_found_nowhere(
    module: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    said: dict[str, str] = {}
    app: Holdfast = module.app
    with served(app) as server:
        ask = server.client
        for task, more in (("enter", {}), ("fail", {}), ("fail", {"how": "fatal"})):
            answer = ask.post("/api/jobs", json={"task": task, "kwargs": {**SECRETS, **more}, "meta": META})
            assert answer.status_code == 201, answer.text
            said[f"asked {answer.json()['id']}"] = answer.text
        ids = [job.id for job in app.jobs()]
        wrong = {**SECRETS, "pin": 7, "login": {"userName": 1, "doorCode": f"{CANARY}-wrong"}}
        for bad in (wrong, {**SECRETS, "pin": [f"{CANARY}-list"]}, {**SECRETS, "password": {"x": f"{CANARY}-dict"}}):
            said[f"refused {bad}"[:8] + str(len(said))] = (
                refusal := ask.post("/api/jobs", json={"task": "enter", "kwargs": bad})
            ).text
            assert refusal.status_code == 422
        app.worker().run_until_empty()
        for id in ids:
            said[f"job {id}"] = ask.get(f"/api/jobs/{id}").text
            said[f"events {id}"] = ask.get(f"/api/jobs/{id}/events").text
            with ask.stream("GET", f"/api/jobs/{id}/events", headers=STREAM) as stream:
                said[f"stream {id}"] = repr(list(frames_of(stream)))
        for path in ("/api/jobs", "/api/tasks", "/api/stats", "/api/queues", "/openapi.json"):
            said[path] = ask.get(path).text
        again = ask.post(f"/api/jobs/{ids[0]}/retry").text
        said["retried"] = again
        ask.post(f"/api/jobs/{ids[0]}/cancel")
    expected = (SECRETS["login"]["doorCode"], SECRETS["pin"], SECRETS["password"], SECRETS["more"])
    assert [expected] == module.SEEN, "the task gets all of it"
    for id in ids:
        for command in (
            ["show", id],
            ["show", id, "--json"],
            ["tail", id, "--after", "0"],
            ["tail", id, "--after", "0", "--json"],
        ):
            capfd.readouterr()
            run_program([*command, "--app", "secret_tasks"])
            out, err = capfd.readouterr()
            assert out, err
            said[" ".join(command)] = out + err
    for command in (["jobs"], ["jobs", "--json"], ["stats"]):
        capfd.readouterr()
        run_program([*command, "--app", "secret_tasks"])
        said[command[0] + str(len(command))] = "".join(capfd.readouterr())
    records = [record for record in caplog.records if not record.name.startswith(("httpx", "httpcore", "asyncio"))]
    said["log"] = "\n".join(Lines().format(record) + JsonLines().format(record) for record in records)
    with sqlite3.connect(tmp_path / "jobs.db") as onlooker:
        for table in ("error", "event"):
            kept = "kind, message, traceback" if table == "error" else "kind, data"
            where = "" if table == "error" else " WHERE kind NOT IN ('said', 'progress')"
            said[f"table {table}"] = repr(onlooker.execute(f"SELECT {kept} FROM holdfast_{table}{where}").fetchall())
        said["reasons"] = repr(onlooker.execute("SELECT reason FROM holdfast_job").fetchall())
    leaks = {place: text for place, text in said.items() if CANARY in text}
    assert leaks == {}
    shown = " ".join(text for place, text in said.items() if place.startswith(("job ", "events ", "show")))
    assert REDACTED in said["table error"]
    for plain in ("bob", "plain", "engine", "ValueError", "Fatal"):
        assert plain in shown, "what is not secret is shown"


def test_a_task_in_a_process_of_its_own_tells_no_more(module: Any) -> None:
    app: Holdfast = module.app
    job = app.tasks["fail_elsewhere"].enqueue(f"{CANARY}-process")
    app.worker().run_until_empty()
    failed = app.get(job.id)
    assert failed is not None
    assert failed.errors[0].message == f"no {REDACTED}"
    assert CANARY not in failed.errors[0].traceback
    assert "fail_elsewhere" in failed.errors[0].traceback


def test_who_fails_a_job_by_hand_tells_no_more(module: Any) -> None:
    app: Holdfast = module.app
    for error in (ValueError(f"no {CANARY}-hand"), f"no {CANARY}-hand"):
        app.tasks["fail_elsewhere"].enqueue(f"{CANARY}-hand")
        lease = app.claim()
        assert lease is not None
        assert lease.job.arguments == {"pin": f"{CANARY}-hand"}
        assert str(app.fail(lease, error).error).endswith(f"no {REDACTED}")


def test_arguments_that_do_not_fit_any_more_are_not_quoted(module: Any) -> None:
    """The task has changed since the job was enqueued."""
    app: Holdfast = module.app
    job = app.tasks["fail_elsewhere"].enqueue(f"{CANARY}-old")
    with Holdfast(app.url) as newer:

        @newer.task(name="fail_elsewhere")
        def changed(pin: Annotated[int, Secret()]) -> None: ...

        newer.worker().run_until_empty()
    failed = app.get(job.id)
    assert failed is not None
    assert failed.state == "failed"
    assert "argument 'pin'" in str(failed.error)
    assert CANARY not in f"{failed.error} {failed.errors}"


# Marks


class Inner(msgspec.Struct, rename="kebab"):
    door_code: Annotated[str, Secret()]
    child: "Inner | None" = None  # noqa: UP037 (msgspec reads it)


class Typed(TypedDict):
    hidden: Annotated[str, Secret]
    seen: str


class Pair(NamedTuple):
    seen: str
    hidden: Annotated[str, Secret()]


@pytest.mark.parametrize(
    ("annotation", "names"),
    [
        (Annotated[str, Secret()], {WHOLE}),
        (Annotated[str, Secret], {WHOLE}),
        (Annotated[str, Secret()] | None, {WHOLE}),
        (list[Annotated[str, Secret()]], {WHOLE}),
        (dict[str, Annotated[str, Secret()]], {WHOLE}),
        (tuple[int, Annotated[str, Secret()]], {WHOLE}),
        (Pair, {WHOLE}),
        (Inner, {"door_code", "door-code"}),
        (list[Inner] | None, {"door_code", "door-code"}),
        (dict[str, Typed], {"hidden"}),
        (Annotated[str, msgspec.Meta(max_length=3)], set()),
        (str, set()),
        (Any, set()),
    ],
)
def test_marks_are_found_at_any_depth(annotation: Any, names: set[str]) -> None:
    assert marked_in(annotation) == names


class Model(pydantic.BaseModel):
    code: Annotated[str, Secret(), pydantic.Field(alias="doorCode")]


def test_a_pydantic_model_is_looked_into_by_its_aliases() -> None:
    def task(model: Model) -> None: ...

    signature = Signature.of(task, takes_context=False)
    assert signature.secrets == {"code", "doorCode"}
    with pytest.raises(PayloadError) as caught:
        signature.bind(({"doorCode": [CANARY]},), {})
    assert "argument 'model'" in str(caught.value)
    assert CANARY not in str(caught.value)


def test_an_annotation_that_cannot_be_read_is_taken_at_its_word() -> None:
    class Unseen: ...

    def task(pin: Annotated[Unseen, Secret()], other: Unseen) -> None: ...

    class Local(msgspec.Struct):
        pin: Annotated[Unseen, Secret()]
        other: int

    assert Signature.of(task, takes_context=False).secrets == {"pin"}
    assert marked_in(Local) == {"pin"}


def test_a_default_that_is_secret_is_told_nobody() -> None:
    def task(password: str = CANARY, *, pin: Annotated[str, Secret()] = CANARY, shown: str = "plain") -> None: ...

    signature = Signature.of(task, takes_context=False)
    assert CANARY not in signature.text + str(signature.json_schema())
    assert "plain" in signature.text


def test_variable_arguments_can_be_marked() -> None:
    def task(*codes: Annotated[str, Secret()], **named: Annotated[str, Secret()]) -> None: ...

    signature = Signature.of(task, takes_context=False)
    stored = msgspec.json.decode(signature.bind((CANARY,), {"a": CANARY}))
    assert redact(stored, signature.secrets) == {"*codes": REDACTED, "**named": REDACTED}


# Names


@pytest.mark.parametrize("name", ["password", "PASSWORD", "Api-Key", "apiKey", "api_key", "Authorization", "set-cookie", "token"])
def test_some_names_are_secret_without_a_mark(name: str) -> None:
    assert is_secret(name)
    assert redact({name: CANARY, "x": [{name: 7}]}) == {name: REDACTED, "x": [{name: REDACTED}]}
    assert redact({name: None}) == {name: None}, "that there is none is no secret"


@pytest.mark.parametrize("name", ["tokens", "key", "passwords_checked", "secretary", "author", "cookies_eaten", ""])
def test_only_whole_names_are(name: str) -> None:
    assert not is_secret(name)


def test_names_are_written_as_they_are_compared() -> None:
    assert all(name == name.lower() and name.isalnum() for name in NAMES)


def test_redact_leaves_the_value_itself_alone() -> None:
    value = {"a": [{"password": "x", "b": 1}], "c": (1, 2)}
    assert redact(value) == {"a": [{"password": REDACTED, "b": 1}], "c": [1, 2]}
    assert value == {"a": [{"password": "x", "b": 1}], "c": (1, 2)}
    plain: list[Any] = [None, 1, "x", 1.5, True, []]
    assert [redact(each) for each in plain] == plain
    assert redact("x", frozenset({WHOLE})) == REDACTED


def test_text_is_scrubbed_of_what_is_long_enough_to_be_told_apart() -> None:
    hidden = secrets_in({"password": "it's\nü", "pin": 1234567, "token": ["ab", True, None], "a": "plain"}, frozenset({"pin"}))
    assert hidden == {"it's\nü", "1234567", "ab"}
    for text in ("said it's\nü.", f"said {'it' + chr(39) + 's' + chr(10) + 'ü'!r}.", "said it's\\n\\xfc.", "said 1234567."):
        assert scrub(text, hidden) in (f"said {REDACTED}.", f'said "{REDACTED}".'), text
    assert scrub("a plain cab", hidden) == "a plain cab"


# Logs


LINE = "\r\n2030-01-01 forged\x1b[31m \u202egnol\u2066 \u2028 \x00\x7f\x9b"
KEY = "hf_0123456789ab_" + "S" * 43


def record(message: str, *args: Any, error: BaseException | None = None) -> logging.LogRecord:
    info = None if error is None else (type(error), error, error.__traceback__)
    return logging.LogRecord("app.log", logging.INFO, "file.py", 1, message, args, info)


@pytest.mark.parametrize("form", [Lines(), JsonLines()])
def test_a_log_line_is_one_line_whatever_a_job_says(form: logging.Formatter) -> None:
    line = form.format(record("said %s", LINE))
    assert not [char for char in line if ord(char) < 32 or char in "\x7f\x9b\u202e\u2066\u2028"]
    assert "forged" in line


def test_in_json_it_says_the_same_again() -> None:
    entry = msgspec.json.decode(JsonLines().format(record("said %s", LINE)))
    assert (entry["message"], entry["level"], entry["logger"]) == (f"said {LINE}", "info", "app.log")


def test_a_traceback_in_a_log_is_tame_too() -> None:
    try:
        raise ValueError(LINE + KEY)
    except ValueError as error:
        failed = error
    plain, as_json = (form.format(record("failed", error=failed)) for form in (Lines(), JsonLines()))
    assert all(line.startswith("    ") for line in plain.splitlines()[1:])
    assert "\x1b" not in plain + as_json
    assert "\u202e" not in plain + as_json
    assert "S" * 43 not in plain + as_json
    assert len(as_json.splitlines()) == 1


@pytest.mark.parametrize("form", [Lines(), JsonLines()])
@pytest.mark.parametrize(
    "message",
    [
        f"GET /api/jobs with Bearer {KEY}",
        f"/api/jobs/x/events?ticket={'S' * 43}&after=1",
        f"/api/jobs/x/events?after=1&ticket={'S' * 43}",
        f"cookie: holdfast_session={'S' * 43}; other=1",
        f"'{KEY}'",
    ],
)
def test_no_log_line_has_a_key_a_ticket_or_a_session(form: logging.Formatter, message: str) -> None:
    line = form.format(record("%s", message))
    assert "S" * 43 not in line
    assert REDACTED in line


def test_which_key_it_was_can_still_be_told() -> None:
    assert without_keys(f"with {KEY}.") == f"with hf_0123456789ab_{REDACTED}"
    assert without_keys("nothing here, hf_ or ticket= alone") == "nothing here, hf_ or ticket= alone"


def test_without_the_app_names_alone_decide(module: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """Who has only the database does not know what was marked; SECURITY.md says so."""
    app: Holdfast = module.app
    app.tasks["enter"].using(id="one-job").enqueue(**SECRETS)
    capfd.readouterr()
    assert run_program(["show", "one-job", "--url", app.url, "--json"]) == 0
    shown = msgspec.json.decode(capfd.readouterr().out)["arguments"]
    assert (shown["password"], shown["more"]["nested"]) == (REDACTED, [{"apiKey": REDACTED}])


def test_the_web_application_is_what_shows_it(module: Any) -> None:
    """The documents of jobs and events are where it happens: whatever is made from them is safe."""
    web = create_app(module.app, settings=OPEN)
    made = Asker(web).post("/api/jobs", json={"task": "enter", "kwargs": SECRETS}).json()
    assert made["arguments"] == {
        "login": {"userName": "bob", "doorCode": REDACTED},
        "pin": REDACTED,
        "password": REDACTED,
        "more": {"nested": [{"apiKey": REDACTED}], "shown": "plain"},
    }

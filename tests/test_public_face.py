"""What `import holdfast` gives, exactly, and that sync and async have the same face."""

from __future__ import annotations

import ast
import asyncio
import difflib
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import Client, Context, Holdfast, HoldfastError, Task, Worker, errors
from holdfast.batch import Ids
from holdfast.worker.context import Detached

PUBLIC = [
    "ApiKey", "AsyncBatch", "Attempt", "Batch", "Breaker", "Cancelled", "Changed", "Client", "Conflict", "Context",
    "Delivery", "Event", "Explanation", "Fatal", "Holdfast", "HoldfastError", "Hook", "IllegalMove", "Job", "JobFilter",
    "JobNotFound", "Key", "Lease", "LeaseLost", "Meter", "NewApiKey", "NewJob", "PayloadError", "Queue", "QueueChange",
    "QueueFull", "Rate", "Reason", "Retry", "RetryAfter", "Scope", "Secret", "SettingError", "Skip", "Snooze", "State",
    "StoreUnavailable", "Task", "UnknownTask", "Worker", "WorkerStatus", "current_job",
]  # fmt: skip
CLIENT = [
    "add_key", "cancel", "change_queue", "claim", "delete", "deliveries", "enqueue", "enqueue_many", "events", "explain",
    "fail", "feed", "find", "finish", "get", "jobs", "keys", "meters", "pause", "prune", "queue_changes", "queues",
    "redeliver", "release", "renew", "reset_queue", "resume", "retry", "revoke_key", "skip", "stats", "wait", "workers",
]  # fmt: skip
TWINS = {"wait": "await_job"}
"""`await` is a keyword."""
FACE = Path(__file__).parent / "public_face.txt"
"""Every public signature, reviewed: what is new or changed there is so on purpose."""


def test_the_public_names_are_exactly_these() -> None:
    assert holdfast.__all__ == PUBLIC
    for name in PUBLIC:
        assert getattr(holdfast, name).__name__ == name


def face() -> str:
    return "".join(f"{line}\n" for name in PUBLIC for line in face_of(name, getattr(holdfast, name)))


def face_of(name: str, thing: Any) -> Iterator[str]:
    """Its own signature and those of what it has, without what another public class gives it and without async twins."""
    if not inspect.isclass(thing):
        yield f"{name}{signature_of(thing)}"
    elif issubclass(thing, Enum):
        yield f"{name}: {', '.join(thing)}"
    else:
        has_own = not issubclass(thing, Exception) or inspect.isfunction(thing.__init__)
        yield f"{name}{signature_of(thing) if has_own else '(*args)'}"
        twins = {TWINS.get(each, f"a{each}") for each in dir(thing)}
        inherited = {
            each for base in thing.__mro__[1:] if base.__name__ in PUBLIC or base in Sequence.__mro__ for each in dir(base)
        }
        for each in sorted(set(dir(thing)) - twins - inherited):
            member = inspect.getattr_static(thing, each)
            if not each.startswith("_") and inspect.isfunction(member):
                yield f"  .{each}{signature_of(member)}"
            elif not each.startswith("_") and isinstance(member, property) and member.fget is not None:
                yield f"  .{each}{signature_of(member.fget).removeprefix('(self)')}"


def signature_of(thing: Callable[..., Any]) -> str:
    """As it is written: no quotes around annotations, no addresses."""
    plain = re.sub(
        r"(: |-> )([\'\"])(.*?)\2(?=[ ,)]|$)", r"\1\3", re.sub(r"<(\w+\.\w+): .*?>", r"\1", str(inspect.signature(thing)))
    )
    return re.sub(r" at 0x[0-9a-f]+", "", plain)


def test_f27_the_public_signatures_are_exactly_these() -> None:
    if os.environ.get("HOLDFAST_TESTS_WRITE_FACE"):
        FACE.write_text(face(), encoding="utf-8")
    changes = "\n".join(
        difflib.unified_diff(FACE.read_text(encoding="utf-8").splitlines(), face().splitlines(), n=0, lineterm="")
    )
    assert not changes, f"if this is meant, run the test with HOLDFAST_TESTS_WRITE_FACE=1 and review the file:\n{changes}"


@pytest.mark.parametrize("name", ["take", "relay", "in_flight", "waiting_bytes"])
def test_f27_what_is_for_the_worker_is_not_in_completion(name: str) -> None:
    assert name not in dir(Context(Detached(lambda: None), token=0, progress={}, meter={}))  # type: ignore[arg-type, return-value]
    assert not hasattr(Ids, "add")


def test_the_package_re_exports_and_does_nothing_else() -> None:
    tree = ast.parse(Path(holdfast.__file__).read_text(encoding="utf-8"))
    docstring, *statements = tree.body
    assert isinstance(docstring, ast.Expr)
    assigned = [
        target.id for statement in statements if isinstance(statement, ast.Assign) for target in statement.targets
        if isinstance(target, ast.Name)
    ]  # fmt: skip
    assert assigned == ["__all__", "__version__"]
    imports = [statement for statement in statements if isinstance(statement, ast.ImportFrom)]
    assert len(imports) + len(assigned) == len(statements)
    imported = {alias.asname or alias.name for statement in imports for alias in statement.names}
    assert imported == set(PUBLIC)


def test_importing_it_needs_only_msgspec_and_opens_nothing() -> None:
    script = "import sys; before = set(sys.modules); import holdfast; print(*(set(sys.modules) - before))"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    loaded = {name.partition(".")[0] for name in ended.stdout.split()}
    foreign = loaded - sys.stdlib_module_names
    assert foreign - {"typing_extensions"} == {"holdfast", "msgspec"}  # msgspec uses the former where it is there


def test_every_error_has_one_parent_and_is_public() -> None:
    own = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__]
    for kind in own:
        assert issubclass(kind, HoldfastError)
        assert kind.__name__ in PUBLIC


def test_the_client_has_exactly_these_methods_and_each_its_async_twin() -> None:
    public = {name for name, _ in inspect.getmembers(Client, inspect.isfunction) if not name.startswith("_")}
    twins = {TWINS.get(name, f"a{name}") for name in CLIENT}
    assert public == set(CLIENT) | twins | {"on", "queue"}


@pytest.mark.parametrize("method", CLIENT)
def test_a_twin_takes_the_same_and_gives_the_same(method: str) -> None:
    plain, twin = getattr(Client, method), getattr(Client, TWINS.get(method, f"a{method}"))
    assert inspect.iscoroutinefunction(twin) or inspect.isasyncgenfunction(twin)
    assert inspect.signature(plain).parameters == inspect.signature(twin).parameters
    given = inspect.signature(twin).return_annotation
    assert given == inspect.signature(plain).return_annotation.replace("Iterator", "AsyncIterator").replace("Batch", "AsyncBatch")


def test_tasks_workers_and_contexts_have_their_twins() -> None:
    for cls, methods in ((Task, ["enqueue"]), (Worker, ["run", "run_until_empty"]), (Context, ["finish"])):
        for method in methods:
            plain, twin = getattr(cls, method), getattr(cls, f"a{method}")
            assert inspect.iscoroutinefunction(twin)
            assert inspect.signature(plain).parameters == inspect.signature(twin).parameters


def test_what_the_design_names_is_there() -> None:
    for name in ("task", "worker", "on", "migrate", "close", "tasks", "task_named"):
        assert hasattr(Holdfast, name)
    for name in ("enqueue", "aenqueue", "bind", "using"):
        assert hasattr(Task, name)
    for name in ("run", "run_until_empty", "stop"):
        assert hasattr(Worker, name)
    for name in ("progress", "emit", "meter", "finish", "token", "job"):
        assert hasattr(Context, name) or name in inspect.signature(Context).parameters
    job = set(inspect.signature(holdfast.Job).parameters) | {"handle", "final", "arguments", "result"}
    assert all(hasattr(holdfast.Job, name) for name in ("handle", "final", "arguments", "result"))
    assert job >= {
        "id", "handle", "task", "queue", "state", "priority", "attempt", "attempts_max", "arguments", "result", "error", "errors",
        "progress", "meter", "key", "tags", "meta", "parent", "created_at", "run_after", "started_at", "finished_at", "created",
        "same_arguments",
    }  # fmt: skip


def test_every_public_thing_says_what_it_is() -> None:
    for name in PUBLIC:
        assert inspect.getdoc(getattr(holdfast, name)), name
    for method in CLIENT:
        assert getattr(Client, method).__doc__, method


@pytest.mark.parametrize("name", PUBLIC)
def test_f27_every_public_method_and_property_says_what_it_is(name: str) -> None:
    cls = getattr(holdfast, name)
    members = inspect.getmembers(cls, lambda member: inspect.isfunction(member) or isinstance(member, property))
    assert [each for each, member in members if not each.startswith("_") and not inspect.getdoc(member)] == []


@pytest.mark.parametrize("cls", [holdfast.Job, holdfast.Attempt, holdfast.Event, holdfast.Queue])
def test_f27_every_attribute_says_what_it_is(cls: type) -> None:
    (tree,) = ast.parse(inspect.getsource(cls)).body
    assert isinstance(tree, ast.ClassDef)
    silent = [
        field.target.id for field, after in zip(tree.body, [*tree.body[1:], None], strict=True)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and not field.target.id.startswith("_")
        and not (isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant))
    ]  # fmt: skip
    assert silent == []


def test_f27_using_documents_every_option() -> None:
    text = inspect.getdoc(Task.using) or ""
    options = set(inspect.signature(Task.using).parameters) - {"self"}
    assert {option for option in options if f"\n{option} " not in text} == set()


def test_f27_the_settings_of_the_web_have_words_of_their_own() -> None:
    from holdfast.web.settings import WebSettings

    assert "HTTP" in (WebSettings.__doc__ or "")


def test_f27_an_app_is_migrated_and_closed_from_async_code(tmp_path: Path) -> None:
    async def life() -> None:
        app = Holdfast(f"sqlite:///{tmp_path / 'jobs.db'}")
        assert await app.amigrate() != []
        assert await app.amigrate() == []
        await app.aclose()

    asyncio.run(life())

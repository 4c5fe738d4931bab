"""The program: all commands, and the one place where an error becomes a line and an exit code."""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from holdfast import __version__
from holdfast.cli import (
    act,
    browse,
    demo_torture,
    doctor,
    enqueue,
    explain,
    keys,
    maintenance,
    meters,
    move,
    queues,
    serve,
    show,
    tail,
    work,
    workers,
)
from holdfast.cli.trouble import Trouble, report

INTERRUPTED = 130
TRACEBACK = "--traceback"

app = typer.Typer(name="holdfast", add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
for command in (
    work.worker,
    serve.serve,
    serve.token,
    enqueue.enqueue,
    browse.jobs,
    show.show,
    explain.explain,
    tail.tail,
    act.cancel,
    act.retry,
    act.skip,
    queues.queues,
    queues.pause,
    queues.resume,
    browse.stats,
    meters.meters,
    workers.workers,
    workers.ping,
    doctor.doctor,
    maintenance.migrate,
    maintenance.prune,
    move.move,
    demo_torture.demo,
    demo_torture.torture,
):
    app.command(command.__name__)(command)
app.add_typer(queues.app)
app.add_typer(keys.app)


@app.callback(invoke_without_command=True, epilog="Each flag has an environment variable; 'holdfast COMMAND --help' names it.")
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", allow_from_autoenv=False, help="Print the version.")] = False,
    traceback: Annotated[  # noqa: ARG001 - for the help; `run` has taken it out of the arguments
        bool, typer.Option(TRACEBACK, envvar="HOLDFAST_TRACEBACK", help="Show where an error comes from; works anywhere.")
    ] = False,
) -> None:
    """Durable jobs in the database you already have."""
    if version:
        typer.echo(f"holdfast {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run(arguments: Sequence[str]) -> int:
    """Run one command; its exit code: 0 done, 1 failed, 2 asked for in the wrong way."""
    _make_output_safe()
    wanted, chosen = _split(arguments)
    try:
        code = app(wanted, standalone_mode=False, prog_name="holdfast", auto_envvar_prefix="HOLDFAST", obj=list(arguments))
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except (BrokenPipeError, SystemExit) as end:
        return _after_output(end)
    except typer.Abort:
        return INTERRUPTED
    except Exception as error:
        if chosen or os.environ.get("HOLDFAST_TRACEBACK"):
            _show(error)
        return report(error)


def _after_output(end: BaseException) -> int:
    """Whoever read our output has seen enough: no error. Typer makes that an exit of its own."""
    if isinstance(end, SystemExit) and not isinstance(end.__context__, BrokenPipeError):
        return end.code if isinstance(end.code, int) else 0
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or Python would complain when it flushes at exit
    return 0


def _split(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """`--traceback` is taken anywhere before `--`: one adds it at the end of the line that failed."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    head = [argument for argument in arguments[:end] if argument != TRACEBACK]
    return [*head, *arguments[end:]], len(head) < end


def _show(error: Exception) -> None:
    cause = error.__cause__ if isinstance(error, Trouble) and error.__cause__ is not None else error
    traceback.print_exception(cause)


def _make_output_safe() -> None:
    """A terminal that cannot show a letter gets its escape instead of an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

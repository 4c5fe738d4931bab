"""Tasks for the tests of the web application, on any app; and one on $HOLDFAST_URL, for servers in processes of their own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, TypedDict

from holdfast import Context, Holdfast, Retry


class Page(TypedDict):
    number: int
    words: list[str]


def register(app: Holdfast) -> Holdfast:
    @app.task(name="add")
    def add(a: int, b: int = 1) -> int:
        return a + b

    @app.task(name="render", queue="slow")
    def render(document: str, pages: list[Page] | None = None) -> str:
        """Turns a document into pages."""
        return document

    @app.task(name="anything")
    def anything(*values: Any, **named: Any) -> Any:
        return [values, named]

    @app.task(name="breaks", retry=Retry(1))
    def breaks(text: str) -> None:
        raise ValueError(text)

    @app.task(name="talk")
    def talk(ctx: Context, words: int, waits_for: str | None = None, pause: float = 0.0) -> int:
        """Half of the words, then, if asked to, none until there is a file of that name, then the rest."""
        for number in range(words):
            if waits_for is not None and number == words // 2:
                while not Path(waits_for).exists():
                    time.sleep(0.01)
            ctx.emit("word", {"n": number})
            ctx.progress(number + 1, words, engine="tesseract")
            time.sleep(pause)
        return words

    return app


app = register(Holdfast())

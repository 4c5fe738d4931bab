"""The page, in a process of its own, on a socket that the demo has opened: its address is known before it runs."""

from __future__ import annotations

import logging
import socket
import sys

from holdfast.demo.tasks import app
from holdfast.web import create_app
from holdfast.web.serving import serve


def main(descriptor: int) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    with app, socket.socket(fileno=descriptor) as bound:
        serve(create_app(app), bound)


if __name__ == "__main__":
    main(int(sys.argv[1]))

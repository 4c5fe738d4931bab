"""Somebody who is called back: a real server on this machine, which answers as a test says and keeps what it got."""

from __future__ import annotations

import http.server
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from standardwebhooks import Webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER_SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"


class Received(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    def verified(self, secret: str = SECRET) -> Any:
        """The content, if another library than ours finds the signature good."""
        return Webhook(secret).verify(self.body, self.headers)


Answer = int | tuple[int, dict[str, str]] | tuple[int, dict[str, str], bytes]
Reply = Answer | Callable[[Received], Answer]


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who asked has gone: that is what some tests are about."""


class Receiver:
    """`answers` are given one after the other, the last of them again and again."""

    def __init__(self, *answers: Reply, tls: ssl.SSLContext | None = None) -> None:
        self.answers: list[Reply] = list(answers) or [204]
        self.received: list[Received] = []
        self._came = threading.Condition()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver._answer(self, Received(self.path, headers, body))

            def log_message(self, *_: Any) -> None:
                return

        self._server = _Server(("127.0.0.1", 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self.port: int = self._server.server_address[1]
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}/hook"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def _answer(self, handler: http.server.BaseHTTPRequestHandler, received: Received) -> None:
        with self._came:
            reply = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        answer = reply(received) if callable(reply) else reply
        status, headers, content = (*answer, {}, b"")[:3] if isinstance(answer, tuple) else (answer, {}, b"")
        with self._came:  # before it answers: who was answered finds it here
            self.received.append(received)
            self._came.notify_all()
        handler.send_response(status)
        for name, value in {"content-length": str(len(content)), "connection": "close", **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        try:
            handler.wfile.write(content)
        except OSError:
            pass  # who asked has heard enough

    def wait(self, count: int = 1, seconds: float = 20.0) -> list[Received]:
        """What came, when so much has come."""
        with self._came:
            assert self._came.wait_for(lambda: len(self.received) >= count, seconds), f"{len(self.received)} of {count} came"
            return list(self.received)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Receiver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def raw_server(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server that does not even speak HTTP; its port. `serve` gets each connection after a request was read from it."""
    listener = socket.create_server(("127.0.0.1", 0))
    closing = threading.Event()

    def talk(connection: socket.socket) -> None:
        with connection:
            try:
                connection.recv(65_536)
                serve(connection)
            except OSError:
                pass  # the other side has gone

    def listen() -> None:
        while not closing.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(connection,), daemon=True).start()

    threading.Thread(target=listen, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        closing.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def certificate(folder: Path, *names: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A certificate for these names: the context of a server that has it, and of a client that trusts it."""
    key, crt = str(folder / "key.pem"), str(folder / "crt.pem")
    subject = ["-subj", f"/CN={names[0]}", "-addext", f"subjectAltName={','.join(names)}"]
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    subprocess.run([*command, *subject, "-keyout", key, "-out", crt], check=True, capture_output=True)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(crt, key)
    return server, ssl.create_default_context(cafile=crt)

"""An S3 server on loopback that can be made to fail: moto's, run by tests with moto's folder on its path.

    PYTHONPATH=<moto's folder> python -m tests.pipeline.s3_server PORT TROUBLE

The file TROUBLE says what is wrong: empty or missing for nothing; ``down`` answers each request with 503; ``busy``
answers each third one with 503; ``lost`` carries out the first request that writes a commit, and answers it with 503.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

REQUESTS = "requests"
SLOW_DOWN = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"


class Troubled:
    """The application, and what is wrong with it. One request at a time: moto looks and then puts."""

    def __init__(self, application: Callable[..., Iterable[bytes]], trouble: Path) -> None:
        self._application = application
        self._trouble = trouble
        self._requests = trouble.with_name(REQUESTS)
        self._count = 0
        self._turn = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        with self._turn:
            self._count += 1
            trouble = self._trouble.read_text() if self._trouble.exists() else ""
            is_commit = environ["REQUEST_METHOD"] == "PUT" and environ["PATH_INFO"].endswith(".json")
            if trouble == "lost" and is_commit and "_delta_log" in environ["PATH_INFO"]:
                self._trouble.write_text("")
                b"".join(self._application(environ, lambda *_: None))
            elif trouble != "down" and not (trouble == "busy" and self._count % 3 == 0):
                answer = list(self._application(environ, start_response))
                with self._requests.open("a") as lines:
                    lines.write(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']} {sum(map(len, answer))}\n")
                return answer
            start_response(
                "503 Slow Down", [("Content-Type", "application/xml"), ("Content-Length", str(len(SLOW_DOWN)))]
            )
            return [] if environ["REQUEST_METHOD"] == "HEAD" else [SLOW_DOWN]


def main() -> None:
    port, trouble = int(sys.argv[1]), Path(sys.argv[2])
    moto, serving = importlib.import_module("moto.server"), importlib.import_module("werkzeug.serving")
    application = moto.create_backend_app("s3")
    # A line of the log for each request would take a third of the server's time.
    quiet = type("QuietHandler", (serving.WSGIRequestHandler,), {"log_request": lambda *_: None})
    serving.run_simple("127.0.0.1", port, Troubled(application, trouble), threaded=True, request_handler=quiet)


if __name__ == "__main__":
    main()

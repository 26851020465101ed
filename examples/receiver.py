"""A webhook receiver: verifies the signature, takes each event once, prints it.

Needs Python 3.11 and one package: pip install standardwebhooks

    hookwire subscribe 'orders.#' http://127.0.0.1:9000/      # prints the secret, once
    python examples/receiver.py --secret whsec_...            # port 9000 unless --port says otherwise
    hookwire publish orders.created '{"order": 4711}'

A careful receiver works in this order:

1. It reads the whole body and verifies the signature over exactly these bytes. A request with a bad one gets
   401 and is dropped: anyone that knows the URL can POST to it.
2. It drops repeats. Deliveries are at least once; `webhook-id` is the same for every repeat of an event.
   A real one keeps the ids in the database that the event changes, in the same transaction.
3. It does its work, and only then answers 2xx. Any other answer, or none, brings the event again.

The package verifies text: a body that is not UTF-8 is refused here (401), although its signature may be right.

The options: --secret (or the variable RECEIVER_SECRET), --port, --host, --json for one line of JSON for each event.
Ctrl-C ends it.
"""

import argparse
import json
import os
import signal
import sys
import threading
from collections import OrderedDict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

try:
    from standardwebhooks.webhooks import Webhook, WebhookVerificationError
except ModuleNotFoundError:
    sys.exit(f"this receiver needs a package: {sys.executable} -m pip install standardwebhooks")

BODY_BYTES_MAX = 64 * 1024 * 1024
SEEN_MAX = 100_000
IDLE_SECONDS = 60


class Seen:
    """The ids of the last events; the oldest are forgotten."""

    def __init__(self) -> None:
        self._ids: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, event_id: str) -> bool:
        """True the first time."""
        with self._lock:
            if event_id in self._ids:
                return False
            self._ids[event_id] = None
            if len(self._ids) > SEEN_MAX:
                self._ids.popitem(last=False)
            return True


class Receiver(ThreadingHTTPServer):
    """Knows the secret, what was seen, and how to print."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], secret: str, *, as_json: bool) -> None:
        super().__init__(address, Handler)
        self.webhook = Webhook(secret)
        self.seen = Seen()
        self.as_json = as_json

    def show(self, event_id: str, topic: str, key: str | None, body: bytes) -> None:
        """Print one line for each event, on standard output."""
        text = body.decode("utf-8", "replace")
        if self.as_json:
            line = json.dumps({"id": event_id, "topic": topic, "key": key, "body": text})
        else:
            line = f"{event_id}  {topic}  {key or '-'}  {text}"
        print(line, flush=True)


class Handler(BaseHTTPRequestHandler):
    """One connection; it may carry many deliveries."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    server: Receiver

    def do_POST(self) -> None:
        """Verify, drop repeats, print, answer."""
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > BODY_BYTES_MAX:
            self.close_connection = True
            self.answer(413 if length.isdigit() else 411)
            return
        body = self.rfile.read(int(length))
        try:
            self.server.webhook.verify(body, dict(self.headers.items()), json_parse=False)
        except (WebhookVerificationError, ValueError) as error:
            print(f"refused: {error}", file=sys.stderr, flush=True)
            self.answer(401)
            return
        event_id = self.headers["webhook-id"]
        if self.server.seen.add(event_id):
            self.server.show(event_id, self.headers["Hookwire-Topic"], self.headers["Hookwire-Key"], body)
        self.answer(204)

    def answer(self, status: int) -> None:
        """Answer a status without a body."""
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing: one line for each event is enough."""


def main() -> None:
    options = argparse.ArgumentParser(description="Verify and print webhook deliveries.")
    options.add_argument("--secret", default=os.environ.get("RECEIVER_SECRET"), help="whsec_... of the subscription")
    options.add_argument("--host", default="127.0.0.1")
    options.add_argument("--port", type=int, default=9000)
    options.add_argument("--json", action="store_true", help="one line of JSON for each event")
    given = options.parse_args()
    if not given.secret:
        options.error("--secret or RECEIVER_SECRET is needed; `hookwire subscribe` prints it once")
    try:
        receiver = Receiver((given.host, given.port), given.secret, as_json=given.json)
    except (OSError, ValueError) as error:
        options.error(f"cannot start: {error}")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit it as ignored
    print(f"receiving at http://{given.host}:{receiver.server_port}/", file=sys.stderr, flush=True)
    try:
        receiver.serve_forever()
    except KeyboardInterrupt:
        receiver.server_close()


if __name__ == "__main__":
    main()

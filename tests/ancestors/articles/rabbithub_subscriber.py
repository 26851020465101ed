"""A subscriber of RabbitHub, as its README has it under "Subscribing": a form to `subscribe/x/NAME`.

The hub verifies the request before it answers, by a GET with `hub.challenge`, which the callback repeats. Then each
message is a POST, with the routing key in a header.

    rabbithub_subscriber.py BASE EXCHANGE PATTERN
"""

import sys
import threading
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer


class Callback(BaseHTTPRequestHandler):
    """Confirms a subscription, and prints what it gets."""

    def do_GET(self) -> None:
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(query["hub.challenge"][0].encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()
        print(self.headers["X-AMQP-Routing-Key"], body.decode(), flush=True)

    def log_message(self, *_: object) -> None:
        """Print nothing else."""


base, exchange, pattern = sys.argv[1:]
server = HTTPServer(("127.0.0.1", 0), Callback)
threading.Thread(target=server.serve_forever).start()
wish = {
    "hub.mode": "subscribe", "hub.callback": f"http://127.0.0.1:{server.server_port}/", "hub.topic": pattern,
    "hub.verify": "sync",
}  # fmt: skip
with urllib.request.urlopen(f"{base}/subscribe/x/{exchange}", urllib.parse.urlencode(wish).encode()) as answer:
    print(answer.status, flush=True)

"""The question whether a server answers: a greeting in its own protocol and the first bytes of the reply."""

import socket
from dataclasses import dataclass


@dataclass(frozen=True)
class Probe:
    """A greeting, and the beginning of a ready server's reply (empty: any reply)."""

    greeting: bytes
    reply_prefix: bytes = b""

    def is_answered(self, host: str, port: int, timeout_seconds: float = 2.0) -> bool:
        """Returns whether the server at (host, port) replied as a ready one does; False for every network error."""
        try:
            with socket.create_connection((host, port), timeout=timeout_seconds) as connection:
                connection.sendall(self.greeting)
                reply = connection.recv(64)
        except OSError:
            return False
        return bool(reply) and reply.startswith(self.reply_prefix)

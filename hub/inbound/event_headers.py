"""EventHeaders: what an event keeps of the headers of its request. No request is refused for one that comes along.

A value becomes text, or it is left out and named, by the rules of ``relay.amqp.incoming_header``. Many senders never
repeat a request that was refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from event.hops import HOPS_HEADER
from hub.inbound.scheme import Headers
from relay.amqp.incoming_header import MessageHeaders

__all__ = ["EventHeaders"]


class EventHeaders:
    """The headers of these names, content type and hops; ``left_out`` has name and reason of each that is missing."""

    def __init__(self, headers: Headers, names: Sequence[str]) -> None:
        self.left_out: list[tuple[str, str]] = []
        self._taken = MessageHeaders()
        self.kept = self._taken.kept
        for name in names:
            for value in headers.get(name, ()):
                self._taken.add_all([(name, value)])
                self._note(name)
        given = [value.decode("utf-8", "replace") for value in headers.get("content-type", ())]
        self.content_type = self._taken.content_type(given[0] or None if given else None)
        self._note("content-type")
        passed = [value.decode("latin-1") for value in headers.get(HOPS_HEADER, ())]
        self.hops = self._taken.hops(passed[0]) if passed else "0"
        self._note(HOPS_HEADER)

    def _note(self, name: str) -> None:
        self.left_out += [(name, reason) for reason in self._taken.left_out[len(self.left_out) :]]

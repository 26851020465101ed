"""Services and callers inside the broker's process: Titanic answers clients and calls workers without a socket.

The broker puts down requests and answers; the shell takes both after each step, and brings back replies by
:meth:`Broker.reply_inside` and calls by :meth:`Broker.call_inside`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reqrep.inside import CallAnswered, RequestTaken
from reqrep.majordomo.request import ServiceRequest

__all__ = ["CallOfProcess", "Inside"]


@dataclass(slots=True, eq=False, kw_only=True)
class CallOfProcess(ServiceRequest):
    """A request that this process made; its answer is taken with the others."""

    number: int


class Inside:
    """Requests and calls under way between the broker and its process.

    ``names``: services that the process answers. ``counts``: the numbers that ``mmi.titanic`` shows.
    """

    def __init__(
        self,
        names: frozenset[bytes] = frozenset(),
        counts: Callable[[], dict[str, int]] = dict,
        requests_max: int = 10_000,
    ) -> None:
        self.names = names
        self.counts = counts
        self._requests_max = requests_max
        self._requests: list[RequestTaken] = []
        self._answers: list[CallAnswered] = []
        self._tickets: dict[int, ServiceRequest] = {}
        self._last_ticket = 0

    def put(self, request: ServiceRequest) -> bool:
        """Put a request down; return False when too many are under way."""
        if len(self._tickets) >= self._requests_max:
            return False
        self._last_ticket += 1
        self._tickets[self._last_ticket] = request
        self._requests.append(RequestTaken(self._last_ticket, request.service, request.body, request.user))
        return True

    def answer(self, call: CallOfProcess, status: bytes, body: list[bytes]) -> None:
        """Put down what a call got."""
        self._answers.append(CallAnswered(call.number, status, body))

    def pop(self, ticket: int) -> ServiceRequest:
        """Return the request of a ticket, which is answered now."""
        return self._tickets.pop(ticket)

    def taken(self) -> tuple[list[RequestTaken], list[CallAnswered]]:
        """Return the requests and answers since the last call."""
        taken = (self._requests, self._answers)
        if self._requests or self._answers:
            self._requests, self._answers = [], []
        return taken

"""Services and callers inside the broker's process: Titanic answers clients and calls workers without a socket.

The broker collects requests and answers here. The server takes them after each step. It passes replies to
:meth:`Broker.reply_inside` and calls to :meth:`Broker.call_inside`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reqrep.inside import CallAnswered, RequestTaken
from reqrep.majordomo.request import ServiceRequest

__all__ = ["CallOfProcess", "Inside"]


@dataclass(slots=True, eq=False, kw_only=True)
class CallOfProcess(ServiceRequest):
    """A request that this process made. Its answer goes to :meth:`Inside.answer` instead of a client."""

    number: int


class Inside:
    """Requests and calls between the broker and its process.

    ``names``: the services that the process answers. ``counts`` returns the numbers that ``mmi.titanic`` shows.
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
        """Add a request for the process. Return False if ``requests_max`` requests are unanswered."""
        if len(self._tickets) >= self._requests_max:
            return False
        self._last_ticket += 1
        self._tickets[self._last_ticket] = request
        self._requests.append(RequestTaken(self._last_ticket, request.service, request.body, request.user))
        return True

    def answer(self, call: CallOfProcess, status: bytes, body: list[bytes]) -> None:
        """Add the answer to a call."""
        self._answers.append(CallAnswered(call.number, status, body))

    def pop(self, ticket: int) -> ServiceRequest:
        """Remove and return the request of a ticket."""
        return self._tickets.pop(ticket)

    def taken(self) -> tuple[list[RequestTaken], list[CallAnswered]]:
        """Remove and return the collected requests and answers."""
        taken = (self._requests, self._answers)
        if self._requests or self._answers:
            self._requests, self._answers = [], []
        return taken

"""Source: the port that turns a broker's messages into events, the counterpart of :mod:`relay.sink`.

::

    broker --> source (relay) --SourceMessage--> intake (hub) --> one transaction --> COMMIT --> acknowledged
    Kafka  --> source (relay) --SourceRecord---> intake (hub) --> one transaction with the partition's offset

The source owns the connection: it acknowledges messages, refuses them for good, and takes messages of one key one after
the other. The intake owns the meaning of a message: its topic, its identity, and whether it may be published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, Protocol

__all__ = [
    "BEHIND",
    "FROM_MIRROR_HEADER",
    "BatchIntake",
    "Intake",
    "IntakeBusy",
    "IntakeOutcome",
    "IntakeRefused",
    "IntakeResult",
    "IntakeUnavailable",
    "RawRecord",
    "RefusalStore",
    "RefusedMessage",
    "SourceMessage",
    "SourcePlace",
    "SourceRecord",
    "SourceRoute",
    "Taken",
]

IntakeOutcome = Literal["stored", "repeated", "returned", "filtered"]
"""stored: a new event. repeated: its message id was stored before. returned: it is an event of this hub. filtered: its
source wants other records.
"""


@dataclass(frozen=True, slots=True)
class SourceRoute:
    """A queue to read, and the topic or exchange that gets its messages.

    ``exchange``: the queue is bound to it by ``binding_key``; '': the existing bindings stay. ``topic``: of each event;
    '': the routing key. ``exchange_type``: that of a missing exchange; '': that of RabbitHub's exchange.
    ``rabbithub_exchange``: messages are published to this exchange of RabbitHub instead.
    ``vhost``: the virtual host of the queue, the exchange and RabbitHub's exchange; '': that of the broker's URL, and
    RabbitHub's ``/``.

    ``shared``: the queue is RabbitHub's queue of its name, too. Its subscribers compete with AMQP's consumers, so a
    message is taken only while one of them is free.

    ``refused``: keep messages that cannot be events in the queue ``<queue>.refused``, or reject them. The broker
    dead-letters rejected messages by the queue's own arguments or policy.
    """

    queue: str
    exchange: str = ""
    exchange_type: str = "topic"
    binding_key: str = "#"
    topic: str = ""
    rabbithub_exchange: str = ""
    refused: Literal["keep", "reject"] = "keep"
    vhost: str = ""
    shared: bool = False


@dataclass(slots=True)  # not frozen: a source makes one for each message, and a frozen one takes three times as long
class SourceMessage:
    """One message. ``headers`` have lower-case names and plain text, CloudEvents attributes as ``ce-*``.

    ``key`` is the ordering key. ``message_id`` is its publisher's; '' if it has none, and then a repeat is not
    recognised. ``hops`` is how many hubs it has passed, as text. ``left_out`` has a reason for each header that no
    event can have.
    """

    exchange: str
    routing_key: str
    message_id: str
    key: str | None
    hops: str
    content_type: str | None
    headers: Mapping[str, str]
    body: bytes
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IntakeResult:
    """The outcome of a message. ``left_out`` has a reason for each header that the event lacks."""

    outcome: IntakeOutcome
    left_out: tuple[str, ...] = ()


FROM_MIRROR_HEADER: Final = "hookwire-from-mirror"
"""The header of an event that was read from the exchange to which its topic is mirrored; the mirror leaves it out."""


class IntakeRefused(Exception):
    """A message that will never be an event; ``reason`` is one word for metrics, the text is for people."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason

    @property
    def detail(self) -> str:
        """Return the text as a log line and the database take it: 300 characters, without U+0000."""
        return str(self)[:300].replace("\0", "")


BEHIND: Final = "behind"
"""The reason of a record that is kept because an earlier one holds its key."""


class IntakeUnavailable(Exception):
    """Nothing is stored, or the outcome is unknown: take the same message again in a moment."""


class IntakeBusy(Exception):
    """Nobody is free to take the message of a shared queue: ask again soon, or give it back if there is ``nobody``."""

    def __init__(self, *, nobody: bool) -> None:
        super().__init__("nobody is free to take it")
        self.nobody = nobody


class Intake(Protocol):
    """The port. It is called for several messages at once, but for one message of a key at a time."""

    async def take(self, route: SourceRoute, message: SourceMessage) -> IntakeResult:
        """Return when the message is an event and its transaction is committed.

        Raises :class:`IntakeRefused`, :class:`IntakeUnavailable`, and :class:`IntakeBusy` for a shared queue.
        """
        ...

    async def exchange_type(self, route: SourceRoute) -> str:
        """Return the type of RabbitHub's exchange; '' while there is none. Raises :class:`IntakeUnavailable`."""
        ...

    async def is_wanted(self, route: SourceRoute) -> bool:
        """Return whether anybody subscribes to a shared queue. Raises :class:`IntakeUnavailable`."""
        ...


@dataclass(frozen=True, slots=True)
class RefusedMessage:
    """A message that cannot be an event, and why. ``content`` is None if its properties cannot be read."""

    queue: str
    refused: IntakeRefused
    body: bytes
    content: SourceMessage | None


class RefusalStore(Protocol):
    """The port that keeps refused messages whose queue can have no queue for them."""

    async def keep(self, message: RefusedMessage) -> None:
        """Return when the message is committed. Raises :class:`IntakeUnavailable`, also while the store is full."""
        ...


# --- records of a partition ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """A partition of a source. ``topic`` is the topic of its events. ``source`` is the name of the Kafka topic.

    ``holds``: a refused record holds its key, so later records of the key are kept behind it. ``header``: only records
    with this header and value are wanted; the name is in lower case.
    """

    source: str
    partition: int
    topic: str
    holds: bool = False
    header: tuple[str, bytes] | None = None

    def wants(self, headers: Sequence[tuple[str, bytes | None]]) -> bool:
        """Return whether a record with these headers is wanted."""
        return self.header is None or any((name.lower(), value) == self.header for name, value in headers)


@dataclass(slots=True)  # not frozen, as a SourceMessage
class RawRecord:
    """A record as it is in Kafka. A value of None is a tombstone; ``at`` is None without a usable timestamp."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    at: datetime | None


@dataclass(slots=True)  # not frozen, as a SourceMessage
class SourceRecord:
    """One record at its offset. ``digest`` tells it from another record at the same offset.

    ``read`` is its content, or the reason why it can be no event. ``key`` is the ordering key, also of a refused one.
    """

    offset: int
    digest: bytes
    raw: RawRecord
    read: SourceMessage | IntakeRefused
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """The first ``count`` records are taken, each with its outcome in ``outcomes``; a refusal's is its reason.

    ``next_offset`` is the partition's offset in the database. If ``count`` is 0 and it differs from the given one,
    another process has taken the records. ``left_out`` has a reason for each header that the events lack.
    """

    count: int
    next_offset: int
    outcomes: Sequence[IntakeOutcome | IntakeRefused] = ()
    left_out: Sequence[str] = ()


class BatchIntake(Protocol):
    """The port for records. The offset of a partition moves in the transaction that stores its records."""

    async def take(
        self, place: SourcePlace, from_offset: int, to_offset: int, records: Sequence[SourceRecord]
    ) -> Taken:
        """Take the longest prefix of the records whose keys are free, in one transaction.

        ``to_offset`` is where the partition goes on after all of them. Raises :class:`IntakeUnavailable`; then the
        caller reads the offset again, because the outcome may be unknown.
        """
        ...

"""Names of exchanges, queues and virtual hosts that the AMQP client can send.

RabbitMQ takes other names too. The client raises an error of its own for them, which looks like a lost connection. So
one such name in a topic's settings would stop the whole sink. Names are therefore checked before they are sent.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["EXCHANGE_NAME_PATTERN", "NAME_RULE", "VHOST_RULE", "is_exchange_name", "is_queue_name", "is_vhost_name"]

_CHARACTER: Final = "[A-Za-z0-9_.:@#,/+ -]"
EXCHANGE_NAME_PATTERN: Final = f"^{_CHARACTER}{{1,127}}$"
NAME_RULE: Final = (
    "AMQP names have letters and digits of ASCII, blanks and - _ . : @ # , / + only; an exchange's at most 127 "
    "characters, a queue's 255"
)
VHOST_RULE: Final = "the AMQP client cannot name a virtual host . or .., nor one with %2F in its name"
_EXCHANGE = re.compile(EXCHANGE_NAME_PATTERN)
_QUEUE = re.compile(f"{_CHARACTER}{{1,255}}")


def is_exchange_name(name: str) -> bool:
    """Return whether the client can name this exchange."""
    return _EXCHANGE.fullmatch(name) is not None


def is_queue_name(name: str) -> bool:
    """Return whether the client can name this queue."""
    return _QUEUE.fullmatch(name) is not None


def is_vhost_name(name: str) -> bool:
    """Return whether the client can name this virtual host in its URL. It would take another one."""
    return name not in (".", "..") and "%2F" not in name

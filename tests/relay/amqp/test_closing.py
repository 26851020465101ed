"""Why a broker closes a channel, and for which message."""

from __future__ import annotations

import pytest

from relay.amqp.closing import Closing
from relay.amqp.suspects import Suspects
from tests.relay.amqp.test_window import record

LARGE = "PRECONDITION_FAILED - message size 2000 is larger than configured max size 1000"
DENIED = "ACCESS_REFUSED - write access to exchange 'x' in vhost '/' refused for user 'u'"
DENIED_KEY = "ACCESS_REFUSED - write access to topic 'a.b' in exchange 'x' in vhost '/' refused for user 'u'"


@pytest.mark.parametrize(
    ("text", "about", "not_about"),
    [
        (LARGE, ("y", "k", 1_001), ("y", "k", 1_000)),
        (DENIED, ("x", "k", 1), ("y", "k", 1)),
        (DENIED_KEY, ("x", "a.b", 1), ("x", "a.c", 1)),
        ("NOT_FOUND - no exchange 'x' in vhost '/'", ("x", "k", 1), ("y", "k", 1)),
    ],
)
def test_the_text_tells_the_message(text: str, about: tuple[str, str, int], not_about: tuple[str, str, int]) -> None:
    """GW-01."""
    closing = Closing.of(text)
    assert (closing.names_the_message, closing.is_about(*about), closing.is_about(*not_about)) == (True, True, False)


def test_a_text_that_names_nothing_is_about_nobody() -> None:
    closing = Closing.of("UNEXPECTED_FRAME - expected content header")
    assert (closing.names_the_message, closing.is_about("x", "k", 1)) == (False, False)


def test_a_suspect_is_refused_until_the_broker_takes_such_a_message() -> None:
    """GW-01: with the text of the broker and a cure."""
    suspects, one = Suspects(), record(1)
    suspects.learn(Closing.of(LARGE))
    suspects.learn(Closing.of("NOT_FOUND - no exchange 'y' in vhost '/'"))
    refusal = suspects.refusal(one, "x", "k", 2_000)
    others = [suspects.refusal(one, "x", "k", 10), suspects.refusal(one, "y", "k", 10)]
    suspects.taken("x", "k", 2_000)
    assert refusal is not None
    assert (refusal.scope, refusal.detail) == ("record", f"{LARGE}; raise max_message_size of the broker, or send less")
    assert (others, suspects.refusal(one, "x", "k", 2_000)) == ([None, None], None)

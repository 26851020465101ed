"""app/event_log.py: what a developer sees of each event (FT-17)."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from app.event_log import EventLog
from app.log import configure_logging
from app.settings.settings import Settings
from event.event import Draft
from hub.publish import Accepted
from runtime.observable import Observable
from tests.app.conftest import ALL_ROLES, Receiver, RunHub, running_hub
from tests.waiting import until

__all__ = ["running_hub"]


def accepted(number: int) -> Accepted:
    return Accepted(number, "orders", None, number, datetime(2026, 1, 15, tzinfo=UTC), replayed=False)


@pytest.mark.parametrize(
    ("settings", "logs"),
    [
        ({}, True),
        ({"profile": "production"}, False),
        ({"profile": "production", "log_events": True}, True),
        ({"log_events": False}, False),
        ({"log_level": "warning"}, False),
    ],
    ids=str,
)
def test_each_event_has_its_line_in_development_only_unless_a_setting_says_so(
    settings: dict[str, Any], logs: bool
) -> None:
    """FT-17: and never where nobody would see it."""
    assert Settings.model_validate(settings).logs_events is logs


async def test_above_its_budget_of_a_second_events_are_counted() -> None:
    """FT-17: a flood costs two lines, and tells its length."""
    stored: Observable[[Draft, Accepted]] = Observable()
    EventLog("k3v7q2ha", stored, lines_per_second_max=2)
    with capture_logs() as lines:
        for number in range(5):
            stored.notify(Draft("orders", b"12"), accepted(number + 1))
        await until(lambda: "published_more" in {line["event"] for line in lines})

    assert lines == [
        {"event": "published", "topic": "orders", "event_id": f"evt_k3v7q2ha_{number + 1}", "key": None, "bytes": 2,
         "log_level": "info"} for number in range(2)
    ] + [{"event": "published_more", "lines_left_out": 3, "log_level": "info"}]  # fmt: skip


async def test_a_publish_a_delivery_and_a_failure_have_a_line_each(
    running_hub: RunHub, receiver: Receiver, free_port: int
) -> None:
    """FT-17: with the public id of the event, and of the callback its host only."""
    with capture_logs() as lines:
        async with running_hub(ALL_ROLES, profile="development", log_level="info") as hub:
            await hub.subscribe("a", receiver.callback)
            await hub.subscribe("a", f"http://127.0.0.1:{free_port}/secret-path")
            event = (await hub.publish("a", b"123", hookwire_key="k")).json()["id"]
            await hub.until("/deliveries?state=delivered", lambda page: page["items"])
            await hub.until("/deliveries?state=retrying", lambda page: page["items"])

    names = ("published", "delivered", "not_delivered")
    found = [{k: v for k, v in line.items() if k != "seconds"} for line in lines if line["event"] in names]
    origin = receiver.callback.rpartition("/")[0]
    assert sorted(found, key=lambda line: names.index(line["event"])) == [
        {"event": "published", "topic": "a", "event_id": event, "key": "k", "bytes": 3, "log_level": "info"},
        {"event": "delivered", "event_id": event, "to": origin, "status": 204, "log_level": "info"},
        {"event": "not_delivered", "event_id": event, "to": f"http://127.0.0.1:{free_port}", "outcome": "connect",
         "detail": "the connection was refused", "log_level": "warning"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("is_terminal", "no_color", "is_coloured"),
    [(True, "", True), (True, "1", False), (False, "", False)],
    ids=["terminal", "NO_COLOR", "no terminal"],
)
def test_colour_is_for_terminals_and_no_color_is_honoured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    is_terminal: bool, no_color: str, is_coloured: bool,
) -> None:  # fmt: skip
    """FT-17: see no-color.org."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    monkeypatch.setenv("NO_COLOR", no_color)
    configure_logging("console", "info")
    structlog.get_logger().info("published", topic="orders")

    shown = capsys.readouterr().err
    assert ("\x1b[" in shown, "published" in shown, "orders" in shown) == (is_coloured, True, True)


def test_a_field_without_a_value_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """FT-17: an event without a key has no ``"key": null``."""
    configure_logging("json", "info")
    structlog.get_logger().info("published", topic="orders", key=None)

    line = json.loads(capsys.readouterr().err)
    assert (line["topic"], "key" in line) == ("orders", False)

"""The wide log lines of accepted requests and of attempts, as docs/reference/log-lines.md names them (HO-10)."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from runtime.sample import EventSample
from tests.app.conftest import ALL_ROLES, Receiver, RunHub

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "log-lines.md"
EVENTS = 40


async def logged(
    run: RunHub, receiver: Receiver, share: float, events: int = 1, attempts: int = 1
) -> list[dict[str, Any]]:
    """Publish events to a receiver; return the wide lines of a hub that has drained."""
    with capture_logs() as lines:
        async with run(ALL_ROLES, log_sample_share=share) as hub:
            await hub.subscribe("a", receiver.callback, retry_schedule_seconds=[0])
            for _ in range(events):
                await hub.publish("a", b"{}", x_request_id="r1", hookwire_key="k")
            await receiver.wait_for(events * attempts)
    return [line for line in lines if line["event"] in ("request_accepted", "attempt_ended")]


def without(line: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in names and not name.endswith("_seconds")}


async def test_a_request_and_its_attempt_have_a_line_each(running_hub: RunHub, receiver: Receiver) -> None:
    """HO-10."""
    asked, attempted = await logged(running_hub, receiver, share=1.0)

    assert without(asked, "event_id") == {
        "event": "request_accepted", "log_level": "info", "request_id": "r1", "topic": "a", "events": 1,
        "events_refused": 0, "replayed": False, "keyed": True, "body_bytes": 2, "api_key": None, "client": "127.0.0.1",
    }  # fmt: skip
    assert without(attempted, "delivery", "subscription", "started_at") == {
        "event": "attempt_ended", "log_level": "info", "event_id": asked["event_id"], "topic": "a", "attempt": 1,
        "outcome": "delivered", "status": 204, "detail": None, "action": "delivered", "address": "127.0.0.1",
    }  # fmt: skip


async def test_a_failed_attempt_says_what_follows(running_hub: RunHub, receiver: Receiver) -> None:
    """HO-10: the first is retried at once, the second is the last."""
    receiver.status = 500
    _, *attempts = await logged(running_hub, receiver, share=1.0, attempts=2)

    assert [(line["attempt"], line["outcome"], line["status"], line["action"]) for line in attempts] == [
        (1, "server_error", 500, "retry"), (2, "server_error", 500, "dead"),
    ]  # fmt: skip


async def test_nothing_is_logged_unless_it_is_asked_for(running_hub: RunHub, receiver: Receiver) -> None:
    assert await logged(running_hub, receiver, share=0.0) == []


async def test_a_sampled_event_has_its_request_line_and_its_attempt_line(
    running_hub: RunHub, receiver: Receiver
) -> None:
    """HO-10: half of the events, by their id, and no other."""
    lines = await logged(running_hub, receiver, share=0.5, events=EVENTS)
    ids = {kind: numbers(line["event_id"] for line in lines if line["event"] == kind) for kind in kinds(lines)}

    assert ids["request_accepted"] == ids["attempt_ended"]
    assert 0 < len(ids["attempt_ended"]) < EVENTS
    assert all(EventSample(0.5).takes(number) for number in ids["attempt_ended"])


@pytest.mark.parametrize("event", ["request_accepted", "attempt_ended"])
async def test_the_page_names_every_field_of_a_line(running_hub: RunHub, receiver: Receiver, event: str) -> None:
    """HO-10: the names are stable, so they stand in a table."""
    [line] = [one for one in await logged(running_hub, receiver, share=1.0) if one["event"] == event]
    section = PAGE.read_text(encoding="utf-8").partition(f"## `{event}`")[2].partition("\n## ")[0]

    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(without_frame(line))


def without_frame(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in ("event", "log_level")}


def kinds(lines: Sequence[dict[str, Any]]) -> list[str]:
    return sorted({line["event"] for line in lines})


def numbers(ids: Any) -> list[int]:
    return sorted(int(one.rpartition("_")[2]) for one in ids)

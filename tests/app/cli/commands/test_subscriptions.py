"""Commands that look at a running hub and manage it: subscriptions, events, topics, holds, undelivered (FT-14)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.app.cli.commands.test_services import hookwire, printed
from tests.app.conftest import ALL_ROLES, RunHub, RunningHub
from tests.app.web.test_authentication import authorized, bearer
from tests.hub.callback import answers, serve_callbacks
from tests.waiting import until


async def test_a_subscription_is_listed_shown_paused_resumed_rotated_and_ended(running_hub: RunHub) -> None:
    """FT-14: `subscribe` existed, and nothing listed, paused, rotated or ended what it made."""
    async with running_hub() as hub:
        made = (await hub.subscribe("orders.*", "http://127.0.0.1:9000/", name="warehouse"))["id"]
        table = (await hookwire(hub, "subscriptions", "list"))[1]
        listed = await printed(hub, "subscriptions", "list", "--topic", "orders.*", "--json")
        none = await hookwire(hub, "subscriptions", "list", "--state", "gone")
        shown = await printed(hub, "subscriptions", "show", made)
        paused = await printed(hub, "subscriptions", "pause", made, "--json")
        resumed = await hookwire(hub, "subscriptions", "resume", made)
        rotated = await printed(hub, "subscriptions", "rotate", made, "--overlap-seconds", "60", "--json")
        keys = (await hub.client.get(f"/subscriptions/{made}/keys")).json()["items"]
        ended = await hookwire(hub, "subscriptions", "end", made)
        missing = await hookwire(hub, "subscriptions", "show", made)
        entries = (await hub.client.get("/audit")).json()["items"]

    assert ("warehouse" in table, [one["id"] for one in listed], shown["id"]) == (True, [made], made)
    assert (none[0], "there is no such subscription" in none[1]) == (0, True)
    assert (paused["state"], resumed[:2]) == ("disabled", (0, f"{made}: untried; nothing has been sent to it yet\n"))
    assert (rotated["secret"].startswith("whsec_"), [key["number"] for key in keys]) == (True, [rotated["number"], 1])
    assert (ended[:2], missing[0], "There is no such subscription" in missing[2]) == ((0, f"{made}: ended\n"), 2, True)
    assert [entry["action"] for entry in reversed(entries)] == [
        "subscription.make", "subscription.change", "subscription.change", "signing_key.make", "subscription.end",
    ]  # fmt: skip


async def test_a_customer_sees_its_own_subscriptions_by_their_topic(
    running_hub: RunHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GU-08: `status` and `subscriptions list` had no `--topic`, and a key for some topics got 403."""
    async with running_hub(access="keys") as hub:
        admin = authorized(await bearer(hub, "admin"))
        monkeypatch.setenv("HOOKWIRE_TOKEN", await bearer(hub, "read", topics=["customer-17.#"]))
        for topic in ("customer-17.#", "customer-18.#"):
            body = {"topic": topic, "callback": "http://127.0.0.1:9000/"}
            (await hub.client.post("/subscriptions", json=body, headers=admin)).raise_for_status()
        told = await printed(hub, "status", "--topic", "customer-17.#", "--json")
        listed = await printed(hub, "subscriptions", "list", "--topic", "customer-17.#", "--json")

    assert [one["topic"] for one in (*told["subscriptions"], *listed)] == ["customer-17.#"] * 2


async def test_a_test_event_prints_what_the_receiver_answered(running_hub: RunHub) -> None:
    """FT-14: exit code 1 where it is not delivered."""
    async with running_hub(ALL_ROLES) as hub, serve_callbacks() as callbacks:
        callbacks.script = {"/ill": answers(500, body=b"stack overflow")}
        well = (await hub.subscribe("a", callbacks.url("/well")))["id"]
        ill = (await hub.subscribe("a", callbacks.url("/ill")))["id"]
        good = await hookwire(hub, "subscriptions", "test", well)
        bad = await hookwire(hub, "subscriptions", "test", ill)

    assert (good[0], "attempt 1: delivered 2" in good[1], ": delivered; " in good[1]) == (0, True, True)
    assert (bad[0], "attempt 1: server_error 500" in bad[1], "answer: 'stack overflow'" in bad[1]) == (1, True, True)
    assert ": retrying; " in bad[1]


async def test_what_is_not_delivered_is_found_by_event_subscription_and_reason(running_hub: RunHub) -> None:
    """FT-14: `attempts` hid the receiver's answer, and ended with 0 for an event that never was."""
    async with running_hub(ALL_ROLES) as hub, serve_callbacks() as callbacks:
        callbacks.script = {"/ill": answers(500, body=b"no disk\nspace")}
        nothing = await hookwire(hub, "undelivered")
        made = (await hub.subscribe("orders.*", callbacks.url("/ill"), retry_schedule_seconds=[3600]))["id"]
        event = (await hub.publish("orders.created", b"1", hookwire_key="ada")).json()["id"]
        await hub.until(f"/subscriptions/{made}", lambda one: one["health"] == "failing")
        owed = await hookwire(hub, "undelivered", "--subscription", made)
        tried = await hookwire(hub, "attempts", event)
        unknown = await hookwire(hub, "attempts", f"{event}9")
        listed = await printed(hub, "events", "list", "--topic", "orders.created", "--key", "ada", "--json")
        story = await hookwire(hub, "events", "show", event)
        topics = await printed(hub, "topics", "list", "--json")
        settings = await printed(hub, "topics", "show", "orders.created")
        holds = [(await hookwire(hub, "holds", "list", *words))[:2] for words in ((), ("--topic", "orders.created"))]
        other = await hookwire(hub, "undelivered", "--outcome", "dead")

    assert (nothing[0], owed[0], event in owed[1], "server_error 500" in owed[1]) == (0, 1, True, True)
    assert (tried[0], "no disk\\nspace" in tried[1]) == (0, True)
    assert unknown == (1, "", f"hookwire: there is no event {event}9\n")
    assert ([one["id"] for one in listed], [one["topic"] for one in topics]) == ([event], ["orders.created"])
    assert (settings["topic"], story[0], made in story[1] or "retrying" in story[1]) == ("orders.created", 0, True)
    assert holds == [(0, "none: no sink holds back a key or a topic\n"), (0, "there is no such hold\n")]
    assert other[:2] == (0, "no such event is undelivered\n")


async def test_doctor_asks_the_running_hub(running_hub: RunHub, tmp_path: Path) -> None:
    """FT-14: it looked at the shell's settings alone, which are another hub's where none are set."""
    settings = tmp_path / "shell.toml"
    settings.write_text(f'data_dir = "{tmp_path / "elsewhere"}"\n')
    asked = ("doctor", "--json", "--config", str(settings))
    async with running_hub(ALL_ROLES) as hub, serve_callbacks() as callbacks:
        callbacks.script = {"/ill": answers(500)}
        well = await hookwire(hub, *asked)
        made = (await hub.subscribe("a", callbacks.url("/ill"), retry_schedule_seconds=[3600]))["id"]
        await hub.publish("a", b"1")
        await hub.until(f"/subscriptions/{made}", lambda one: one["health"] == "failing")
        ill = await hookwire(hub, *asked)
    silent = await hookwire(hub, *asked)

    found = [[check for check in json.loads(out) if check["id"] == "hub"] for _, out, _ in (well, ill, silent)]
    assert [(check["subject"], check["level"]) for check in found[0]] == [
        ("running hub", "ok"), ("subscriptions", "ok"), ("holds", "ok"),
    ]  # fmt: skip
    assert (ill[0], found[1][1]["detail"], found[1][1]["cure"]) == (1, "1 failing", "run: hookwire status")
    assert (silent[0], [check["level"] for check in found[2]]) == (3, ["unreachable"])


async def test_the_last_of_many_subscriptions_is_seen(running_hub: RunHub, tmp_path: Path) -> None:
    """`status` and `doctor` looked at the first thousand, and found a hub healthy whose newest subscription fails."""
    settings = tmp_path / "shell.toml"
    settings.write_text(f'data_dir = "{tmp_path / "elsewhere"}"\n')
    async with running_hub(ALL_ROLES) as hub, serve_callbacks() as callbacks:
        callbacks.script = {"/ill": answers(500)}
        await many_subscriptions(hub, 1000, "other")
        made = (await hub.subscribe("a", callbacks.url("/ill"), retry_schedule_seconds=[3600]))["id"]
        await hub.publish("a", b"1")
        await hub.until(f"/subscriptions/{made}", lambda one: one["health"] == "failing")
        await hub.until("/status", lambda found: found["verdict"] == "trouble")  # it is kept for a moment
        code, shown, _ = await hookwire(hub, "status")
        _, checks, _ = await hookwire(hub, "doctor", "--json", "--config", str(settings))

    [about] = [check["detail"] for check in json.loads(checks) if check["subject"] == "subscriptions"]
    counts = "1 failing, 1000 untried"
    assert (code, shown.splitlines()[0], about) == (1, "trouble", counts)
    assert f"subscriptions: {counts}" in shown.splitlines()


async def test_attempts_names_each_delivery_of_a_wide_event(running_hub: RunHub) -> None:
    """It asked for one page of deliveries, and hid those behind the five hundredth."""
    async with running_hub(ALL_ROLES) as hub, serve_callbacks() as callbacks:
        await many_subscriptions(hub, 501, "a", callbacks.url("/well"))
        event = (await hub.publish("a", b"1")).json()["id"]
        await until_attempted(hub, 501)
        found = await printed(hub, "attempts", event, "--json")

    assert len({one["delivery_id"] for one in found}) == 501


async def many_subscriptions(hub: RunningHub, count: int, topic: str, callback: str = "http://127.0.0.1:9000/") -> None:
    """Copy one subscription until there are so many."""
    public_id = (await hub.subscribe(topic, callback))["id"]
    columns = "protocol, topic, topic_regex, callback, callback_host, state"
    await hub.sql(
        f"INSERT INTO hookwire.subscriptions (public_id, {columns}) SELECT 'sub_' || lpad(n::text, 20, '0'), {columns}"
        " FROM hookwire.subscriptions, generate_series(2, $2::integer) AS n WHERE public_id = $1",
        public_id, count,
    )  # fmt: skip


async def until_attempted(hub: RunningHub, count: int) -> None:
    """Return once so many attempts are stored."""

    async def attempted() -> bool:
        return await hub.sql("SELECT count(*) FROM hookwire.attempts") == [(count,)]

    await until(attempted)

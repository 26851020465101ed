"""Requests of commands to a hub: who makes them, and the lists that they read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hub.keys import NewKey
from tests.app.cli.commands.test_services import hookwire, printed
from tests.app.conftest import RunHub
from tests.app.web.test_authentication import authorized, keys_of


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user of the commands."""
    monkeypatch.setenv("LOGNAME", "ada")


async def test_the_audit_trail_names_the_user_of_each_command(running_hub: RunHub, tmp_path: Path) -> None:
    """Eight commands sent no name, so their entries had only an address."""
    file = tmp_path / "hub.json"
    file.write_text(json.dumps({"topics": {"orders": {}}, "subscriptions": []}))
    async with running_hub() as hub:
        await hub.client.post("/queues/mail/messages", content=b"hello")
        await hub.client.put("/services/echo", json={})
        request = (await hub.client.post("/services/echo", headers={"Prefer": "wait=0"})).json()["id"]
        [(task,)] = await hub.sql("SELECT hookwire.enqueue_task('mail.send', '{}')::text")
        for words in (
            ("queues", "pause", "mail"),
            ("queues", "resume", "mail"),
            ("services", "disable", "echo"),
            ("services", "enable", "echo"),
            ("tasks", "cancel", task),
            ("requests", "close", request),
            ("subscribe", "a", "http://127.0.0.1:9000/"),
            ("sync", str(file), "--prune"),
        ):
            code, _, err = await hookwire(hub, *words)
            assert code == 0, err
        entries = await hub.sql("SELECT action, actor FROM hookwire.audit ORDER BY id")
        closed = await hub.sql("SELECT 'request.close', closed_by FROM hookwire.request_archive")

    actions = ("queue.pause", "queue.resume", "service.disable", "service.enable", "task.cancel", "subscription.make",
               "topic.settings", "subscription.end", "request.close")  # fmt: skip
    assert entries + closed == [(action, "ada@127.0.0.1") for action in actions]


async def test_me_is_the_person_that_the_hub_knows(running_hub: RunHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an API key a person has the key's name; the login name found no jobs."""
    async with running_hub() as hub:
        await hub.client.post("/jobs", json={"kind": "check", "assignee": "ada"})
        by_login = await printed(hub, "jobs", "list", "--assignee", "me", "--json")
    async with running_hub(access="keys") as hub:
        async with keys_of(hub) as keys:
            key = (await keys.create(NewKey("grace", ("read", "enqueue"))))[1]
        await hub.client.post("/jobs", json={"kind": "check", "assignee": "grace"}, headers=authorized(key))
        monkeypatch.setenv("HOOKWIRE_TOKEN", key)
        by_key = await printed(hub, "jobs", "list", "--assignee", "me", "--json")

    assert [[one["assignee"] for one in found] for found in (by_login, by_key)] == [["ada"], ["grace"]]


async def test_a_key_for_some_kinds_finds_its_jobs_behind_those_of_others(
    running_hub: RunHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page holds only the rows of it that the key may see, so a list reads on until it has enough."""
    async with running_hub(access="keys") as hub:
        async with keys_of(hub) as keys:
            every = (await keys.create(NewKey("all", ("enqueue",))))[1]
            some = (await keys.create(NewKey("some", ("read",), kinds=["mine"])))[1]
        for kind in ("mine", *["other"] * 3):
            await hub.client.post("/jobs", json={"kind": kind}, headers=authorized(every))
        monkeypatch.setenv("HOOKWIRE_TOKEN", some)
        found = await printed(hub, "jobs", "list", "--limit", "1", "--json")

    assert [one["kind"] for one in found] == ["mine"]

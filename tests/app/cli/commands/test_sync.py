"""hookwire sync: a file against a hub (WH-A08)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.cli.commands.syncing.check import check_wanted
from app.cli.commands.syncing.plan import SyncStep, plan, read_wanted, summary
from app.cli.commands.syncing.sync import _document, _sync, sync
from app.cli.failure import CommandFailed
from tests.app.conftest import RunHub, RunningHub

SHOP = {"topic": "orders.*", "callback": "http://127.0.0.1:9000/shop"}
AUDIT = {"topic": "#", "callback": "http://127.0.0.1:9000/audit"}


def present(one: dict[str, Any], **more: Any) -> dict[str, Any]:
    """As the hub shows it."""
    return {"id": "sub_1", "protocol": "webhook", "header_names": None, "timeout_seconds": None, **one, **more}


# --- the plan ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "there", "prune", "steps"),
    [
        ([SHOP], [], False, [("POST", "/subscriptions", SHOP)]),
        ([SHOP], [present(SHOP)], False, []),
        (
            [{**SHOP, "timeout_seconds": 5, "secret": "whsec_x"}],
            [present(SHOP)],
            False,
            [("PATCH", "/subscriptions/sub_1", {"timeout_seconds": 5})],
        ),
        (
            [{**SHOP, "headers": {"X-B": "1", "A": "2"}}],
            [present(SHOP)],
            False,
            [("PATCH", "/subscriptions/sub_1", {"headers": {"X-B": "1", "A": "2"}})],
        ),
        ([{**SHOP, "headers": {"A": "2"}}], [present(SHOP, header_names=["a"])], False, []),
        ([{**SHOP, "filter": {}}], [present(SHOP, filter=None)], False, []),
        (
            [{**SHOP, "filter": {}}],
            [present(SHOP, filter={"data": 1})],
            False,
            [("PATCH", "/subscriptions/sub_1", {"filter": {}})],
        ),
        ([], [present(SHOP)], False, []),
        ([], [present(SHOP)], True, [("DELETE", "/subscriptions/sub_1", {})]),
        ([], [present(SHOP, protocol="websub"), present(AUDIT, protocol="pull")], True, []),
    ],
    ids=[
        "new",
        "same",
        "changed",
        "headers",
        "same headers",
        "no filter",
        "filter ended",
        "not named",
        "pruned",
        "not ours to prune",
    ],
)
def test_what_differs_becomes_a_request(
    wanted: list[dict[str, Any]], there: list[dict[str, Any]], prune: bool, steps: list[tuple[str, str, Any]]
) -> None:
    found = plan({}, wanted, {}, there, prune=prune)
    assert [(step.method, step.path, step.body) for step in found] == steps


def test_a_topic_s_settings_that_the_file_does_not_name_are_kept() -> None:
    there = {"topic": "a", "sinks": None, "order": "none", "created_at": "x", "updated_at": "y"}
    assert plan({"a": {"sinks": ["kafka"]}, "b": {}}, [], {"a": there, "b": None}, [], prune=False) == [
        SyncStep("change", "topic", "a", "/topics/a/settings", {"sinks": ["kafka"], "order": "none"},
             [("sinks", None, ["kafka"])]),
        SyncStep("make", "topic", "b", "/topics/b/settings"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "document",
    [
        {"subscriptions": [{"topic": "a"}]},
        {"subscriptions": [SHOP, SHOP]},
        {"subscriptions": [{**SHOP, "topic": "#.*"}, {**SHOP, "topic": "*.#"}]},
        {"subscriptions": [{**SHOP, "topic": "a..b"}]},
        {"subscriptions": [{**SHOP, "headers": ["X-A"]}]},
        {"subscriptions": {"a": 1}},
        {"topics": ["a"]},
        {"topic": {}},
    ],
    ids=str,
)
def test_a_file_that_means_nothing_is_wrong_use(document: dict[str, Any]) -> None:
    with pytest.raises(CommandFailed) as caught:
        read_wanted(document)
    assert caught.value.code == 2


@pytest.mark.parametrize(
    ("topics", "one", "told"),
    [
        ({}, {"timeout_secs": 5}, "timeout_secs: there is no such name; did you mean timeout_seconds?"),
        ({}, {"mode": "exactly_once"}, "mode: Input should be 'at_least_once', 'at_most_once' or 'ordered'"),
        ({}, {"rate_per_second": 0}, "rate_per_second: Input should be greater than or equal to 0.001"),
        ({}, {"filter": {"body": 1}}, "filter: body is no part of an event"),
        ({}, {"format": "batch"}, "format batch requires batch_max"),
        ({"a": {"sink": ["kafka"]}}, {}, "topic a: sink: there is no such name; did you mean sinks?"),
        ({"a": {"sinks": ["kafkaa"]}}, {}, "topic a: sinks.0: Input should be"),
        ({"a..b": {}}, {}, "topic a..b: "),
    ],
    ids=str,
)
def test_what_the_hub_would_refuse_is_found_before_anything_is_done(
    topics: dict[str, Any], one: dict[str, Any], told: str
) -> None:
    """FT-11: a dry run told the differences, and the real one stopped in the middle."""
    with pytest.raises(CommandFailed, match="the hub would refuse 1 thing in the file; nothing was changed") as caught:
        check_wanted(topics, [SHOP | one])
    assert (told in str(caught.value), caught.value.code) == (True, 2)


def test_a_file_that_the_hub_takes_has_no_findings() -> None:
    """FT-11."""
    check_wanted({"a": {"sinks": ["webhooks"]}}, [SHOP | {"filter": {"data": {"amount": {"$gte": 1}}}}, AUDIT])


@pytest.mark.parametrize(
    ("waiting", "told"),
    [
        ([0], "1 subscription would end"),
        ([1], "1 subscription would end; 1 open delivery would become a dead letter"),
        ([2, 0, 7], "3 subscriptions would end; 9 open deliveries would become dead letters"),
        ([1000, 2], "2 subscriptions would end; at least 1,002 open deliveries would become dead letters"),
    ],
    ids=str,
)
def test_what_pruning_would_end_is_counted(waiting: list[int], told: str) -> None:
    """FT-11: five subscriptions with a thousand owed deliveries."""
    there = [present({**SHOP, "topic": f"t{n}"}, waiting=owed) for n, owed in enumerate(waiting)]
    assert summary(plan({}, [], {}, there, prune=True), is_done=False) == told


def test_sinks_in_another_order_are_the_same_routing() -> None:
    topics, _ = read_wanted({"topics": {"a": {"sinks": ["webhooks", "kafka", "kafka"]}}})
    assert plan(topics, [], {"a": {"topic": "a", "sinks": ["kafka", "webhooks"]}}, [], prune=False) == []


def test_a_pattern_in_another_spelling_is_the_same_subscription() -> None:
    """WH-A08: the hub shows it in its own; else each run would make a second one, and prune what the first had made."""
    _, wanted = read_wanted({"subscriptions": [{**SHOP, "topic": "#.*"}]})
    assert plan({}, wanted, {}, [present({**SHOP, "topic": "*.#"})], prune=True) == []


def test_a_file_without_subscriptions_ends_none(tmp_path: Path) -> None:
    """WH-A08: an empty file, or half of one, with --prune."""
    (tmp_path / "a.toml").write_text("[topics.a]", encoding="utf-8")
    with pytest.raises(CommandFailed, match="all would end") as caught:
        sync(tmp_path / "a.toml", prune=True)
    assert caught.value.code == 2


@pytest.mark.parametrize(("name", "text"), [("a.toml", "x ="), ("a.json", "["), ("a.json", "[]"), ("none.toml", None)])
def test_a_file_that_cannot_be_read_is_wrong_use(tmp_path: Path, name: str, text: str | None) -> None:
    if text is not None:
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(CommandFailed) as caught:
        _document(tmp_path / name)
    assert caught.value.code == 2


# --- on a hub ----------------------------------------------------------------------------------------------------


async def synced(
    hub: RunningHub, document: dict[str, Any], capsys: pytest.CaptureFixture[str], **options: bool
) -> tuple[int, list[str]]:
    """Exit code, and what was said."""
    given = {"dry_run": False, "prune": False, "as_json": False} | options
    capsys.readouterr()  # what the hub has logged so far
    code = await _sync(document, hub.url, config=None, **given)
    return code, capsys.readouterr().out.splitlines()


async def test_a_hub_becomes_as_the_file_says_and_then_nothing_differs(
    running_hub: RunHub, capsys: pytest.CaptureFixture[str]
) -> None:
    """WH-27: differences first, without touching anything; then for good; then nothing is left to do."""
    async with running_hub() as hub:
        made = await hub.subscribe(**SHOP, timeout_seconds=5)
        other = await hub.subscribe("old", "http://127.0.0.1:9000/old")
        document = {
            "topics": {"orders.created": {"sinks": ["webhooks"]}},
            "subscriptions": [{**SHOP, "timeout_seconds": 10}, {**AUDIT, "mode": "ordered"}],
        }
        dry = await synced(hub, document, capsys, dry_run=True, prune=True)
        untouched = (await hub.client.get("/subscriptions")).json()["items"]
        done = await synced(hub, document, capsys, prune=True)
        again = await synced(hub, document, capsys, prune=True, dry_run=True)
        left = (await hub.client.get("/subscriptions")).json()["items"]

        assert dry == (
            1,
            [
                "+ topic orders.created",
                f"~ subscription {SHOP['topic']} -> {SHOP['callback']}",
                "    timeout_seconds: 5.0 -> 10",
                f"+ subscription {AUDIT['topic']} -> {AUDIT['callback']}",
                "- subscription old -> http://127.0.0.1:9000/old",
                "1 subscription would end",
            ],
        )
        assert [one["id"] for one in untouched] == [made["id"], other["id"]]
        assert (done[0], again) == (0, (0, ["nothing differs"]))
        assert any("secret whsec_" in line for line in done[1])
        assert [(one["callback"], one["mode"]) for one in left] == [
            (SHOP["callback"], "at_least_once"),
            (AUDIT["callback"], "ordered"),
        ]


async def test_what_the_hub_refuses_ends_the_command(running_hub: RunHub, capsys: pytest.CaptureFixture[str]) -> None:
    async with running_hub() as hub:
        with pytest.raises(CommandFailed) as caught:
            await synced(hub, {"subscriptions": [{**SHOP, "mode": "exactly_once"}]}, capsys)
        assert (caught.value.code, (await hub.client.get("/subscriptions")).json()["items"]) == (2, [])


async def test_each_step_is_an_object_of_its_own_as_json(
    running_hub: RunHub, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running_hub() as hub:
        _, lines = await synced(hub, {"subscriptions": [SHOP]}, capsys, as_json=True)
        [said] = map(json.loads, lines)
        assert (said["action"], said["what"], said["answer"]["callback"]) == ("make", "subscription", SHOP["callback"])

"""``--database mysql://...`` of ``hookwire queues`` and ``work``: what it prints, and what it refuses."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from app.cli.failure import CommandFailed
from app.cli.main import application


def test_a_queue_is_managed_by_the_command(mariadb_url: str) -> None:
    """JB-86: made, filled, worked on by a program, its dead letters returned and deleted."""
    at = ["--database", mariadb_url]
    acts = [
        ["queues", "create", "mail", "--deliveries-max", "1"],
        ["queues", "submit", "mail", "first"],
        ["queues", "submit", "mail", "second", "--json"],
        ["queues", "peek", "mail", "--limit", "1", "--json"],
        ["work", "--queue", "mail", "--count", "2"],
        ["queues", "dead", "mail", "--json"],
        ["queues", "redrive", "mail", "--id", "msg_1"],
        ["queues", "purge", "mail", "--json"],
        ["queues", "show", "mail", "--json"],
    ]
    runner = CliRunner()
    found = []
    for words in acts:
        program = ["--", "false"] if words[0] == "work" else []
        found.append(runner.invoke(application(words[0]), [*words, *at, *program]).stdout)
    peeked, dead, shown = (json.loads(found[number]) for number in (3, 5, 8))

    assert (found[0], found[1], found[2]) == ("mail is there\n", "msg_1\n", '{"ids": ["msg_2"]}\n')
    assert [one["payload"] for one in peeked["messages"]] == ["first"]
    assert [(one["id"], one["reason"]) for one in dead["messages"]] == [
        ("msg_1", "exit 1"), ("msg_2", "exit 1"),
    ]  # fmt: skip
    assert (found[6], found[7]) == ("1 done\n", '{"done": 1}\n')
    assert {name: shown[name] for name in ("available", "claimed", "delayed", "dead")} == {
        "available": 1, "claimed": 0, "delayed": 0, "dead": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        ("work --queue none --database URL -- true", 2, "there is no such queue"),
        ("queues peek none --database URL", 2, "there is no such queue"),
        ("queues show x`y --database URL", 2, "invalid queue"),
        ("queues purge mail --id seven --database URL", 2, "is no message such as msg_7"),
        ("work --database URL -- true", 2, "name it by --queue"),
        ("queues list --database postgresql://x/y", 2, "must be mysql://"),
        ("queues list --database mysql://u@127.0.0.1:1/shop", 3, "--database: "),
        ("queues list --database mysql://u@127.0.0.1:1/shop?ssl=1", 2, "unknown option ssl"),
        ("queues list --database mysql://u@127.0.0.1:1/shop?tls=/none", 2, "no certificate authority"),
    ],
    ids=str,
)
def test_mistakes_are_told_with_their_exit_code(mariadb_url: str, words: str, code: int, reason: str) -> None:
    """JB-86."""
    finished = CliRunner().invoke(application(words.split(maxsplit=1)[0]), words.replace("URL", mariadb_url).split())

    assert isinstance(finished.exception, CommandFailed), finished.stdout
    assert (finished.exception.code, reason in str(finished.exception)) == (code, True), finished.exception

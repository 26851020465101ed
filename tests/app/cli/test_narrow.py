"""Lists on a terminal of 80 columns with hostile, long values: no line is wider, and no id is broken."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from app.cli.main import application
from tests.app.cli.test_table import Terminal

CONTRACT = json.loads((Path(__file__).parents[3] / "openapi/openapi.json").read_text("utf-8"))
WIDTH = 80
URL = "https://hooks.example.com/" + "a-very-long-path/" * 20 + "orders"
NAME = "orders.of.a.customer." * 11 + "end"
PERSON = "somebody@department." * 12 + "example"
WORDS = "an answer 日本語 " + "with_one_long_word" * 20 + " end"
LONG = {
    **dict.fromkeys(("callback", "webhook", "feed"), URL),
    **dict.fromkeys(("topic", "key", "queue", "kind", "service", "source", "name"), NAME),
    **dict.fromkeys(("reason", "detail", "last_error", "description"), WORDS),
    **dict.fromkeys(("actor", "worker", "owner", "assignee", "created_by"), PERSON),
    "response_body": "<html>" + "x" * 500, "topics": ["customer-17." * 20 + "#"] * 3,
}  # fmt: skip
"""What a stranger, or a person with long names, can store."""
ID = re.compile(r"\b(?:evt|dlv|sub|hold|dead|rpl|key)_[a-z0-9_]+\b|\b[0-9a-f]{8}-[0-9a-f-]{27}\b")
LISTS = (
    "undelivered", "deadletters list", "deadletters list --each", "holds list", "attempts dlv_42_7", "status",
    "status --topic a", "subscriptions list", "topics list", "queues list", "jobs list", "jobs stats",
    "jobs show 0d4b6c1e-6a51-4f37-9a2e-1a5a8a0f1b11", "tasks list", "tasks dead", "sources list", "sources refusals",
    "events list", "events show evt_k3v7q2ha_42", "events trace evt_k3v7q2ha_42", "services list", "requests list",
)  # fmt: skip
TWO_LINES = ("undelivered", "deadletters list --each", "attempts dlv_42_7", "status --topic a", "holds list")


def schema_of(path: str) -> dict[str, Any]:
    """Find the schema of a GET by the published contract."""
    for template, operations in CONTRACT["paths"].items():
        if re.fullmatch(re.sub(r"\{[^}]+\}", "[^/]+", template), path) and "get" in operations:
            return resolved(operations["get"]["responses"]["200"]["content"]["application/json"]["schema"])
    raise LookupError(path)


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """Follow a reference."""
    return CONTRACT["components"]["schemas"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def hostile(value: Any, name: str = "", schema: dict[str, Any] | None = None) -> Any:
    """The example of an answer, its free texts as long as they may be; closed lists of words stay."""
    schema = resolved(schema or {})
    if isinstance(value, dict):
        return {key: hostile(one, key, schema.get("properties", {}).get(key)) for key, one in value.items()}
    if isinstance(value, list) and name not in LONG:
        return [hostile(one, name, schema.get("items")) for one in value]
    if "enum" in schema or "const" in schema or (isinstance(value, str) and ID.fullmatch(value)):
        return value
    return LONG[name] if name in LONG and not isinstance(value, int) else value


def answer(path: str) -> Any:
    """What a hub answers there."""
    schema = schema_of(path)
    return hostile(schema["examples"][0], "", schema)


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """Run a command on a terminal, with a hub that holds long values; return its lines."""

    async def get(address: str, **_: Any) -> Any:
        return answer(address.partition("://")[2].partition("/")[2].join("/ ").strip())

    async def get_all(address: str, params: Any = None, limit: Any = None) -> list[Any]:
        found = (await get(address))["items"]
        return found * 25 if address.endswith("dead-letters") else found * 2

    async def ask(client: Any, method: str, address: str, **_: Any) -> Any:
        return await get(address)

    for name, stub in {"get": get, "get_all": get_all, "ask": ask}.items():
        monkeypatch.setattr(f"app.cli.hub_client.{name}", stub)
    monkeypatch.setattr("app.cli.process.running.tune_gc", lambda: None)
    for name, value in {"COLUMNS": str(WIDTH), "LINES": "40", "TERM": "dumb", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)

    def lines(command: str) -> list[str]:
        out = Terminal()
        monkeypatch.setattr("sys.stdout", out)
        with pytest.raises(SystemExit):
            application(command.split(maxsplit=1)[0])(command.split())
        return out.getvalue().splitlines()

    return lines


@pytest.mark.parametrize("command", LISTS)
def test_no_line_of_a_list_is_wider_than_the_terminal(printed: Callable[[str], list[str]], command: str) -> None:
    """A long callback URL made 82 columns."""
    sentences = 2 if command.startswith("events ") and command != "events list" else 0  # the terminal wraps them
    shown = printed(command)[sentences:]
    assert (len(shown) > 1, [line for line in shown if cell_len(line.rstrip()) > WIDTH]) == (True, [])


@pytest.mark.parametrize("command", TWO_LINES)
def test_an_item_has_two_lines_and_its_whole_id(printed: Callable[[str], list[str]], command: str) -> None:
    """`deadletters list` and `undelivered` printed three lines an item."""
    shown = [line for line in printed(command) if ID.search(line) or line.startswith("  ")]
    assert [bool(ID.search(line)) for line in shown] == [True, False] * (len(shown) // 2) != []

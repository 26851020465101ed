"""The OpenAPI document as generators read it: FT-05."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.app.conftest import RunHub
from tests.app.web.test_openapi import DOCUMENT, operations

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "scripts" / "interop" / "api" / "python" / "client.py"
GENERATOR = Path(sys.executable).with_name("openapi-python-client")


async def finished(*command: str | Path, path: Path | None = None) -> str:
    """The output of a command that ends well."""
    process = await asyncio.create_subprocess_exec(
        *map(str, command), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": str(path or "")},
    )  # fmt: skip
    async with asyncio.timeout(120):
        output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


async def test_a_generated_python_client_publishes_subscribes_rotates_and_lists(
    running_hub: RunHub, tmp_path: Path
) -> None:
    """GU-11, FT-05: no warning, and the publish of the client is what a person would write."""
    config = tmp_path / "config.json"
    config.write_text('{"post_hooks": []}')
    told = await finished(
        GENERATOR, "generate", "--path", ROOT / "openapi" / "openapi.json", "--meta", "none", "--config", config,
        "--output-path", tmp_path / "hookwire_client",
    )  # fmt: skip
    async with running_hub() as hub:
        found = await finished(sys.executable, PROGRAM, hub.url, "http://127.0.0.1:9000/hook", path=tmp_path)

    assert re.search("warning|will not be generated", told, re.IGNORECASE) is None
    assert json.loads(found) == {
        "event": ["orders", "k", '{"order":4711}'],
        "refused": [422, "invalid-topic"],
        "batch": ["stored", "stored"],
        "rotated": 2,
        "keys": [2, 1],
        "subscriptions": [[True, "active"]],
        "undelivered": True,
    }


def test_no_name_of_the_document_is_the_codes_own() -> None:
    """FT-05: operation ids are words joined by ``_``, none twice in a row; schemas are named by no module."""
    names = [operation["operationId"] for _, _, operation in operations()]

    assert [name for name in names if not re.fullmatch(r"[a-z]+(_[a-z]+)*", name)] == []
    assert [name for name in names if re.fullmatch(r"([a-z_]+)_(?:list_)?\1", name)] == []
    assert [name for name in DOCUMENT["components"]["schemas"] if not re.fullmatch(r"[A-Za-z]+", name)] == []


def test_whatever_a_request_may_leave_out_has_no_default_that_makes_it_required() -> None:
    """FT-05: openapi-typescript takes a property with a default for one that is always there."""
    assert [schema for schema in requested() if "default" in schema] == []


def test_a_body_of_any_type_is_described_as_one() -> None:
    """FT-05: of several types a generator makes a union that it cannot send."""
    bodies = [operation["requestBody"] for _, _, operation in operations() if "requestBody" in operation]

    assert [
        list(body["content"]) for body in bodies if "x-other-content-types" in body and len(body["content"]) > 1
    ] == []
    assert [body for body in bodies if "*/*" in body["content"]] == []


def requested() -> Iterator[dict[str, Any]]:
    """Every schema of a request, in any depth."""
    waiting: list[Any] = [operation.get("requestBody", {}) for _, _, operation in operations()]
    waiting += [operation.get("parameters", []) for _, _, operation in operations()]
    seen = set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            if "type" in node or "anyOf" in node:
                yield node
            waiting += [value for name, value in node.items() if name not in ("example", "examples", "$ref")]
            if (name := str(node.get("$ref", "")).rpartition("/")[2]) and name not in seen:
                seen.add(name)
                waiting.append(DOCUMENT["components"]["schemas"][name])

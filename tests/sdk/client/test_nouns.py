"""The nouns and models are those of the OpenAPI file (FD-02, FD-06), as a subprocess of ruff formats them."""

from __future__ import annotations

import dataclasses
import json

import hookwire
from hookwire import AsyncHookwire, Hookwire, models
from hookwire.client.nouns import NOUNS
from scripts.client_nouns import DOCUMENT, LEFT_OUT, methods, place_of, reason_left_out, texts

OPERATIONS = [
    (operation["operationId"], operation["tags"][0])
    for path in DOCUMENT["paths"].values()
    for operation in path.values()
]


def test_the_generated_files_are_fresh() -> None:
    """If this fails: .venv/bin/python -m scripts.client_nouns."""
    assert {path.name: path.read_text(encoding="utf-8") == text for path, text in texts().items()} == {
        "nouns.py": True, "models.py": True,
    }  # fmt: skip


def test_every_operation_is_reachable_or_left_out_with_its_reason() -> None:
    """FD-02."""
    clients = Hookwire("http://hub"), AsyncHookwire("http://hub")
    missing = [
        name
        for name, tag in OPERATIONS
        for client in clients
        if not reason_left_out(name) and not hasattr(getattr(client, place_of(name, tag)[0]), place_of(name, tag)[1])
    ]
    unused = [left for left in LEFT_OUT if not any(name.startswith(left) for name, _ in OPERATIONS)]
    assert (missing, unused, len(methods()) > 100) == ([], [], True)
    assert all(hasattr(client, noun) for client in clients for noun in NOUNS)


def test_members_that_a_newer_hub_adds_are_kept_and_those_that_an_older_one_lacks_are_named() -> None:
    """FD-06."""
    names = [field.name for field in dataclasses.fields(models.Key) if field.name != "extra"]
    members = dict.fromkeys(names) | {"created_at": "2026-01-15T09:31:07Z", "news": 1}
    found = models.Key.of(members)
    lacking = {name: value for name, value in members.items() if name != "scopes"}
    try:
        models.Key.of(lacking)
    except hookwire.HookwireError as error:
        words = str(error)
    assert (found.extra, found.created_at.year, words.partition(";")[0]) == (
        {"news": 1}, 2026, "an answer has no scopes: the hub is older than this client",
    )  # fmt: skip


def test_a_model_of_each_kind_reads_the_example_of_the_contract() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    read = 0
    for name in models.__all__:
        for example in (schemas.get(f"{name}Out") or schemas[name]).get("examples", ()):
            assert getattr(models, name).of(json.loads(json.dumps(example))).extra == {}, name
            read += 1
    assert read > 20

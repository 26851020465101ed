"""How JSON answers end: FT-17."""

from __future__ import annotations

from tests.app.conftest import RunHub, running_hub

__all__ = ["running_hub"]


async def test_every_json_answer_ends_with_a_line_feed(running_hub: RunHub) -> None:
    """FT-17: lists, things, health and problems; so a prompt begins on its own line."""
    async with running_hub() as hub:
        made = await hub.subscribe("a", "http://127.0.0.1:9000/")
        event = (await hub.publish("a")).json()["id"]
        paths = (
            "/subscriptions",
            f"/subscriptions/{made['id']}",
            f"/events/{event}",
            "/healthz",
            "/readyz",
            "/events/x",
        )
        found = {path: await hub.client.get(path) for path in paths}

        assert [path for path, answer in found.items() if answer.content[-2:] != b"}\n"] == []
        assert [
            path for path, answer in found.items() if int(answer.headers["content-length"]) != len(answer.content)
        ] == []

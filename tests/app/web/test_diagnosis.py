"""/console/pair: the page that says why nothing arrives at a callback (UD-12)."""

from __future__ import annotations

from tests.app.conftest import ALL_ROLES, RunHub
from tests.app.web.test_console import _Page
from tests.hub.callback import answers, serve_callbacks


async def test_the_page_shows_where_a_callback_stands_and_what_was_tried(running_hub: RunHub) -> None:
    """UD-12, WS-106, SE-09: linked from the status page; the callback's query is shown to nobody."""
    async with running_hub(ALL_ROLES) as hub, serve_callbacks() as callbacks:
        callbacks.script["/cb?key=canary"] = answers(500, b"<b>down</b>")
        form = {"mode": "subscribe", "topic": f"{hub.url}/topics/news", "callback": callbacks.url("/cb?key=canary")}
        pair = {"topic": form["topic"], "callback": form["callback"]}
        before = _Page((await hub.client.get("/console/pair", params=pair)).text).text
        await hub.client.post("/hub", data={f"hub.{name}": value for name, value in form.items()})
        found = await hub.until("/subscriptions?topic=news", lambda answer: answer["items"])
        await hub.publish("news", b"1")
        await hub.until("/deliveries?state=retrying", lambda answer: answer["items"])
        status = _Page((await hub.client.get("/console")).text)
        made = found["items"][0]["id"]
        answer = await hub.client.get(f"/console/pair?subscription={made}")
        by_pair = await hub.client.get("/console/pair", params=pair)

        assert ("Status none" in before, f"subscriptions/{made}" in status.addresses) == (True, True)
        text = _Page(answer.text).text
        assert all(
            word in text for word in ("Status active", "subscribe verified", "server error (500)", "Lease ends in 9 d")
        )
        assert "canary" not in answer.text + by_pair.text
        assert "script" in _Page(by_pair.text).tags
        assert "default-src 'none'" in answer.headers["content-security-policy"]


async def test_a_page_about_nothing_says_what_to_name(running_hub: RunHub) -> None:
    """UD-12, UD-07: nothing named 400, unknown 404."""
    async with running_hub() as hub:
        queries = (
            "",
            "?topic=x",
            "?subscription=sub_0",
            "?subscription=%00",
            "?topic=%00&callback=x",
            "?topic=x&callback=y",
        )
        found = [(await hub.client.get(f"/console/pair{query}")).status_code for query in queries]

        assert found == [400, 400, 404, 400, 400, 400]

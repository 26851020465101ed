"""A subscriber and a publisher that are not ours, against the running service: Flask-WebSub and django-push."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from django_push.publisher import ping_hub
from flask import Flask
from flask_websub.publisher import init_publisher, publisher
from flask_websub.subscriber import (
    SQLite3SubscriberStorage,
    SQLite3TempSubscriberStorage,
    Subscriber,
    discover,
)
from werkzeug.serving import make_server

from tests.app.conftest import ALL_ROLES, RunHub, RunningHub, running_hub
from tests.hub.callback import serve_callbacks
from tests.waiting import until

__all__ = ["running_hub"]


@contextmanager
def serving(app: Flask) -> Iterator[str]:
    """The application on loopback; gives its address."""
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass
class Site:
    """A publisher's page that advertises the hub, as Flask-WebSub does it."""

    hub_url: str
    content: str = "one"
    app: Flask = field(default_factory=lambda: Flask("site"))

    def __post_init__(self) -> None:
        init_publisher(self.app)
        self.app.add_url_rule("/feed", view_func=publisher(hub_url=self.hub_url)(self._feed))

    def _feed(self) -> str:
        return self.content


class Reader:
    """A subscriber, as Flask-WebSub does it; what it was told is kept."""

    def __init__(self, folder: Path) -> None:
        self.app = Flask("reader")
        self.happened: list[tuple[str, str]] = []
        stores = (
            SQLite3SubscriberStorage(str(folder / "long.db")),
            SQLite3TempSubscriberStorage(str(folder / "short.db")),
        )
        self.subscriber = Subscriber(*stores)
        self.app.register_blueprint(self.subscriber.build_blueprint("/callbacks"))
        self.subscriber.add_success_handler(lambda _topic, _id, mode: self.happened.append((mode, "")))
        self.subscriber.add_listener(lambda _topic, _id, body: self.happened.append(("content", body.decode())))
        self.subscriber.add_error_handler(lambda _topic, _id, reason: self.happened.append(("denied", reason)))
        self.address = ""

    async def does(self, verb: str, *arguments: str, **named: str) -> str:
        """One of the package's verbs, in the way its users call it."""

        def call() -> str:
            with self.app.test_request_context(base_url=self.address):
                return str(getattr(self.subscriber, verb)(*arguments, **named))

        return await asyncio.to_thread(call)

    async def has_seen(self, *happened: tuple[str, str]) -> None:
        async def seen() -> bool:
            return self.happened == list(happened)

        await until(seen)


async def lease_ends(hub: RunningHub, state: str = "active") -> list[str]:
    items = (await hub.client.get(f"/subscriptions?state={state}")).json()["items"]
    return [one["lease_until"] for one in items if "/callbacks/" in one["callback"]]


async def test_packages_of_others_subscribe_renew_receive_and_unsubscribe(running_hub: RunHub, tmp_path: Path) -> None:
    """Table 2.3: discovery, subscription, pings that want 204, deliveries, a renewal, the end; none of it ours."""
    async with running_hub(ALL_ROLES, websub_foreign_topics="any") as hub, serve_callbacks() as sentinel:
        site, reader = Site(f"{hub.url}/hub"), Reader(tmp_path)
        with serving(site.app) as site_url, serving(reader.app) as reader.address:
            topic = f"{site_url}/feed"

            async def publish(content: str) -> int:
                site.content = content
                answer = await asyncio.to_thread(ping_hub, topic, f"{hub.url}/hub")
                return int(answer.status_code)

            found = await asyncio.to_thread(discover, topic)
            callback_id = await reader.does("subscribe", **found)
            await reader.has_seen(("subscribe", ""))
            form = {"hub.mode": "subscribe", "hub.topic": topic, "hub.callback": sentinel.url()}
            await hub.client.post("/hub", data=form)
            await hub.until("/subscriptions?state=active", lambda answer: len(answer["items"]) == 2)
            (first_end,) = await lease_ends(hub)
            pinged = [await publish("two")]
            await reader.has_seen(("subscribe", ""), ("content", "two"))

            await reader.does("renew", callback_id)
            await reader.has_seen(("subscribe", ""), ("content", "two"), ("subscribe", ""))
            (second_end,) = await until(lambda: _later(hub, first_end))
            pinged.append(await publish("three"))
            await reader.has_seen(("subscribe", ""), ("content", "two"), ("subscribe", ""), ("content", "three"))

            await reader.does("unsubscribe", callback_id)
            await until(lambda: _ended(hub))
            pinged.append(await publish("four"))
            posts = await sentinel.wait_for_posts(3)

        assert found == {"hub_url": f"{hub.url}/hub", "topic_url": topic}
        assert (pinged, second_end > first_end) == ([204] * 3, True)
        assert [body for _, _, body in posts] == [b"two", b"three", b"four"]
        assert reader.happened[-2:] == [("content", "three"), ("unsubscribe", "")]


async def _later(hub: RunningHub, end: str) -> list[str]:
    return [one for one in await lease_ends(hub) if one > end]


async def _ended(hub: RunningHub) -> bool:
    return not await lease_ends(hub)

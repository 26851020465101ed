"""Public clients of WebSub, RabbitHub and CloudEvents against a hub that runs (FX-01 to FX-07); `make test-interop`.

FX-03 names no client: a denial that comes before an answer is another hub's, and `tests/hub/test_upstream.py` plays it.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from urllib.parse import urlencode

import aio_pika
from cloudevents.core.bindings.rabbitmq import RabbitMQMessage, from_binary
from cloudevents.core.formats.json import JSONFormat

from scripts.servers.rabbitmq import RabbitServer
from tests.app.conftest import ALL_ROLES, RunHub
from tests.hub.callback import serve_callbacks
from tests.hub.publisher import Page, serve_topics
from tests.interop.clients import PROGRAMS, printed, printing

CURL = ("curl", "--silent", "--show-error", "--max-time", "50")
MANY_SECONDS = 200.0
STATUS = ("--output", "/dev/null", "--write-out", "%{http_code}")


async def test_django_push_reads_what_it_is_sent_for_a_subscription_with_a_secret(
    running_hub: RunHub, clients_python: Path, tmp_path: Path
) -> None:
    """FX-01: it knows sha1 only, and answers 200 to what it ignores."""
    async with running_hub(ALL_ROLES) as hub:
        topic = f"{hub.url}/topics/orders"
        program = PROGRAMS / "django_subscriber.py"
        async with printing(clients_python, program, f"{hub.url}/hub", topic, "s3cr3t", tmp_path) as lines:
            pair = urlencode({"topic": topic, "callback": await lines.next()})
            await hub.until(f"/hub/pairs?{pair}", lambda answer: answer["standing"] == "active")
            await hub.publish("orders", b"hello")
            read = await lines.next()

    assert read == "hello"


async def test_googles_publisher_announces_more_than_a_hundred_topics(
    running_hub: RunHub, clients_python: Path
) -> None:
    """FX-02: a hundred in each request; the last one of each reaches its subscriber."""
    async with (
        running_hub(ALL_ROLES, websub_foreign_topics="any") as hub,
        serve_topics() as publisher,
        serve_callbacks() as callbacks,
    ):
        paths = [f"/feed/{number}" for number in range(150)]
        for path in (paths[99], paths[149]):
            publisher.pages[path] = Page(path.encode(), headers="Link: <http://h/>; rel=hub\r\n")
            pair = {"topic": publisher.url(path), "callback": callbacks.url(path)}
            form = {"hub.mode": "subscribe", "hub.topic": pair["topic"], "hub.callback": pair["callback"]}
            await hub.client.post("/hub", data=form)
            await hub.until(f"/hub/pairs?{urlencode(pair)}", lambda answer: answer["standing"] == "active")
        said = await printed(
            clients_python, PROGRAMS / "google_publisher.py", f"{hub.url}/hub", *map(publisher.url, paths)
        )
        posts = await callbacks.wait_for_posts(2)

    assert (said, sorted(body for _, _, body in posts)) == (
        (0, "announced in 2 requests\n"), [paths[149].encode(), paths[99].encode()],
    )  # fmt: skip


async def test_the_lines_of_rabbithubs_readme_work_in_curl(running_hub: RunHub) -> None:
    """FX-04: a built-in exchange, a binding key that is empty, and JSON with a comma before its closing bracket."""
    async with running_hub(ALL_ROLES) as hub, serve_callbacks() as callbacks:
        exchange = f"{hub.url}/rabbithub/endpoint/x/amq.direct"
        subscribe = f"{hub.url}/rabbithub/subscribe/x/amq.direct"
        wish = {"callback": callbacks.url("/json"), "topic": "foo", "mode": "subscribe", "verify": "sync"}
        loose = json.dumps({"hub": wish}).replace("}}", ",}}")
        form = ("hub.mode=subscribe", f"hub.callback={callbacks.url('/form')}", "hub.topic=", "hub.verify=sync")
        statuses = [
            (await printed(*CURL, *STATUS, *more))[1]
            for more in (
                (exchange,),
                (*(word for each in form for word in ("--data-urlencode", each)), subscribe),
                ("--header", "Content-Type: application/json", "--data", loose, subscribe),
                ("--data-binary", "for foo", f"{exchange}?hub.topic=foo"),
                ("--data-binary", "for nobody's key", f"{exchange}?hub.topic="),
            )
        ]
        posts = await callbacks.wait_for_posts(2)

    assert (statuses, sorted((target.partition("?")[0], body) for target, _, body in posts)) == (
        ["200", "204", "204", "202", "202"], [("/form", b"for nobody's key"), ("/json", b"for foo")],
    )  # fmt: skip


async def test_the_cloudevents_sdk_reads_an_event_from_rabbitmq(running_hub: RunHub, rabbitmq: RabbitServer) -> None:
    """FX-05: its binding for RabbitMQ reads headers that begin with `ce-`."""
    name = f"interop-{secrets.token_hex(4)}"
    async with (
        running_hub(ALL_ROLES, amqp_url=rabbitmq.url, amqp_exchange=name, amqp_cloudevents_prefix="ce-") as hub,
        await aio_pika.connect(rabbitmq.url) as connection,
        connection.channel() as channel,
    ):
        queue = await channel.declare_queue(name, exclusive=True)
        await queue.bind(await channel.declare_exchange(name, "topic", durable=True), "#")
        about = {"ce_specversion": "1.0", "ce_id": "7", "ce_source": "/git", "ce_type": "push", "ce_subject": "main"}
        await hub.client.put("/topics/orders", json={"sinks": ["amqp"]})
        await hub.publish("orders", b'{"n": 1}', content_type="application/json", **about)
        async with queue.iterator(no_ack=True, timeout=60) as messages:
            message = await anext(messages)
    headers = {key: str(value) for key, value in message.headers.items()}
    event = from_binary(RabbitMQMessage(headers, message.content_type, message.body), JSONFormat())

    assert (event.get_id(), event.get_source(), event.get_type(), event.get_subject(), event.get_data()) == (
        "7", "/git", "push", "main", {"n": 1},
    )  # fmt: skip


async def test_a_load_balancers_check_needs_no_host(running_hub: RunHub) -> None:
    """FX-06: HTTP/1.0 without `Host`, as plain checks send it."""
    async with running_hub() as hub:
        _, status = await printed(*CURL, *STATUS, "--http1.0", "--header", "Host:", f"{hub.url}/healthz")

    assert status == "200"


async def test_five_hundred_subscriptions_at_once_are_confirmed_where_the_operator_allows_it(
    running_hub: RunHub, clients_node: Path
) -> None:
    """FX-07: by the npm package pubsubhubbub, for one callback host; then each of them is served."""
    burst = {
        "websub_verifications_burst_host": 500, "websub_verifications_burst_requester": 500,
        "websub_pending_requester_max": 0,
    }  # fmt: skip
    async with running_hub(ALL_ROLES, **burst) as hub:
        command = ("node", clients_node / "subscribe_many.js", f"{hub.url}/hub", f"{hub.url}/topics/t", "500")
        async with printing(*command) as lines:
            counted = json.loads(await lines.next(MANY_SECONDS))
            await hub.until("/subscriptions?limit=1", lambda page: page["items"])
            await hub.publish("t499", b"hello")
            read = await lines.next()

    assert (counted, read) == ({"confirmed": 500, "denied": 0}, f"{hub.url}/topics/t499 hello")

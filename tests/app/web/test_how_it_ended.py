"""How a delivery or a record ended: every face says the same, true sentence."""

from __future__ import annotations

import html

from tests.app.cli.commands.test_services import hookwire
from tests.app.conftest import ALL_ROLES, Receiver, RunHub, RunningHub

BY_ME = "given up by 127.0.0.1; the last attempt failed: server_error 500"
STORED = (
    ("exhausted", "server_error", 503, None,
     "given up: its attempts are used up; the last one: server_error 503"),
    ("too_late", "expired", None, "its time to live has ended", "given up: it is too late: its time to live has ended"),
    ("too_late", "timeout", None, "the next attempt is after the age limit of 100 s",
     "given up: it is too late: the next attempt is after the age limit of 100 s; the last attempt failed: timeout"),
    ("declined", "client_error", 400, None,
     "given up: the answer of the receiver is final: client_error 400"),
    ("aborted", "rejected", None, "no such order",
     "given up: the receiver asked for no other attempt: no such order"),
    ("internal", "unknown", None, "its worker ended before the outcome was stored; it may have arrived",
     "given up by the hub: its worker ended before the outcome was stored; it may have arrived"),
)  # fmt: skip
"""Kind, last outcome, last status and detail of stored dead letters, and what each face says."""
RECORDS = (
    ("too_large", "1 MB at most", False, "given up: the broker refused it: too large: 1 MB at most"),
    ("too_large", "1 MB at most", True,
     "given up by a person: the broker had refused it: too large: 1 MB at most"),
    ("purged_with_key", "waited behind a record that was refused: too_large", True,
     "given up by a person: waited behind a record that was refused: too_large"),
)  # fmt: skip


async def test_every_face_says_the_same_true_sentence(running_hub: RunHub, receiver: Receiver) -> None:
    """A delivery that a person gave up was `exhausted`: "its retry schedule is used up: given up by ..."."""
    receiver.status = 500
    async with running_hub(ALL_ROLES) as hub:
        of_deliveries = await given_up_by_me(hub, receiver) | await stored(hub)
        of_records = await stored_records(hub)
        incarnation = (await hub.publish("d")).json()["id"].split("_")[1]
        of_all, of_all_deliveries = await common_faces(hub)
        lacking = [
            (how, face)
            for how, identity in {**of_deliveries, **of_records}.items()
            for face, text in {
                **of_all,
                **(of_all_deliveries if how in of_deliveries else {}),
                **await own_faces(hub, identity, incarnation),
            }.items()
            if how not in text
        ]

    assert lacking == []


async def given_up_by_me(hub: RunningHub, receiver: Receiver) -> dict[str, str]:
    """Give up one delivery alone, and one with all that match."""
    await hub.subscribe("a", receiver.callback, retry_schedule_seconds=[3600])
    for _ in range(2):
        await hub.publish("a")
    alone, other = (await hub.until("/deliveries?state=retrying", lambda page: len(page["items"]) == 2))["items"]
    await hub.client.post(f"/deliveries/{alone['id']}/give-up", json={"reason": "no use"})
    await hub.client.post("/replays", json={"source": "deliveries", "act": "give_up", "topic": "a"})
    await hub.until("/dead-letters", lambda page: len(page["items"]) == 2)
    assert (await hub.client.get(f"/dead-letters/{other['id']}")).json()["reason"] == BY_ME
    return {BY_ME: alone["id"]}


async def stored(hub: RunningHub) -> dict[str, str]:
    """Store a dead letter of each other kind, as the workers do."""
    made = {}
    for kind, outcome, status, detail, words in STORED:
        event = (await hub.publish("b")).json()["id"].rpartition("_")[2]
        ((number,),) = await hub.sql(
            "INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts, last_outcome,"
            " last_status, detail) SELECT $1, id, 'default', $2, 3, $3, $4, $5 FROM hookwire.subscriptions"
            " RETURNING subscription_id",
            int(event), kind, outcome, status, detail,
        )  # fmt: skip
        made[words] = f"dlv_{event}_{number}"
    return made


async def stored_records(hub: RunningHub) -> dict[str, str]:
    """Store a record of a broker that its policy gave up, and two that a person gave up."""
    made = {}
    for refusal, detail, on_purpose, words in RECORDS:
        event = (await hub.publish("c")).json()["id"].rpartition("_")[2]
        await hub.sql(
            "INSERT INTO hookwire.relay_dead_letters (sink, event_id, tenant, topic, key, shard, layout, reason,"
            " detail, on_purpose) VALUES ('kafka', $1, 'default', 'c', NULL, 0, 1, $2, $3, $4)",
            int(event), refusal, detail, on_purpose,
        )  # fmt: skip
        made[words] = f"dead_kafka_{event}"
    return made


async def common_faces(hub: RunningHub) -> tuple[dict[str, str], dict[str, str]]:
    """What the lists of all dead letters say, and those of all deliveries."""
    return {
        "/dead-letters": (await hub.client.get("/dead-letters")).text,
        "page of dead letters": html.unescape((await hub.client.get("/console/dead-letters")).text),
        "hookwire deadletters list": (await hookwire(hub, "deadletters", "list", "--each"))[1],
    }, {
        "/undelivered": (await hub.client.get("/undelivered?outcome=dead&limit=500")).text,
        "/deliveries": (await hub.client.get("/deliveries?state=dead")).text,
        "hookwire undelivered": (await hookwire(hub, "undelivered"))[1],
        "first page": html.unescape((await hub.client.get("/console")).text),
    }


async def own_faces(hub: RunningHub, identity: str, incarnation: str) -> dict[str, str]:
    """What the addresses and pages of one dead letter and its event say."""
    _, number, *_ = identity.removeprefix("dead_").split("_")
    event = f"evt_{incarnation}_{number}"
    told = {"/dead-letters/{id}": (await hub.client.get(f"/dead-letters/{identity}")).text}
    if identity.startswith("dead_"):
        return told
    return told | {
        "/events/{id}": (await hub.client.get(f"/events/{event}")).text,
        "timeline": (await hub.client.get(f"/events/{event}/timeline")).text,
        "page of the event": html.unescape((await hub.client.get(f"/console/events/{event}")).text),
    }

"""Every act that the console offers, once: its form is accepted, and the audit has the entry of its request."""

from __future__ import annotations

from typing import Final

from app.web.console.acting.acts import ACTS, NEW
from app.web.console.acting.bulk_acts import BULK
from tests.app.conftest import RunHub, RunningHub
from tests.app.web.console.harness import Browser, Page, browsing
from tests.app.web.test_queues import ask, settle
from tests.app.web.test_sources import SETTINGS, refuse
from tests.app.web.test_sources import arrange as arrange_source

_MADE = """
WITH s AS (
    INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state)
    VALUES ('sub_1', 'webhook', 'a', 'http://127.0.0.1:9000/', 'active') RETURNING id
), e AS (
    INSERT INTO hookwire.events (id, accepted_at, ordered, tenant, topic, key, headers, sinks, payload)
    SELECT n, now(), false, 'default', 'a', 'k', '{}', '{webhooks}', 'x' FROM generate_series(1, 9) AS n RETURNING id
), d AS (
    INSERT INTO hookwire.dead_letters (event_id, subscription_id, tenant, kind, attempts)
    SELECT e.id, s.id, 'default', 'exhausted', 3 FROM e, s WHERE e.id < 5
), h AS (
    INSERT INTO hookwire.held (sink, tenant, topic, key, id, shard, layout)
    VALUES ('kafka', 'default', 'a', 'k', 1, 0, 1)
), o AS (
    INSERT INTO hookwire.holds (sink, tenant, topic, key, reason, detail, probe_at)
    VALUES ('kafka', 'default', 'a', 'k', 'too_large', '', now() + interval '1 day')
)
INSERT INTO hookwire.deliveries (event_id, subscription_id, due_at, created_at, tenant)
SELECT e.id, s.id, now() + interval '1 day', now(), 'default' FROM e, s WHERE e.id > 4
"""

_AUDITED: Final[dict[str, dict[str, str | None]]] = {
    "jobs": {
        "new": None, "assign": "job.assign", "delay": "job.delay", "retry": "job.retry", "unassign": "job.unassign",
        "finish": "job.finish", "send-back": "job.send-back", "approve": "job.approve", "decline": "job.decline",
        "cancel": "job.cancel",
    },
    "subscriptions": {
        "new": "subscription.make", "pause": "subscription.change", "drain": "subscription.change",
        "resume": "subscription.change",
        "test": "delivery.try subscription.test", "rotate": "signing_key.make", "change": "subscription.change",
        "replay": "replay.create", "end": "subscription.end",
    },
    "topics": {"publish": None},
    "keys": {"new": "key.make", "revoke": "key.revoke"},
    "deliveries": {"retry": "delivery.try", "give-up": "delivery.give_up"},
    "dead-letters": {"retry": "dead_letter.retry", "purge": "dead_letter.purge"},
    "holds": {"retry": "hold.retry", "give-up": "hold.give_up"},
    "sinks": {"pause": "sink.pause", "resume": "sink.resume"},
    "sources": {"pause": "source.pause", "resume": "source.resume"},
    "inbound": {"test": None},
    "refusals": {"retry": "source.retry", "give-up": "source.give_up"},
    "replays": {
        "new": "replay.create", "pause": "replay.pause", "resume": "replay.resume", "cancel": "replay.cancel",
    },
    "queues": {
        "pause": "queue.pause", "resume": "queue.resume", "redrive": "message.redrive", "purge": "message.purge",
    },
    "services": {"disable": "service.disable", "enable": "service.enable"},
}  # fmt: skip
"""The action of each act, in the order in which the test does them; None: its request is not audited."""
_ELSEWHERE: Final = {"incidents"}
"""Tested in test_incidents.py, with a receiver."""


class Operator:
    """Sends forms, and notes which entry each has left in the audit."""

    def __init__(self, hub: RunningHub, browser: Browser) -> None:
        self.hub = hub
        self.browser = browser
        self.audited: dict[str, dict[str, str | None]] = {}
        self.refused: dict[str, str] = {}

    async def act(self, kind: str, identity: str, verb: str, /, **fields: str) -> str:
        """Send the form of an act, and confirm it where it counts first; the last part of the address behind it."""
        address = f"{kind}/new" if verb == "new" else f"{kind}/{identity}/{verb}"
        [(before,)] = await self.hub.sql("SELECT count(*) FROM hookwire.audit")
        answer = await self.browser.send(address, **fields)
        if "Yes, " in answer.text:
            answer = await self.browser.send_form(Page(answer.text), address)
        actions = await self.hub.sql("SELECT action FROM hookwire.audit ORDER BY id OFFSET $1", before)
        if answer.status_code != 200 or "notice bad" in answer.text:
            self.refused[address] = Page(answer.text).text.partition("Audit ")[2]
        found = self.audited.setdefault(kind, {})
        found[verb] = " ".join(action for (action,) in actions) or None
        return answer.url.path.rpartition("/")[2]

    async def job(self, *verbs: str) -> str:
        """The id of a new job for people, behind these acts of the API."""
        made = (await self.hub.client.post("/jobs", json={"kind": "office"})).json()["id"]
        for verb in verbs:
            assert (await self.hub.client.post(f"/jobs/{made}/{verb}", json={})).is_success
        return str(made)


async def arrange(hub: RunningHub) -> None:
    """Something of each kind that can be acted on; nothing of it moves by itself."""
    await hub.client.post("/topics/a/events", content=b"x")
    for table in ("outbox", "events"):
        await hub.sql(f"DELETE FROM hookwire.{table}")
    await hub.sql("SELECT setval('hookwire.event_id', 9)")
    await hub.sql(_MADE)
    await hub.client.post("/queues/mail/messages", content=b"x")
    await bury(hub)
    await hub.client.put("/job-kinds/office", json={"automation": "manual", "needs_review": True})
    await hub.client.put("/services/s", json={})
    await hub.client.put("/in/door", json={"preset": "github"})
    await arrange_source(hub)
    for offset in range(2):
        await refuse(hub, offset, b"x")


async def bury(hub: RunningHub) -> None:
    """Make the message of the queue a dead one."""
    await settle(hub, "reject", await ask(hub, "receive", "mail"), queue="mail", dead=True)


async def of_things(operator: Operator) -> None:
    """The acts on subscriptions, topics, keys, deliveries, dead letters, holds, sinks, sources, replays and so on."""
    act = operator.act
    await act("subscriptions", "", "new", topic="a", callback="http://127.0.0.1:9000/")
    for name in ("pause", "drain", "resume", "test", "rotate"):
        await act("subscriptions", "sub_1", name)
    await act("subscriptions", "sub_1", "change", name="shop", rate_per_second="5")
    await act("topics", "a", "publish", content="{}")
    await act("keys", "", "new", name="shop", read="yes")
    [(key,)] = await operator.hub.sql("SELECT public_id FROM hookwire.api_keys")
    await act("keys", key, "revoke")
    [(number,)] = await operator.hub.sql("SELECT id FROM hookwire.subscriptions WHERE public_id = 'sub_1'")
    await act("deliveries", f"dlv_5_{number}", "retry")
    await act("deliveries", f"dlv_6_{number}", "give-up", reason="obsolete")
    await act("dead-letters", f"dlv_1_{number}", "retry")
    await act("dead-letters", f"dlv_2_{number}", "purge")
    for name in ("retry", "give-up"):
        await act("holds", "hold_1", name)
    for name in ("pause", "resume"):
        await act("sinks", "amqp", name)
        await act("sources", "stock", name)
    await act("inbound", "door", "test")
    await act("refusals", "refusal_1", "retry")
    await act("refusals", "refusal_2", "give-up")
    await act("subscriptions", "sub_1", "replay")
    replay = await act("replays", "", "new", source="dead_letters", rate_per_second="1")
    for name in ("pause", "resume", "cancel"):
        await act("replays", replay, name)
    for name in ("pause", "resume"):
        await act("queues", "mail", name)
    await act("queues", "mail", "redrive")
    await bury(operator.hub)
    await act("queues", "mail", "purge")
    await act("services", "s", "disable")
    await act("services", "s", "enable")
    await act("subscriptions", "sub_1", "end")


async def of_people(operator: Operator) -> None:
    """The acts on jobs."""
    act = operator.act
    one = await act("jobs", "", "new", kind="office", args="{}")
    await act("jobs", one, "assign")
    await act("jobs", one, "delay", due_local="2031-07-01T09:00", due_zone="Europe/Berlin")
    await act("jobs", one, "retry")
    await act("jobs", await operator.job("assign"), "unassign")
    await act("jobs", await operator.job("assign"), "finish", result="{}")
    for name in ("send-back", "approve", "decline"):
        await act("jobs", await operator.job("assign", "finish"), name, reason="why")
    await act("jobs", await operator.job(), "cancel")


async def test_every_act_is_done_by_its_form_and_leaves_the_entry_of_its_request(running_hub: RunHub) -> None:
    """CN-15: subscriptions to jobs. An act that is new must be added here."""
    async with running_hub(**SETTINGS | {"event_bytes_max": 10_000}) as hub, browsing(hub) as browser:
        operator = Operator(hub, browser)
        await arrange(hub)
        await of_things(operator)
        await of_people(operator)
        offered = {kind: {act.name for act in acts} for kind, acts in ACTS.items() if kind not in _ELSEWHERE}
        for kind in NEW:
            offered[kind] |= {"new"}

        assert operator.refused == {}
        assert operator.audited == _AUDITED
        assert {kind: set(acts) for kind, acts in operator.audited.items()} == offered


_SENDERS = {
    "another site, with the session and its token": {"Origin": "https://evil.example"},
    "no page at all": {},
}


async def test_no_form_of_the_console_is_accepted_from_elsewhere_or_without_its_token(running_hub: RunHub) -> None:
    """CSRF: each address that takes a form, also signing in and out."""
    acts = [f"{kind}/x/{act.name}" for kind, every in ACTS.items() for act in every]
    bulk = [f"{kind}/all/{act.name}" for kind, every in BULK.items() for act in every]
    addresses = [*acts, *bulk, *(f"{kind}/new" for kind in NEW), "sign-out"]
    async with running_hub(access="keys") as hub, browsing(hub, "admin") as browser:
        [form] = [one.fields for one in (await browser.page("topics")).forms if one.action == "sign-out"]
        client, base = browser.client, f"{hub.url}/console/"
        client.headers.pop("Origin")
        no_token = {**form, "form_token": ""}
        client.follow_redirects = False
        found = {
            (sender, address): (await client.post(base + address, data=form, headers=headers)).status_code
            for sender, headers in _SENDERS.items()
            for address in (*addresses, "sign-in")
        }  # fmt: skip
        found |= {
            ("no token", address): (
                await client.post(base + address, data=no_token, headers={"Origin": hub.url})
            ).status_code
            for address in addresses
        }
        entries = await hub.sql("SELECT action FROM hookwire.audit WHERE action <> 'console.sign-in'")

    assert (found, entries) == (dict.fromkeys(found, 403), [])

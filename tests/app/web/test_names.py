"""Names that their first use makes: each door refuses a new one where the limit is reached (GS-06)."""

from tests.app.conftest import RunHub

DOORS = {
    "publish": ("POST", "/topics/new/events"),
    "content": ("POST", "/hub/content?hub.topic={url}/topics/new"),
    "rabbithub": ("POST", "/rabbithub/endpoint/x/shop?hub.topic=new"),
    "submit": ("POST", "/queues/new/messages"),
    "consumer": ("PUT", "/queues/new/consumers/one"),
    "call": ("POST", "/services/new"),
    "claim": ("POST", "/services/new/claim"),
}


async def test_every_door_refuses_a_new_name_beyond_the_limit_and_takes_one_made_by_hand(running_hub: RunHub) -> None:
    """GS-06."""
    async with running_hub(names_max=0) as hub:
        await hub.client.put("/rabbithub/endpoint/x/shop?amqp.exchange_type=topic")
        refused = {}
        for name, (method, path) in DOORS.items():
            answer = await hub.client.request(method, path.format(url=hub.url), json={})
            refused[name] = (answer.status_code, "HOOKWIRE_NAMES_MAX" in answer.text)
        [(stored,)] = await hub.sql(
            "SELECT (SELECT count(*) FROM hookwire.topics WHERE name NOT LIKE 'hookwire.%')"
            " + (SELECT count(*) FROM hookwire.queues) + (SELECT count(*) FROM hookwire.services)"
            " + (SELECT count(*) FROM hookwire.messages) + (SELECT count(*) FROM hookwire.requests)"
        )
        for noun in ("topics/new/settings", "queues/new", "services/new"):
            await hub.client.put(f"/{noun}", json={})
        paths = ("/topics/new/events", "/queues/new/messages")
        made = [(await hub.client.post(path, json={})).status_code for path in paths]

    assert refused == dict.fromkeys(DOORS, (409, True))
    assert (stored, made) == (0, [202, 201])


BY_HAND = {
    "topics": ("/topics/{}/events", {"put": ("PUT", "/topics/{}/settings")}),
    "queues": ("/queues/{}/messages", {"put": ("PUT", "/queues/{}"), "pause": ("POST", "/queues/{}/pause")}),
    "services": ("/services/{}", {"put": ("PUT", "/services/{}"), "disable": ("POST", "/services/{}/disable")}),
}


async def test_settings_by_hand_make_a_name_stay(running_hub: RunHub) -> None:
    seen = {}
    async with running_hub() as hub:
        for table, (use, changes) in BY_HAND.items():
            for name, (method, path) in changes.items():
                await hub.client.post(use.format(name), json={}, headers={"prefer": "respond-async"})
                before = await hub.sql(f"SELECT used_on = current_date FROM hookwire.{table} WHERE name = $1", name)
                await hub.client.request(method, path.format(name), json={})
                after = await hub.sql(f"SELECT used_on FROM hookwire.{table} WHERE name = $1", name)
                seen[table, name] = (before[0][0], after[0][0])

    assert seen == {(table, name): (True, None) for table, (_, changes) in BY_HAND.items() for name in changes}

"""``hookwire deadletters`` and ``holds``: what waits is given up, and what cannot be is one sentence."""

from __future__ import annotations

import pytest

from app.cli.commands.mending import deadletters, holds
from app.cli.failure import CommandFailed
from tests.app.cli.commands.test_services import hookwire, printed
from tests.app.conftest import ALL_ROLES, Receiver, RunHub


async def test_a_parked_delivery_is_given_up_and_the_next_one_goes_on(running_hub: RunHub, receiver: Receiver) -> None:
    """The command refused a delivery, and claimed that it was given up already."""
    receiver.status = 500
    async with running_hub(ALL_ROLES) as hub:
        await hub.subscribe("a", receiver.callback, mode="ordered", retry_schedule_seconds=[])
        await hub.publish("a", b"1", hookwire_key="k")
        [parked] = (await hub.until("/deliveries?state=parked", lambda page: page["items"]))["items"]
        receiver.status = 204
        await hub.publish("a", b"2", hookwire_key="k")
        done = await hookwire(hub, "deadletters", "give-up", parked["id"], "--why", "no use")
        await hub.until("/deliveries?state=delivered", lambda page: page["items"])
        again = await hookwire(hub, "deadletters", "give-up", parked["id"])
        dead = await printed(hub, "deadletters", "show", parked["id"], "--json")

    assert (done[:2], dead["id"], again[0]) == ((0, f"{parked['id']} given up\n"), parked["id"], 2)
    assert "No such delivery waits" in again[2]


def test_what_does_not_wait_is_not_given_up() -> None:
    refused = []
    for give_up, thing, everything in (
        (deadletters.give_up, "dead_kafka_42", False),
        (deadletters.give_up, "dlv_42_7", True),
        (holds.give_up, "dlv_42_7", False),
    ):
        with pytest.raises(CommandFailed) as caught:
            give_up(thing, everything=everything)
        refused.append((str(caught.value), caught.value.code))

    assert refused == [
        ("dead_kafka_42 is neither a hold (hold_...) nor a delivery (dlv_...)", 2),
        ("--all is for a hold, and dlv_42_7 is one delivery", 2),
        ("dlv_42_7 is not a hold; for a delivery use: hookwire deadletters give-up dlv_42_7", 2),
    ]


async def test_many_dead_letters_are_shown_in_groups_with_their_counts(running_hub: RunHub, receiver: Receiver) -> None:
    """GU-04: 513 letters of one endpoint were 2,598 lines."""
    receiver.status = 400
    async with running_hub(ALL_ROLES) as hub:
        await hub.subscribe("a", receiver.callback, retry_schedule_seconds=[])
        for number in range(21):
            await hub.publish("a", b"%d" % number)
        dead = await hub.until("/dead-letters", lambda page: len(page["items"]) == 21)
        code, groups, _ = await hookwire(hub, "deadletters", "list")
        each = (await hookwire(hub, "deadletters", "list", "--each"))[1]
        cut = (await hookwire(hub, "deadletters", "list", "--limit", "5"))[1]

    ids = {one["id"] for one in dead["items"]}
    [found] = [line.split() for line in groups.splitlines() if line.startswith("21 ")]
    assert (code, found[:3], found[4], found[-1] in ids) == (0, ["21", receiver.callback, "a"], "400", True)
    assert (len(groups.splitlines()), groups.splitlines()[-1]) == (4, "0 holds, 21 dead letters")
    assert {line.split()[0] for line in each.splitlines()} >= ids
    assert cut.splitlines()[-1] == "0 holds, 5 dead letters; only the first 5 were read: use --limit"

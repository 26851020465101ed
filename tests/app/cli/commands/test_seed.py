"""``hookwire seed`` and ``quickstart``, and the short option of help."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pytest
from typer.testing import CliRunner

from app.cli.commands.seed import samples
from app.cli.main import application
from tests.app.cli.commands.test_services import hookwire
from tests.app.conftest import ALL_ROLES, RunHub


async def test_seed_publishes_samples_that_are_the_same_each_time(running_hub: RunHub) -> None:
    """WH-A10."""
    async with running_hub() as hub:
        code, out, _ = await hookwire(hub, "seed", "--count", "5", "--prefix", "demo")
        stored = await hub.sql("SELECT topic, key FROM hookwire.events")

    assert (code, len(out.splitlines())) == (0, 5)
    assert sorted(stored) == sorted((topic, key) for topic, key, _ in samples(5, "demo"))


async def test_seed_publishes_many_in_batches_and_prints_a_line_for_each_topic(running_hub: RunHub) -> None:
    """FT-14: 2,000 events were 2,000 requests and lines, of topics that no example subscribes to."""
    async with running_hub() as hub:
        code, out, _ = await hookwire(hub, "seed", "--count", "2000")
        stored = await hub.sql("SELECT topic, count(*) FROM hookwire.events GROUP BY topic")
        first = "SELECT payload FROM hookwire.events ORDER BY id LIMIT 1"
        steps = await hub.sql(f"SELECT topic FROM hookwire.events WHERE payload = ({first}) ORDER BY id")

    topics = [f"orders.{step}" for step in ("created", "paid", "sent", "delivered")]
    assert (code, out.splitlines()) == (0, [f"500  {topic}" for topic in topics])
    assert sorted(stored) == sorted((topic, 500) for topic in topics)
    assert [topic for (topic,) in steps] == topics


async def test_quickstart_carries_one_event_to_its_receiver_and_leaves_no_subscription(running_hub: RunHub) -> None:
    """FT-14, FT-18: with the commands that do the same; exit code 1 where the event does not arrive."""
    async with running_hub(ALL_ROLES) as hub:
        code, out, err = await hookwire(hub, "quickstart")
        as_json = await hookwire(hub, "quickstart", "--json")
        left = (await hub.client.get("/subscriptions?state=active")).json()["items"]
        [event] = re.findall(r"Published (evt_\w+)", out)
        stored = (await hub.client.get(f"/events/{event}")).json()

    assert (code, err, left, stored["data"]) == (0, "", [], {"hello": "world"})
    assert ('3. Received it: {"hello": "world"}' in out, "4. Its outcome: 1 delivered." in out) == (True, True)
    assert (as_json[0], json.loads(as_json[1])["summary"]) == (0, "1 delivered.")


@pytest.mark.parametrize("words", [(), ("seed",), ("subscriptions", "list")])
def test_the_short_option_of_help_is_understood_everywhere(words: Sequence[str]) -> None:
    """FT-14: there was no -h."""
    finished = CliRunner().invoke(application(next(iter(words), None)), [*words, "-h"])

    assert (finished.exit_code, "Usage:" in finished.stdout) == (0, True)

"""``hookwire seed``, and the short option of help."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from typer.testing import CliRunner

from app.cli.commands.seed import samples
from app.cli.main import application
from tests.app.cli.commands.test_services import hookwire
from tests.app.conftest import RunHub


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


@pytest.mark.parametrize("words", [(), ("seed",), ("subscriptions", "list")])
def test_the_short_option_of_help_is_understood_everywhere(words: Sequence[str]) -> None:
    """FT-14: there was no -h."""
    finished = CliRunner().invoke(application(), [*words, "-h"])

    assert (finished.exit_code, "Usage:" in finished.stdout) == (0, True)

"""app/verdict/facts.py: what the verdict reads of other publishers and of refused records."""

from __future__ import annotations

from app.verdict.facts import read_facts
from tests.app.conftest import opened

_FOREIGN = """
INSERT INTO hookwire.topics (name, sinks) VALUES ('left', '{webhooks}'), ('asked', '{webhooks}'), ('kafka', '{kafka}');
INSERT INTO hookwire.foreign_topics (topic, url, failures, created_at)
    SELECT name, 'https://blog.example/' || name, 3, now()
    FROM hookwire.topics WHERE name IN ('left', 'asked', 'kafka');
INSERT INTO hookwire.subscriptions (public_id, protocol, topic, callback, state)
    VALUES ('sub_1', 'websub', 'asked', 'https://a.example/', 'active'),
           ('sub_2', 'websub', 'left', 'https://a.example/', 'deleted')
"""


async def test_a_topic_that_cannot_be_fetched_counts_while_somebody_wants_it(database_url: str) -> None:
    """A stranger subscribed to a page that is not there, pinged and left: the verdict was trouble for ever."""
    async with opened(database_url) as (database, sql):
        await sql.execute(_FOREIGN)
        facts = await read_facts(database)
    assert sorted(row["topic"] for row in facts.publishers) == ["asked", "kafka"]

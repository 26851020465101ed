"""app/verdict/facts.py: what the verdict reads of other publishers, of refused records and of lakes."""

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


_REFUSED = """
INSERT INTO hookwire.source_refusals (source, partition, record_offset, reason, detail, headers, bytes, refused_at,
                                      held_keys)
    SELECT 'quiet', 0, n, 'too_large', '', '[]'::jsonb, 0, now() - interval '5 h', CASE n WHEN 1 THEN ARRAY['k'] END
    FROM generate_series(1, 2) AS n
    UNION ALL
    SELECT 'loud', 0, n, 'too_large', '', '[]', 0, now(), ARRAY['k'] FROM generate_series(1, 6000) AS n
    UNION ALL
    SELECT 'past', 0, n, 'too_large', '', '[]', 0, now() - interval '2 days', NULL FROM generate_series(1, 3) AS n
"""


async def test_a_source_that_refuses_all_its_records_hides_no_other_source(database_url: str) -> None:
    """KS-28: the latest 1,000 of all sources were counted, so the others seemed well."""
    async with opened(database_url) as (database, sql):
        await sql.execute(_REFUSED)
        facts = await read_facts(database)
    found = {row["source"]: (row["refused"], row["holding"]) for row in facts.refusals}
    assert found == {"loud": (1666, 1666), "quiet": (2, 1)}


_LAKES = """
INSERT INTO hookwire.lake_marks (lake, table_name, version, number, commit_id, digest, marked_at)
    SELECT 's3a://' || lake, table_name, 1, 1, '', '', now() - days * interval '1 day'
    FROM (VALUES ('young', 'bronze', 1), ('young', 'metrics', 0), ('audited', 'bronze', 9), ('left', 'bronze', 9),
                 ('other', 'metrics', 0)) AS m(lake, table_name, days);
INSERT INTO hookwire.lake_audits (lake, ended_at, exit_code, findings, not_compared)
    VALUES ('s3a://audited', now() - interval '6 days', 1, 3, 0), ('s3a://left', now() - interval '8 days', 1, 3, 0),
           ('s3a://copy', now(), 0, 0, 0)
"""


async def test_a_lake_that_nobody_uses_any_more_is_not_told(database_url: str) -> None:
    """GP-14: an alarm about a lake ends a week after the last job, and a lake without an archive has none."""
    async with opened(database_url) as (database, sql):
        before = (await read_facts(database)).lakes
        await sql.execute(_LAKES)
        facts = await read_facts(database)
    assert ([*before], [*facts.unknown]) == ([], [])
    assert [(row["lake"], row["exit_code"], row["findings"]) for row in facts.lakes] == [
        ("s3a://audited", 1, 3), ("s3a://copy", 0, 0), ("s3a://young", None, None),
    ]  # fmt: skip

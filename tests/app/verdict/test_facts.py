"""app/verdict/facts.py: what the verdict reads of other publishers, of refused records and of lakes."""

from __future__ import annotations

from app.verdict.facts import WORST_MAX, read_facts
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
INSERT INTO hookwire.lake_audits (lake, ended_at, until_at, exit_code, findings, not_compared)
    SELECT 's3a://' || lake, now() - days * interval '1 day', now() - days * interval '1 day', code, findings, 0
    FROM (VALUES ('audited', 6, 0, 0), ('left', 8, 0, 0), ('lost', 9, 1, 3), ('copy', 0, 2, 0))
        AS a(lake, days, code, findings);
INSERT INTO hookwire.lake_audits (lake, noted_at, failed_at, failure_code, failure)
    SELECT 's3a://damaged', at, at, 1, 'bronze is damaged' FROM (SELECT now() - interval '9 days' AS at)
"""


async def test_a_lake_that_nobody_uses_any_more_is_not_told(database_url: str) -> None:
    """GP-14: findings and damage are told until an audit takes them back. The worst lake comes first."""
    async with opened(database_url) as (database, sql):
        before = (await read_facts(database)).lakes
        await sql.execute(_LAKES)
        facts = await read_facts(database)
    assert ([*before], [*facts.unknown]) == ([], [])
    assert [(row["lake"], row["exit_code"], row["failure_code"]) for row in facts.lakes] == [
        ("s3a://damaged", None, 1), ("s3a://lost", 1, None), ("s3a://young", None, None), ("s3a://audited", 0, None),
        ("s3a://copy", 2, None),
    ]  # fmt: skip


async def test_a_lake_with_findings_is_told_among_a_hundred_others(database_url: str) -> None:
    """GP-14: lakes were told by name, and the 101st was not."""
    clean = "SELECT 'file:///' || n, now(), now(), 0 FROM generate_series(1, 120) AS n"
    columns = "INSERT INTO hookwire.lake_audits (lake, ended_at, until_at, exit_code)"
    async with opened(database_url) as (database, sql):
        await sql.execute(f"{columns} {clean} UNION ALL SELECT 's3a://zoo', now(), now(), 1")
        facts = await read_facts(database)
    assert (len(facts.lakes), facts.lakes[0]["lake"]) == (WORST_MAX, "s3a://zoo")


_MISSED = """
INSERT INTO hookwire.lake_audits (lake, noted_at, ended_at, until_at, exit_code)
    SELECT lake, now() - interval '20 days', until_at, until_at, CASE WHEN until_at IS NOT NULL THEN 0 END
    FROM (VALUES ('behind', now() - interval '9 days'), ('quiet', now() - interval '2 days'), ('never', NULL))
        AS a(lake, until_at);
INSERT INTO hookwire.ledger (sink, tenant, topic, hour, bucket, owed_count)
    SELECT sink, 'default', 'orders', date_trunc('hour', now() - days * interval '1 day', 'UTC'), 0, owed
    FROM (VALUES ('kafka', 30, 1), ('kafka', 15, 1), ('kafka', 8, 0), ('webhooks', 7, 1), ('kafka', 5, 1),
                 ('kafka', 1, 1)) AS l(sink, days, owed)
"""


async def test_events_that_no_audit_has_judged_are_told_for_ever(database_url: str) -> None:
    """GP-14: a timer that starts archive and audit had stopped. The lake did not change, so nobody told it."""
    async with opened(database_url) as (database, sql):
        await sql.execute(_MISSED)
        facts = await read_facts(database)
    assert {row["lake"]: row["unaudited_at"] and (facts.at - row["unaudited_at"]).days for row in facts.lakes} == {
        "never": 15, "behind": 5, "quiet": None,
    }  # fmt: skip

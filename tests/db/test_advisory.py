"""The statements of SECURITY.md, pasted on a database of release 0.1.0 (GS-01)."""

import re
from pathlib import Path

import asyncpg

from db.migrate import migrate
from scripts.servers.given import GivenServer
from scripts.servers.postgres import PostgresServer
from tests.db.test_squash import restored
from tests.project.stranger import EXPLOITS, FUNCTIONS, SHADOWS, call, stranger

CURE, KEYS, GRANTS, LEFT_BEHIND = re.findall(
    r"```sql\n(.*?)```", (Path(__file__).parents[2] / "SECURITY.md").read_text(encoding="utf-8"), re.DOTALL
)
Server = PostgresServer | GivenServer


async def asked(url: str, query: str) -> list[tuple[object, ...]]:
    connection = await asyncpg.connect(url)
    try:
        return [tuple(map(str, row)) for row in await connection.fetch(query)]
    finally:
        await connection.close()


async def escalations(url: str) -> dict[str, bool]:
    """Try each exploit in a session of its own; tell which ran code of the stranger as the owner."""
    connection = await asyncpg.connect(url)
    calls = [call(one) for one in await connection.fetch(FUNCTIONS) if not one["is_trigger"]]
    await connection.close()
    found = {}
    for name, exploit in EXPLOITS.items():
        async with stranger(url) as outsider:
            await outsider.outcome(exploit)
            found[name] = outsider.escalated != []
    async with stranger(url) as outsider:
        await outsider.run(SHADOWS)
        await outsider.compile(calls)
        await outsider.tour()
        return found | {"compiled before": outsider.escalated != []}


async def test_the_pasted_lines_close_the_exploits_of_0_1_0(postgres: Server) -> None:
    """GS-01: each of them works before, and none after."""
    async with restored(postgres) as url:
        before = await escalations(url)
        connection = await asyncpg.connect(url)
        await connection.execute(CURE)
        await connection.close()
        after = await escalations(url)
    assert (set(before.values()), set(after.values())) == ({True}, {False})


async def test_the_pasted_lines_change_nothing_else_for_a_role_with_usage(postgres: Server) -> None:
    """GS-01: each statement of the tour ends as before, and as it does after the upgrade."""
    ends = []
    for changes in ((), (CURE,)):
        async with restored(postgres, *changes) as url, stranger(url) as outsider:
            ends.append(await outsider.tour())
    async with restored(postgres, CURE) as url:
        await migrate(url)
        async with stranger(url) as outsider:
            upgraded = await outsider.tour()
    # A function that 0.1.0 did not have is refused by another code, and a view that it did not have works now.
    new = (("42883", "42501"), ("42P01", "00000"))
    ends.append([was if (was, now) in new else now for was, now in zip(ends[0], upgraded, strict=True)])
    assert (ends[1:], "42501" in ends[0], "00000" in ends[0]) == ([ends[0]] * 2, True, True)


async def test_the_queries_show_a_key_a_grant_and_a_role_that_a_stranger_made(postgres18: Server) -> None:
    """GS-01."""
    harm = """
        CREATE ROLE advisory_stranger SUPERUSER;
        INSERT INTO hookwire.api_keys (public_id, tenant, name, digest, scopes)
        VALUES ('key_theirs', 'default', 'theirs', sha256('x'), '{admin}');
        GRANT SELECT ON hookwire.events TO advisory_stranger;
        CREATE FUNCTION public.theirs() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
        CREATE TRIGGER theirs BEFORE INSERT ON hookwire.topics FOR EACH ROW EXECUTE FUNCTION public.theirs()"""
    async with restored(postgres18) as url:
        before = [set(await asked(url, query)) for query in (GRANTS, LEFT_BEHIND)]
        connection = await asyncpg.connect(url)
        await connection.execute(harm)
        keys = {(row[0], row[5]) for row in await asked(url, KEYS)}
        after = [set(await asked(url, query)) for query in (GRANTS, LEFT_BEHIND)]
        await connection.execute("DROP OWNED BY advisory_stranger; DROP ROLE advisory_stranger")
        await connection.close()
    assert ("key_theirs", "None") in keys
    assert (after[0] - before[0], after[1] - before[1]) == (
        {("hookwire.events", "advisory_stranger", "SELECT")},
        {("role", "advisory_stranger"), ("function", "theirs()"), ("trigger", "theirs on hookwire.topics")},
    )

"""A database role that has only what the documentation grants, and uses all that PostgreSQL gives to every role.

It has a schema of its own, `traps`, and temporary objects. Each of its traps calls `traps.spy`, which tells as whom it
runs. Nothing that is told may name another role: then code of the stranger runs with the rights of that role.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

import asyncpg

TYPES = (
    "text", "bytea", "jsonb", "uuid", "boolean", "smallint", "integer", "bigint", "real", "double precision", "numeric",
    "timestamp", "timestamptz", "interval", "text[]", "bytea[]", "jsonb[]", "uuid[]", "integer[]", "bigint[]",
    "double precision[]", "jsonpath", "tid",
)  # fmt: skip

SPY = """
CREATE FUNCTION traps.spy(pg_catalog.text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RAISE NOTICE 'spied by % as %', $1, current_user;
    RETURN true;
END
$$;
CREATE TYPE traps.word AS (v pg_catalog.text);
CREATE FUNCTION traps.text_of(traps.word) RETURNS pg_catalog.text LANGUAGE plpgsql
    AS $$ BEGIN PERFORM traps.spy('a cast'); RETURN ($1).v; END $$;
CREATE CAST (traps.word AS pg_catalog.text) WITH FUNCTION traps.text_of(traps.word) AS IMPLICIT;
CREATE DOMAIN traps.checked AS pg_catalog.text CHECK (traps.spy('a domain'));
"""
"""The spy; a type whose values it sees when they are cast to text; and one whose values it sees when they are made."""

SHADOWS = """
DO $do$
DECLARE
    words CONSTANT text[] := ARRAY(
        SELECT DISTINCT w[1] FROM pg_proc p, regexp_matches(p.prosrc, '[a-z_][a-z0-9_]*', 'g') AS w
        WHERE p.pronamespace = 'hookwire'::regnamespace);
    body CONSTANT text := 'BEGIN PERFORM traps.spy(%L); RETURN NULL; END';
    made record;
BEGIN
    FOR made IN SELECT t.typname FROM pg_type t WHERE t.typnamespace = 'pg_catalog'::regnamespace AND t.typtype = 'b'
                AND t.typname = ANY (words) LOOP
        EXECUTE format('CREATE DOMAIN traps.%1$I AS pg_catalog.%1$I CHECK (traps.spy(%2$L))', made.typname,
                       'a type ' || made.typname);
    END LOOP;
    FOR made IN SELECT o.oid, o.oprname, o.oprleft::regtype AS l, o.oprright::regtype AS r,
                o.oprresult::regtype AS result FROM pg_operator o WHERE o.oprnamespace = 'pg_catalog'::regnamespace
                AND o.oprleft <> 0 AND o.oprleft::regtype = ANY (<types>) AND o.oprright::regtype = ANY (<types>) LOOP
        EXECUTE format('CREATE FUNCTION traps.operator_%s(%s, %s) RETURNS %s LANGUAGE plpgsql AS %L', made.oid, made.l,
                       made.r, made.result, format(body, 'an operator ' || made.oprname));
        EXECUTE format('CREATE OPERATOR traps.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = traps.operator_%s)',
                       made.oprname, made.l, made.r, made.oid);
    END LOOP;
    FOR made IN SELECT p.proname, oidvectortypes(p.proargtypes) AS arguments, p.prorettype::regtype AS result
                FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f' AND NOT p.proretset
                AND p.provariadic = 0 AND p.proname = ANY (words) LOOP
        BEGIN
            EXECUTE format('CREATE FUNCTION traps.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L', made.proname,
                           made.arguments, made.result, format(body, 'a function ' || made.proname));
        EXCEPTION WHEN OTHERS THEN                       -- one of PostgreSQL's inner types
        END;
    END LOOP;
    FOR made IN SELECT w AS word FROM unnest(words) AS w LOOP
        EXECUTE format('CREATE TEMP VIEW %I AS SELECT traps.spy(%L) AS spied', made.word, 'a relation ' || made.word);
    END LOOP;
END
$do$;
""".replace("<types>", "'{" + ",".join(TYPES) + "}'::regtype[]")
"""For each name that functions of `hookwire` use: a domain, operator or function in `traps`, a view in `pg_temp`."""

HOSTILE_PATH = "SET search_path = traps, pg_temp, pg_catalog"


def lures(type_name: str, number: int) -> str:
    """Return the SQL that makes `cast_N`, whose cast to a type spies, and `domain_N`, whose check spies."""
    return f"""
        CREATE TYPE traps.cast_{number} AS (v pg_catalog.text);
        CREATE FUNCTION traps.to_{number}(traps.cast_{number}) RETURNS {type_name} LANGUAGE plpgsql
            AS $$ BEGIN PERFORM traps.spy('a cast'); RETURN NULL; END $$;
        CREATE CAST (traps.cast_{number} AS {type_name})
            WITH FUNCTION traps.to_{number}(traps.cast_{number}) AS IMPLICIT;
        CREATE DOMAIN traps.domain_{number} AS {type_name} CHECK (traps.spy('a domain'))"""


def trap(function: str, kind: str, when: str) -> str:
    """Return the SQL that puts a function of `hookwire` as a trigger on a table of the stranger, and springs it."""
    return (
        f"CREATE TEMP TABLE trap (id text, description text, kind {kind}, start_time timestamptz, due_at timestamptz,"
        f" notify_at timestamptz); CREATE TRIGGER trap {when} EXECUTE FUNCTION hookwire.{function}();"
        " INSERT INTO trap (id, description, kind, notify_at) SELECT 'x', 'x', NULL, now()"
    )


EXPLOITS = {
    "complete_task": trap("complete_task", "traps.checked", "BEFORE INSERT ON trap FOR EACH ROW"),
    "announce_tasks": trap(
        "announce_tasks", "traps.word", "AFTER INSERT ON trap REFERENCING NEW TABLE AS added FOR EACH STATEMENT"
    ),
}
"""The trigger functions of 0.1.0 that run code of whoever owns the table, as the owner of the schema."""

_HELD = "(pg_catalog.array_agg(id), pg_catalog.array_agg(claim)"
_JOB = "FROM hookwire.claim_jobs('{a}', 1, 'w')"
_REQUEST = "SELECT hookwire.request('s', 'x')"
_DONE = f"FROM (SELECT hookwire.complete_jobs{_HELD}) AS id FROM hookwire.claim_jobs('{{r}}', 1, 'w')) AS done"
_MADE = 'FROM hookwire.add_jobs(\'[{"kind": "a"}]\')'

TOUR = (
    "SELECT hookwire.numbers(), hookwire.set_numbers_forward()",
    "SELECT hookwire.publish('t', 'x', key => 'k', headers => '{\"a\": \"b\"}')",
    "SELECT hookwire.publish('t', '{}'::pg_catalog.jsonb), hookwire.publish('t', '\\x00'::pg_catalog.bytea)",
    "INSERT INTO hookwire.message_queue (queue, key, payload) VALUES ('q', 'k', 'x') RETURNING id",
    "INSERT INTO hookwire.stash (topic, key, payload) VALUES ('t', 'k', 'x') RETURNING event_id",
    "SELECT hookwire.submit('q', n) FROM pg_catalog.unnest('{a,b,c,d,e,f,g}'::pg_catalog.text[]) AS n",
    "SELECT hookwire.submit('q', '{}'::pg_catalog.jsonb), hookwire.submit('q', '\\x00'::pg_catalog.bytea)",
    "SELECT hookwire.submit_batch('q', '{a,b}'), hookwire.message_count('q'), hookwire.browse('q')",
    "SELECT hookwire.accept(pg_catalog.array_agg(id), pg_catalog.min(claim)) FROM hookwire.receive('q', 1)",
    "SELECT hookwire.submit('g', 'x'), hookwire.receive('g', 1)",
    "SELECT hookwire.reject(pg_catalog.array_agg(id), pg_catalog.min(claim)) FROM hookwire.receive('q', 1)",
    "SELECT hookwire.extend(pg_catalog.array_agg(id), pg_catalog.min(claim), 60) FROM hookwire.receive('q', 1)",
    f"SELECT hookwire.accept_held{_HELD}, 'q') FROM hookwire.receive('q', 1, filter => '{{\"age_seconds_min\": 0}}')",
    f"SELECT hookwire.reject_held{_HELD}, 'q', 0, 'why', false, true) FROM hookwire.receive('q', 1)",
    f"SELECT hookwire.extend_held{_HELD}, 'q', 60) FROM hookwire.receive('q', 1)",
    "SELECT hookwire.register_consumer('q', 'c'), hookwire.register_consumer('q', 'd')",
    "SELECT hookwire.submit('q', 'x')",
    "SELECT hookwire.accept_copies('q', 'c', pg_catalog.min(claim), pg_catalog.array_agg(id))"
    " FROM hookwire.receive_copies('q', 'c', 1)",
    "SELECT hookwire.release_copies('q', 'd', claim) FROM hookwire.receive_copies('q', 'd', 1)",
    "INSERT INTO hookwire.tasks (id, description) VALUES ('1', 'resize'), ('2', 'two words')",
    "SELECT hookwire.enqueue_task('resize', '{\"n\": 1}'), hookwire.enqueue_task('resize', '{\"n\": 2}')",
    "SELECT hookwire.notify_tasks('{1,2}', '{notify,relay}'), hookwire.claim_task('2', 'w')",
    f"SELECT hookwire.finish_tasks{_HELD}) FROM hookwire.claim_tasks('{{resize}}', 1, 'w')",
    f"SELECT hookwire.release_tasks{_HELD}) FROM hookwire.claim_tasks('{{resize}}', 1, 'w')",
    "SELECT hookwire.fail_task(id, claim, 'why') FROM hookwire.claim_tasks('{resize}', 1, 'w')",
    "SELECT hookwire.enqueue('a', '{\"n\": 1}', uniq => n, callbacks => '{\"on_status\": \"b\"}', key => n)"
    " FROM pg_catalog.unnest('{a,b,c,d,e,f,g,h}'::pg_catalog.text[]) AS n",
    'SELECT hookwire.complete_job(id, claim, \'{}\', \'[{"topic": "t", "payload": 1}]\', \'[{"kind": "c"}]\')'
    f" {_JOB}",
    f"SELECT hookwire.complete_jobs{_HELD}) {_JOB}",
    f"SELECT hookwire.fail_job(id, claim, 'why') {_JOB}",
    f"SELECT hookwire.snooze_job(id, claim, 60, 'a token of sixteen bytes') {_JOB}",
    "SELECT hookwire.resume_job('a token of sixteen bytes', '{}')",
    f"SELECT hookwire.extend_jobs{_HELD}, 60), hookwire.release_jobs{_HELD}) {_JOB}",
    f"SELECT hookwire.progress_job(id, claim, 1, 2, 'note') {_JOB}",
    f"SELECT hookwire.assign_job(id, 'ann', 'bob'), hookwire.unassign_job(id, 'bob') {_MADE}",
    f"SELECT hookwire.delay_job(id, 'bob', due_at => pg_catalog.now()) {_MADE}",
    f"SELECT hookwire.assign_job(id, 'ann', 'bob'), hookwire.finish_job(id, 'ann', '{{}}') {_MADE}",
    f"SELECT hookwire.cancel_job(id, 'bob'), hookwire.retry_job(id, 'bob') {_MADE}",
    "SELECT hookwire.enqueue('r'), hookwire.enqueue('r'), hookwire.enqueue('r')",
    f"SELECT hookwire.approve_job(id, 'bob') {_DONE}",
    f"SELECT hookwire.send_back_job(id, 'bob') {_DONE}",
    f"SELECT hookwire.decline_job(id, 'bob') {_DONE}",
    f"{_REQUEST}, hookwire.request('s', '{{}}'::pg_catalog.jsonb), hookwire.request('s', '\\x00'::pg_catalog.bytea)",
    "SELECT hookwire.reply(id, claim, 'x') FROM hookwire.claim_requests('s')",
    "SELECT hookwire.reply(id, claim, '{}'::pg_catalog.jsonb) FROM hookwire.claim_requests('s')",
    "SELECT hookwire.reply(id, claim, '\\x00'::pg_catalog.bytea) FROM hookwire.claim_requests('s')",
    "SELECT hookwire.answer_of(id), hookwire.close_request(id) FROM hookwire.request('s', 'y') AS id",
)
"""Statements that call each function that some role may be granted, far enough to run its body."""


FUNCTIONS = """
SELECT regexp_replace(p.oid::regprocedure::text, '^hookwire[.]', '') AS signature, p.proname AS name,
       p.prosecdef AS is_definer, p.prorettype = ANY ('{trigger,event_trigger}'::regtype[]) AS is_trigger,
       coalesce((SELECT o.option_value FROM pg_options_to_table(p.proconfig) AS o WHERE o.option_name = 'search_path'),
                '') AS path,
       ARRAY(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) AS t) AS arguments,
       coalesce(p.proargnames, '{}') AS names, coalesce(pg_get_expr(p.proargdefaults, 0), '') AS defaults,
       l.lanname AS language, p.prosrc AS body, p.prosqlbody IS NOT NULL AS is_parsed, p.proisstrict AS is_strict,
       EXISTS (SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a
               WHERE a.grantee = 0 AND a.privilege_type = 'EXECUTE') AS is_public
FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
WHERE p.pronamespace = 'hookwire'::regnamespace ORDER BY signature
"""
"""Each function of the schema."""

Row = Any


def call(function: Row, lure: str = "", place: int = -1) -> str:
    """Return a call with NULL, or where the function is strict the empty value, for each argument but one."""
    value = "''::pg_catalog.text::{}" if function["is_strict"] else "NULL::{}"
    given = [lure if n == place else value.format(one) for n, one in enumerate(function["arguments"])]
    return f"SELECT hookwire.{function['name']}({', '.join(given)})"


class Stranger:
    """A session of the stranger, and what its traps tell."""

    def __init__(self, connection: Any, name: str) -> None:
        self._connection = connection
        self.name = name
        self.told: list[str] = []
        connection.add_log_listener(lambda _connection, message: self._hear(message.message))

    def _hear(self, message: str) -> None:
        if message.startswith("spied by "):
            self.told.append(message)

    async def run(self, statement: str) -> None:
        """Run statements by the simple protocol: the driver asks nothing itself, which traps would catch."""
        await self._connection.execute(statement)

    async def outcome(self, statement: str) -> str:
        """Return the SQLSTATE with which a statement ends."""
        try:
            await self.run(statement)
        except asyncpg.PostgresError as error:
            return str(error.sqlstate)
        return "00000"

    async def tour(self) -> list[str]:
        return [await self.outcome(statement) for statement in TOUR]

    async def compile(self, calls: Iterable[str]) -> None:
        """Make PL/pgSQL compile functions with types of the stranger. A session keeps what it has compiled."""
        await self.run(HOSTILE_PATH)
        for call in calls:
            with suppress(asyncpg.PostgresError):
                await self.run(call)
        await self.run("RESET search_path")

    @property
    def escalated(self) -> list[str]:
        """What was told by traps that ran as another role."""
        return [line for line in self.told if not line.endswith(f" as {self.name}")]


@asynccontextmanager
async def stranger(database_url: str, *grants: str) -> AsyncIterator[Stranger]:
    """Log in as a new role with USAGE on the schema, and with some grants, as `GRANT ... TO` has them before TO."""
    name = f"stranger_{secrets.token_hex(4)}"
    owner = await asyncpg.connect(database_url)
    await owner.execute(f"CREATE ROLE {name} LOGIN; CREATE SCHEMA traps AUTHORIZATION {name}")
    for grant in ("USAGE ON SCHEMA hookwire", *grants):
        await owner.execute(f"GRANT {grant} TO {name}")
    connection = await asyncpg.connect(database_url, user=name)
    try:
        await connection.execute("SET client_min_messages = notice")
        await connection.execute(SPY)
        yield Stranger(connection, name)
    finally:
        await connection.close(timeout=10)
        await owner.execute(f"SET client_min_messages = error; DROP OWNED BY {name} CASCADE; DROP ROLE {name}")
        await owner.close()

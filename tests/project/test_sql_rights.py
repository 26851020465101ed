"""What a database role may do that has only `USAGE` on the schema, or a worker's functions (GS-01).

Rules over the catalogue, for functions of today and of later migrations; and attacks, tried on both PostgreSQL
versions by a role with what `docs/reference/sql.md` grants.
"""

import re
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from tests.project.stranger import (
    EXPLOITS,
    FUNCTIONS,
    HOSTILE_PATH,
    SHADOWS,
    TOUR,
    Row,
    Stranger,
    call,
    lures,
    stranger,
)

_ASKS = "a role with USAGE publishes, submits, enqueues and asks"
_OWN = "a role fetches and closes the requests whose ids it knows"
_COMPAT = "a relay of goharvest's table runs as a role of its own; the body was parsed when it was created"
PUBLIC = {
    "publish(text,bytea,text,text,jsonb)": _ASKS,
    "publish(text,jsonb,text,text,jsonb)": _ASKS,
    "publish(text,text,text,text,jsonb)": _ASKS,
    "submit(text,bytea,text,jsonb,text,text,integer,double precision)": _ASKS,
    "submit(text,jsonb,text,jsonb,text,text,integer,double precision)": _ASKS,
    "submit(text,text,text,jsonb,text,text,integer,double precision)": _ASKS,
    "submit_batch(text,bytea[],text[],jsonb[],text[],text[],integer[],double precision[])": _ASKS,
    "message_count(text)": "a role that submits sees how many messages wait",
    "enqueue(text,jsonb,text,text,text,integer,timestamp with time zone,double precision,integer,double precision,"
    "double precision,text,text,jsonb,text)": _ASKS,
    "add_jobs(jsonb,text)": _ASKS,
    "enqueue_task(text,jsonb,double precision,boolean)": _ASKS,
    "request(text,bytea,text,text,text,double precision)": _ASKS,
    "request(text,jsonb,text,text,text,double precision)": _ASKS,
    "request(text,text,text,text,text,double precision)": _ASKS,
    "answer_of(text)": _OWN,
    "close_request(text)": _OWN,
    "groups_of(smallint,text)": _COMPAT,
    "scope_of(smallint)": _COMPAT,
    "last_batch_no(text,smallint,smallint)": _COMPAT,
}
"""The functions that every role with USAGE on the schema may execute, and why."""

PUBLIC_RELATIONS = {"stash": {"SELECT", "INSERT"}, "message_queue": {"SELECT", "INSERT"}, "tasks": {"INSERT"}}
"""`stash` and `message_queue` have no rows."""

ARGUMENTS = {
    "text", "bytea", "jsonb", "uuid", "boolean", "smallint", "integer", "bigint", "double precision",
    "timestamp with time zone", "timestamp without time zone", "text[]", "bytea[]", "jsonb[]", "uuid[]", "integer[]",
    "bigint[]", "double precision[]",
}  # fmt: skip
"""Types of PostgreSQL's own. A value of a caller's type is cast to one of these before the function begins."""


@pytest.fixture
async def owner(database_url_both: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url_both)
    yield connection
    await connection.close(timeout=10)


@pytest.fixture
async def functions(owner: asyncpg.Connection) -> list[Row]:
    """Each function of the schema."""
    return list(await owner.fetch(FUNCTIONS))


@pytest.fixture
def definers(functions: list[Row]) -> list[Row]:
    """The functions that run with the owner's rights and that some role may be granted."""
    return [one for one in functions if one["is_definer"] and not one["is_trigger"]]


@pytest.fixture
async def worker(owner: asyncpg.Connection, database_url_both: str, definers: list[Row]) -> AsyncIterator[Stranger]:
    """A stranger that may execute each of them: more than any role of the documentation."""
    await owner.execute("SELECT hookwire.put_job_kind('r', '{\"needs_review\": true}', 'x'), hookwire.submit('g', 'x')")
    await owner.execute("SELECT hookwire.graduate('g')")
    names = ", ".join(f"hookwire.{one['signature']}" for one in definers)
    async with stranger(database_url_both, f"EXECUTE ON FUNCTION {names}") as session:
        yield session


@pytest.fixture
async def outsider(database_url_both: str) -> AsyncIterator[Stranger]:
    """A stranger with USAGE on the schema alone."""
    async with stranger(database_url_both) as session:
        yield session


# --- rules for each function ------------------------------------------------------------------------------------


def test_every_role_may_execute_these_functions_and_no_other(functions: list[Row]) -> None:
    """GS-01: a new function is revoked from PUBLIC in its migration, or stands in the list with its reason."""
    assert {one["signature"] for one in functions if one["is_public"]} == PUBLIC.keys()


def test_no_trigger_function_is_granted_to_everybody(functions: list[Row]) -> None:
    """GS-01: a stranger puts it on a table of his own, whose columns run his code. Triggers need no such right."""
    assert [one["signature"] for one in functions if one["is_trigger"] and one["is_public"]] == []


def test_what_every_role_executes_is_resolved_without_its_search_path(functions: list[Row]) -> None:
    """GS-01: PL/pgSQL keeps what it has compiled, and a function with the owner's rights would run it."""
    loose = [
        one
        for one in functions
        if one["is_public"] and not (one["is_definer"] and one["path"]) and not one["is_parsed"]
    ]
    assert [one["signature"] for one in loose] == []


def test_what_runs_with_the_owners_rights_has_a_fixed_search_path(functions: list[Row]) -> None:
    """GS-01: temporary objects come last."""
    paths = {one["path"] for one in functions if one["is_definer"]}
    assert paths == {"pg_catalog, pg_temp"}


def test_what_runs_with_the_owners_rights_takes_no_value_of_a_callers_type(definers: list[Row]) -> None:
    """GS-01: no polymorphic, composite or domain argument; and each default is a constant."""
    assert {type_ for one in definers for type_ in one["arguments"]} <= ARGUMENTS
    assert [one["signature"] for one in definers if "(" in one["defaults"]] == []


def test_what_runs_with_the_owners_rights_makes_no_sql_of_a_callers_text(functions: list[Row]) -> None:
    """GS-01: only `submit_batch` puts a name together, from a queue's number; and no other language is used."""
    made = {
        one["name"]: re.findall(r"EXECUTE format\(.*?'[^']*(?:''[^']*)*', (.*?)\)\s+USING", one["body"], re.DOTALL)
        for one in functions
        if one["is_definer"] and re.search(r"(?i)\bEXECUTE\b", one["body"])
    }
    assert (made, {one["language"] for one in functions}) == (
        {"submit_batch": ["'messages_' || settings.id"]},
        {"sql", "plpgsql"},
    )


async def test_a_body_names_each_relation_with_its_schema(owner: asyncpg.Connection, functions: list[Row]) -> None:
    """GS-01: a bare name would be a temporary table of the caller's; names of CTEs and variables are no relations."""
    relations = await owner.fetch("SELECT relname FROM pg_class WHERE relnamespace = 'hookwire'::regnamespace")
    names = "|".join(re.escape(name) for (name,) in relations)
    bare = re.compile(rf"(?i)\b(?:FROM|JOIN|UPDATE|INSERT INTO|USING)\s+(?:ONLY\s+)?({names})\b(?!\s*\()")
    found = {(one["signature"], name) for one in functions for name in bare.findall(one["body"])}
    ours = {
        (one["signature"], name)
        for one in functions
        for name in re.findall(r"(?i)\b(\w+) AS (?:MATERIALIZED )?\(", one["body"])
    }
    assert found - ours == set()


# --- rules for everything else ----------------------------------------------------------------------------------


async def test_a_role_with_usage_has_these_rights_on_relations_and_no_other(owner: asyncpg.Connection) -> None:
    """GS-01: tables, views, sequences, columns and the schema itself; and no default gives more to later ones."""
    granted = await owner.fetch(
        "SELECT c.relname, a.privilege_type FROM pg_class c, aclexplode(c.relacl) AS a"
        " WHERE c.relnamespace = 'hookwire'::regnamespace AND a.grantee = 0"
        " UNION ALL SELECT attname, attacl::text FROM pg_attribute JOIN pg_class c ON c.oid = attrelid"
        " WHERE c.relnamespace = 'hookwire'::regnamespace AND attacl IS NOT NULL"
        " UNION ALL SELECT nspname, nspacl::text FROM pg_namespace WHERE nspname = 'hookwire' AND nspacl IS NOT NULL"
        " UNION ALL SELECT 'default', defaclacl::text FROM pg_default_acl"
    )
    found: dict[str, set[str]] = {}
    for name, privilege in granted:
        found.setdefault(name, set()).add(privilege)
    assert found == PUBLIC_RELATIONS


async def test_views_hold_no_function_and_no_rule_of_ours(owner: asyncpg.Connection) -> None:
    """GS-01: PostgreSQL runs functions of a view as its reader, who would need the right to execute them."""
    bodies = await owner.fetch(
        "SELECT c.relname FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class"
        " WHERE c.relnamespace = 'hookwire'::regnamespace AND (r.rulename <> '_RETURN' OR EXISTS ("
        "     SELECT FROM pg_depend d JOIN pg_proc p ON p.oid = d.refobjid AND d.refclassid = 'pg_proc'::regclass"
        "     WHERE d.objid = r.oid AND p.pronamespace = 'hookwire'::regnamespace))"
    )
    assert [name for (name,) in bodies] == []


async def test_the_product_makes_functions_in_its_own_schema_only(owner: asyncpg.Connection) -> None:
    """GS-01: and no cast, operator, aggregate or event trigger, which would be found by a search path."""
    elsewhere = await owner.fetch(
        "SELECT p.oid::regprocedure::text AS object FROM pg_proc p WHERE p.oid >= 16384"
        " AND (p.pronamespace <> 'hookwire'::regnamespace OR p.prokind <> 'f')"
        " UNION ALL SELECT c.oid::text FROM pg_cast c WHERE c.oid >= 16384"
        " UNION ALL SELECT o.oid::regoperator::text FROM pg_operator o WHERE o.oid >= 16384"
        " UNION ALL SELECT e.evtname::text FROM pg_event_trigger e"
    )
    assert [one["object"] for one in elsewhere] == []


# --- attacks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exploit", EXPLOITS.values(), ids=EXPLOITS)
async def test_a_trigger_function_runs_no_code_of_a_stranger_as_the_owner(outsider: Stranger, exploit: str) -> None:
    """GS-01: the exploit. With 0.1.0 the stranger became the owner."""
    code = await outsider.outcome(exploit)
    assert (outsider.escalated, code) == ([], "42501")


async def test_no_trigger_function_can_be_put_on_a_table_of_a_stranger(
    outsider: Stranger, functions: list[Row]
) -> None:
    """GS-01."""
    await outsider.run("CREATE TEMP TABLE mine (id text)")
    triggers = [one["name"] for one in functions if one["is_trigger"]]
    codes = [
        await outsider.outcome(f"CREATE TRIGGER t BEFORE INSERT ON mine EXECUTE FUNCTION hookwire.{name}()")
        for name in triggers
    ]
    assert (len(triggers) > 5, set(codes)) == (True, {"42501"})


async def test_nothing_that_a_stranger_has_compiled_runs_as_the_owner(worker: Stranger, functions: list[Row]) -> None:
    """GS-01: he calls every function while `text` is a type of his own, and then those that he may call."""
    await worker.run(SHADOWS)
    await worker.compile(call(one) for one in functions if not one["is_trigger"])
    codes = await worker.tour()
    assert (worker.escalated, set(codes)) == ([], {"00000"})


async def test_nothing_of_a_strangers_schema_or_session_is_found_as_the_owner(worker: Stranger) -> None:
    """GS-01: types, operators, functions and temporary relations of each name that the functions use."""
    await worker.run(SHADOWS)
    await worker.run(HOSTILE_PATH)
    codes = await worker.tour()
    assert (worker.escalated, set(codes)) == ([], {"00000"})


async def test_a_value_of_a_strangers_type_is_cast_and_checked_as_the_stranger(
    worker: Stranger, definers: list[Row]
) -> None:
    """GS-01: implicit casts and the checks of domains, for each argument of each function."""
    types = sorted({type_ for one in definers for type_ in one["arguments"]})
    for number, type_ in enumerate(types):
        await worker.run(lures(type_, number))
    silent = []
    for function, place, number in lured(definers, types):
        for lure in (f"ROW('x')::traps.cast_{number}", f"NULL::traps.domain_{number}"):
            before = len(worker.told)
            await worker.outcome(call(function, lure, place))
            if len(worker.told) == before:
                silent.append((function["signature"], place, lure))
    assert (worker.escalated, silent) == ([], [])


def lured(definers: list[Row], types: list[str]) -> Iterator[tuple[Row, int, int]]:
    """Give each function with each of its arguments, and the number of the argument's type."""
    for function in definers:
        for place, type_ in enumerate(function["arguments"]):
            yield function, place, types.index(type_)


async def test_a_row_with_values_of_a_strangers_types_is_cast_as_the_stranger(outsider: Stranger) -> None:
    """GS-01: the three views that take an INSERT of every role."""
    for view, column in (
        ("stash", "topic"),
        ("stash", "key"),
        ("tasks", "id"),
        ("tasks", "description"),
        ("tasks", "worker"),
        ("message_queue", "queue"),
        ("message_queue", "key"),
    ):
        row = {
            "stash": {"topic": "'t'", "payload": "'x'"},
            "tasks": {"id": f"'{column}'", "description": f"'{column}'"},
            "message_queue": {"queue": "'q'", "payload": "'x'"},
        }[view]
        row[column] = f"ROW('{column}')::traps.word"
        await outsider.run(f"INSERT INTO hookwire.{view} ({', '.join(row)}) SELECT {', '.join(row.values())}")
    assert (outsider.escalated, len(outsider.told)) == ([], 7)


async def test_a_stranger_reads_no_relation_and_draws_from_no_sequence(
    owner: asyncpg.Connection, outsider: Stranger
) -> None:
    """GS-01: but the two views that have no rows."""
    await owner.execute("SELECT hookwire.publish('t', 'x')")
    relations = await owner.fetch(
        "SELECT relname FROM pg_class WHERE relnamespace = 'hookwire'::regnamespace AND relkind IN ('r', 'p', 'v', 'S')"
    )
    codes = {name: await outsider.outcome(f"TABLE hookwire.{name}") for (name,) in relations}
    assert {name for name, code in codes.items() if code != "42501"} == {"stash", "message_queue"}


def test_the_tour_calls_each_function_that_a_role_may_be_granted(definers: list[Row]) -> None:
    """The attacks are as good as the tour: a new function joins it."""
    called = set(re.findall(r"hookwire\.(\w+)\(|hookwire\.(\w+)\{", " ".join(TOUR)))
    names = {first or second for first, second in called}
    assert {one["name"] for one in definers} - names == set()

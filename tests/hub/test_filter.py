"""Filters: their language, and that PostgreSQL reads it as we mean it, on every version (WH-A05, RR-10)."""

from __future__ import annotations

import json
from typing import Any

import asyncpg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.filter import FIELDS, FilterError, compile_filter
from tests.examples import examples

DATA = {"amount": 120, "currency": "EUR", "tags": ["new", "big"], "customer": {"name": 'Zoë "Q"'}, "none": None}

# filter over data, whether DATA passes
MEANINGS: list[tuple[Any, bool]] = [
    ({"amount": 120}, True),
    ({"amount": 120.0}, True),
    ({"amount": "120"}, False),
    ({"amount": {"$gte": 100, "$lt": 200}}, True),
    ({"amount": {"$gt": 120}}, False),
    ({"amount": {"$lte": -5}}, False),
    ({"amount": {"$gt": "x"}}, False),
    ({"amount": {"$ne": "x"}}, True),
    ({"missing": {"$ne": 1}}, True),
    ({"missing": {"$gt": 1}}, False),
    ({"missing": None}, False),
    ({"none": None}, True),
    ({"none": {"$exists": True}}, True),
    ({"missing": {"$exists": False}}, True),
    ({"currency": {"$in": ["CHF", "EUR"]}}, True),
    ({"currency": {"$nin": ["CHF", "EUR"]}}, False),
    ({"currency": {"$nin": [1, None]}}, True),
    ({"currency": {"$startsWith": "EU"}}, True),
    ({"amount": {"$startsWith": "1"}}, False),
    ({"tags": "big"}, True),
    ({"tags": {"$in": ["old"]}}, False),
    ({"customer": {"name": "Zoë \"Q\""}}, True),
    ({"customer": {"name": {"$startsWith": "Zoë \""}, "age": {"$exists": False}}}, True),
    ({"$or": [{"amount": 1}, {"currency": "EUR"}]}, True),
    ({"$and": [{"amount": 120}, {"currency": "CHF"}]}, False),
    ({"$not": {"amount": 1}}, True),
    ({"$not": {"$not": {"$not": {"amount": {"$gt": "x"}}}}}, True),
    ({"amount": {"$not": {"$lt": 100}}}, True),
]  # fmt: skip

WRONG = [
    {"dta": {}},
    {"data": {}},
    {"data": {"a": {"$regex": "x"}}},
    {"data": {"a": {"$gt": None}}},
    {"data": {"a": {"$in": "x"}}},
    {"data": {"a": {"$in": []}}},
    {"data": {"a": {"$in": [[1]]}}},
    {"data": {"a": {"$startsWith": 1}}},
    {"data": {"a": {"$exists": 1}}},
    {"$or": {"topic": "a"}},
    {"$or": []},
    {"data": {"a": [1]}},
    {"data": {"a": "\x00"}},
    {"data": {"a": "\ud800"}},
    {"data": {"a": 10**400}},
    {"data": {"a": float("inf")}},
    {"data": {"a": "x" * 1001}},
    {"data": {"a": {"$in": list(range(65))}}},
]


def nested(depth: int) -> dict[str, Any]:
    return {"data": 1} if depth == 0 else {"$not": nested(depth - 1)}


@pytest.mark.parametrize("wrong", [*WRONG, nested(20)], ids=lambda wrong: ascii(wrong)[:40])
def test_a_filter_that_cannot_be_meant_is_refused_with_words(wrong: dict[str, Any]) -> None:
    with pytest.raises(FilterError, match=r"\w+ \w+"):
        compile_filter(wrong)


def test_the_empty_filter_wants_everything() -> None:
    assert compile_filter({}) is None


async def test_filters_mean_what_they_say(database_url_both: str) -> None:
    """WH-A05, RR-10: typed, without errors."""
    connection = await asyncpg.connect(database_url_both)
    try:
        document = json.dumps({"topic": "orders.new", "key": "k", "data": DATA})
        statement = "SELECT hookwire.passes($1::text::jsonb, $2::text::jsonpath)"
        found = [
            (meaning, await connection.fetchval(statement, document, compile_filter({"data": meaning})))
            for meaning, _ in MEANINGS
        ]
    finally:
        await connection.close()

    assert found == MEANINGS


PAYLOADS = [
    b"",
    b"{",
    b"\xff",
    b'"\\u0000"',
    b'"\\ud800"',
    b"[" * 100_000,
    b"1e999999",
    b"NaN",
    b"null",
    b"[1,2]",
    b"7",
]


async def test_no_payload_makes_a_filter_raise(database_url_both: str) -> None:
    """RR-10: a body that is no JSON has no data."""
    connection = await asyncpg.connect(database_url_both)
    try:
        path = compile_filter({"data": {"a": {"b": {"$gt": 1}}}})
        found = await connection.fetch(
            "SELECT hookwire.passes(hookwire.filter_document('t', NULL, now(), NULL, '{}', p), $2::text::jsonpath)"
            " AS passes FROM unnest($1::bytea[]) AS p",
            PAYLOADS,
            path,
        )
    finally:
        await connection.close()

    assert [row["passes"] for row in found] == [False] * len(PAYLOADS)


VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5))
OPERATORS = ["$eq", "$gt", "$in", "$nin", "$not", "$or", "$ne", "$exists", "$startsWith"]
CONDITIONS = st.recursive(
    VALUES,
    lambda inner: (
        st.dictionaries(st.one_of(st.text(max_size=3), st.sampled_from(OPERATORS)), inner, max_size=3)
        | st.lists(inner, max_size=3)
    ),
    max_leaves=6,
)


async def test_whatever_is_accepted_is_a_path_that_postgresql_reads(database_url_both: str) -> None:
    """RR-10: a filter that the compiler lets through never fails a statement."""
    accepted: list[str] = []

    @settings(max_examples=examples(400), database=None, deadline=None)
    @given(st.dictionaries(st.sampled_from(FIELDS), CONDITIONS, min_size=1, max_size=2))
    def collect(asked: dict[str, Any]) -> None:
        try:
            accepted.append(str(compile_filter(asked)))
        except FilterError:
            return

    collect()
    connection = await asyncpg.connect(database_url_both)
    try:
        statement = "SELECT bool_or(hookwire.passes('{}', p::jsonpath)) IS NOT NULL FROM unnest($1::text[]) AS p"
        assert (len(accepted) > 20, await connection.fetchval(statement, accepted)) == (True, True)
    finally:
        await connection.close()

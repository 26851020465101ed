"""The servers of a database's URL, as libpq and asyncpg read them."""

import pytest

from db.address import ServerAddress, addresses, without_hosts

_NAMED = {
    "postgresql://u:s@db/x": [ServerAddress("db")],
    "postgresql://u@db:6432/x": [ServerAddress("db", 6432)],
    "postgresql://u@one:5432,two,[::1]:7/x?target_session_attrs=read-write": [
        ServerAddress("one", 5432), ServerAddress("two"), ServerAddress("::1", 7),
    ],
    "postgresql://u@[fe80::1]/x": [ServerAddress("fe80::1")],
    "postgresql://u@%2Frun%2Fpostgresql/x": [ServerAddress("/run/postgresql")],
    "postgresql://u@/x?host=/tmp/a&port=5433": [ServerAddress("/tmp/a", 5433)],
    "postgresql:///x?host=one,two&port=1,2": [ServerAddress("one", 1), ServerAddress("two", 2)],
    "postgresql:///x?host=one:3,two&port=9": [ServerAddress("one", 9), ServerAddress("two", 9)],
    "postgresql:///x": [],
}  # fmt: skip


@pytest.mark.parametrize("url", _NAMED)
def test_a_url_names_one_server_several_or_none(url: str) -> None:
    """HA-04."""
    assert list(addresses(url)) == _NAMED[url]


@pytest.mark.parametrize(
    "url", ["postgresql://a:0/x", "postgresql://a:65536/x", "postgresql://a,:1/x", "postgresql://a:b/x"]
)
def test_a_host_without_a_name_and_a_port_that_does_not_exist_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="is"):
        addresses(url)


def test_an_address_is_shown_as_it_is_written() -> None:
    assert [str(ServerAddress("::1", 7)), str(ServerAddress("db")), str(ServerAddress("db", 1))] == [
        "[::1]:7",
        "db",
        "db:1",
    ]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://u:p%40@one:5432,[::1]:7/x?sslmode=require", "postgresql://u:p%40@/x?sslmode=require"),
        ("postgresql://one/x", "postgresql:///x"),
        ("postgresql:///x?host=/run", "postgresql:///x?host=/run"),
    ],
)
def test_the_servers_of_a_url_can_be_left_out(url: str, expected: str) -> None:
    assert without_hosts(url) == expected

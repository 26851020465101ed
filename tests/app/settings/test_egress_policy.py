"""app/settings/egress_policy.py: what callbacks may reach, from the settings (EG-12)."""

from ipaddress import ip_address
from typing import Any

import pytest

from app.settings.egress_policy import egress_proxy, guard_policy
from app.settings.settings import Settings, SettingsRefused
from egress.client import Proxy
from egress.guard import judge, judge_name


def settings(**more: Any) -> Settings:
    return Settings(**{"profile": "production", "public_url": "https://hub.example"} | more)


def may_reach(host: str, port: int = 443, listen_port: int = 8080, **more: Any) -> bool:
    policy = guard_policy(settings(**more), listen_port)
    try:
        address = ip_address(host)
    except ValueError:
        return not judge_name(host, port, policy)
    return judge([address], port, policy).allowed


def test_production_reaches_public_addresses_and_nothing_else() -> None:
    reached = {host: may_reach(host) for host in ("93.184.216.34", "127.0.0.1", "::1", "10.0.0.1", "169.254.169.254")}
    assert reached == {
        "93.184.216.34": True, "127.0.0.1": False, "::1": False, "10.0.0.1": False, "169.254.169.254": False,
    }  # fmt: skip


def test_development_reaches_loopback_but_never_ourselves() -> None:
    development = {"profile": "development", "public_url": ""}
    reached = [
        may_reach("127.0.0.1", 9000, **development),
        may_reach("::1", 9000, **development),
        may_reach("localhost", 9000, **development),
        may_reach("127.0.0.1", 8080, **development),
        may_reach("10.0.0.1", 9000, **development),
    ]
    assert reached == [True, True, True, False, False]


def test_what_the_operator_names_is_reached() -> None:
    allowed = {"egress_allow_cidrs": ("10.1.0.0/16",), "egress_allow_hosts": ("*.corp.internal",)}
    reached = [may_reach(host, **allowed) for host in ("10.1.2.3", "10.2.0.1", "a.corp.internal", "a.internal")]
    assert reached == [True, False, True, False]


def test_metadata_needs_its_own_setting() -> None:
    wide = {"egress_allow_cidrs": ("0.0.0.0/0",)}
    assert [may_reach("169.254.169.254", **wide, egress_allow_metadata=allowed) for allowed in (False, True)] == [
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("host", "port"),
    [
        ("10.0.0.5", 15432),
        ("10.0.0.6", 5432),
        ("10.0.0.7", 5672),
        ("10.0.0.8", 5671),
        ("10.0.0.9", 9092),
        ("10.0.0.10", 9093),
        ("hub.example", 443),
        ("10.0.0.11", 8443),
        ("10.0.0.12", 3128),
        ("10.0.0.13", 6432),
        ("10.0.0.14", 5432),
    ],
)
def test_our_own_servers_are_never_reached_whatever_is_allowed(host: str, port: int) -> None:
    """EG-02."""
    wide = {"egress_allow_cidrs": ("10.0.0.0/8",), "egress_allow_hosts": ("hub.example",)}
    own = {
        "10.0.0.5": {"database_url": "postgresql://user:secret@10.0.0.5:15432/db"},
        "10.0.0.6": {"database_url": "postgresql://10.0.0.6/db"},
        "10.0.0.7": {"amqp_url": "amqp://user:secret@10.0.0.7/"},
        "10.0.0.8": {"amqp_url": "amqps://10.0.0.8/"},
        "10.0.0.9": {"kafka_bootstrap_servers": "10.0.0.9:9092,10.0.0.10:9093"},
        "10.0.0.10": {"kafka_bootstrap_servers": "10.0.0.9:9092, 10.0.0.10:9093"},
        "hub.example": {},
        "10.0.0.11": {"listen": "10.0.0.11:8443"},
        "10.0.0.12": {"egress_proxy": "http://10.0.0.12:3128"},
        "10.0.0.13": {"database_url": "postgresql://user:secret@10.0.0.13:6432,10.0.0.14/db"},
        "10.0.0.14": {"database_url": "postgresql://user:secret@10.0.0.13:6432,10.0.0.14/db"},
    }[host]
    assert not may_reach(host, port, listen_port=8443, **wide, **own)
    assert may_reach("10.0.0.99", 8444, **wide, **own)


def test_a_network_that_is_none_is_refused_by_its_setting_s_name() -> None:
    with pytest.raises(SettingsRefused, match="HOOKWIRE_EGRESS_ALLOW_CIDRS"):
        guard_policy(settings(egress_allow_cidrs=("10.0.0.1/8",)), 8080)


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("http://proxy.example:3128", Proxy("proxy.example", 3128)),
        ("http://me:s%40cret@10.0.0.1:3128/", Proxy("10.0.0.1", 3128, "me:s@cret")),
        ("http://[::1]:3128", Proxy("::1", 3128)),
    ],
)
def test_a_proxy_is_named_by_a_url(url: str, proxy: Proxy) -> None:
    """EG-11."""
    assert egress_proxy(settings(egress_proxy=url)) == proxy


@pytest.mark.parametrize(
    "url", ["proxy.example:3128", "https://proxy.example:3128", "http://proxy.example", "http://:1", "http://a:1/x"]
)
def test_what_is_no_proxy_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="http://user:secret@host:port"):
        settings(egress_proxy=url)


def test_without_the_setting_there_is_none() -> None:
    assert egress_proxy(settings()) is None


def test_the_port_for_metrics_and_the_outbox_are_ours_too() -> None:
    """FS-09: also where the port is one that was free."""
    wide = {"egress_allow_cidrs": ("10.0.0.0/8",), "metrics_listen": "10.0.0.5:18081"}
    outbox = {**wide, "outbox_url": "mysql://u:p@10.0.0.6:13306/shop"}
    taken = guard_policy(settings(**{**wide, "metrics_listen": "10.0.0.5:0"}), 8080, 18082)

    assert [may_reach("10.0.0.5", 18081, **wide), may_reach("10.0.0.6", 13306, **outbox)] == [False, False]
    assert not judge([ip_address("10.0.0.5")], 18082, taken).allowed


def test_the_public_url_is_ours_by_its_name_alone() -> None:
    """FS-09: the proxy behind its address may serve subscribers too."""
    policy = guard_policy(settings(listen="0.0.0.0:8080", database_url="postgresql://db.corp/x"), 8080)

    assert policy.own_servers == {("0.0.0.0", 8080), ("db.corp", 5432)}
    assert policy.own_endpoints == policy.own_servers | {("hub.example", 443)}

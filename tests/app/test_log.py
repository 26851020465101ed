"""app/log.py: one line per happening, secrets masked whoever logs them (EC-06, SE-07, OB-12)."""

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
import structlog

from app.log import configure_logging

SECRET = "whsec_AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="


def reader(capsys: pytest.CaptureFixture[str], level: str = "info") -> Callable[[], list[dict[str, Any]]]:
    """Configures JSON logging; gives a reader of what was logged since, without the times."""
    configure_logging("json", level)

    def read() -> list[dict[str, Any]]:
        found = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
        return [{name: value for name, value in line.items() if name != "timestamp"} for line in found]

    return read


def test_a_line_of_ours_and_a_line_of_a_library_look_alike(capsys: pytest.CaptureFixture[str]) -> None:
    lines = reader(capsys)
    structlog.get_logger("ours").info("delivered", event_id="evt_1", attempts=2, ordered=True, reason=None)
    logging.getLogger("theirs").warning("slow %s", "query", extra={"seconds": 1.5})
    assert lines() == [
        {"event": "delivered", "level": "info", "event_id": "evt_1", "attempts": 2, "ordered": True},
        {"event": "slow query", "level": "warning", "seconds": 1.5},
    ]


@pytest.mark.parametrize(
    "name", ["secret", "hub_secret", "authorization", "Cookie", "verify_token", "password", "dsn", "database_url"]
)
def test_a_value_with_a_secret_s_name_is_masked(capsys: pytest.CaptureFixture[str], name: str) -> None:
    lines = reader(capsys)
    structlog.get_logger().info("x", **{name: "s3cret"}, nested={name: ["s3cret"]})
    assert "s3cret" not in json.dumps(lines())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://user:pass@host/db", "postgresql://***@host/db"),
        ("see https://token@host/path?x=1", "see https://***@host/path?***"),
        ("amqp://u:p@ss:w0rd@host:5672/", "amqp://***@host:5672/"),
        ("a http://u:p@one/ and http://u:p@two/", "a http://***@one/ and http://***@two/"),
        (f"key {SECRET}!", "key whsec_***!"),
        ("key whsk_c2VlZA==", "key whsk_***"),
        ("mail to user@host about https://host/a@b", "mail to user@host about https://host/a@b"),
    ],
)
def test_a_secret_is_masked_wherever_it_stands(capsys: pytest.CaptureFixture[str], text: str, shown: str) -> None:
    """In the message, in a value, in a list, in an exception's words, in a traceback."""
    lines = reader(capsys)
    structlog.get_logger().info(text, value=text, some=[text], error=ValueError(text))
    logging.getLogger("theirs").warning("it was %s", text)
    try:
        raise RuntimeError(text)
    except RuntimeError:
        structlog.get_logger().exception("failed")
    first, second, third = lines()
    assert (first["event"], first["value"], first["some"], first["error"]) == (
        shown, shown, [shown], f"ValueError({shown!r})",
    )  # fmt: skip
    assert (second["event"], third["exception"].splitlines()[-1]) == (f"it was {shown}", f"RuntimeError: {shown}")


def test_a_line_stays_one_line_and_has_an_end(capsys: pytest.CaptureFixture[str]) -> None:
    """OB-12: what a stranger sent forges no second line and no terminal's colours."""
    lines = reader(capsys)
    structlog.get_logger().info("x", text="a\r\nlevel=error\x1b[31m\u2028b", long="y" * 10_000)
    (line,) = lines()
    assert (line["text"], len(line["long"])) == ("a\\r\\nlevel=error\\x1b[31m\\u2028b", 2_000)


def test_the_end_of_a_long_traceback_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    lines = reader(capsys)
    try:
        raise RuntimeError("z" * 30_000 + " the end")
    except RuntimeError:
        structlog.get_logger().exception("failed")
    (line,) = lines()
    assert (line["exception"].endswith("the end"), len(line["exception"])) == (True, 20_000)


def test_the_level_counts_and_chatty_libraries_are_quieter(capsys: pytest.CaptureFixture[str]) -> None:
    lines = reader(capsys)
    structlog.get_logger().debug("hidden")
    for name in ("aio_pika", "httpx", "asyncio"):
        logging.getLogger(name).info("hidden")
        logging.getLogger(name).warning("shown")
    assert [line["event"] for line in lines()] == ["shown"] * 3


@pytest.mark.parametrize(("level", "theirs"), [("info", []), ("warning", []), ("debug", ["connection lost"] * 3)])
def test_what_a_library_also_raises_is_told_twice_only_if_asked_for(
    capsys: pytest.CaptureFixture[str], level: str, theirs: list[str]
) -> None:
    """While a server is away, aiokafka has lines for each try to reach it, asyncpg's pool a traceback for each."""
    lines = reader(capsys, level)
    for name in ("aiormq.connection", "asyncpg.pool", "aiokafka.producer.sender"):
        logging.getLogger(name).warning("connection lost")
    structlog.get_logger().warning("ours")
    assert [line["event"] for line in lines()] == [*theirs, "ours"]


def test_what_kafkas_library_did_not_expect_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """An error of a callback of ours ends in its log alone."""
    lines = reader(capsys)
    try:
        raise KeyError("role")
    except KeyError:
        logging.getLogger("aiokafka.consumer.group_coordinator").exception("the listener failed")
    assert [(line["event"], "KeyError" in line["exception"]) for line in lines()] == [("the listener failed", True)]


def test_why_a_broker_does_not_take_a_batch_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    """F21: aiokafka sends it again and again, and no exception ever says why."""
    lines = reader(capsys)
    for partition, error in enumerate(["NotEnoughReplicas", "NotEnoughReplicas", "NotLeaderForPartition"]):
        logging.getLogger("aiokafka.producer.sender").warning(
            "Got error produce response on topic-partition %s, retrying. Error: %s", ("orders", partition), error
        )
    for error in ("RequestTimedOut", "RequestTimedOut", "NodeNotReady"):
        logging.getLogger("aiokafka.producer.sender").warning("Got error produce response: %s", error)
    assert [line["event"].rpartition(" ")[2] for line in lines()] == [
        "NotEnoughReplicas", "NotLeaderForPartition", "RequestTimedOut", "NodeNotReady",
    ]  # fmt: skip


def test_which_broker_of_a_cluster_cannot_be_connected_to_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Its advertised listener may be wrong: the servers of our settings answer, and no exception names its address."""
    lines = reader(capsys)
    for address in ("10.0.0.5", "10.0.0.5", "10.0.0.6"):
        error = ConnectionRefusedError(111, f"Connect call failed ('{address}', 9092)")
        logging.getLogger("aiokafka").error("Unable connect to node with id %s: %s", 1, error)
    assert [line["event"].rpartition("(")[2] for line in lines()] == ["'10.0.0.5', 9092)", "'10.0.0.6', 9092)"]


def test_the_console_masks_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("console", "info")
    try:
        raise RuntimeError("postgresql://user:s3cret@host/db")
    except RuntimeError:
        structlog.get_logger().exception("failed", url="postgresql://user:s3cret@host/db")
    shown = capsys.readouterr().err
    assert ("s3cret" in shown, "***@host" in shown, "RuntimeError" in shown) == (False, True, True)

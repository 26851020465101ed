"""`reaper.yaml` is imported key by key, and nothing of it is passed over (RO-12, RG-09, relay.md 2.2)."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.cli.goharvest.reaper_yaml import Imported, import_reaper
from app.settings.settings import SettingsRefused

Read = Callable[..., Imported]

WHOLE = """
harvest:
  baseKafkaConfig:
    bootstrap.servers: kafka:9092
    socket.keepalive.enable: true
  producerKafkaConfig:
    compression.type: lz4
    acks: all
  leaderTopic: shop.neli
  leaderGroupID: shop
  dataSource: host=db port=5433 user=shop password='p w' dbname=shop sslmode=disable
  outboxTable: shop.outbox
  name: relay-1
  limits:
    ioErrorBackoff: 250ms
    pollDuration: 1ms
    minPollInterval: 100ms
    maxPollInterval: 2.5s
    heartbeatTimeout: 5s
    drainInterval: 1s
    queueTimeout: 1m30s
    markBackoff: 20ms
    maxInFlightRecords: 500
    sendConcurrency: 8
    sendBuffer: 10
    markQueryRecords: 1000
    minMetricsInterval: 10s
logging:
  level: Warn
"""


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def reading(text: str) -> Imported:
        file = tmp_path / "reaper.yaml"
        file.write_text(text)
        return import_reaper(file)

    return reading


def of_key(read: Read, path: str, value: Any) -> Imported:
    """A file with one key."""
    document: Any = value
    for part in reversed(re.split(r"/", path)):
        document = {part: document}
    return read(yaml.safe_dump(document))


def test_every_key_that_goharvest_knows_is_taken_or_explained(read: Read) -> None:
    """RO-12: the keys of relay.md 2.2, all of them."""
    imported = read(WHOLE)
    assert imported.refused == []
    assert {line.key.rpartition(".")[2]: line.verdict for line in imported.lines if "Kafka" not in line.key} == {
        "leaderTopic": "no meaning", "leaderGroupID": "no meaning", "dataSource": "taken", "outboxTable": "taken",
        "name": "no meaning", "ioErrorBackoff": "taken", "pollDuration": "no meaning",
        "minPollInterval": "no meaning", "maxPollInterval": "no meaning", "heartbeatTimeout": "taken",
        "drainInterval": "no meaning", "queueTimeout": "no meaning", "markBackoff": "taken",
        "maxInFlightRecords": "taken", "sendConcurrency": "no meaning", "sendBuffer": "no meaning",
        "markQueryRecords": "taken", "minMetricsInterval": "taken", "level": "taken",
    }  # fmt: skip


def test_the_form_of_the_library_is_read_as_that_of_the_reaper(read: Read) -> None:
    """GM-11, RO-12: a program that embeds goharvest has the keys at the top."""
    harvest, _, logging = WHOLE.partition("logging:")
    library = read(re.sub("^  ", "", harvest.replace("harvest:\n", ""), flags=re.MULTILINE) + "logging:" + logging)
    reaper = read(WHOLE)

    assert (library.refused, library.settings, library.options, library.table) == (
        [], reaper.settings, reaper.options, "shop.outbox",
    )  # fmt: skip


def test_what_is_taken_has_its_effect(read: Read) -> None:
    """RT-04, RL-01: every key that is taken shows in what the relay is given."""
    imported = read(WHOLE)
    assert (imported.table, imported.settings, imported.options, imported.meter_seconds) == (
        "shop.outbox",
        {
            "database_url": "postgresql://shop:p%20w@db:5433/shop?sslmode=disable",
            "kafka_bootstrap_servers": "kafka:9092",
            "lease_seconds": 5.0,
            "log_level": "warning",
            "kafka_compression": "lz4",
        },
        {"backoff_seconds_first": 0.25, "poll_seconds_min": 0.02, "batch_records_max": 500},
        10.0,
    )


def test_what_is_left_out_is_goharvests_default(read: Read) -> None:
    imported = read("harvest:\n")
    assert (imported.table, imported.settings) == (
        "outbox",
        {
            "database_url": "postgresql://postgres@localhost:5432/postgres?sslmode=disable",
            "kafka_bootstrap_servers": "localhost:9092",
        },
    )


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("harvest/outbox", "x", "did you mean outboxTable"),
        ("harvest/limits/markBackof", "1ms", "did you mean markBackoff"),
        ("harvest/limits/markBackoff", "fast", "not a duration"),
        ("harvest/limits/markBackoff", "5", "not a duration"),
        ("harvest/limits/markQueryRecords", 0, "1 or more"),
        ("harvest/limits", "x", "a mapping"),
        ("harvest/dataSource", "nonsense", "not a connection string"),
        ("harvest/dataSource", "host=a timezone=utc", "timezone: no such parameter"),
        ("harvest/baseKafkaConfig/group.id", "x", "cannot override"),
        ("harvest/baseKafkaConfig/linger.ms", 5, "cannot override"),
        ("harvest/baseKafkaConfig/delivery.timeout.ms", 5, "cannot override"),
        ("harvest/producerKafkaConfig/enable.idempotence", True, "cannot override"),
        ("harvest/producerKafkaConfig/acks", 1, "lose records"),
        ("harvest/producerKafkaConfig/compression.type", "brotli", "none of NONE, GZIP, SNAPPY, LZ4, ZSTD"),
        ("harvest/producerKafkaConfig/partitioner", "random", "one partition"),
        ("harvest/baseKafkaConfig/no.such.property", 1, "no such property of librdkafka"),
        ("harvest/baseKafkaConfig/ssl.ca.location", "/nowhere/ca.pem", "No such file"),
        ("logging/level", "Loud", "none of"),
        ("loging", {"level": "Info"}, "did you mean logging"),
    ],
)  # fmt: skip
def test_what_goharvest_would_refuse_or_hookwire_cannot_do_is_refused(
    read: Read, path: str, value: Any, reason: str
) -> None:
    """RU-08, RG-09."""
    (line,) = of_key(read, path, value).refused
    assert (line.key, reason in line.becomes) == (path.replace("/", "."), True), line


@pytest.mark.parametrize(
    ("value", "seconds"), [("1.5s", 1.5), ("1m30s", 90), ("100us", 1e-4), ("0", 0.001), (20_000_000, 0.02)]
)
def test_durations_of_reaper_yaml_are_written_as_in_go(read: Read, value: Any, seconds: float) -> None:
    imported = of_key(read, "harvest/limits/markBackoff", value)
    assert imported.options["poll_seconds_min"] == pytest.approx(max(seconds, 0.001))


@pytest.mark.parametrize(
    ("source", "url"),
    [
        ("postgres://u:p@h/d", "postgres://u:p@h/d"),
        ("host=/run/postgresql user=u dbname=d", "postgresql://u@/d?host=%2Frun%2Fpostgresql&port=5432"),
        ("user=u dbname='my db' password='it\\'s'", "postgresql://u:it%27s@localhost:5432/my%20db"),
        ("host=::1 user=u dbname=d password='it\\''", "postgresql://u:it%27@[::1]:5432/d"),
    ],
)
def test_a_data_source_becomes_a_url(read: Read, source: str, url: str) -> None:
    assert of_key(read, "harvest/dataSource", source).settings["database_url"] == url


def test_an_empty_password_without_quotes_is_taken_as_goharvest_does_with_a_warning(read: Read) -> None:
    """FM-09: goharvest's article has it so; its driver takes the next word for the password, and its users connect."""
    imported = of_key(read, "harvest/dataSource", "host=localhost port=5432 user=postgres password= dbname=postgres")
    assert (imported.refused, imported.settings["database_url"], [line.becomes for line in imported.lines]) == (
        [],
        "postgresql://postgres:dbname%3Dpostgres@localhost:5432/",
        [
            "HOOKWIRE_DATABASE_URL = database postgres at localhost:5432, user postgres. Warning: the text after"
            " password= counts as the password, as in goharvest's driver, here 'dbname=postgres'; write"
            " password='' for an empty password"
        ],
    )


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_each_codec_of_goharvests_client_is_taken(read: Read, codec: str) -> None:
    """FM-06."""
    imported = of_key(read, "harvest/producerKafkaConfig/compression.type", codec)
    assert (imported.refused, imported.settings["kafka_compression"]) == ([], codec)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("host=a port=1 user=u password=secret dbname=d", "database d at a:1, user u"),
        ("postgres://u:secret@h/d?password=secret", "database d at h, user u"),
        ("host=/run/postgresql user=u", "database u at /run/postgresql, user u"),
    ],
)
def test_the_report_names_the_database_and_no_secret(read: Read, source: str, said: str) -> None:
    [line] = [line for line in of_key(read, "harvest/dataSource", source).lines if line.key.endswith("dataSource")]
    assert line.becomes == f"HOOKWIRE_DATABASE_URL = {said}"


@pytest.mark.parametrize(
    ("name", "scheme"),
    [("consistent_random", "crc32"), ("consistent", "crc32"), ("murmur2_random", "murmur2")],
)
def test_librdkafkas_partitioners_have_ours(read: Read, name: str, scheme: str) -> None:
    """RK-22."""
    assert of_key(read, "harvest/producerKafkaConfig/partitioner", name).settings["kafka_partitioner"] == scheme


def test_sasl_and_tls_become_the_clients_security(read: Read, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("")
    properties = {
        "security.protocol": "sasl_ssl", "sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "u", "sasl.password": "p",
        "ssl.ca.location": str(tmp_path / "ca.pem"),
    }  # fmt: skip
    settings = of_key(read, "harvest/baseKafkaConfig", properties).settings
    assert {name: value for name, value in settings.items() if name.startswith(("kafka_s", "kafka_t"))} == {
        "kafka_security_protocol": "SASL_SSL", "kafka_sasl_mechanism": "SCRAM-SHA-512", "kafka_sasl_username": "u",
        "kafka_sasl_password": "p", "kafka_tls_ca": tmp_path / "ca.pem",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", ": a mapping is expected"),
        ("- a", ": a mapping is expected"),
        ("harvest: [\n", ", line 2: expected the node content"),
        ("harvest:\n  a: b: c", ", line 2: mapping values are not allowed"),
        ("harvest: &a {limits: *a}", ", line 1: found unconstructable recursive node"),
        ("[a]: b", ", line 1: found unhashable key"),
        ("a: \x07", ": unacceptable character"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_configuration_is_refused_in_one_line(read: Read, text: str, says: str) -> None:
    with pytest.raises(SettingsRefused) as refused:
        read(text)
    assert ("reaper.yaml" + says in str(refused.value), "\n" in str(refused.value)) == (True, False), refused.value


def test_a_key_that_is_there_twice_is_refused_with_its_line(read: Read) -> None:
    """RG-09: YAML's usual loader keeps the last one and says nothing; goharvest's refuses."""
    imported = read("harvest:\n  limits:\n    markBackoff: 1ms\n    sendBuffer: 1\n    markBackoff: 2ms\n")
    assert [(line.key, line.line) for line in imported.refused] == [("harvest.limits.markBackoff", 5)]


def test_every_key_is_reported_with_its_line(read: Read) -> None:
    lines = {line.key: line.line for line in read(WHOLE).lines}
    assert (lines["harvest.baseKafkaConfig.bootstrap.servers"], lines["logging.level"]) == (4, 29)


def test_what_an_anchor_brings_along_is_not_there_twice(read: Read) -> None:
    base = "harvest:\n  baseKafkaConfig: &base {bootstrap.servers: a:1, client.id: x}\n"
    imported = read(base + "  producerKafkaConfig: {<<: *base, client.id: y}\n")
    assert (imported.refused, len(imported.lines)) == ([], 4)


def test_the_report_tells_no_password(read: Read) -> None:
    lines = read(WHOLE).lines + of_key(read, "harvest/baseKafkaConfig/sasl.password", "hidden-secret").lines
    assert [
        line for line in lines if "p w" in line.becomes or "p%20w" in line.becomes or "hidden" in line.becomes
    ] == []

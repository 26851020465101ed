"""Brokers that demand TLS and a user or a certificate: who has them gets in, others are told which setting is wrong.

A real Kafka and a real RabbitMQ, with certificates of an authority that exists for this test.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aio_pika
import pytest
from aiokafka import AIOKafkaProducer
from prometheus_client import CollectorRegistry

from app.assembly.sinks import amqp_options, kafka_options, kafka_source_options
from app.checks.brokers import broker_checks
from app.cli.consume.options import ConsumeOptions
from app.cli.consume.session import Lost, _connection
from app.log import configure_logging
from app.settings.settings import Settings, SettingsRefused
from relay.amqp.sink import AmqpSink
from relay.kafka.sink import KafkaSink
from relay.kafka.source.metrics import KafkaSourceMetrics
from relay.kafka.source.offsets import Position
from relay.kafka.source.reader import PartitionOptions
from relay.kafka.source.route import KafkaRoute
from relay.kafka.source.service import KafkaSource
from relay.sink import Batch, SinkUnavailable, Term
from relay.source import SourceRecord, Taken
from scripts.servers.secured import Identity, SecuredKafka, SecuredRabbit
from tests.hostile.authority import Authority
from tests.relay.kafka.kafka_topic import make_topic, read_committed
from tests.relay.kafka.test_sink import record
from tests.waiting import until

PASSWORD = "wire-only-secret"
KAFKA_TERM, AMQP_TERM = Term("kafka", 0, 1, 1, 0), Term("amqp", 0, 1, 1, 0)
DEADLINE_SECONDS = 60


@dataclass(frozen=True)
class Fortress:
    """Both brokers, and the files of those who may enter and of those who may not."""

    kafka: SecuredKafka
    rabbit: SecuredRabbit
    ca: Path
    client: Path
    foreign_ca: Path
    foreign_client: Path
    authority: Authority

    def kafka_by_user(self, mechanism: str = "SCRAM-SHA-512", **more: Any) -> dict[str, Any]:
        return {
            "kafka_bootstrap_servers": self.kafka.sasl_bootstrap, "kafka_security_protocol": "SASL_SSL",
            "kafka_tls_ca": self.ca, "kafka_sasl_mechanism": mechanism, "kafka_sasl_username": "relay",
            "kafka_sasl_password": PASSWORD, **more,
        }  # fmt: skip

    def kafka_by_certificate(self, **more: Any) -> dict[str, Any]:
        return {
            "kafka_bootstrap_servers": self.kafka.mutual_bootstrap, "kafka_security_protocol": "SSL",
            "kafka_tls_ca": self.ca, "kafka_tls_certificate": self.client, **more,
        }  # fmt: skip

    def amqp(self, **more: Any) -> dict[str, Any]:
        return {"amqp_url": self.rabbit.url, "amqp_tls_ca": self.ca, "amqp_tls_certificate": self.client, **more}


@pytest.fixture(scope="module")
def fortress(servers_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fortress]:
    ours, foreign = (Authority(tmp_path_factory.mktemp(name)) for name in ("ours", "foreign"))
    identity = Identity(Path(ours.ca_file), ours.chain(), ours.chain("relay"))
    kafka = SecuredKafka("secured-kafka", servers_folder / "secured-kafka", identity, {"relay": PASSWORD})
    rabbit = SecuredRabbit("secured-rabbit", servers_folder / "secured-rabbit", identity)
    try:
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda server: server.start(), (kafka, rabbit)))
        outsider = foreign.chain("relay")
        yield Fortress(kafka, rabbit, identity.ca, identity.client, Path(foreign.ca_file), outsider, ours)
    finally:
        kafka.discard()
        rabbit.discard()


def settings_of(tmp_path: Path, values: dict[str, Any]) -> Settings:
    return Settings(**{"data_dir": tmp_path, **values})


# --- Kafka ------------------------------------------------------------------------------------------------------


def ways_into_kafka() -> Iterator[Any]:
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        yield pytest.param(lambda f, m=mechanism: f.kafka_by_user(m), id=mechanism)
    yield pytest.param(lambda f: f.kafka_by_certificate(), id="certificate")


@pytest.mark.parametrize("way", list(ways_into_kafka()))
async def test_records_reach_a_kafka_that_demands_tls(fortress: Fortress, tmp_path: Path, way: Any) -> None:
    """SC-20: in transactional mode, so that coordinators and the progress marker are reached too."""
    topic, incarnation = f"topic.{secrets.token_hex(4)}", secrets.token_hex(4)
    sink = KafkaSink(kafka_options(settings_of(tmp_path, way(fortress)), incarnation))
    async with asyncio.timeout(DEADLINE_SECONDS):
        await sink.open(KAFKA_TERM)
        receipt = await sink.send(Batch(KAFKA_TERM, [record(1, topic, payload=b"sealed")], 1))
        await sink.close()
        arrived = [message.value for message in await read_committed(fortress.kafka.bootstrap, topic)]
    assert (len(receipt.acknowledged), arrived) == (1, [b"sealed"])


def ways_not_into_kafka() -> Iterator[Any]:
    def case(name: str, values: Any, says: str) -> Any:
        return pytest.param(values, says, id=name)

    tls, user = "HOOKWIRE_KAFKA_TLS", "HOOKWIRE_KAFKA_SASL"
    protocol = "HOOKWIRE_KAFKA_SECURITY_PROTOCOL is {}"
    yield case("wrong password", lambda f: f.kafka_by_user(kafka_sasl_password="guess"), f"{user}_PASSWORD")
    yield case("unknown user", lambda f: f.kafka_by_user("PLAIN", kafka_sasl_username="x"), f"{user}_USERNAME")
    yield case("wrong authority", lambda f: f.kafka_by_user(kafka_tls_ca=f.foreign_ca), f"{tls}_CA")
    yield case("system's authorities", lambda f: f.kafka_by_user(kafka_tls_ca=None), f"{tls}_CA")
    yield case("no certificate", lambda f: f.kafka_by_certificate(kafka_tls_certificate=None), f"{tls}_CERTIFICATE")
    yield case(
        "foreign certificate",
        lambda f: f.kafka_by_certificate(kafka_tls_certificate=f.foreign_client),
        f"{tls}_CERTIFICATE",
    )
    yield case(
        "plaintext",
        lambda f: {"kafka_bootstrap_servers": f.kafka.sasl_bootstrap},
        protocol.format("PLAINTEXT"),
    )
    yield case(
        "password without TLS",
        lambda f: f.kafka_by_user(kafka_security_protocol="SASL_PLAINTEXT", kafka_tls_ca=None),
        protocol.format("SASL_PLAINTEXT"),
    )
    yield case(
        "TLS at a plain port",
        lambda f: f.kafka_by_user(kafka_bootstrap_servers=f.kafka.bootstrap),
        protocol.format("SASL_SSL"),
    )
    yield case(
        "a user where none is asked for",
        lambda f: f.kafka_by_user(kafka_bootstrap_servers=f.kafka.mutual_bootstrap, kafka_tls_certificate=f.client),
        protocol.format("SASL_SSL"),
    )
    yield case(
        "no user where one is asked for",
        lambda f: f.kafka_by_certificate(kafka_bootstrap_servers=f.kafka.sasl_bootstrap),
        protocol.format("SSL"),
    )


@pytest.mark.parametrize(("way", "says"), list(ways_not_into_kafka()))
async def test_a_kafka_that_refuses_us_names_the_setting(
    fortress: Fortress, tmp_path: Path, way: Any, says: str
) -> None:
    """The sink's error, which stands in the log and on /readyz, and the doctor's finding say the same."""
    settings = settings_of(tmp_path, way(fortress))
    sink = KafkaSink(kafka_options(settings, secrets.token_hex(4)))
    async with asyncio.timeout(DEADLINE_SECONDS):
        with pytest.raises(SinkUnavailable, match=says):
            await sink.open(KAFKA_TERM)
        [check] = [check for check in await broker_checks(settings) if check.id == "kafka"]
    assert (check.level, says in check.detail, PASSWORD in check.detail) == ("refuse", True, False)


class SourceRows:
    """The database of a source with one partition: its offset, and the values that were taken."""

    def __init__(self) -> None:
        self.position: Position | None = None
        self.values: list[bytes | None] = []

    async def is_paused(self) -> bool:
        return False

    async def is_behind(self) -> bool:
        return False

    async def known(self) -> set[int]:
        return set()

    async def begin(self, firsts: Mapping[int, int]) -> None:
        self.position = Position(firsts[0], None, None)

    async def get(self, _partition: int) -> Position | None:
        return self.position

    async def report(self, _partitions: object) -> None:
        """Note nothing."""

    async def take(self, _place: object, _from: int, to_offset: int, records: Sequence[SourceRecord]) -> Taken:
        self.values += [record.raw.value for record in records]
        self.position = Position(to_offset, None, None)
        return Taken(len(records), to_offset, ["stored"] * len(records))


@asynccontextmanager
async def reading(settings: Settings, topic: str) -> AsyncIterator[tuple[KafkaSource, SourceRows]]:
    rows: Any = SourceRows()
    options, metrics = kafka_source_options(settings, secrets.token_hex(4)), KafkaSourceMetrics(CollectorRegistry())
    route = KafkaRoute(topic, topic, "earliest")
    source = KafkaSource(options, route, rows, rows, metrics, PartitionOptions(100, 1_000, 100))
    async with asyncio.timeout(DEADLINE_SECONDS), asyncio.TaskGroup() as tasks:
        tasks.create_task(source.run())
        yield source, rows
        source.stop()


async def sealed(fortress: Fortress) -> str:
    """Make a topic with one record; return its name."""
    topic = f"topic.{secrets.token_hex(4)}"
    await make_topic(fortress.kafka.bootstrap, topic, 1)
    async with AIOKafkaProducer(bootstrap_servers=fortress.kafka.bootstrap) as producer:
        await producer.send_and_wait(topic, b"sealed")
    return topic


async def test_a_source_reads_a_kafka_that_demands_tls_and_a_user(fortress: Fortress, tmp_path: Path) -> None:
    """SC-20: its group is reached by the same settings."""
    topic = await sealed(fortress)
    async with reading(settings_of(tmp_path, fortress.kafka_by_user(kafka_sources=topic)), topic) as (_, rows):
        await until(lambda: rows.values)

    assert rows.values == [b"sealed"]


async def test_a_source_names_our_expired_certificate_and_goes_on_once_it_is_renewed(
    fortress: Fortress, tmp_path: Path
) -> None:
    """KS-22, SC-20: without a restart."""
    topic = await sealed(fortress)
    ours = fortress.authority.chain("relay", days=(-2, -1))
    values = fortress.kafka_by_certificate(kafka_tls_certificate=ours, kafka_sources=topic)
    async with reading(settings_of(tmp_path, values), topic) as (source, rows):
        await until(lambda: source.state == "backing off")
        before = source.last_error
        ours.write_bytes(fortress.client.read_bytes())
        await until(lambda: rows.values)

    assert (("expired: renew HOOKWIRE_KAFKA_TLS_CERTIFICATE" in before), rows.values) == (True, [b"sealed"])


async def test_a_source_names_the_expired_certificate_of_a_broker(fortress: Fortress, tmp_path: Path) -> None:
    """KS-22: the handshake is all that this broker can do."""
    context = fortress.authority.context("127.0.0.1", days=(-2, -1))
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    values = fortress.kafka_by_certificate(kafka_bootstrap_servers=f"127.0.0.1:{port}", kafka_sources="stock")
    async with server, reading(settings_of(tmp_path, values), "stock") as (source, _):
        await until(lambda: source.state == "backing off")
        said = source.last_error

    assert "a certificate of the broker has expired" in said


async def test_the_password_is_in_no_line_of_the_log(
    fortress: Fortress, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """SE-07: not even at the level debug, where the client library would print each request."""
    configure_logging("json", "debug")
    for values in (fortress.kafka_by_user("PLAIN"), fortress.kafka_by_user(kafka_tls_ca=fortress.foreign_ca)):
        sink = KafkaSink(kafka_options(settings_of(tmp_path, values), secrets.token_hex(4)))
        with suppress(SinkUnavailable):
            await sink.open(KAFKA_TERM)
        await sink.close()
    shown = capfd.readouterr()
    assert ("Unable connect to" in shown.err, PASSWORD in shown.err + shown.out) == (True, False)


# --- AMQP -------------------------------------------------------------------------------------------------------


async def test_messages_reach_a_rabbitmq_that_demands_tls(fortress: Fortress, tmp_path: Path) -> None:
    options = amqp_options(settings_of(tmp_path, fortress.amqp()), secrets.token_hex(4))
    topic = f"topic.{secrets.token_hex(4)}"
    reader = await aio_pika.connect(options.url, ssl_context=options.tls.context())
    async with asyncio.timeout(DEADLINE_SECONDS), reader:
        channel = await reader.channel()
        exchange = await channel.declare_exchange("hookwire", "topic", durable=True)
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(exchange, topic)
        sink = AmqpSink(options)
        await sink.open(AMQP_TERM)
        receipt = await sink.send(Batch(AMQP_TERM, [record(1, topic, payload=b"sealed")]))
        await sink.close()
        message = await queue.get()
        await message.ack()
    assert (len(receipt.acknowledged), message.body) == (1, b"sealed")


def ways_not_into_rabbitmq() -> Iterator[Any]:
    tls = "HOOKWIRE_AMQP_TLS"
    yield pytest.param(lambda f: {"amqp_tls_ca": f.foreign_ca}, f"{tls}_CA", id="wrong authority")
    yield pytest.param(lambda f: {"amqp_tls_ca": None}, f"{tls}_CA", id="system's authorities")
    yield pytest.param(lambda f: {"amqp_tls_certificate": None}, f"{tls}_CERTIFICATE", id="no certificate")
    yield pytest.param(
        lambda f: {"amqp_tls_certificate": f.foreign_client}, f"{tls}_CERTIFICATE", id="foreign certificate"
    )
    yield pytest.param(
        lambda f: {"amqp_url": f.rabbit.url.replace("guest:guest", "guest:guess")}, "HOOKWIRE_AMQP_URL",
        id="wrong password",
    )  # fmt: skip
    yield pytest.param(
        lambda f: {
            "amqp_url": f.rabbit.url.replace("amqps", "amqp"), "amqp_tls_ca": None, "amqp_tls_certificate": None,
        },
        "HOOKWIRE_AMQP_URL begins with amqp://",
        id="plaintext",
    )  # fmt: skip


@pytest.mark.parametrize(("way", "says"), list(ways_not_into_rabbitmq()))
async def test_a_rabbitmq_that_refuses_us_names_the_setting(
    fortress: Fortress, tmp_path: Path, way: Any, says: str
) -> None:
    settings = settings_of(tmp_path, fortress.amqp(**way(fortress)))
    async with asyncio.timeout(DEADLINE_SECONDS):
        with pytest.raises(SinkUnavailable, match=says):
            await AmqpSink(amqp_options(settings, secrets.token_hex(4))).open(AMQP_TERM)
        [check] = [check for check in await broker_checks(settings) if check.id == "amqp"]
    assert (check.level, says in check.detail, "guess" in check.detail) == ("refuse", True, False)


async def test_the_secured_brokers_are_well_for_the_doctor(fortress: Fortress, tmp_path: Path) -> None:
    settings = settings_of(tmp_path, fortress.kafka_by_user() | fortress.amqp())
    assert [check.level for check in await broker_checks(settings)] == ["ok", "ok"]


async def test_the_consumer_command_takes_the_same_files(fortress: Fortress, tmp_path: Path) -> None:
    good = amqp_options(settings_of(tmp_path, fortress.amqp()), "abcd2345")
    async with _connection(ConsumeOptions(good.url, "queue", tls=good.tls)) as connection:
        connected = not connection.is_closed
    with pytest.raises(Lost):
        async with _connection(ConsumeOptions(good.url, "queue")):
            pass
    assert connected


# --- settings ---------------------------------------------------------------------------------------------------


def unusable() -> Iterator[Any]:
    sasl = {"kafka_sasl_mechanism": "PLAIN", "kafka_sasl_username": "u", "kafka_sasl_password": "p"}
    yield {"kafka_tls_ca": "ca.pem"}, "KAFKA_TLS_. is set, but HOOKWIRE_KAFKA_SECURITY_PROTOCOL is PLAINTEXT"
    yield sasl, "KAFKA_SASL_. is set, but HOOKWIRE_KAFKA_SECURITY_PROTOCOL is PLAINTEXT"
    yield {"kafka_security_protocol": "SASL_SSL"}, "needs HOOKWIRE_KAFKA_SASL_MECHANISM, _USERNAME and _PASSWORD"
    yield {"kafka_security_protocol": "SSL", "kafka_tls_ca": "absent.pem"}, "HOOKWIRE_KAFKA_TLS_CA cannot be used"
    yield {"kafka_security_protocol": "SSL", "kafka_tls_ca": "garbage.pem"}, "HOOKWIRE_KAFKA_TLS_CA cannot be used"
    yield (
        {"kafka_security_protocol": "SSL", "kafka_tls_certificate": "garbage.pem"},
        "HOOKWIRE_KAFKA_TLS_CERTIFICATE and HOOKWIRE_KAFKA_TLS_KEY cannot be used",
    )
    yield {"kafka_security_protocol": "SSL", "kafka_tls_key": "key.pem"}, "KEY is set without HOOKWIRE_KAFKA_TLS_CERT"


@pytest.mark.parametrize(("values", "says"), list(unusable()))
def test_kafka_settings_that_cannot_work_together_are_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: dict[str, Any], says: str
) -> None:
    """RG-09."""
    monkeypatch.chdir(tmp_path)
    Path("garbage.pem").write_text("nothing that is PEM")
    settings = settings_of(tmp_path, {"kafka_bootstrap_servers": "localhost:9092", **values})
    with pytest.raises(SettingsRefused, match=says) as refused:
        kafka_options(settings, "abcd2345")
    assert "_*: HOOKWIRE_" not in str(refused.value)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"amqp_url": "amqp://broker/", "amqp_tls_ca": "ca.pem"}, "HOOKWIRE_AMQP_URL does not begin with amqps://"),
        ({"amqp_url": "amqps://broker/", "amqp_tls_ca": "absent.pem"}, "HOOKWIRE_AMQP_TLS_CA cannot be used"),
    ],
)
def test_amqp_settings_that_cannot_work_together_are_refused_at_the_start(
    tmp_path: Path, values: dict[str, Any], says: str
) -> None:
    with pytest.raises(SettingsRefused, match=says) as refused:
        amqp_options(settings_of(tmp_path, values), "abcd2345")
    assert "_*: HOOKWIRE_" not in str(refused.value)

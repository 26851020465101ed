"""Apache Kafka itself: one KRaft node booted from Maven coordinates (EC-K01, EC-K08; PL-K05 to PL-K08)."""

import base64
import os
import subprocess
import tempfile
from pathlib import Path
from typing import ClassVar

from runtime.port import free_port
from scripts.servers.java import java_program
from scripts.servers.kafka_classes import class_archive
from scripts.servers.kafka_jars import kafka_jars, kafka_version
from scripts.servers.probe import Probe
from scripts.servers.process import ServerFailedError, ServerProcess

# ApiVersions version 0: length, API key 18, version 0, correlation id 1, no client id. Any broker answers it.
_API_VERSIONS = bytes.fromhex("0000000a 0012 0000 00000001 ffff")


class KafkaServer(ServerProcess):
    """One broker and controller on loopback, 512 MB of heap, everything with one replica.

    Two listeners for clients. `bootstrap` is the direct one. The other is for a TCP fault proxy: the broker listens on
    `proxied_port` and advertises `advertised_port`, where the test's proxy must listen. A Kafka client connects to the
    advertised address, and would otherwise go round the proxy (IT-02, IT-11). Both can be used at once.
    """

    software: ClassVar[str] = "Apache Kafka"
    port_names: ClassVar[tuple[str, ...]] = ("kafka", "proxied", "controller")
    probe: ClassVar[Probe] = Probe(_API_VERSIONS)

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        outlives_us: bool = False,
        advertised_port: int | None = None,
        auto_create_topics: bool = True,
        partitions: int = 4,
        heap_mb: int = 512,
        lasting: bool = False,
        authorizes: bool = False,
    ) -> None:
        """Set the options. `advertised_port`: of the fault proxy (default: a free one). `partitions`: of a new topic.

        `authorizes`: it uses access control lists; a resource without one is open to all. `lasting`: it runs long
        enough, or its speed matters enough, for the JVM's optimiser. A broker of a test ends before that pays.
        """
        super().__init__(name, folder, outlives_us=outlives_us)
        self.ports["advertised"] = advertised_port or self.ports.get("advertised") or free_port()
        self.auto_create_topics = auto_create_topics
        self.partitions = partitions
        self.heap_mb = heap_mb
        self.lasting = lasting
        self.authorizes = authorizes

    @property
    def bootstrap(self) -> str:
        """host:port for clients that connect directly."""
        return f"127.0.0.1:{self.port}"

    @property
    def advertised_port(self) -> int:
        """Return where a fault proxy must listen; it forwards to `proxied_port`."""
        return self.ports["advertised"]

    @property
    def proxied_port(self) -> int:
        """Return where the broker listens for connections of the fault proxy."""
        return self.ports["proxied"]

    @property
    def proxied_bootstrap(self) -> str:
        """host:port for clients that connect through the fault proxy."""
        return f"127.0.0.1:{self.advertised_port}"

    @property
    def address(self) -> str:
        """Return `bootstrap`, under the name that all servers share."""
        return self.bootstrap

    @property
    def version(self) -> str:
        """Return the version that pom.xml names."""
        return kafka_version()

    def _prepare(self) -> None:
        properties = self._properties() | self._timing() | self._authorization()
        self._properties_path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        if not (self.folder / "data" / "meta.properties").exists():
            self._format()

    @property
    def _properties_path(self) -> Path:
        return self.folder / "server.properties"

    def _properties(self) -> dict[str, str | int]:
        direct, proxied = f"PLAINTEXT://127.0.0.1:{self.port}", f"PROXIED://127.0.0.1:{self.proxied_port}"
        return {
            "process.roles": "broker,controller",
            "node.id": 1,
            "listeners": f"{direct},{proxied},CONTROLLER://127.0.0.1:{self.ports['controller']}",
            "advertised.listeners": f"{direct},PROXIED://127.0.0.1:{self.advertised_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.quorum.voters": f"1@127.0.0.1:{self.ports['controller']}",
            "log.dirs": str(self.folder / "data"),
            "num.partitions": self.partitions,
            "auto.create.topics.enable": str(self.auto_create_topics).lower(),
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "transaction.state.log.num.partitions": 4,
            "share.coordinator.state.topic.replication.factor": 1,
            "share.coordinator.state.topic.min.isr": 1,
            # Else a record whose own time is more than a week ago is gone half a minute after the start.
            "log.retention.ms": -1,
            # Its buffer is allocated at start; the default of 128 MB is a quarter of our heap.
            "log.cleaner.dedupe.buffer.size": 8_388_608,
        }

    def _authorization(self) -> dict[str, str | int]:
        if not self.authorizes:
            return {}
        return {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
        }

    def _timing(self) -> dict[str, str | int]:
        return {
            "group.initial.rebalance.delay.ms": 0,
            "group.min.session.timeout.ms": 1_000,
            # After a SIGKILL the controller refuses the reborn broker until the old session has expired: with the
            # default of 9 s a restart takes 11 s, with 3 s it takes 5 s.
            "broker.session.timeout.ms": 3_000,
            "broker.heartbeat.interval.ms": 500,
        }

    def _format(self) -> None:
        arguments = ["kafka.tools.StorageTool", "format", "-t", self._cluster_id(), "-c", str(self._properties_path)]
        arguments += self._format_options()
        command = self._java() + arguments
        formatted = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if formatted.returncode != 0:
            raise ServerFailedError(f"Kafka's storage could not be formatted:\n{formatted.stdout[-2000:]}")

    def _cluster_id(self) -> str:
        # Starts with fixed letters, so that it is never taken for an option; 16 bytes as Kafka wants them.
        return base64.urlsafe_b64encode(b"hookwire" + os.urandom(8)).decode().rstrip("=")

    def _format_options(self) -> list[str]:
        """Return the first metadata of this variant of the server."""
        return []

    def _command(self) -> list[str]:
        return [*self._java(), "kafka.Kafka", str(self._properties_path)]

    def _java(self) -> list[str]:
        logging = {"showDateTime": "true", "dateTimeFormat": "yyyy-MM-dd'T'HH:mm:ss.SSS", "defaultLogLevel": "info"}
        options = [f"-Dorg.slf4j.simpleLogger.{name}={value}" for name, value in logging.items()]
        options += [f"-Xmx{self.heap_mb}m", "-XX:+UseSerialGC", *self._start_options()]
        return [java_program(), *options, "-cp", str(kafka_jars() / "*")]

    def _start_options(self) -> list[str]:
        """Return the options for a cheap start."""
        compiler = [] if self.lasting else ["-XX:TieredStopAtLevel=1"]
        archive = class_archive(_run_broker)
        return [*compiler, f"-XX:SharedArchiveFile={archive}"] if archive else compiler


class KafkaFollower(KafkaServer):
    """One more broker of a cluster whose first node runs already; `bootstrap` leads to it, and from it to all."""

    def __init__(self, name: str, folder: Path, first: KafkaServer, *, node_id: int = 2) -> None:
        super().__init__(name, folder, authorizes=first.authorizes, auto_create_topics=first.auto_create_topics)
        self.first = first
        self.node_id = node_id

    def _properties(self) -> dict[str, str | int]:
        properties = super()._properties()
        return properties | {
            "process.roles": "broker",
            "node.id": self.node_id,
            "listeners": ",".join(str(properties["listeners"]).split(",")[:2]),
            "controller.quorum.voters": f"1@127.0.0.1:{self.first.ports['controller']}",
        }

    def _cluster_id(self) -> str:
        known = (self.first.folder / "data" / "meta.properties").read_text()
        return next(line for line in known.splitlines() if line.startswith("cluster.id=")).partition("=")[2]


class _ArchivingKafka(KafkaServer):
    """Writes its classes into an archive when it ends."""

    def __init__(self, folder: Path, archiving: str) -> None:
        super().__init__("kafka-classes", folder)
        self._archiving = archiving

    def _start_options(self) -> list[str]:
        return []

    def _command(self) -> list[str]:
        java, *arguments = super()._command()
        return [java, self._archiving, *arguments]


def _run_broker(archiving: str) -> None:
    with tempfile.TemporaryDirectory(prefix="hookwire-kafka-") as folder:
        broker = _ArchivingKafka(Path(folder), archiving)
        try:
            broker.start()
            broker.stop()
        finally:
            broker.discard()

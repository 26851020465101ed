"""The servers by name, each in a folder of that name below one base folder."""

from collections.abc import Mapping
from pathlib import Path

from scripts.servers.given import GivenServer
from scripts.servers.kafka import KafkaServer
from scripts.servers.mariadb import MariaServer
from scripts.servers.postgres import PostgresServer, embedded_bin_dir, system_bin_dir
from scripts.servers.process import ServerFailedError, ServerProcess
from scripts.servers.prosody import ProsodyServer
from scripts.servers.rabbitmq import RabbitServer

VARIABLES: Mapping[str, str] = {
    "postgres18": "HOOKWIRE_TEST_POSTGRES18_URL",
    "postgres15": "HOOKWIRE_TEST_POSTGRES15_URL",
    "mariadb": "HOOKWIRE_TEST_MARIADB_URL",
    "kafka": "HOOKWIRE_TEST_KAFKA",
    "rabbitmq": "HOOKWIRE_TEST_AMQP_URL",
    "prosody": "HOOKWIRE_TEST_XMPP_URL",
}
"""Every server's name, and the environment variable that holds its address."""

_SERVERS: Mapping[str, type[ServerProcess]] = {
    "postgres18": PostgresServer,
    "postgres15": PostgresServer,
    "mariadb": MariaServer,
    "kafka": KafkaServer,
    "rabbitmq": RabbitServer,
    "prosody": ProsodyServer,
}


def make_server(name: str, base: Path, *, outlives_us: bool, lasting: bool = False) -> ServerProcess:
    """Returns the server of that name below `base`: the one that runs there already, or one that can be started.

    Raises MissingServerError when its software cannot be found, KeyError for a name that is not in VARIABLES.
    """
    folder = base / name
    match name:
        case "postgres18":
            return PostgresServer(name, folder, embedded_bin_dir(), outlives_us=outlives_us)
        case "postgres15":
            return PostgresServer(name, folder, system_bin_dir(), outlives_us=outlives_us)
        case "mariadb":
            return MariaServer(name, folder, outlives_us=outlives_us)
        case "kafka":
            return KafkaServer(name, folder, outlives_us=outlives_us, lasting=lasting or outlives_us)
        case "rabbitmq":
            return RabbitServer(name, folder, outlives_us=outlives_us)
        case "prosody":
            return ProsodyServer(name, folder, outlives_us=outlives_us)
    raise KeyError(name)


def take_server(
    name: str, base: Path, environment: Mapping[str, str], *, lasting: bool = False
) -> ServerProcess | GivenServer:
    """Returns a server that answers: the one whose address the environment holds, else one booted below `base`.

    A booted one ends with this process. Raises MissingServerError or ServerFailedError when neither answers.
    """
    variable = VARIABLES[name]
    if address := environment.get(variable):
        software = _SERVERS[name]
        given = GivenServer(software.software, variable, address)
        given.require(software.probe)
        return given
    server = make_server(name, base, outlives_us=False, lasting=lasting)
    try:
        server.start()
    except ServerFailedError:
        server.discard()
        raise
    return server


def known_servers(base: Path) -> list[ServerProcess]:
    """Returns the servers that were ever started below `base`, running or not."""
    return [make_server(name, base, outlives_us=True) for name in VARIABLES if (base / name / "server.json").exists()]

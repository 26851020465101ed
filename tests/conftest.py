"""Root fixtures: the real servers, a fresh migrated database for each test, a free port, a clean environment.

A server is booted when the first test asks for it and ends with the session; an address in the environment wins
(HOOKWIRE_TEST_POSTGRES18_URL, HOOKWIRE_TEST_POSTGRES15_URL, HOOKWIRE_TEST_MARIADB_URL, HOOKWIRE_TEST_KAFKA,
HOOKWIRE_TEST_AMQP_URL, HOOKWIRE_TEST_XMPP_URL). A server that is missing fails the tests that need it with one
sentence; nothing is skipped.
All fixtures are synchronous, so that tests on any event loop can use them.

With several processes (`-n 3`) each boots servers of its own; the report names them all.
"""

import gc
import logging
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pymysql
import pytest
import structlog
from typing_extensions import override
from xdist.scheduler import LoadFileScheduling

from db.numbers import Numbers
from runtime import port
from scripts.servers.fleet import take_server
from scripts.servers.given import GivenServer
from scripts.servers.kafka import KafkaServer
from scripts.servers.mariadb import MariaServer
from scripts.servers.missing import MissingServerError
from scripts.servers.postgres import PostgresServer, embedded_bin_dir, system_bin_dir
from scripts.servers.process import ServerFailedError, ServerOverdueError, ServerProcess
from scripts.servers.prosody import ProsodyServer
from scripts.servers.rabbitmq import RabbitServer
from scripts.servers.warden import WARDEN
from tests.databases import Databases, Ensure, trusting_copies
from tests.examples import load_profile
from tests.late_files import LateFile, WholeFile, collects_late
from tests.overdue import MAY_RUN_AGAIN, reason
from tests.pair import Pair, booted_pair
from tests.rolled_back import rolled_back, session_of_file, session_of_file15, session_of_file18
from tests.shares import longest, share
from tests.storeys import is_unit_path, mark_storeys
from tests.unit_files import is_unit_file

__all__ = ["rolled_back", "session_of_file", "session_of_file15", "session_of_file18"]

load_profile()

_used_servers = pytest.StashKey[list[str]]()

_GC_OBJECTS = 20_000

# What needs longest, longest first: begun last, one of them would keep the other processes waiting at the end.
_LONG_SHARES = (
    "tests/pipeline/test_a*",
    "tests/pipeline",
    "tests/faults/test_nemesis.py",
    "tests/faults/test_goharvest.py",
    "tests/faults/test_failpoints.py",
    "tests/faults/test_brokers.py",
    "tests/faults/test_seeded_bugs.py",
    "tests/servers/test_servers.py",
    "tests/app/cli/test_main.py",
    "tests/relay/kafka/test_destinations.py",
    "tests/app/web/test_answer_bytes.py",
    "tests/relay/amqp/test_destinations.py",
    "tests/contract/workers/test_stored_endings.py",
    "tests/faults/test_failover.py",
    "tests/faults/test_database.py",
    "tests/docs/test_docs.py",
    "tests/faults/test_processes.py",
    "tests/relay/kafka/test_sink.py",
    "tests/faults/test_websub.py",
    "tests/faults/test_prove.py",
    "tests/db/embedded/test_server.py",
    "tests/faults/test_neli.py",
    "tests/faults/test_hot_key.py",
    "tests/faults/test_layout.py",
    "tests/faults/test_partitions.py",
    "tests/faults/test_upgrade.py",
    "tests/relay/amqp/test_sink.py",
    "tests/relay/amqp/test_source.py",
    "tests/acceptance/test_tour.py",
    "tests/acceptance/test_demo.py",
    "tests/acceptance/test_git_push.py",
    "tests/event/test_cloudevents_modes.py",
    "tests/project/test_wheels.py",
    "tests/project/test_make_run.py",
    "tests/project/test_overdue.py",
    "tests/app/web/test_server.py",
    "tests/app/web/test_openapi.py",
    "tests/sdk/client/test_hostile_hub.py",
    "tests/reqrep/test_budget.py",
    "tests/models/test_standby_fence.py",
    "tests/sdk/test_services_asyncio.py",
    "tests/app/web/test_pipelining.py",
    "tests/app/cli/test_narrow.py",
)


# --- the order, the processes, the report -----------------------------------------------------------------------


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """A test's tally of repetitions leaves at once; held back for an acknowledgement it costs each test 40 ms.
    Nothing that the collection makes dies before the session: looking for cycles in it was a third of its time.
    Where Python is told to keep nothing that it has compiled, as in many containers, each of the processes that the
    tests start would compile the product anew, which takes longer than all the rest of a start.
    """
    gc.disable()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    tally: Any = getattr(config, "failures_db", None)
    if hasattr(tally, "sock"):
        tally.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`-m unit` imports no test file that can hold no unit test."""
    if config.option.markexpr != "unit":
        return None
    may_hold_one = is_unit_file if collection_path.name.startswith("test_") else is_unit_path
    return None if may_hold_one(collection_path, config.rootpath) else True


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["collects_late"] = collects_late(node.config)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> LateFile | None:
    if getattr(parent.config, "workerinput", {}).get("collects_late"):
        return LateFile.from_parent(parent, path=module_path)
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if not isinstance(item, WholeFile):
        return None
    item.run_tests(nextitem)
    return True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark storeys. Long shares first; with `--reruns`, what may run again after an overdue wait (ADR 25)."""
    mark_storeys(items)
    rank = {name: number for number, name in enumerate(_LONG_SHARES)}
    items.sort(key=lambda item: rank.get(share(item.nodeid), len(rank)))
    if config.getoption("reruns"):
        for item in items:
            item.add_marker(MAY_RUN_AGAIN)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test without servers in a file that `make unit` does not import would never run there."""
    if item.get_closest_marker("unit") and not is_unit_file(item.path, item.config.rootpath):
        pytest.fail("this test needs no server, and make unit leaves its file out (tests/unit_files.py)", pytrace=False)


def pytest_collection_finish() -> None:
    """From here on cycles are looked for, in what the tests make. With the default of 700 new objects this would take a
    fourteenth of the time of a test.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_OBJECTS)
    gc.enable()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A process of several hands on which servers it ran."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["servers"] = session.config.stash.get(_used_servers, [])


class _Shares(LoadFileScheduling):
    """A share goes to one process."""

    @override
    def _split_scope(self, nodeid: str) -> str:
        return share(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _Shares | None:
    """As ``--dist loadfile`` does it, but for the pipeline."""
    return _Shares(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """One of several processes has ended; one that crashed hands nothing on."""
    used = node.config.stash.setdefault(_used_servers, [])
    used += [f"{node.gateway.id} {line}" for line in getattr(node, "workeroutput", {}).get("servers", [])]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which waits were overdue, which files took longest, and on which servers the suite ran (EC-K06)."""
    repeated = terminalreporter.stats.get("rerun", [])
    _section(terminalreporter, "overdue waits, each repeated once", map(reason, repeated))
    reports = [one for found in terminalreporter.stats.values() for one in found if isinstance(one, pytest.TestReport)]
    _section(terminalreporter, "longest shares", longest(reports))
    _section(terminalreporter, "servers", sorted(terminalreporter.config.stash.get(_used_servers, [])))


def _section(terminalreporter: pytest.TerminalReporter, title: str, lines: Iterable[str]) -> None:
    for number, line in enumerate(lines):
        if number == 0:
            terminalreporter.section(title)
        terminalreporter.write_line(line)


# --- logging ----------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def restored_logging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put logging back after a test: many commands configure it, and run in this process.

    A logger that structlog caches keeps the configuration of its first use. The next test could not capture its lines.
    """
    configure = structlog.configure
    uncached = {"cache_logger_on_first_use": False}
    monkeypatch.setattr(structlog, "configure", lambda **options: configure(**options | uncached))
    loggers = {
        name: logging.getLogger(name)
        for name in (None, "aiokafka", "aio_pika", "aiormq", "asyncio", "asyncpg", "httpx", "uvicorn")
    }
    levels = {name: logger.level for name, logger in loggers.items()}
    handlers, configuration = logging.getLogger().handlers[:], structlog.get_config()
    yield
    logging.getLogger().handlers[:] = handlers
    for name, logger in loggers.items():
        logger.setLevel(levels[name])
    configure(**configuration)


# --- servers ----------------------------------------------------------------------------------------------------


_MEMORY = Path("/dev/shm")
_MEMORY_BYTES_MIN = 6 * 1024**3


def _memory_folder() -> Path | None:
    """Where files live in memory, if there is room: a database is 300 files, ten times slower to make on a disk."""
    roomy = os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free >= _MEMORY_BYTES_MIN
    return _MEMORY if roomy else None


@pytest.fixture(scope="session")
def servers_folder() -> Iterator[Path]:
    """A folder for the servers of this session; its path is short and other accounts may pass through it."""
    folder = Path(tempfile.mkdtemp(prefix="hookwire-tests-", dir=_memory_folder()))
    folder.chmod(0o711)
    WARDEN.remove(folder)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _session_server(name: str, request: pytest.FixtureRequest) -> Iterator[ServerProcess | GivenServer]:
    folder = request.getfixturevalue("servers_folder")
    try:
        server = take_server(name, folder, os.environ)
    except ServerOverdueError:
        raise
    except (MissingServerError, ServerFailedError) as error:
        pytest.fail(str(error), pytrace=False)
    boot = f"booted in {server.boot_seconds:.1f} s" if server.boot_seconds else "given"
    request.config.stash.setdefault(_used_servers, []).append(f"{name}: {server.software} {server.version}, {boot}")
    yield server
    server.discard()


@pytest.fixture(scope="session")
def postgres18(request: pytest.FixtureRequest) -> Iterator[PostgresServer | GivenServer]:
    """PostgreSQL 18, the binaries that the embedded database uses."""
    with _session_server("postgres18", request) as server:
        yield server


@pytest.fixture(scope="session")
def postgres15(request: pytest.FixtureRequest) -> Iterator[PostgresServer | GivenServer]:
    """The system's PostgreSQL: the oldest supported version that is installed (EC-P10)."""
    with _session_server("postgres15", request) as server:
        yield server


@pytest.fixture(scope="session", params=["postgres18", "postgres15"])
def postgres(request: pytest.FixtureRequest) -> PostgresServer | GivenServer:
    """Both PostgreSQL servers, one after the other."""
    return request.getfixturevalue(request.param)


@pytest.fixture(params=[embedded_bin_dir, system_bin_dir], ids=["postgres18", "postgres15"])
def pair(request: pytest.FixtureRequest, servers_folder: Path) -> Iterator[Pair]:
    """A primary and a standby of this test's own, once of each PostgreSQL."""
    with booted_pair(servers_folder, request.param()) as servers:
        yield servers


@pytest.fixture(scope="session")
def mariadb(request: pytest.FixtureRequest) -> Iterator[MariaServer | GivenServer]:
    """The system's MariaDB."""
    with _session_server("mariadb", request) as server:
        yield server


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Iterator[KafkaServer | GivenServer]:
    """Apache Kafka, one KRaft node (EC-K01)."""
    with _session_server("kafka", request) as server:
        yield server


@pytest.fixture(scope="session")
def strict_kafka(servers_folder: Path) -> Iterator[KafkaServer]:
    """A Kafka that creates no topics by itself, and goes by access control lists where there are any."""
    server = KafkaServer("strict_kafka", servers_folder / "strict_kafka", auto_create_topics=False, authorizes=True)
    server.start()
    yield server
    server.discard()


@pytest.fixture(scope="session")
def rabbitmq(request: pytest.FixtureRequest) -> Iterator[RabbitServer | GivenServer]:
    """RabbitMQ, one node without plugins."""
    with _session_server("rabbitmq", request) as server:
        yield server


@pytest.fixture(scope="session")
def prosody(request: pytest.FixtureRequest) -> Iterator[ProsodyServer | GivenServer]:
    """Prosody, an XMPP server with two accounts and rooms."""
    with _session_server("prosody", request) as server:
        yield server


# --- databases --------------------------------------------------------------------------------------------------


@contextmanager
def _migrated(server: PostgresServer | GivenServer) -> Iterator[Databases]:
    is_in_memory = isinstance(server, PostgresServer) and server.folder.is_relative_to(_MEMORY)
    databases = Databases(server.url, is_in_memory=is_in_memory)
    databases.make_template()
    yield databases
    databases.close()


@pytest.fixture(scope="session", autouse=True)
def trusted_copies() -> Iterator[Ensure]:
    """Who opens a copy of the template first does not look for drawn numbers there. Yield the method that looks."""
    with pytest.MonkeyPatch.context() as patch:
        looks = Numbers.ensure
        patch.setattr(Numbers, "ensure", trusting_copies(looks))
        yield looks


@pytest.fixture(scope="session")
def databases18(postgres18: PostgresServer | GivenServer) -> Iterator[Databases]:
    """Maker of fresh databases on PostgreSQL 18, for a test that needs several: `with databases18.fresh() as url`."""
    with _migrated(postgres18) as databases:
        yield databases


@pytest.fixture(scope="session")
def databases15(postgres15: PostgresServer | GivenServer) -> Iterator[Databases]:
    """As `databases18`, on the system's PostgreSQL."""
    with _migrated(postgres15) as databases:
        yield databases


@pytest.fixture
def database_url(databases18: Databases) -> Iterator[str]:
    """The URL of a migrated database on PostgreSQL 18 that only this test knows; dropped afterwards."""
    with databases18.fresh() as url:
        yield url


@pytest.fixture
def database_url15(databases15: Databases) -> Iterator[str]:
    """As `database_url`, on the system's PostgreSQL."""
    with databases15.fresh() as url:
        yield url


@pytest.fixture(params=["database_url", "database_url15"], ids=["postgres18", "postgres15"])
def database_url_both(request: pytest.FixtureRequest) -> str:
    """As `database_url`, once on each PostgreSQL."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def mariadb_url(mariadb: MariaServer | GivenServer) -> Iterator[str]:
    """The URL of an empty database on MariaDB that only this test knows; dropped afterwards."""
    at = urlsplit(mariadb.url)
    name = f"hookwire_test_{secrets.token_hex(4)}"
    server = {"host": at.hostname, "port": at.port, "user": at.username, "password": at.password}
    with closing(pymysql.connect(**server)) as connection:
        connection.cursor().execute(f"CREATE DATABASE {name}")
    yield urlunsplit(at._replace(path=f"/{name}"))
    with closing(pymysql.connect(**server)) as connection:
        connection.cursor().execute(f"DROP DATABASE {name}")


# --- surroundings -----------------------------------------------------------------------------------------------


@pytest.fixture
def free_port() -> int:
    """A free loopback port."""
    return port.free_port()


@pytest.fixture(scope="session", autouse=True)
def scrubbed_environment() -> Iterator[None]:
    """No setting of the developer's shell reaches a test."""
    with pytest.MonkeyPatch.context() as environment:
        for name in os.environ:
            if name.startswith("HOOKWIRE_") and not name.startswith("HOOKWIRE_TEST_"):
                environment.delenv(name)
        yield

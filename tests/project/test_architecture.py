"""Who may import whom, and who may open a socket (EG-13). The rules must catch what they forbid."""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("app", "hub", "relay", "webhooks", "jobs", "reqrep", "egress", "runtime", "db", "event", "pipeline")

# One planted import for each arrow that must not exist: (file, import).
WRONG = [
    ("app/log.py", "hookwire_server.embed"),
    ("hub/topics.py", "app.settings.settings"),
    ("relay/outbox.py", "hub.topics"),
    ("relay/outbox.py", "webhooks.fanout"),
    ("webhooks/fanout.py", "relay.outbox"),
    ("jobs/__init__.py", "reqrep"),
    ("reqrep/__init__.py", "jobs"),
    ("egress/guard.py", "webhooks.fanout"),
    ("egress/guard.py", "hub.topics"),
    ("runtime/pause.py", "egress.guard"),
    ("runtime/pause.py", "db.pool"),
    ("db/pool.py", "runtime.pause"),
    ("db/pool.py", "event"),
    ("event/event.py", "db.pool"),
    ("app/chaos/mark.py", "app.cli.main"),
    ("app/log.py", "app.chaos.mark"),
    ("app/serve.py", "app.embed"),
    ("app/wiring.py", "app.serve"),
    ("app/wiring.py", "app.checks.startup"),
    ("app/assembly/sinks.py", "app.wiring"),
    ("app/bridges/script.py", "app.assembly.sinks"),
    ("app/bridges/script.py", "app.log"),
    ("app/log.py", "app.cli.main"),
    ("app/web/problem.py", "app.log"),
    ("app/web/problem.py", "app.maintenance.ledger"),
    ("app/web/problem.py", "app.bridges.script"),
    ("app/web/api/contract.py", "app.web.api.docs"),
    ("app/web/api/keys.py", "app.web.api.contract"),
    ("app/web/api/rabbithub/words.py", "app.web.api.subscribing.filters"),
    ("app/web/api/operating/holds.py", "app.web.api.subscribing.filters"),
    ("app/web/api/operating/holds.py", "app.web.api.work.queues"),
    ("app/web/api/work/queues.py", "app.web.api.operating.holds"),
    ("app/web/api/events/topics.py", "app.web.api.operating.deliveries"),
    ("app/web/api/events/topics.py", "app.web.api.work.job_contract"),
    ("app/web/api/route/paging.py", "app.web.api.events.topics"),
    ("jobs/jobs/cron.py", "jobs.metrics"),
    ("jobs/queues/reaper.py", "jobs.tasks.tasks"),
    ("jobs/tasks/tasks.py", "jobs.jobs.cron"),
    ("app/maintenance/ledger.py", "app.web.problem"),
    ("app/maintenance/ledger.py", "hub.topics"),
    ("app/maintenance/ledger.py", "app.settings.settings"),
    ("app/settings/file.py", "app.web.problem"),
    ("webhooks/claim.py", "webhooks.schedule"),
    ("webhooks/schedule.py", "webhooks.attempt"),
    ("pipeline/__init__.py", "event"),
    ("pipeline/bronze.py", "pipeline.lake"),
    ("sdk/src/hookwire/__init__.py", "event"),
    ("hub/topics.py", "hookwire"),
    ("hub/topics.py", "pipeline"),
    ("app/settings/settings.py", "hookwire"),
    ("app/bridges/work_log.py", "hookwire"),
    ("app/settings/settings.py", "asyncpg"),
    ("egress/guard.py", "aiokafka"),
    ("hub/topics.py", "aio_pika"),
    ("app/settings/settings.py", "httptools"),
    ("egress/guard.py", "httpx"),
    ("app/web/publishing/ingest.py", "httpx"),
    ("relay/outbox.py", "fastapi"),
    ("app/settings/settings.py", "pyspark"),
    ("app/settings/settings.py", "slixmpp"),
    ("reqrep/reactor.py", "zmq"),
    ("sdk/src/hookwire/services/client.py", "zmq"),
]

# Imports that close a circle inside a room.
CIRCLES = [
    ("reqrep/majordomo/mmi.py", "reqrep.majordomo.broker"),
    ("reqrep/majordomo/worker.py", "reqrep.majordomo.service"),
]

# The most files and folders of a package; a package that is not named has 19 at most.
CHILDREN_MAX = {
    "app": 15, "app.chaos": 22, "app.cli": 28, "app.cli.commands": 39, "app.web": 25, "app.web.api": 12,
    "hookwire.services": 24, "hub": 31, "pipeline": 39, "relay": 20, "webhooks": 31,
}  # fmt: skip

# EG-13: whatever can open an outgoing connection, and the one module of a room that does, with its reason.
DIALLERS = {
    "create_connection",
    "create_unix_connection",
    "create_datagram_endpoint",
    "open_connection",
    "open_unix_connection",
    "socketpair",
    "AsyncClient",
    "ClientSession",
    "urlopen",
    "HTTPConnection",
    "HTTPSConnection",
}
ALLOWED_DIALLERS = {
    "egress/connector.py": "the guarded client: dials what the guard has judged (EG-19)",
    "db/session.py": "the hub's own sockets to its database, with keepalives and limits of time",
    "app/cli/asking/session.py": "commands speak to the hub that the user names on the command line",
    "app/cli/listening.py": "`listen` forwards to the port that the user names",
    "app/cli/chat/component.py": "`chat` asks the hub that the user names",
    "app/chaos/client.py": "the prover publishes to the processes that it started itself",
}


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """import-linter's verdict on the rooms in a folder, without its cache."""
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--config", str(folder / "pyproject.toml")],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{folder / 'sdk' / 'src'}", "COLUMNS": "500"},
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )


def test_no_package_has_more_direct_children_than_a_reader_can_scan() -> None:
    """A newcomer reads the list of a folder before its files."""
    graph = grimp.build_graph(*ROOMS, "hookwire", cache_dir=None)
    children = {module: len(graph.find_children(module)) for module in graph.modules}
    assert {module: count for module, count in children.items() if count > CHILDREN_MAX.get(module, 19)} == {}


@pytest.fixture
def copy_of_the_rooms(tmp_path: Path) -> Path:
    for room in ("hookwire_server", *ROOMS, "sdk/src"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__", "*.sql"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_no_room_imports_against_the_arrows() -> None:
    verdict = lint_imports(ROOT)
    assert verdict.returncode == 0, verdict.stdout


def test_every_wrong_import_is_caught(copy_of_the_rooms: Path) -> None:
    for file, name in [*WRONG, *CIRCLES]:
        with (copy_of_the_rooms / file).open("a", encoding="utf-8") as text:
            text.write(f"\nimport {name}\n")
    verdict = lint_imports(copy_of_the_rooms).stdout
    caught = set(re.findall(r"^-\s+(\S+) -> (\S+) \(l\.\d+\)", verdict, re.MULTILINE))
    planted = {(module_of(file), name) for file, name in WRONG}
    assert planted - caught == set()
    for file, name in CIRCLES:
        assert f"- .{Path(file).stem} -> .{name.rpartition('.')[2]} (1 import)" in verdict
    assert re.search(r"0 kept, \d+ broken", verdict), "a contract that nothing planted has broken is not tested"


def module_of(file: str) -> str:
    return file.removeprefix("sdk/src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def test_nothing_but_the_named_modules_can_dial_out() -> None:
    """EG-13."""
    found = {file for file, _ in calls_of(DIALLERS)}
    assert found == set(ALLOWED_DIALLERS)


def calls_of(names: set[str]) -> Iterator[tuple[str, str]]:
    """Yield each call by its file and the name. Most files hold none of the names, and are not parsed."""
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if any(name in text for name in names) else ():
                if isinstance(node, ast.Call):
                    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                    if name in names:
                        yield path.relative_to(ROOT).as_posix(), name

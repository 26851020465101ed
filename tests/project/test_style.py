"""The style is itself a test: banned calls, left-overs, SQL in the wrong place, sizes (STY-03, STY-N01..N08).

Each rule is a function from a file to its findings. What a rule lets pass by name stands in its list, with the reason.
"""

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from db.statements import STATEMENTS

ROOT = Path(__file__).parents[2]
ROOMS = ("app", "hub", "relay", "webhooks", "jobs", "reqrep", "egress", "runtime", "db", "event", "pipeline", "sdk")
HELPERS = ("scripts", "benchmarks", "examples", "tests")

FILE_LINES_MAX = 450
TEST_FILE_LINES_MAX = 650
FUNCTION_LINES_MAX = 70
GENERATED = ("sdk/src/hookwire/client/nouns.py", "sdk/src/hookwire/models.py")  # by scripts/client_nouns.py

LONG_FILES = {
    "app/web/protocol.py": "one state machine on uvicorn's protocol class; its parts share the parser's callbacks",
    "tests/relay/test_harvester.py": "the tests of one loop",
}
LOOSE_TASKS = {
    "app/chaos/seeded_bugs.py": "the command's one piece of work, awaited beside the end of its output",
    "app/cli/consume/session.py": "a close that may hang is waited for with a limit, then left to the end of the loop",
    "app/failpoints.py": "what a fail point in its middle interrupts, cancelled in the same function",
    "app/web/publishing/notice.py": "a question beside a commit, cancelled in the same function",
    "app/web/authentication.py": "one question for all requests that wait for its answer; it ends by itself",
    "app/bridges/listener.py": "two waits of which the first ends both; cancelled in the same function",
    "db/holders.py": "a look that ends by its own limit; a watch, cancelled in the same function",
    "runtime/process.py": "the wait for a second signal, cancelled in the same function",
    "app/chaos/broker.py": "a heartbeat beside one call, cancelled in the same function",
    "relay/amqp/link.py": "a close that may hang is waited for with a limit, then left to the end of the loop",
    "sdk/src/hookwire/slots.py": "a group would wait without limit for a handler that ignores its cancellation",
    "relay/embeddable.py": "the embedding program owns it: start() begins it, wait() awaits it",
    "relay/election/neli.py": "waits of one membership, of which the first ends all; cancelled in the same function",
    "relay/election/port.py": "two waits of which the first ends both; cancelled in the same function",
}
ENVIRONMENT_READERS = {
    "app/settings/settings.py": "settings are read here and handed on",
    "app/settings/pipeline.py": "AWS's own variables, for a lake on S3",
    "app/checks/startup.py": "looks for settings that this version does not know",
    "app/cli/hub_client.py": "a command's key, which is no setting of the hub",
    "app/cli/lines/help_page.py": "NO_COLOR, for a help without colours",
    "app/cli/main.py": "looks whether a shell wants to complete a line",
    "app/cli/table.py": "FORCE_COLOR and TTY_COMPATIBLE, as rich reads them",
    "sdk/src/hookwire/client/hookwire.py": "a program's hub and token, which are no settings of the hub",
    "sdk/src/hookwire/testing/hub.py": "starts a hub with an environment without the program's settings",
    "app/log.py": "NO_COLOR, which belongs to every program",
    "app/cli/commands/config.py": "looks for settings that this version does not know",
    "app/cli/commands/doctor.py": "looks for settings that this version does not know",
    "app/bridges/script.py": "gives a user's script the environment, without our settings",
    "app/chaos/child.py": "starts a process with an environment without our settings",
    "pipeline/java.py": "JAVA_HOME, which is no setting of ours",
    "pipeline/session.py": "Spark is told through it which Python its workers are",
}
BLOCKING_SLEEPERS = {
    "app/failpoints.py": "a fail point that blocks the loop, which is the fault that it injects",
}

SQL_FOR_PEOPLE = {
    "app/checks/database.py": "a finding names the statement with which the operator cures it",
    "pipeline/typed/views.py": "a command prints it for the engine of whoever asks the lake",
    "sdk/src/hookwire/outbox.py": "one call of the published function, in each driver's way of writing a parameter",
    "sdk/src/hookwire/jobs/messages/message_queue.py": "calls of the published functions, as in outbox.py",
    "sdk/src/hookwire/jobs/job.py": "a call of the published function, as in outbox.py",
    "sdk/src/hookwire/jobs/sql_jobs.py": "calls of the published functions, as in outbox.py",
    "sdk/src/hookwire/jobs/sql_tasks.py": "calls of the published functions, and the row of a worker that is present",
    "sdk/src/hookwire/jobs/task.py": "a call of the published function, as in outbox.py",
    "sdk/src/hookwire/receive/database_seen.py": "tables in the database of the receiver, which knows no hookwire",
    "sdk/src/hookwire/services/sql_reply_cache.py": "a table in the database of the service, which knows no hookwire",
}


# --- files ------------------------------------------------------------------------------------------------------


def source_files(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


def text_files() -> Iterator[Path]:
    """Everything that a person wrote, wherever it lies; in a second worktree of a repository, `.git` is a file."""
    skipped = {".git", ".venv", ".hookwire", ".servers", ".hypothesis", "__pycache__", "dist", "build"}
    folders = [ROOT]
    while folders:
        for path in sorted(folders.pop().iterdir()):
            if path.name in skipped or path.name.endswith("_cache"):
                continue
            if path.is_dir():
                folders.append(path)
            elif path.suffix not in {".png", ".svg", ".ico", ".pyc", ".gz", ".parquet"}:
                yield path


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def lines_of(path: Path) -> list[str]:
    return text_of(path).splitlines()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(text_of(path))


@cache
def nodes_of(path: Path) -> list[ast.AST]:
    return list(ast.walk(tree_of(path)))


def functions_of(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """No expression is looked at, because none holds a function that has a name."""
    left: list[ast.AST] = [tree_of(path)]
    while left:
        node = left.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            left += getattr(node, part, ())


# --- rules on the tree: each yields (line, what) ----------------------------------------------------------------

Finding = tuple[int, str]


def dotted(node: ast.expr) -> str:
    """The name of a variable or of a member; "" for other expressions, and "()" for one that owns a member."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value) or '()'}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def calls(path: Path) -> Iterator[tuple[ast.Call, str]]:
    for node in nodes_of(path):
        if isinstance(node, ast.Call):
            yield node, dotted(node.func)


def blocking_sleeps(path: Path) -> Iterator[Finding]:
    for node, name in calls(path):
        if name == "time.sleep" and named(path) not in BLOCKING_SLEEPERS:
            yield node.lineno, "time.sleep blocks the loop"


def loose_tasks(path: Path) -> Iterator[Finding]:
    """A task belongs to a TaskGroup; a future that one function waits for and cancels is named in LOOSE_TASKS."""
    groups = {dotted(group) for group in task_groups(path)}
    for node, name in calls(path):
        owner, _, called = name.rpartition(".")
        is_loose = called == "ensure_future" or (called == "create_task" and owner not in groups)
        if is_loose and named(path) not in LOOSE_TASKS:
            yield node.lineno, f"{name}: no TaskGroup owns this task"


def task_groups(path: Path) -> Iterator[ast.expr]:
    """The names that are a TaskGroup: made by `async with`, or declared as one."""
    for node in nodes_of(path):
        if isinstance(node, ast.AsyncWith):
            for item in node.items:
                if item.optional_vars and ast.unparse(item.context_expr) in ("asyncio.TaskGroup()", "TaskGroup()"):
                    yield item.optional_vars
        elif isinstance(node, ast.arg) and node.annotation and "TaskGroup" in ast.unparse(node.annotation):
            yield ast.Name(node.arg)
        elif isinstance(node, ast.AnnAssign) and "TaskGroup" in ast.unparse(node.annotation):
            yield node.target


def sql_texts(path: Path) -> Iterator[Finding]:
    """SQL lives in db/sql (STY-03); a docstring may quote it."""
    prose = {id(doc) for node in nodes_of(path) if (doc := docstring_of(node)) is not None}
    for node in nodes_of(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            found = re.search(
                r"\b(SELECT\s.+|INSERT\s+INTO\s|UPDATE\s+\w+\.?\w*\s+SET\s|DELETE\s+FROM\s|(CREATE|ALTER|DROP)\s+TABLE\s)",
                node.value,
                re.DOTALL,
            )
            if found and named(path) not in SQL_FOR_PEOPLE:
                yield node.lineno, f"SQL in Python: {found[0][:40]!r}"


def docstring_of(node: ast.AST) -> ast.Constant | None:
    body = getattr(node, "body", None)
    first = body[0] if isinstance(body, list) and body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return first.value
    return None


def environment_reads(path: Path) -> Iterator[Finding]:
    for node in nodes_of(path):
        if not isinstance(node, ast.Attribute) or dotted(node) not in ("os.environ", "os.getenv"):
            continue
        if named(path) not in ENVIRONMENT_READERS:
            yield node.lineno, "the environment is read in app/settings/settings.py"


def long_functions(path: Path) -> Iterator[Finding]:
    for node in functions_of(path):
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if length > FUNCTION_LINES_MAX:
            yield node.lineno, f"{node.name} has {length} lines"


@pytest.mark.parametrize(
    "rule", [blocking_sleeps, loose_tasks, sql_texts, environment_reads, long_functions], ids=lambda rule: rule.__name__
)
def test_the_rooms_keep_the_rule(rule: Callable[[Path], Iterator[Finding]]) -> None:
    assert [f"{named(p)}:{line}: {what}" for p in source_files(*ROOMS) for line, what in rule(p)] == []


def test_functions_elsewhere_fit_a_screen_too() -> None:
    assert [f"{named(p)}:{line}: {what}" for p in source_files(*HELPERS) for line, what in long_functions(p)] == []


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (blocking_sleeps, "import time\nasync def f():\n    time.sleep(1)\n"),
        (loose_tasks, "import asyncio\nasync def f():\n    asyncio.create_task(g())\n"),
        (loose_tasks, "async def f(loop):\n    loop.create_task(g())\n"),
        (loose_tasks, "import asyncio\nasync def f():\n    asyncio.get_running_loop().create_task(g())\n"),
        (sql_texts, "X = 'SELECT id FROM hookwire.events'\n"),
        (sql_texts, "def f(n):\n    return f'DELETE FROM {n}'\n"),
        (environment_reads, "import os\nX = os.environ['HOME']\n"),
        (long_functions, "def f():\n" + "    g()\n" * 70),
    ],
)
def test_a_rule_finds_what_it_forbids(
    rule: Callable[[Path], Iterator[Finding]], code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    (tmp_path / "planted.py").write_text(code, encoding="utf-8")
    assert list(rule(tmp_path / "planted.py")) != []


# --- rules on the text ------------------------------------------------------------------------------------------


def test_files_hold_one_noun_and_stay_short() -> None:
    limits = {
        **dict.fromkeys((*ROOMS, "scripts", "benchmarks", "examples"), FILE_LINES_MAX),
        "tests": TEST_FILE_LINES_MAX,
    }
    long = {
        named(path): len(lines_of(path))
        for folder, limit in limits.items()
        for path in source_files(folder)
        if len(lines_of(path)) > limit and named(path) not in GENERATED
    }
    assert set(long) == set(LONG_FILES), long


def test_no_module_is_a_bucket() -> None:
    """STY-07, and STY-05: none shadows a module of the standard library."""
    buckets = {"common", "util", "utils", "helpers", "misc", "models", "queue", "types", "platform", "select"}
    found = [named(path) for path in source_files(*ROOMS, "scripts") if path.stem in buckets]
    assert found == ["sdk/src/hookwire/models.py"]  # what the API answers with, by the name that users of SDKs look for


_LEFT_OVER = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "HA" + "CK", "XX" + "X")) + r")\b")
_REGISTRIES = (
    "py" + "pi.org",
    "pythonhosted" + ".org",
    "npmjs" + ".org",
    "maven" + ".org/maven2",
    "repo.maven" + ".apache",
)
_MACHINE_PATH = re.compile(r"(?<![\w.$}~-])/(" + "|".join(("wo" + "rk", "ro" + "ot", "ho" + "me")) + r")/[\w.]")


@pytest.mark.parametrize(
    "pattern",
    [_LEFT_OVER, re.compile("|".join(map(re.escape, _REGISTRIES))), _MACHINE_PATH],
    ids=["left-overs", "registry hosts", "machine paths"],
)
def test_no_file_holds(pattern: re.Pattern[str]) -> None:
    found = [
        f"{named(path)}:{number}: {match[0]}"
        for path in text_files()
        if pattern.search(text_of(path))
        for number, line in enumerate(lines_of(path), 1)
        if (match := pattern.search(line))
    ]
    assert found == []


def test_no_lock_file_is_kept() -> None:
    """docs/adr/0002-pinned-requirement-files.md"""
    assert [named(path) for path in text_files() if path.name.endswith(".lock")] == []


def test_tests_are_one_package() -> None:
    packages = [named(path) for path in source_files("tests") if path.name == "__init__.py"]
    assert packages == ["tests/__init__.py"]


def test_the_name_of_a_test_has_three_words_at_least() -> None:
    """HO-09: a name that says what holds; the word `test` does not count."""
    short = [
        f"{named(path)}: {node.name}"
        for path in source_files("tests")
        for node in functions_of(path)
        if re.fullmatch(r"test(_[a-z0-9]+){0,2}", node.name)
    ]
    assert short == []


def test_every_statement_is_called_by_somebody() -> None:
    """No dead SQL: each name stands in the Python of some room."""
    called = {word for path in source_files(*ROOMS) for word in re.findall(r'(?<=")[\w.-]+(?=")', text_of(path))}
    assert set(STATEMENTS) - called == set()
